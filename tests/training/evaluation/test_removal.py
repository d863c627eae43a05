"""How many heads can go: removed heads are ablated heads, and order and cost follow the rule."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from model.network.transformer import HeadGates
from model.results import KINDS, Head
from model.text.tokenizer import BOS_ID
from tests.model.helpers import SENTENCES
from tests.numerics import EXACT, exact, translator_of
from tests.training.evaluation.test_study import german_english
from training.evaluation import removal
from training.evaluation.removal import (
    DECIMALS,
    MOST,
    SHARE,
    Costs,
    all_heads,
    greedy_rounds,
    mean_costs,
    removal_curves,
    remove,
)

pytestmark = pytest.mark.usefixtures("float64")

PAIRS = [(SENTENCES[place], SENTENCES[place + 4]) for place in range(4)]


@pytest.fixture(scope="module")
def translator():
    found = german_english(n_encoder_layers=1, n_decoder_layers=1)
    return translator_of(found, exact(found.checkpoint.model))


@pytest.fixture(scope="module")
def ids(translator):
    return [removal._ids(translator, pair) for pair in PAIRS]


def log_probability(model, source, target, gates=None):
    with torch.inference_mode():
        encoded = model.encode(torch.tensor([source]), None, gates)
        hidden = model.decode(torch.tensor([[BOS_ID, *target[:-1]]]), encoded, gates).hidden[0]
        return -F.cross_entropy(model.output(hidden), torch.tensor(target), reduction="sum").item()


def test_removed_heads_are_ablated_heads(translator, ids):
    model, heads = translator.checkpoint.model, [Head("encoder", 0, 1), Head("cross", 0, 2)]
    removed = copy.deepcopy(model)
    remove(removed, heads)
    gates = HeadGates.ablating(model.config, heads)
    for source, target in ids:
        ablated = log_probability(model, source, target, gates)
        assert log_probability(removed, source, target) == pytest.approx(ablated, rel=EXACT)


def test_each_round_removes_the_heads_that_cost_least_and_can_be_repeated(translator, ids):
    model = translator.checkpoint.model
    rounds = list(greedy_rounds(model, ids, "all"))
    assert rounds == list(greedy_rounds(model, ids, "all"))
    left, ablated = all_heads(model), []
    for gone in rounds:
        cost = {}
        for head in left:
            gates = HeadGates.ablating(model.config, [*ablated, head])
            cost[head] = -sum(log_probability(model, *each, gates) for each in ids)
        assert len(gone) == max(1, min(MOST, len(left) // SHARE))
        kept = [head for head in left if head not in gone]
        assert max(cost[head] for head in gone) <= min(cost[head] for head in kept)
        ablated, left = [*ablated, *gone], kept
    assert len(left) == 1


def test_a_group_has_the_heads_of_its_kind(translator, ids):
    for kind in KINDS:
        rounds = greedy_rounds(translator.checkpoint.model, ids, kind)
        gone = [head for each in rounds for head in each]
        assert {head.kind for head in gone} == {kind}
        assert len(gone) == translator.checkpoint.model.config.n_heads - 1


def test_only_the_named_heads_are_measured(translator, ids):
    model, heads = translator.checkpoint.model, [Head("cross", 0, 1), Head("decoder", 0, 0)]
    every = mean_costs(model, ids, all_heads(model))
    assert mean_costs(model, ids, heads) == pytest.approx({head: every[head] for head in heads}, rel=EXACT)


def test_the_cost_is_the_loss_of_a_reference_token(translator, ids):
    costs = Costs(translator, PAIRS, ids)
    model, heads = translator.checkpoint.model, [Head("encoder", 0, 1), Head("cross", 0, 2)]
    gates = HeadGates.ablating(model.config, heads)
    tokens = sum(len(target) for _, target in ids)
    lost = sum(log_probability(model, *each) - log_probability(model, *each, gates) for each in ids)
    count, zero, _, _ = costs.point(heads)
    assert (count, zero) == (2, pytest.approx(lost / tokens, abs=0.5 * 10**-DECIMALS + EXACT))
    assert costs.point([])[:3] == [0, 0, 0]


def test_the_curves_have_every_group_and_begin_intact(translator):
    found = removal_curves(translator, [*PAIRS, *PAIRS])
    assert set(found["curves"]) == {*KINDS, "all"}
    for curve in found["curves"].values():
        counts = [count for count, *_ in curve["points"]]
        assert counts[0] == 0
        assert counts == sorted(set(counts))
        assert counts[-1] == len(curve["heads"])
        assert curve["points"][0][1:3] == [0, 0]
