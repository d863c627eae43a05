"""The gates of the benchmark: how often they are open, and that heads go until the last share is gone."""

from __future__ import annotations

from itertools import cycle

import pytest
import torch

from model.network.transformer import HeadGates
from model.results import Head
from model.translator import Translator
from tests.benchmarks import gates
from tests.benchmarks.gates import SHARES, Gates, closed, prune
from tests.model.helpers import tiny_checkpoint
from tests.training.tiny import collate

DRAWS = 4000


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(tiny_checkpoint(seed=1), "tiny")


def test_gates_are_open_as_often_as_the_price_says(translator: Translator) -> None:
    torch.manual_seed(0)
    made = Gates(HeadGates.open(translator.checkpoint.model.config))
    for logits in made.logits:
        torch.nn.init.uniform_(logits, -4, 1)
    opened = torch.stack([(share > 0).sum((1, 2)).double() for share in made.drawn(DRAWS)]).sum(0)
    heads = sum(logits.numel() for logits in made.logits)
    deviation = (heads / 4 / DRAWS) ** 0.5  # at most, of the mean of so many independent gates
    assert abs(float(opened.mean()) - float(made.likely_open().detach())) <= 5 * deviation
    assert all(((share >= 0) & (share <= 1)).all() for share in made.drawn(10))


def test_a_gate_without_noise_is_closed_open_or_between(translator: Translator) -> None:
    made = Gates(HeadGates.open(translator.checkpoint.model.config))
    assert closed(made.certain()) == []
    with torch.no_grad():
        made.logits[2][1, 0], made.logits[2][0, 1] = -4, 0
    assert closed(made.certain()) == [Head("cross", 1, 0)]
    assert 0 < made.certain().cross[0, 1] < 1


@pytest.mark.parametrize("trains_weights", [False, True])
def test_heads_go_until_the_last_share_is_gone(
    translator: Translator, trains_weights: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "GATE_RATE", 0.5)
    monkeypatch.setattr(gates, "PRICE", 1.0)
    torch.manual_seed(0)
    vocabulary = len(translator.checkpoint.target_tokenizer)
    source, target = torch.randint(4, vocabulary, (2, 3, 5)).tolist()
    batches = cycle([collate(source, target, torch.device("cpu"))])
    before = {name: weight.clone() for name, weight in translator.checkpoint.model.state_dict().items()}
    found = list(prune(translator, batches, trains_weights))
    total = translator.checkpoint.model.config.total_heads
    assert len(found) == len(SHARES)
    for (_, pruned, made), share in zip(found, SHARES, strict=True):
        assert len(closed(made)) >= share * total
        after = pruned.checkpoint.model.state_dict()
        assert all(after[name].equal(weight) for name, weight in before.items()) != trains_weights
    assert all(translator.checkpoint.model.state_dict()[name].equal(each) for name, each in before.items())
