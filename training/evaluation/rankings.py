"""Which source token a word depends on most: how well each measure finds it, on the model's own translations.

Axis letters: W words of the translation, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from model.analysis.attribution import norm_weights, rollout
from model.analysis.leave_one_out import Group, leave_one_out
from model.analysis.routes import token_shares
from model.analysis.study import SourceRanking
from model.analysis.trace import trace
from model.network.transformer import Transformer
from model.results import AttentionRecord
from model.translator import Translator
from training.evaluation.align import AlignmentHead, all_heads, taught_head

HIDDEN = (1, 3)  # tokens that are hidden together


@dataclass(frozen=True)
class Sample:
    """One translation by the model, its words, and the source tokens that can be hidden."""

    model: Transformer
    record: AttentionRecord
    source: Int[Tensor, " S"]
    read: Int[Tensor, " T"]
    predicted: Int[Tensor, " T"]
    words: list[list[int]]  # the steps of each word; of a translation of one word, each step
    places: list[int]  # of the source tokens without special ones
    alone: Float[Tensor, "S T"]  # what each step loses without each source token


def rank_sources(translator: Translator, texts: Sequence[str]) -> tuple[SourceRanking, ...]:
    """The mean loss of a word, in nats, without the source tokens that a measure ranks first.

    The higher, the more faithful the measure is; for one token, leave-one-out is the highest by definition.
    The best free head is chosen by one token on lines 1, 3, ...; all measures are reported on lines 2, 4, ...
    Special tokens are never hidden.
    """
    every = (_sample(translator, text) for text in tqdm(texts, translator.name, disable=None))
    samples = [sample for sample in every if sample.words and sample.places]
    taught = taught_head(translator.checkpoint)
    free = [
        head
        for head in all_heads(translator.checkpoint.model.config)
        if taught is None or head[:2] != taught[:2]
    ]
    best = max(free, key=lambda head: fmean(_losses_by_head(samples[::2], head) or [0.0]))
    heads = {"best free head": best} | ({} if taught is None else {"taught head": taught})
    losses: dict[str, list[tuple[float, ...]]] = {}
    for number, sample in enumerate(tqdm(samples[1::2], translator.name, disable=None)):
        for name, scores in _scores(sample, heads, number).items():
            losses.setdefault(name, []).extend(_losses(sample, scores))
    means = {name: [fmean(each) for each in zip(*found, strict=True)] for name, found in losses.items()}
    rankings = [SourceRanking(name, one, three) for name, (one, three) in means.items()]
    return tuple(sorted(rankings, key=lambda ranking: -ranking.one))


def _sample(translator: Translator, text: str) -> Sample:
    result = translator.translate(text)
    source, read = translator.pair(text, result.ids)
    predicted = torch.tensor(result.ids, device=source.device)
    model, record = translator.checkpoint.model, result.attention
    words: dict[int, list[int]] = {}
    for step, token in enumerate(record.predicted):
        if token.word is not None:
            words.setdefault(token.word, []).append(step)
    steps = list(words.values()) if len(words) > 1 else [[step] for each in words.values() for step in each]
    places = [place for place, token in enumerate(record.source) if not token.special]
    alone = leave_one_out(model, source, read, predicted).losses.cpu()
    return Sample(model, record, source, read, predicted, steps, places, alone)


def _losses_by_head(samples: Sequence[Sample], head: AlignmentHead) -> list[float]:
    """What each word loses without the token that this head ranks first."""
    found = []
    for sample in samples:
        for steps, row in zip(sample.words, _of_head(sample, head), strict=True):
            found.append(float(sample.alone[_first(sample, row, 1)[0], steps].sum()))
    return found


def _scores(sample: Sample, heads: Mapping[str, AlignmentHead], seed: int) -> dict[str, Float[Tensor, "W S"]]:
    """How much each word depends on each source token, by each measure."""
    record = sample.record
    rolled = rollout(record.encoder, record.decoder, record.cross).cross[-1]
    norms = norm_weights(sample.model, sample.source, sample.read).cross[-1].mean(0).cpu()
    shares = token_shares(trace(sample.model, sample.source, sample.read))[0].cpu()
    draw = torch.Generator().manual_seed(seed)
    by_rows = {
        "ALTI+": shares,
        "mean of all heads": record.cross.mean((0, 1)),
        "norm-based, last layer": norms,
        "rollout": rolled,
        "random": torch.rand(len(record.predicted), len(record.source), generator=draw),
    }
    return {
        "leave-one-out": torch.stack([sample.alone[:, steps].sum(1) for steps in sample.words]),
        **{name: _of_head(sample, head) for name, head in heads.items()},
        **{name: _by_word(sample, rows) for name, rows in by_rows.items()},
    }


def _of_head(sample: Sample, head: AlignmentHead) -> Float[Tensor, "W S"]:
    return _by_word(sample, sample.record.cross[head.layer, head.head], int(head.shifted))


def _by_word(sample: Sample, rows: Float[Tensor, "T S"], shift: int = 0) -> Float[Tensor, "W S"]:
    """The mean over the steps of each word, or over the steps that read it."""
    last = len(rows) - 1
    return torch.stack([rows[[min(step + shift, last) for step in steps]].mean(0) for steps in sample.words])


def _first(sample: Sample, row: Float[Tensor, " S"], count: int) -> Group:
    """The places of the tokens with the largest scores."""
    return tuple(sorted(sample.places, key=lambda place: -float(row[place]))[:count])


def _losses(sample: Sample, scores: Float[Tensor, "W S"]) -> list[tuple[float, ...]]:
    """What each word loses without its first tokens, for each of `HIDDEN`."""
    groups = [_first(sample, row, count) for row in scores for count in HIDDEN]
    found = leave_one_out(sample.model, sample.source, sample.read, sample.predicted, groups).losses
    losses = iter(found.cpu())
    return [tuple(float(next(losses)[steps].sum()) for _ in HIDDEN) for steps in sample.words]
