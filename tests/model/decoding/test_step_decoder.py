"""The fast decoder against the readable one."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from model.decoding.options import SearchOptions
from model.decoding.search import BFLOAT16_TOLERANCE, encode_source, search
from model.decoding.step_decoder import (
    BFLOAT16_GAIN,
    BFLOAT16_ROWS,
    FIRST_CAPACITY,
    IncrementalDecoder,
    Product,
    _bfloat16_pays,
    product_dtype,
)
from model.network.config import ModelConfig
from model.network.transformer import Encoded, HeadGates, Transformer
from model.text.tokenizer import BOS_ID, PAD_ID
from tests.model.analysis.random_pairs import SSRU, T5
from tests.model.helpers import random_model, random_tokens
from tests.numerics import EXACT, assert_exact

pytestmark = pytest.mark.usefixtures("float64")


lengths_of_sources = st.lists(st.integers(1, 7), min_size=1, max_size=4)


def decoder_of(
    model: Transformer, encoded: Encoded, beam_size: int = 1, gates: HeadGates | None = None
) -> IncrementalDecoder:
    return IncrementalDecoder(model, encoded, beam_size, gates, torch.float64)


def run(decoder: IncrementalDecoder, tokens: Tensor) -> Tensor:
    """Logits of every step over given tokens [R, T]."""
    return torch.stack([decoder.step(column) for column in tokens.unbind(1)], 1)


def padded(lengths: list[int], seed: int) -> Tensor:
    source = random_tokens(len(lengths), max(lengths), seed=seed)
    for row, length in enumerate(lengths):
        source[row, length:] = PAD_ID
    return source


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    lengths=lengths_of_sources,
    beam_size=st.integers(1, 3),
    norm=st.sampled_from(["pre", "post"]),
    tied=st.booleans(),
    gated=st.booleans(),
    parts=st.sampled_from([{}, T5, SSRU]),
)
@torch.no_grad()
def test_steps_equal_one_pass_of_the_transformer(
    seed: int, lengths: list[int], beam_size: int, norm: str, tied: bool, gated: bool, parts: dict[str, Any]
) -> None:
    model = random_model(seed, norm=norm, tied=tied, **parts)
    source, rows = padded(lengths, seed), len(lengths) * beam_size
    gates = HeadGates(*map(torch.rand_like, HeadGates.open(model.config))) if gated else None
    target = torch.cat((torch.full((rows, 1), BOS_ID), random_tokens(rows, 5, seed=seed + 1)), 1)
    steps = run(decoder_of(model, encode_source(model, source, gates), beam_size, gates), target)
    each = encode_source(model, source.repeat_interleave(beam_size, 0), gates)
    expected = model.output(model.decode(target, each, gates).hidden)
    assert_exact(steps, expected)


@pytest.mark.parametrize("parts", [{}, SSRU])
@pytest.mark.parametrize("beam_size", [1, 2])
@torch.no_grad()
def test_selected_rows_go_on_from_what_they_read(beam_size: int, parts: dict[str, Any]) -> None:
    model, source = random_model(**parts), padded([3, 6, 2], 0)
    encoded = encode_source(model, source)
    first, second = random_tokens(3 * beam_size, 4), random_tokens(2 * beam_size, 3, seed=1)
    kept = torch.tensor([2, 0])  # sentences; their hypotheses change places
    rows = (kept[:, None] * beam_size + torch.arange(beam_size).flip(0)).view(-1)
    decoder = decoder_of(model, encoded, beam_size)
    run(decoder, first)
    decoder.select(rows, kept)
    after = run(decoder, second)
    again = decoder_of(model, encode_source(model, source[kept]), beam_size)
    expected = run(again, torch.cat((first[rows], second), 1))[:, 4:]
    assert_exact(after, expected)


@pytest.mark.parametrize("parts", [{}, SSRU])
@torch.no_grad()
def test_cache_grows_behind_its_first_capacity(parts: dict[str, Any]) -> None:
    model, source = random_model(**parts), random_tokens(2, 4)
    target = random_tokens(2, 2 * FIRST_CAPACITY + 3)
    steps = run(decoder_of(model, encode_source(model, source)), target)
    assert_exact(steps, model(source, target))


@torch.no_grad()
def test_weights_are_those_of_the_model_at_this_moment() -> None:
    model, source = random_model(), random_tokens(1, 4)
    target = random_tokens(1, 3)
    before = run(decoder_of(model, encode_source(model, source)), target)
    model.decoder[0].feed_forward.inner.weight.mul_(2)
    after = run(decoder_of(model, encode_source(model, source)), target)
    assert not torch.equal(after, before)
    assert_exact(after, model(source, target))


# Type of the products


@pytest.mark.parametrize("beam_size", [1, 3])
@torch.no_grad()
def test_bfloat16_products_stay_within_the_stated_tolerance(beam_size: int) -> None:
    config = ModelConfig(200, 200, 64, 128, 4, 2, 2)
    model, source = Transformer(config).eval(), random_tokens(6, 9, vocabulary=200)
    source[0, 5:] = PAD_ID
    for row, found in enumerate(search(model, source, SearchOptions(beam_size), dtype=torch.bfloat16)):
        alone = source[row : row + 1][source[row : row + 1] != PAD_ID][None]
        for candidate in found:
            scores = model(alone, torch.tensor([[BOS_ID, *candidate.ids[:-1]]])).log_softmax(-1)[0]
            exact = scores[torch.arange(len(candidate.ids)), torch.tensor(candidate.ids)]
            assert candidate.log_probabilities == pytest.approx(exact.tolist(), abs=BFLOAT16_TOLERANCE)
            assert candidate.log_probabilities != pytest.approx(exact.tolist(), abs=EXACT)


def test_few_rows_and_other_devices_stay_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model.decoding.step_decoder._bfloat16_pays", lambda: True)
    assert product_dtype(BFLOAT16_ROWS - 1, torch.device("cpu")) == torch.float32
    assert product_dtype(BFLOAT16_ROWS, torch.device("cpu")) == torch.bfloat16
    assert product_dtype(BFLOAT16_ROWS, torch.device("cuda")) == torch.float32
    monkeypatch.setattr("model.decoding.step_decoder._bfloat16_pays", lambda: False)
    assert product_dtype(BFLOAT16_ROWS, torch.device("cpu")) == torch.float32


@pytest.mark.parametrize("ratio", [0.5, 1.5])
def test_choice_of_bfloat16_does_not_depend_on_a_cold_start(
    ratio: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first product of each type takes a hundred times as long, and half of the others twice."""
    clock, calls = [0.0], []

    def product(self: Product, x: Tensor) -> Tensor:
        dtype = self.weight.dtype
        calls.append(dtype)
        slow = 100 if calls.count(dtype) == 1 else 1 + len(calls) // 2 % 2
        clock[0] += slow / (ratio if dtype == torch.bfloat16 else 1)
        return x

    monkeypatch.setattr(Product, "__call__", product)
    monkeypatch.setattr("model.decoding.step_decoder.time.perf_counter", lambda: clock[0])
    assert _bfloat16_pays.__wrapped__() == (ratio > BFLOAT16_GAIN)
