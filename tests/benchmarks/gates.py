"""How many heads can go if training goes on: the gates of Voita et al. 2019, beside removal without training.

Each head has a hard-concrete gate (Louizos et al. 2018), a random share of its output that can be exactly 0
and exactly 1. The loss is the loss of the training plus a price for each gate that is likely to be open. The
price rises with each step, so one run passes every number of heads. The weights are trained too, as in the
paper, or stay as they are.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import torch
from datasets import concatenate_datasets, disable_progress_bars
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

from model import Translator
from model.analysis.corpus import load_heads
from model.network.masks import padding_mask
from model.network.transformer import HeadGates, Transformer
from model.results import Head
from model.text.tokenizer import PAD_ID
from training.corpus.batching import Batch
from training.corpus.encoding import encode_pairs
from training.corpus.sources import read_training
from training.evaluation.study import sample_for, score_with
from training.loss import token_loss

LOW, HIGH = -0.1, 1.1  # a gate is stretched to here, then cut to 0 and 1
TEMPERATURE = 2 / 3
OPEN = 3.0  # the logit of a gate at first: it is closed once in a hundred draws
PRICE, DEARER = (
    3e-4,
    1.003,
)  # nats of a target token for an open gate, and by how much it rises with each step
GATE_RATE, WEIGHT_RATE = 0.05, 2e-4  # of Adam
BUDGET, LONGEST = 512, 60  # tokens of a batch, and of a sentence
SMOOTHING = 0.1
SEED = 0
SHARES = (1 / 5, 1 / 3, 1 / 2, 2 / 3)  # of the heads, that are gone when the translations are scored


class Gates(nn.Module):
    """A gate for each head; `logits` are by kind [layer, head]."""

    def __init__(self, opened: HeadGates) -> None:
        super().__init__()
        self.logits = nn.ParameterList(torch.full_like(gate, OPEN) for gate in opened)

    def drawn(self, sentences: int) -> HeadGates:
        """Random gates, others for each sentence."""

        def draw(logits: Float[Tensor, "L H"]) -> Float[Tensor, "B L H"]:
            noise = torch.rand(sentences, *logits.shape).clamp(1e-6, 1 - 1e-6).logit()
            return _cut((logits + noise) / TEMPERATURE)

        return HeadGates(*map(draw, self.logits))

    @torch.no_grad()
    def certain(self) -> HeadGates:
        """The gates without noise."""
        return HeadGates(*map(_cut, self.logits))

    def likely_open(self) -> Float[Tensor, ""]:
        """How many gates are open on average."""
        edge = TEMPERATURE * math.log(-LOW / HIGH)
        return torch.stack([(logits - edge).sigmoid().sum() for logits in self.logits]).sum()


def _cut(logits: Float[Tensor, "*B L H"]) -> Float[Tensor, "*B L H"]:
    return (logits.sigmoid() * (HIGH - LOW) + LOW).clamp(0, 1)


def closed(gates: HeadGates) -> list[Head]:
    """The heads that give nothing."""
    return [head for head in gates.ablated if getattr(gates, head.kind)[head.layer, head.head] == 0]


def prune(
    translator: Translator, batches: Iterator[Batch], trains_weights: bool
) -> Iterator[tuple[int, Translator, HeadGates]]:
    """The step, the model and its gates whenever a share of `SHARES` of its heads is gone."""
    model = copy.deepcopy(translator.checkpoint.model).train()
    gates = Gates(HeadGates.open(model.config))
    groups = [{"params": gates.parameters(), "lr": GATE_RATE}]
    if trains_weights:
        groups.append({"params": model.parameters(), "lr": WEIGHT_RATE})
    model.requires_grad_(trains_weights)
    optimizer = torch.optim.Adam(groups, betas=(0.9, 0.98))
    shares = iter(SHARES)
    wanted = next(shares)
    for step in tqdm(count(), "weights and gates" if trains_weights else "gates", disable=None):
        batch = next(batches)
        loss = loss_of(model, batch, gates.drawn(len(batch.source)))
        (loss + PRICE * DEARER**step * gates.likely_open()).backward()
        optimizer.step()
        optimizer.zero_grad()
        certain = gates.certain()
        while len(closed(certain)) >= wanted * model.config.total_heads:
            checkpoint = replace(translator.checkpoint, model=copy.deepcopy(model).eval())
            yield step + 1, Translator(checkpoint, translator.name), certain
            if (following := next(shares, None)) is None:
                return
            wanted = following


def loss_of(model: Transformer, batch: Batch, gates: HeadGates) -> Float[Tensor, ""]:
    """Nats of a target token, with label smoothing."""
    encoded = model.encode(batch.source, padding_mask(batch.source, PAD_ID), gates)
    hidden, real = model.decode(batch.read, encoded, gates).hidden, batch.labels != PAD_ID
    return token_loss(hidden[real], model.output.weight, batch.labels[real], SMOOTHING) / real.sum()


def batches_of(translator: Translator, folders: Sequence[Path]) -> Iterator[Batch]:
    """Batches of the training pairs of these folders, epoch after epoch without end."""
    checkpoint = translator.checkpoint
    languages = checkpoint.info.source_language, checkpoint.info.target_language
    pairs = concatenate_datasets([read_training(folder, languages) for folder in folders])
    tokenizers = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    encoded, _ = encode_pairs(pairs, tokenizers, LONGEST)
    order = encoded.batches(BUDGET, SEED)
    for epoch in count():
        for rows in order.epoch(epoch):
            yield encoded[rows].collate(translator.device)


def untrained(translator: Translator) -> Iterator[HeadGates]:
    """The first heads of the greedy order of the study gone, as many as `SHARES` says."""
    measured = load_heads(translator.directory)
    assert measured is not None
    order = [Head(*head) for head in measured["removal"]["curves"]["all"]["heads"]]
    config = translator.checkpoint.model.config
    for share in SHARES:
        yield HeadGates.ablating(config, order[: math.ceil(share * config.total_heads)])


def gate_rows(translator: Translator, corpora: Path, size: int = 300) -> list[list[str]]:
    """For each way and share of removed heads: the steps, the heads that are left by kind, and BLEU."""
    disable_progress_bars()
    torch.manual_seed(SEED)
    pairs, sets = sample_for(translator, corpora, size)
    folders = [corpora / Path(name).parent for name in sets]
    intact = HeadGates.open(translator.checkpoint.model.config)
    ways = [("all heads", 0, translator, intact)]
    ways += [("nothing trained", 0, translator, gates) for gates in untrained(translator)]
    for name, trains_weights in (("gates trained", False), ("gates and weights trained", True)):
        found = prune(translator, batches_of(translator, folders), trains_weights)
        ways += [(name, *each) for each in found]
    return [
        [name, f"{steps:,}", *left(gates), f"{score_with(each, pairs, gates):.1f}"]
        for name, steps, each, gates in ways
    ]


def left(gates: HeadGates) -> list[str]:
    """How many heads of each kind give something, and how many in all."""
    counts = [int((share > 0).sum()) for share in gates]
    return [str(count) for count in (*counts, sum(counts))]
