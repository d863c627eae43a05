"""Removal curves: they begin at the model's own probability, and each step is a masked model."""

from __future__ import annotations

import pytest
import torch

from model.analysis.faithfulness import RemovalTarget, removal_curves
from model.analysis.trace import trace
from model.errors import UserError
from model.network.transformer import HeadGates
from model.results import Head
from tests.model.analysis.random_pairs import model_of, sentence_pair, shapes
from tests.model.helpers import random_model
from tests.numerics import EXACT

pytestmark = pytest.mark.usefixtures("float64")


STEP = 3
ROWS = {"encoder": 1, "decoder": 3, "cross": 3}


def curves(model, kind, layer=0, head=1, row=None, step=STEP):
    row = ROWS[kind] if row is None else row
    target = RemovalTarget(*sentence_pair(), kind, layer, head, row, step)
    return {one.name: one for one in removal_curves(model, target)}


@torch.no_grad()
def probability(model, gates=None):
    source, read, predicted = sentence_pair()
    decoded = model.decode(read[None], model.encode(source[None], None, gates), gates)
    return float(model.output(decoded.hidden[0, STEP]).softmax(-1)[predicted[STEP]])


@shapes
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_curves_begin_at_the_models_own_probability(shape, kind):
    model = model_of(shape)
    if kind == "decoder" and shape == "SSRU":
        with pytest.raises(UserError, match="keeps a running memory"):
            curves(model, kind)
        return
    for head in (1, None):
        found = curves(model, kind, head=head)
        assert list(found) == ["weight", "norm", "rollout", "value zeroing", "random"]
        for one in found.values():
            assert one.probabilities[0] == pytest.approx(probability(model), abs=EXACT)
            assert len(one.probabilities) == 1 + (4 if kind == "decoder" else 6)


def test_with_every_cell_removed_all_curves_meet_where_the_row_is_muted():
    """In the last layer of cross-attention no other row matters to the step."""
    model = random_model()
    found = curves(model, "cross", layer=3)
    muted = probability(model, HeadGates.ablating(model.config, [Head("cross", 3, 1)]))
    for one in found.values():
        assert one.probabilities[-1] == pytest.approx(muted, abs=EXACT)


def test_the_order_by_weight_is_that_of_the_weights_and_the_first_cell_is_masked():
    model = random_model()
    source, read, _ = sentence_pair()
    found = curves(model, "cross", layer=2)
    heads = trace(model, source, read).attention("cross", 2)[2]
    weights = heads.weights[1, STEP]
    assert list(found["weight"].order) == weights.argsort(descending=True).tolist()
    kept = weights.clone()
    kept[found["weight"].order[0]] = 0
    output = kept / kept.sum() @ heads.value[1]

    def replace(_, inputs):
        joined = inputs[0].clone()
        joined[0, STEP, 4:8] = output  # head 1 of width 4
        return (joined,)

    hook = model.decoder[2].cross_attention.output.register_forward_pre_hook(replace)
    expected = probability(model)
    hook.remove()
    assert found["weight"].probabilities[1] == pytest.approx(expected, abs=EXACT)


def test_a_cell_without_a_value_is_the_last_by_norm_and_by_value_zeroing():
    model = random_model(n_decoder_layers=1)
    source, read, _ = sentence_pair()
    with torch.no_grad():  # values of zero for one token: its hidden state is the only one that matters
        found = trace(model, source, read).attention("cross", 0)[2]
        wanted = found.value[1, 2]
        bias = model.decoder[0].cross_attention.project.bias
        bias[24 + 4 : 24 + 8] -= wanted
    found = curves(model, "cross")
    assert found["norm"].order[-1] == 2
    assert found["value zeroing"].order[-1] == 2


def test_a_long_row_loses_at_most_ten_cells():
    model = random_model()
    found = removal_curves(model, RemovalTarget(*sentence_pair(source=20), "cross", 0, None, 2, 2))
    assert {len(one.probabilities) for one in found} == {11}


@pytest.mark.parametrize(
    ("kind", "layer", "head", "row", "step"),
    [
        ("cross", 9, 0, 1, 1),
        ("cross", 0, 9, 1, 1),
        ("cross", 0, 0, 9, 1),
        ("cross", 0, 0, 1, 9),
        ("encoder", 0, None, 6, 1),
    ],
)
def test_what_does_not_exist_is_refused(kind, layer, head, row, step):
    target = RemovalTarget(*sentence_pair(), kind, layer, head, row, step)
    with pytest.raises(UserError, match="There is no"):
        removal_curves(random_model(), target)
