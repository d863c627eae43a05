import math

import pytest
import torch
from torch import Tensor, nn

from model.network.masks import causal_mask, padding_mask
from model.network.transformer import HeadGates, Transformer
from model.text.tokenizer import PAD_ID
from tests.model.helpers import random_model, random_tokens, tiny_config
from tests.numerics import assert_exact

pytestmark = pytest.mark.usefixtures("float64")


NORMS = pytest.mark.parametrize("norm", ["pre", "post"])
KINDS = pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
SOURCE, TARGET = 6, 5


def close(left: Tensor, right: Tensor) -> None:
    assert_exact(left, right)


# Who may see what


@NORMS
@torch.no_grad()
def test_future_target_tokens_never_change_earlier_logits(norm: str) -> None:
    model = random_model(norm=norm)
    source, target = random_tokens(2, SOURCE), random_tokens(2, TARGET)
    before = model(source, target)
    for position in range(1, TARGET):
        changed = target.clone()
        changed[:, position:] = (changed[:, position:] - 3) % 9 + 4
        after = model(source, changed)
        assert_exact(after[:, :position], before[:, :position])
        assert bool((after[:, position] != before[:, position]).any())


@NORMS
@torch.no_grad()
def test_every_earlier_target_token_changes_the_last_logits(norm: str) -> None:
    model = random_model(norm=norm)
    source, target = random_tokens(1, SOURCE), random_tokens(1, TARGET)
    before = model(source, target)
    for position in range(TARGET):
        changed = target.clone()
        changed[0, position] = (changed[0, position] - 3) % 9 + 4
        assert float((model(source, changed)[0, -1] - before[0, -1]).abs().max()) > 1e-3


@NORMS
@torch.no_grad()
def test_every_source_token_changes_every_row_of_logits(norm: str) -> None:
    model = random_model(norm=norm)
    source, target = random_tokens(1, SOURCE), random_tokens(1, TARGET)
    mask = padding_mask(source, PAD_ID)
    before = model(source, target, mask)
    for position in range(SOURCE):
        changed = source.clone()
        changed[0, position] = (changed[0, position] - 3) % 9 + 4
        difference = (model(changed, target, mask) - before).abs().amax(-1)
        assert float(difference.min()) > 1e-4


@NORMS
@pytest.mark.parametrize("extra", [1, 9])
@torch.no_grad()
def test_padding_never_changes_logits_of_real_positions(norm: str, extra: int) -> None:
    model = random_model(norm=norm)
    source, target = random_tokens(2, SOURCE), random_tokens(2, TARGET)
    padding = torch.full((2, extra), PAD_ID)
    padded = torch.cat((source, padding), 1)
    logits = model(padded, torch.cat((target, padding), 1), padding_mask(padded, PAD_ID))
    close(logits[:, :TARGET], model(source, target))


@torch.no_grad()
def test_what_stands_under_the_mask_does_not_matter() -> None:
    model = random_model()
    source, target = random_tokens(2, SOURCE), random_tokens(2, TARGET)
    mask = torch.ones(2, 1, 1, SOURCE).bool()
    mask[0, ..., 4:] = False
    other = source.clone()
    other[0, 4:] = 3
    assert torch.equal(model(other, target, mask), model(source, target, mask))
    assert not torch.equal(model(other, target), model(source, target))


@torch.no_grad()
def test_sentences_of_a_batch_do_not_see_each_other() -> None:
    model = random_model()
    source, target = random_tokens(3, SOURCE), random_tokens(3, TARGET)
    together = model(source, target)
    for row in range(3):
        close(together[row : row + 1], model(source[row : row + 1], target[row : row + 1]))


@NORMS
def test_fully_masked_sentence_gives_finite_logits_and_gradients(norm: str) -> None:
    model = random_model(norm=norm).train()
    source, target = random_tokens(2, SOURCE), random_tokens(2, TARGET)
    source[1] = PAD_ID
    logits = model(source, target, padding_mask(source, PAD_ID))
    logits.logsumexp(-1).sum().backward()
    assert bool(logits.isfinite().all())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in model.parameters())


# The weights that come back


