"""QK: the parts sum to the score. OV: a model of one layer, worked by hand."""

from __future__ import annotations

import pytest
import torch

from model.analysis.cell import explain_cell
from model.analysis.circuits import split_score, writing
from model.analysis.logit_attribution import contributions
from model.errors import UserError
from model.results import Head
from tests.model.analysis.random_pairs import model_of, sentence_pair, shapes
from tests.model.helpers import random_model
from tests.numerics import EXACT

pytestmark = pytest.mark.usefixtures("float64")


@shapes
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_parts_sum_to_the_score(shape, kind):
    model = model_of(shape)
    source, read, _ = sentence_pair()
    layers = model.config.n_encoder_layers if kind == "encoder" else model.config.n_decoder_layers
    if kind == "decoder" and shape == "SSRU":
        for refused in (split_score, writing, explain_cell):
            with pytest.raises(UserError, match="keeps a running memory"):
                refused(model, source, read, Head(kind, 0, 1), 3, 2)
        return
    for layer in range(layers):
        found = split_score(model, source, read, Head(kind, layer, 1), 3, 2)
        assert found.matrix.shape == (len(found.query_parts), len(found.key_parts))
        score = explain_cell(model, source, read, Head(kind, layer, 1), 3, 2).score
        assert found.score == pytest.approx(score, abs=EXACT)
        assert float(found.matrix.sum()) + found.bias == pytest.approx(score, rel=EXACT, abs=EXACT)
        assert (found.bias == 0) == (shape != "T5" or kind == "cross")


def test_the_first_layers_score_has_three_parts_on_each_side():
    found = split_score(random_model(), *sentence_pair()[:2], Head("encoder", 0, 0), 1, 2)
    assert [part.name for part in found.query_parts] == ["token", "position", "bias"]
    cross = split_score(random_model(), *sentence_pair()[:2], Head("cross", 0, 0), 1, 2)
    assert [part.kind for part in cross.query_parts if part.name == "head"] == ["decoder"] * 3
    assert [part.kind for part in cross.key_parts if part.name == "head"] == ["encoder"] * 6


@torch.no_grad()
def test_what_a_head_writes_in_a_model_worked_by_hand():
    """One head that copies: values are token embeddings, W_O the identity, the norms only normalise."""
    model = random_model(n_heads=1, n_encoder_layers=1, n_decoder_layers=1)
    block = model.decoder[0]
    attention, norms = block.self_attention, (block.self_residual.norm, model.decoder_norm)
    attention.project.weight[24:] = torch.eye(12)
    attention.output.weight.copy_(torch.eye(12))
    attention.project.bias.zero_()
    for norm in norms:
        norm.weight.fill_(1)
        norm.bias.zero_()
    source, read, _ = sentence_pair()
    found = writing(model, source, read, Head("decoder", 0, 0), 3, 1)

    def normalised(x):
        return (x - x.mean()) / (x.var(unbiased=False) + 1e-5).sqrt()

    embedding = model.target_embedding
    x = embedding(read[None])[0, 1]
    value = normalised(x)
    last = {}
    hook = model.decoder_norm.register_forward_pre_hook(lambda _, inputs: last.update(x=inputs[0][0, 3]))
    model(source[None], read[None])
    hook.remove()
    sigma = (last["x"].var(unbiased=False) + 1e-5).sqrt()
    logits = model.output.weight @ ((value - value.mean()) / sigma)
    changes = logits - logits.mean()
    assert found.norm == pytest.approx(float(value.norm()), rel=1e-5)
    up, down = changes.topk(7), changes.topk(7, largest=False)
    assert [push.word for push in found.up] == up.indices.tolist()
    assert [push.word for push in found.down] == down.indices.tolist()
    assert [push.change for push in found.up] == pytest.approx(up.values.tolist(), abs=EXACT)
    assert [push.change for push in found.down] == pytest.approx(down.values.tolist(), abs=EXACT)


@shapes
@torch.no_grad()
def test_what_the_heads_write_sums_to_what_they_add_to_the_logits(shape):
    """Weights times writings of all heads and columns of one row, with all words: the head's share."""

    model = model_of(shape)
    source, read, _ = sentence_pair()
    layer, row, words = model.config.n_decoder_layers - 1, 3, (5, 8)
    found = contributions(model, source, read, row, *words).decoder.heads["cross"][layer, 2]
    total = 0.0
    for column in range(len(source)):
        written = writing(model, source, read, Head("cross", layer, 2), row, column)
        change = {push.word: push.change for push in (*written.up, *written.down)}
        total += written.weight * (change[words[0]] - change[words[1]])
    assert total == pytest.approx(float(found), abs=EXACT)


@pytest.mark.parametrize(("row", "column"), [(0, 1), (9, 0), (0, 99), (-1, 0)])
def test_a_cell_that_does_not_exist_or_is_masked_is_refused(row, column):
    for instrument in (split_score, writing):
        with pytest.raises(UserError, match="There is no cell"):
            instrument(random_model(), *sentence_pair()[:2], Head("decoder", 1, 0), row, column)
