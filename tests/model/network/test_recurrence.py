"""The running memory of a decoder without self-attention."""

import pytest
import torch
from torch import Tensor

from model.network.attention import Gate
from model.network.recurrence import Recurrence, memory, shares
from tests.model.helpers import draw_weights, random_model, random_numbers, random_tokens
from tests.numerics import assert_exact

pytestmark = pytest.mark.usefixtures("float64")


def unit() -> Recurrence:
    return draw_weights(Recurrence(6, 3))


@torch.no_grad()
def test_a_memory_worked_out_by_hand() -> None:
    forget = torch.tensor([[0.5], [0.25], [0.5]])  # of three tokens, one dimension
    value = torch.tensor([[4.0], [8.0], [-16.0]])
    # 0.5 * 4; 0.25 * 2 + 0.75 * 8; 0.5 * 6.5 - 0.5 * 16
    assert_exact(memory(forget, value), torch.tensor([[2.0], [6.5], [-4.75]]))
    expected = torch.tensor([[0.5, 0, 0], [0.125, 0.75, 0], [0.0625, 0.375, 0.5]])
    found = shares(forget)[..., 0]
    assert_exact(found, expected)
    # What a row lacks to 1 is the share of nothing: 0.5, 0.5 * 0.25 and 0.5 * 0.25 * 0.5.
    assert_exact(found.sum(-1), torch.tensor([0.5, 0.875, 0.9375]))
    assert_exact(found @ value, memory(forget, value))


@torch.no_grad()
def test_a_layer_worked_out_by_hand() -> None:
    """Two memories of one dimension: the first keeps half of what it has, the second forgets everything."""
    layer = Recurrence(2, 2)
    layer.project.weight.copy_(torch.tensor([[0.0, 0], [0, 0], [1, 0], [0, 1]]))
    layer.project.bias.copy_(torch.tensor([0.0, -1000, 0, 0]))
    layer.output.weight.copy_(torch.tensor([[0.0, 1], [1, 0]]))  # the two change places
    layer.output.bias.zero_()
    x = torch.tensor([[[2.0, -3], [4, 5]]])
    found = layer(*layer.queries_keys_values(x), explicit=True)
    # The memories are (1, -3) and (2.5, 5); what is negative is not given.
    assert_exact(found.y, torch.tensor([[[0.0, 1], [5, 2.5]]]))
    assert_exact(found.weights[0, 0], torch.tensor([[0.5, 0], [0.25, 0.5]]))
    assert_exact(found.weights[0, 1], torch.eye(2))
    muted = layer(*layer.queries_keys_values(x), gate=Gate(torch.tensor([1.0, 0])))
    assert_exact(muted.y, torch.tensor([[[0.0, 1], [0, 2.5]]]))


@torch.no_grad()
def test_weights_are_shares_of_the_past_and_nothing_has_the_rest() -> None:
    layer, x = unit(), random_numbers(2, 5, 6)
    forget, key_value = layer.queries_keys_values(x)
    weights = layer(forget, key_value, explicit=True).weights
    nothing = forget.cumprod(2).mean(-1)
    assert_exact(weights.sum(-1) + nothing, torch.ones(2, 3, 5))
    assert torch.equal(weights, weights.tril())
    assert (weights >= 0).all()


@torch.no_grad()
def test_gates_close_before_or_after_what_is_negative_is_left_out() -> None:
    layer, x = unit(), random_numbers(1, 4, 6)
    query, key_value = layer.queries_keys_values(x)
    share = torch.tensor([0.0, 0.3, 1])
    contents = memory(*key_value) * share[:, None, None]
    before = layer.output(contents.relu().transpose(1, 2).flatten(-2))
    assert_exact(layer(query, key_value, gate=Gate(share)).y, before)


def test_the_number_of_weights_is_known() -> None:
    model = random_model(autoregression="ssru")
    assert model.config.n_parameters == sum(parameter.numel() for parameter in model.parameters())


@torch.no_grad()
def test_no_token_changes_an_earlier_row() -> None:
    model, source = random_model(autoregression="ssru"), random_tokens(1, 5)

    def logits(target: Tensor) -> Tensor:
        return model(source, target)

    target = random_tokens(1, 6, seed=1)
    changed = target.clone()
    changed[0, 4] = 4 + (changed[0, 4] - 3) % 9
    assert torch.equal(logits(target)[:, :4], logits(changed)[:, :4])
    assert not torch.equal(logits(target)[:, 4:], logits(changed)[:, 4:])