@NORMS
@torch.no_grad()
def test_weights_are_layer_head_query_key_and_their_rows_sum_to_one(norm: str) -> None:
    model = random_model(norm=norm)
    source, target = random_tokens(2, SOURCE), random_tokens(2, TARGET)
    source[1, 4:] = PAD_ID
    mask = padding_mask(source, PAD_ID)
    encoded = model.encode(source, mask, explicit=True)
    decoded = model.decode(target, encoded, explicit=True)
    layers, heads = model.config.n_decoder_layers, model.config.n_heads
    assert encoded.weights.shape == (2, model.config.n_encoder_layers, heads, SOURCE, SOURCE)
    assert decoded.self_weights.shape == (2, layers, heads, TARGET, TARGET)
    assert decoded.cross_weights.shape == (2, layers, heads, TARGET, SOURCE)
    causal = causal_mask(TARGET, TARGET)
    for weights, allowed in (
        (encoded.weights, mask[:, None]),
        (decoded.self_weights, causal),
        (decoded.cross_weights, mask[:, None]),
    ):
        assert_exact(weights.sum(-1), torch.ones(weights.shape[:-1]))
        allowed = allowed.expand(weights.shape)
        assert bool((weights[~allowed] == 0).all())
        assert bool((weights[allowed] > 0).all())


@NORMS
@torch.no_grad()
def test_explicit_path_equals_fused_path(norm: str) -> None:
    model = random_model(norm=norm)
    source, target = random_tokens(2, SOURCE), random_tokens(2, TARGET)
    source[1, 4:] = PAD_ID
    mask = padding_mask(source, PAD_ID)
    explicit = model.decode(target, model.encode(source, mask, explicit=True), explicit=True)
    fused = model.decode(target, model.encode(source, mask))
    close(explicit.hidden, fused.hidden)
    assert fused.self_weights is None
    assert fused.cross_weights is None


@torch.no_grad()
def test_weights_are_taken_before_dropout() -> None:
    model = random_model(dropout=0.5).train()
    source, target = random_tokens(2, SOURCE), random_tokens(2, TARGET)
    encoded = model.encode(source, explicit=True)
    decoded = model.decode(target, encoded, explicit=True)
    assert not torch.equal(model.encode(source, explicit=True).weights, encoded.weights)
    for weights in (encoded.weights, decoded.self_weights, decoded.cross_weights):
        assert_exact(weights.sum(-1), torch.ones(weights.shape[:-1]))


# Gates


@pytest.mark.parametrize("explicit", [True, False])
@torch.no_grad()
def test_gates_of_one_change_nothing(explicit: bool) -> None:
    model = random_model()
    source, target = random_tokens(2, SOURCE), random_tokens(2, TARGET)
    gates = HeadGates.open(model.config)
    plain = model.decode(target, model.encode(source, explicit=explicit), explicit=explicit)
    encoded = model.encode(source, None, gates, explicit)
    gated = model.decode(target, encoded, gates, explicit)
    assert torch.equal(gated.hidden, plain.hidden)
    if explicit:
        assert torch.equal(gated.cross_weights, plain.cross_weights)


@KINDS
@torch.no_grad()
def test_gate_of_zero_equals_zeroing_the_heads_slice_of_w_o(kind: str) -> None:
    model = random_model()
    source, target = random_tokens(2, SOURCE), random_tokens(2, TARGET)
    gates = HeadGates.open(model.config)
    layers, heads = getattr(gates, kind).shape
    plain = model(source, target)
    width = model.config.d_head
    for layer in range(layers):
        for head in range(heads):
            gates = HeadGates.open(model.config)
            getattr(gates, kind)[layer, head] = 0.0
            ablated = model.output(model.decode(target, model.encode(source, None, gates), gates).hidden)
            block = (model.encoder if kind == "encoder" else model.decoder)[layer]
            attention = block.cross_attention if kind == "cross" else block.self_attention
            kept = attention.output.weight.clone()
            attention.output.weight[:, head * width : (head + 1) * width] = 0
            expected = model(source, target)
            attention.output.weight.copy_(kept)
            close(ablated, expected)
            assert float((ablated - plain).abs().max()) > 1e-4


