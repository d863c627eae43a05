"""The lens: its last layer is the model's output, and the leading layers are counted by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from model.analysis.lens import lens, log_probabilities
from model.analysis.trace import trace
from tests.model.analysis.random_pairs import model_of, sentence_pair, shapes
from tests.model.helpers import random_model
from tests.numerics import assert_exact

pytestmark = pytest.mark.usefixtures("float64")


@shapes
@torch.no_grad()
def test_the_last_layer_is_the_output(shape):
    model = model_of(shape)
    source, read, predicted = sentence_pair()
    expected = model(source[None], read[None])[0].log_softmax(-1)
    found = lens(model, source, read, predicted)
    assert_exact(log_probabilities(model, trace(model, source, read).decoder)[-1], expected)
    best = expected.topk(5)
    assert found.words[-1].equal(best.indices)
    assert_exact(found.log_probabilities[-1], best.values)
    chosen = expected[torch.arange(len(predicted)), predicted]
    assert_exact(found.chosen[-1], chosen)


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_a_layer_is_the_output_of_a_model_that_ends_there(norm):
    model = random_model(norm=norm)
    source, read, predicted = sentence_pair()
    found = lens(model, source, read, predicted)
    layers = model.decoder
    for layer in range(len(layers)):
        model.decoder = nn.ModuleList(layers[: layer + 1])
        shorter = model(source[None], read[None])[0].log_softmax(-1)
        assert_exact(found.log_probabilities[layer], shorter.topk(5).values)


def test_the_word_leads_from_the_layer_after_which_no_other_leads():
    model = random_model(seed=3)
    source, read, _ = sentence_pair()
    likeliest = log_probabilities(model, trace(model, source, read).decoder).argmax(-1)  # layer, step
    found = lens(model, source, read, likeliest[-1])
    for step, since in enumerate(found.leads_from):
        leads = (likeliest[:, step] == likeliest[-1, step]).tolist()
        assert since is not None
        assert all(leads[since:])
        assert since == 0 or not leads[since - 1]
    other = (likeliest[-1] + 1) % 13
    assert lens(model, source, read, other).leads_from == (None,) * len(read)
