import math

import pytest
import torch
from torch import Tensor

from model.network.attention import (
    Gate,
    KeyValue,
    MultiHeadAttention,
    RelativePositions,
    explicit_attention,
    fused_attention,
)
from model.network.masks import causal_mask
from tests.model.helpers import draw_weights, random_numbers
from tests.numerics import EXACT, assert_exact

pytestmark = pytest.mark.usefixtures("float64")


BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 3, 4, 5, 6
PADDING = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]).bool()[:, None, None, :]
MASKS = {
    "none": None,
    "padding": PADDING,
    "causal": causal_mask(QUERIES, KEYS),
    "both": PADDING & causal_mask(QUERIES, KEYS),
    "one row forbids all": PADDING & torch.tensor([1, 0, 1, 1]).bool()[:, None],
}


def random_heads(requires_grad: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    query = random_numbers(BATCH, HEADS, QUERIES, WIDTH) * 2
    key, value = random_numbers(2, BATCH, HEADS, KEYS, WIDTH) * 2
    return tuple(x.clone().requires_grad_(requires_grad) for x in (query, key, value))


def attend(path: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    if path == "explicit":
        return explicit_attention(query, key, value, mask)[0]
    return fused_attention(query, key, value, mask)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_explicit_equals_fused(mask: Tensor | None) -> None:
    heads = random_heads()
    assert_exact(attend("explicit", *heads, mask), attend("fused", *heads, mask))


def test_equation_1_cell_by_cell() -> None:
    query, key, value = random_heads()
    mask = MASKS["both"]
    output, weights = explicit_attention(query, key, value, mask)
    for b in range(BATCH):
        for q in range(QUERIES):
            allowed = [k for k in range(KEYS) if mask[b, 0, q, k]]
            powers = [math.exp(query[b, 1, q] @ key[b, 1, k] / math.sqrt(WIDTH)) for k in allowed]
            expected = {k: power / sum(powers) for k, power in zip(allowed, powers, strict=True)}
            for k in range(KEYS):
                assert float(weights[b, 1, q, k]) == pytest.approx(expected.get(k, 0.0), abs=EXACT)
            mean = sum(weight * value[b, 1, k] for k, weight in expected.items())
            assert_exact(output[b, 1, q], mean)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_rows_sum_to_one_and_forbidden_cells_are_exactly_zero(mask: Tensor | None) -> None:
    _, weights = explicit_attention(*random_heads(), mask)
    allowed = torch.ones(weights.shape).bool() if mask is None else mask.expand(weights.shape)
    sums = weights.sum(-1)
    assert_exact(sums, allowed.any(-1).to(sums))
    assert bool((weights[~allowed] == 0).all())
    assert bool((weights[allowed] > 0).all())


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_fully_masked_row_gives_zeros_and_finite_gradients(path: str) -> None:
    heads = random_heads(requires_grad=True)
    output = attend(path, *heads, MASKS["one row forbids all"])
    assert bool((output[:, :, 1] == 0).all())
    assert bool((output[:, :, 0] != 0).any())
    output.sum().backward()
    for x in heads:
        assert x.grad is not None
        assert bool(x.grad.isfinite().all())


def test_bfloat16_on_a_cpu_takes_the_explicit_arithmetic() -> None:
    heads = [x.bfloat16() for x in random_heads()]
    mask = MASKS["both"]
    assert torch.equal(attend("fused", *heads, mask), attend("explicit", *heads, mask))


def test_true_means_may_attend_where_torch_says_true_means_ignore() -> None:
    ours = draw_weights(MultiHeadAttention(12, 3))
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True)
    theirs.in_proj_weight, theirs.in_proj_bias = ours.project.weight, ours.project.bias
    theirs.out_proj = ours.output
    x, memory = random_numbers(BATCH, QUERIES, 12), random_numbers(BATCH, KEYS, 12)
    found = ours(ours.queries(x), ours.keys_values(memory), PADDING, explicit=True)
    expected = theirs(x, memory, memory, key_padding_mask=~PADDING[:, 0, 0], average_attn_weights=False)
    assert_exact(found.y, expected[0])
    assert_exact(found.weights, expected[1])


def test_projecting_apart_equals_projecting_at_once() -> None:
    attention = draw_weights(MultiHeadAttention(12, 3))
    x = random_numbers(BATCH, QUERIES, 12)
    query, (key, value) = attention.queries_keys_values(x)
    assert_exact(attention.queries(x), query)
    assert_exact(attention.keys_values(x), KeyValue(key, value))


@pytest.mark.parametrize("explicit", [True, False])
def test_gate_scales_its_head_alone(explicit: bool) -> None:
    attention = draw_weights(MultiHeadAttention(12, 3))
    x = random_numbers(BATCH, QUERIES, 12)
    query, key_value = attention.queries_keys_values(x)

    def output(*gate: float) -> Tensor:
        return attention(query, key_value, gate=Gate(torch.tensor(gate)), explicit=explicit).y

    closed = output(0.0, 0.0, 0.0)
    torch.testing.assert_close(closed, attention.output.bias.expand(closed.shape))
    alone = [output(1.0, 0.0, 0.0), output(0.0, 1.0, 0.0), output(0.0, 0.0, 1.0)]
    mixed = closed + 0.5 * (alone[0] - closed) + 0.25 * (alone[2] - closed)
    assert_exact(output(0.5, 0.0, 0.25), mixed)


def test_weights_come_back_only_on_the_explicit_path() -> None:
    attention = draw_weights(MultiHeadAttention(12, 3))
    heads = attention.queries_keys_values(random_numbers(BATCH, QUERIES, 12))
    assert attention(*heads, explicit=False).weights is None
    assert attention(*heads, explicit=True).weights.shape == (BATCH, 3, QUERIES, QUERIES)


# Relative positions


def test_buckets_worked_out_by_hand() -> None:
    """Of 8 buckets for distances of at most 12, the decoder has 0 to 3 for themselves, then wider ones.

    Bucket 4 + 4 log(d / 4) / log(3) has d = 4 and 5 in bucket 4, 6 in 5, 7 and 8 in 6, and from 10 on 7. The
    encoder has four buckets for each direction: 0 and 1, and then 2 + 2 log(d / 2) / log(6).
    """
    decoder = RelativePositions(8, 12, 1, is_encoder=False)
    distances = torch.tensor([[0, -1, -3, -4, -5, -6, -8, -10, -12, -100, 3]])
    assert decoder.bucket(distances).tolist() == [[0, 1, 3, 4, 4, 5, 6, 7, 7, 7, 0]]
    encoder = RelativePositions(8, 12, 1, is_encoder=True)
    distances = torch.tensor([[0, -1, -2, -4, -5, -100, 1, 2, 4, 5, 100]])
    assert encoder.bucket(distances).tolist() == [[0, 1, 2, 2, 3, 3, 5, 6, 6, 7, 7]]


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_biases_are_added_to_the_scores(mask: Tensor | None) -> None:
    """In both functions. A bias of log 3 makes a weight three times as large before the row sums to 1."""
    query, key, value = random_heads()
    bias = torch.zeros(HEADS, QUERIES, KEYS)
    bias[:, :, 0] = math.log(3)
    found, weights = explicit_attention(query, key, value, mask, bias)
    _, without = explicit_attention(query, key, value, mask)
    wanted = without * (1 + 2 * (torch.arange(KEYS) == 0))
    assert_exact(weights, wanted / wanted.sum(-1, keepdim=True).clamp(min=EXACT))
    assert_exact(fused_attention(query, key, value, mask, bias), found)


def test_the_newest_query_has_the_biases_of_the_last_row() -> None:
    positions = draw_weights(RelativePositions(8, 6, HEADS, is_encoder=False))
    assert_exact(positions(1, 9), positions(9, 9)[:, -1:])


def test_heads_may_be_wider_or_narrower_than_the_model() -> None:
    attention = draw_weights(MultiHeadAttention(10, HEADS, d_head=7)).eval()
    x = random_numbers(BATCH, KEYS, 10)
    query, key_value = attention.queries_keys_values(x)
    assert query.shape == (BATCH, HEADS, KEYS, 7)
    assert_exact(attention.queries(x), query)
    assert_exact(attention.keys_values(x).value, key_value.value)
    assert attention(query, key_value).y.shape == x.shape