def test_gates_have_a_place_for_each_head_of_each_kind() -> None:
    gates = HeadGates.open(tiny_config())
    assert [gate.shape for gate in gates] == [(2, 3), (4, 3), (4, 3)]
    gates.cross.zero_()
    assert bool((gates.decoder == 1).all())


@torch.no_grad()
def test_logits_are_differentiable_in_the_gates() -> None:
    model = random_model()
    with torch.enable_grad():
        gates = HeadGates(*(gate.requires_grad_() for gate in HeadGates.open(model.config)))
        encoded = model.encode(random_tokens(1, SOURCE), None, gates)
        model.decode(random_tokens(1, TARGET), encoded, gates).hidden.square().sum().backward()
    assert all(bool((gate.grad != 0).all()) for gate in gates)


# Weights: tying and initial values


def test_tied_embeddings_and_output_are_one_tensor() -> None:
    model = random_model(tied=True)
    weight = model.output.weight
    assert model.source_embedding.tokens.weight is weight
    assert model.target_embedding.tokens.weight is weight
    assert [name for name, _ in model.named_parameters() if weight.shape == _.shape] == [
        "source_embedding.tokens.weight"
    ]


def test_a_separate_output_leaves_the_embeddings_tied() -> None:
    model = random_model(tied=True, separate_output=True)
    assert model.source_embedding.tokens.weight is model.target_embedding.tokens.weight
    assert model.output.weight is not model.target_embedding.tokens.weight


def test_untied_embeddings_and_output_are_three_tensors() -> None:
    model = random_model(tied=False, target_vocabulary=17)
    tensors = (
        model.source_embedding.tokens.weight,
        model.target_embedding.tokens.weight,
        model.output.weight,
    )
    assert [tensor.shape for tensor in tensors] == [(13, 12), (17, 12), (17, 12)]
    assert len({tensor.data_ptr() for tensor in tensors}) == 3
    assert model(random_tokens(2, SOURCE), random_tokens(2, TARGET)).shape == (2, TARGET, 17)


@torch.no_grad()
def test_initial_weights_are_xavier_for_each_matrix_with_zero_biases() -> None:
    torch.manual_seed(0)
    model = Transformer(tiny_config(d_model=96, d_ff=128, n_heads=3))
    attention, feed_forward = model.decoder[0].cross_attention, model.decoder[0].feed_forward
    matrices = [*attention.project.weight.chunk(3), attention.output.weight, feed_forward.inner.weight]
    for matrix in matrices:
        bound = math.sqrt(6 / sum(matrix.shape))
        assert 0.98 * bound < float(matrix.abs().max()) <= bound
    for linear in (attention.project, attention.output, feed_forward.inner, feed_forward.outer):
        assert not bool(linear.bias.any())


@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_initial_embeddings_are_as_large_as_positions_after_scaling(tied: bool) -> None:
    torch.manual_seed(0)
    model = Transformer(
        tiny_config(d_model=64, n_heads=2, source_vocabulary=500, target_vocabulary=500, tied=tied)
    )
    for weight in (
        model.source_embedding.tokens.weight,
        model.target_embedding.tokens.weight,
        model.output.weight,
    ):
        assert float(weight.std()) * math.sqrt(64) == pytest.approx(1, rel=0.03)


def test_pre_norm_ends_each_stack_in_a_norm_and_post_norm_does_not() -> None:
    assert isinstance(random_model(norm="pre").encoder_norm, nn.LayerNorm)
    assert isinstance(random_model(norm="pre").decoder_norm, nn.LayerNorm)
    assert not [*random_model(norm="post").encoder_norm.parameters()]
    assert not [*random_model(norm="post").decoder_norm.parameters()]


@torch.no_grad()
def test_dropout_acts_in_train_mode_alone() -> None:
    model = random_model(dropout=0.3)
    batch = random_tokens(2, SOURCE), random_tokens(2, TARGET)
    assert torch.equal(model(*batch), model(*batch))
    model.train()
    assert not torch.equal(model(*batch), model(*batch))


def test_every_weight_takes_part() -> None:
    model = random_model(tied=False)
    model(random_tokens(3, SOURCE), random_tokens(3, TARGET)).square().mean().backward()
    assert not [name for name, weight in model.named_parameters() if not bool(weight.grad.any())]
