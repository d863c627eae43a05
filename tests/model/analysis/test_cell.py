"""One weight taken apart: every number is the one that the model computed."""

from __future__ import annotations

import pytest
import torch

from model.errors import UserError
from model.results import KINDS, Head
from model.translator import Translator
from tests.model.helpers import tiny_checkpoint
from tests.numerics import EXACT, assert_exact

pytestmark = pytest.mark.usefixtures("float64")


TEXT = "Ein kleiner Hund läuft."
FORCED = "A small dog runs."  # not what a random model would say

parts = pytest.mark.parametrize(
    ("kind", "layer", "head"), [("encoder", 1, 2), ("decoder", 2, 0), ("cross", 3, 1)]
)


@pytest.fixture(params=["pre", "post"])
def translator(request: pytest.FixtureRequest) -> Translator:
    return Translator(tiny_checkpoint(seed=1, norm=request.param))


@parts
def test_products_scale_score_and_softmax_give_the_weight(translator, kind, layer, head):
    translator.inference.use_kernels = False  # the cell is explained by torch too
    record = translator.score(TEXT, FORCED)
    weights = getattr(record.attention, kind)[layer, head]
    for row in range(weights.shape[0]):
        for column in range(row % 3, weights.shape[1], 3):  # a third of the cells, of every row and column
            cell = translator.cell(TEXT, record.ids, Head(kind, layer, head), row, column)
            torch.testing.assert_close(cell.products, cell.query * cell.key, rtol=0, atol=0)
            assert cell.scale == pytest.approx(len(cell.query) ** -0.5)
            assert cell.score == pytest.approx(float(cell.products.sum()) * cell.scale, abs=EXACT)
            assert cell.scores[column].item() == pytest.approx(cell.score, abs=EXACT)
            shown = cell.scores[cell.allowed].softmax(-1)
            assert_exact(shown, weights[row][cell.allowed])
            assert_exact(cell.weights, weights[row])


@parts
def test_norms_are_the_norm_based_weights(translator, kind, layer, head):
    ids = translator.score(TEXT, FORCED).ids
    norms = getattr(translator.norm_weights(TEXT, ids), kind)[layer, head]
    for row in range(norms.shape[0]):
        cell = translator.cell(TEXT, ids, Head(kind, layer, head), row, 0)
        assert_exact(cell.norms, norms[row])


def test_only_the_decoder_forbids_what_comes_later(translator):
    ids = translator.score(TEXT, FORCED).ids
    for kind in KINDS:
        cell = translator.cell(TEXT, ids, Head(kind, 0, 0), 1, 0)
        assert cell.allowed.tolist() == [
            kind != "decoder" or column <= 1 for column in range(len(cell.allowed))
        ]


@pytest.mark.parametrize(
    ("head", "row", "column", "problem"),
    [
        (Head("cross", 4, 0), 0, 0, "There is no cross head 0 in layer 4"),
        (Head("self", 0, 0), 0, 0, "There is no kind 'self'"),
        (Head("cross", 0, 0), 99, 0, "There is no cell in row 99, column 0"),
        (Head("encoder", 0, 0), 0, -1, "There is no cell in row 0, column -1"),
    ],
)
def test_what_does_not_exist_is_one_sentence(joint, head, row, column, problem):
    ids = joint.score(TEXT, FORCED).ids
    with pytest.raises(UserError, match=problem):
        joint.cell(TEXT, ids, head, row, column)
    with pytest.raises(UserError, match="There is no translation"):
        joint.cell(TEXT, [], head, row, column)
