"""What models of other toolkits have and the paper's has not: worked out by hand, equal in every engine."""

import math
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F

from model.decoding.inference import Inference
from model.decoding.options import SearchOptions
from model.decoding.step_decoder import IncrementalDecoder
from model.network.config import ModelConfig
from model.network.layers import EncoderLayer, sinusoids
from model.network.transformer import Transformer
from tests.model.helpers import random_model, random_tokens, tiny_config
from tests.numerics import assert_exact

SHAPES: list[dict[str, Any]] = [
    {"norm": "post", "final_norm": "both"},
    {"norm": "pre", "final_norm": "none"},
    {"norm": "pre", "decoder_norm": "post", "decoder_ff": 8},
    {"norm": "post", "decoder_norm": "pre", "final_norm": "pre"},
    {"positions": "marian"},
]


@pytest.mark.usefixtures("float64")
@torch.no_grad()
def test_a_final_norm_after_post_norm_normalises_once_more() -> None:
    both, plain = random_model(norm="post", final_norm="both"), random_model(norm="post")
    plain.load_state_dict(both.state_dict(), strict=False)
    source, target = random_tokens(1, 4), random_tokens(1, 3)
    x = plain.source_embedding(source)
    for layer in plain.encoder:
        x = layer(x, None).x
    memory = F.layer_norm(x, (12,), *both.encoder_norm.parameters())
    expected = cast(EncoderLayer, both.decoder[0]).get_submodule("cross_attention")
    assert_exact(both.encode(source).cross_kv[0].key, expected.keys_values(memory).key)
    encoded = both.encode(source)
    hidden = F.layer_norm(plain.decode(target, encoded).hidden, (12,), *both.decoder_norm.parameters())
    assert_exact(both(source, target), both.output(hidden))


def test_marian_counts_from_zero_and_ends_at_a_ten_thousandth() -> None:
    row = [math.sin(1), math.cos(1), math.sin(1e-4), math.cos(1e-4)]
    expected = torch.tensor([[0.0, 1.0, 0.0, 1.0], row])
    assert torch.allclose(sinusoids(2, 4, "marian"), expected, rtol=0, atol=1e-7)
    assert torch.equal(sinusoids(3, 6, "fairseq"), sinusoids(5, 6, "marian")[2:])


def test_the_decoder_may_have_a_norm_and_a_width_of_its_own() -> None:
    model = Transformer(tiny_config(norm="pre", decoder_norm="post", decoder_ff=8))
    assert [layer.self_residual.pre_norm for layer in (model.encoder[0], model.decoder[0])] == [True, False]
    widths = [layer.feed_forward.inner.out_features for layer in (model.encoder[0], model.decoder[0])]
    assert widths == [20, 8]
    assert isinstance(model.encoder_norm, torch.nn.LayerNorm)
    assert isinstance(model.decoder_norm, torch.nn.Identity)


@pytest.mark.parametrize("shape", SHAPES)
def test_parameters_are_counted_and_the_config_comes_back(shape: dict[str, Any]) -> None:
    config = tiny_config(**shape)
    assert config.n_parameters == sum(each.numel() for each in Transformer(config).parameters())
    assert ModelConfig.from_json(config.to_json()) == config


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_decoding_step_by_step_gives_the_same_logits(shape: dict[str, Any]) -> None:
    model = random_model(**shape)
    source, target = random_tokens(1, 5), random_tokens(1, 4)
    steps = IncrementalDecoder(model, model.encode(source), dtype=torch.float64)
    rows = torch.stack([steps.step(target[:, place]) for place in range(4)], 1)
    assert_exact(rows, model(source, target))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernels_find_what_torch_finds(shape: dict[str, Any]) -> None:
    model = random_model(**shape)
    source = random_tokens(2, 6)
    found = [
        Inference(model, use_kernels).search_batch(source, SearchOptions(), None, True, ())
        for use_kernels in (True, False)
    ]
    assert [[one.ids for one in each] for each in found[0]] == [
        [one.ids for one in each] for each in found[1]
    ]
