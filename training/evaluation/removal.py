"""How many heads can go: heads are removed one batch after another, and nothing is trained afterwards.

The order is greedy. In each round every head that is left is removed alone, and the fifth of them whose
removal costs the references least goes, six at most (Michel et al. 2019 order the heads once). It is chosen
on a quarter of the sentences and reported on another quarter. With training in between this costs far less:
Voita et al. 2019 prune while they train.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from tqdm import tqdm

from model.analysis.ablation import importance
from model.analysis.patching import HeadOutputs, Rows, ablation_gates, head_outputs, mean_outputs
from model.network.masks import padding_mask
from model.network.transformer import HeadGates, Transformer
from model.results import KINDS, Head
from model.text.tokenizer import BOS_ID, PAD_ID, pad
from model.translator import Translator
from training.evaluation.study import SentencePair, score_name, score_without

SHARE, MOST = 5, 6  # one head of so many goes in a round, and not more than these
GROUPS = (*KINDS, "all")
DECIMALS = 3

IdPair = tuple[list[int], list[int]]


def removal_curves(translator: Translator, pairs: Sequence[SentencePair]) -> Mapping[str, object]:
    """For each kind of heads and for all: the order in which they go, and points of what that costs.

    A point has the number of removed heads, the nats that a reference token loses on average when they give
    zero and when they give their mean, and the score of greedy translations when they give zero.
    """
    choosing = [_ids(translator, pair) for pair in pairs[::4]]
    measure = Costs(translator, pairs[2::4] or pairs, choosing)  # fewer than three are all there is
    curves = {}
    for group in GROUPS:
        heads: list[Head] = []
        points = [measure.point(heads)]
        rounds = greedy_rounds(translator.checkpoint.model, choosing, group)
        for gone in tqdm(rounds, f"{translator.name}, removing {group}", disable=None):
            heads += gone
            points.append(measure.point(heads))
        curves[group] = {"heads": [list(head) for head in heads], "points": points}
    return {
        "score": score_name(translator),
        "choosing": len(choosing),
        "reporting": len(measure.pairs),
        "curves": curves,
    }


def greedy_rounds(model: Transformer, pairs: Sequence[IdPair], group: str) -> Iterator[list[Head]]:
    """The heads of a group in the order in which they go, a batch at a time; the last one stays."""
    left = [head for head in all_heads(model) if group in ("all", head.kind)]
    model = copy.deepcopy(model)
    while len(left) > 1:
        cost = mean_costs(model, pairs, left)
        gone = sorted(left, key=cost.__getitem__)[: max(1, min(MOST, len(left) // SHARE))]
        remove(model, gone)
        left = [head for head in left if head not in gone]
        yield gone


def all_heads(model: Transformer) -> list[Head]:
    """Every head, by kind and layer."""
    gates = zip(KINDS, HeadGates.open(model.config), strict=True)
    return [Head(kind, *place) for kind, gate in gates for place in gate.nonzero().tolist()]


def mean_costs(model: Transformer, pairs: Sequence[IdPair], heads: Sequence[Head]) -> dict[Head, float]:
    """Nats that a reference loses without each of these heads, mean over the pairs."""
    totals = dict.fromkeys(heads, 0.0)
    for source, target in pairs:
        changes = importance(model, torch.tensor([source]), torch.tensor([target]), only=heads)
        for head in totals:
            totals[head] -= float(getattr(changes, head.kind)[head.layer, head.head]) / len(pairs)
    return totals


def remove(model: Transformer, heads: Sequence[Head]) -> None:
    """Remove heads for good: the columns of W_O that read them become zero."""
    width = model.config.d_head
    for kind, layer, head in heads:
        stack: Any = model.encoder if kind == "encoder" else model.decoder
        attention = stack[layer].cross_attention if kind == "cross" else stack[layer].self_attention
        with torch.no_grad():
            attention.output.weight[:, head * width : (head + 1) * width] = 0


class Costs:
    """What removed heads cost on some sentences."""

    def __init__(
        self, translator: Translator, pairs: Sequence[SentencePair], sample: Sequence[IdPair]
    ) -> None:
        self.translator, self.model = translator, translator.checkpoint.model
        self.pairs = pairs
        sources, targets = zip(*(_ids(translator, pair) for pair in pairs), strict=True)
        self.source, self.target = pad(sources), pad(targets)
        self.read = pad([[BOS_ID, *target[:-1]] for target in targets])
        self.mean = _means(self.model, sample)
        self.intact = self.loss([])

    def point(self, heads: Sequence[Head]) -> list[float]:
        """One point of a curve; see `removal_curves`."""
        nats = [round(self.loss(heads, baseline) - self.intact, DECIMALS) for baseline in (None, self.mean)]
        return [len(heads), *nats, round(score_without(self.translator, self.pairs, heads), 1)]

    @torch.inference_mode()
    def loss(self, heads: Sequence[Head], baseline: HeadOutputs | None = None) -> float:
        """Nats of a reference token, mean over tokens, with these heads at zero or at the baseline."""
        rows = Rows(self.source.shape[1], self.target.shape[1])
        gates = ablation_gates(self.model.config, heads, rows, baseline)
        encoded = self.model.encode(self.source, padding_mask(self.source, PAD_ID), gates)
        hidden = self.model.decode(self.read, encoded, gates).hidden
        logits = self.model.output(hidden).flatten(0, 1)
        return float(F.cross_entropy(logits, self.target.flatten(), ignore_index=PAD_ID))


def _means(model: Transformer, pairs: Sequence[IdPair]) -> HeadOutputs:
    return mean_outputs(
        head_outputs(model, torch.tensor(source), torch.tensor([BOS_ID, *target[:-1]]))
        for source, target in pairs
    )


def _ids(translator: Translator, pair: SentencePair) -> IdPair:
    """The ids of a pair, both with </s>."""
    record = translator.score(*pair).attention
    return [token.id for token in record.source], [token.id for token in record.predicted]
