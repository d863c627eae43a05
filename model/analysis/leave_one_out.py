"""Leave one out: what each word of the translation loses when a part of the source is hidden.

Axis letters: S source length, T target length, G groups of source tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.analysis.ablation import EXPLICIT, rows_together
from model.decoding.progress import report
from model.decoding.threads import ALL_THREADS, map_in_threads
from model.errors import Sentence
from model.network.transformer import Transformer, eval_mode
from model.results import Token

Group = tuple[int, ...]  # places of source tokens that are hidden together


class LeaveOneOut(NamedTuple):
    """What the tokens of the translation lose without each group of source tokens."""

    losses: Float[Tensor, "G T"]  # log-probability of the token minus that without the group, in nats
    likeliest: Int[Tensor, "G T"]  # token of each step without the group


@torch.inference_mode()
def leave_one_out(
    model: Transformer,
    source: Int[Tensor, " S"],
    read: Int[Tensor, " T"],
    predicted: Int[Tensor, " T"],
    groups: Sequence[Group] | None = None,
) -> LeaveOneOut:
    """Hide each group of source tokens from the model, and score the same translation again.

    The places in a group are masked as keys in every layer of the encoder and of cross-attention, so nothing
    reads them; all other tokens keep their positions. Without `groups`, each token is hidden alone. The
    translation is given, so a loss is about one step after the same beginning; a loss below 0 means that the
    token is likelier without the group. `source` ends with </s>, `read` begins with <s>, and row t predicts
    `predicted[t]`; none has padding.

    Erasure of the input (Li et al. 2016, "Understanding Neural Networks through Representation Erasure"),
    with a mask in place of another input. Limits: a hidden token leaves a gap that training sentences do not
    have, and two words that say the same can each be spared alone.
    """
    everything = [(), *([(place,) for place in range(len(source))] if groups is None else groups)]
    size = rows_together(model.config, max(len(source), len(read)))
    threads = ALL_THREADS if source.device.type == "cpu" else 1
    found: list[tuple[Tensor, Tensor]] = []
    with eval_mode(model):
        for start in range(0, len(everything), size):
            done = min(start, len(everything) - 1)
            report(Sentence("{done} of {count} source tokens", done=done, count=len(everything) - 1))
            turn = everything[start : start + size]
            part = -(-len(turn) // threads)
            parts = [turn[first : first + part] for first in range(0, len(turn), part)]
            found += map_in_threads(
                lambda groups: _without(model, source, read, predicted, groups), parts, threads
            )
    chance, best = (torch.cat(each) for each in zip(*found, strict=True))
    return LeaveOneOut(chance[0] - chance[1:], best[1:])


@torch.inference_mode()
def _without(
    model: Transformer,
    source: Int[Tensor, " S"],
    read: Int[Tensor, " T"],
    predicted: Int[Tensor, " T"],
    groups: Sequence[Group],
) -> tuple[Float[Tensor, "G T"], Int[Tensor, "G T"]]:
    """The log-probability of each predicted token without each group, and the likeliest token."""
    mask = visible(groups, len(source)).to(source.device)[:, None, None]
    encoded = model.encode(source.expand(len(groups), -1), mask, explicit=EXPLICIT)
    hidden = model.decode(read.expand(len(groups), -1), encoded, explicit=EXPLICIT).hidden
    logits = cast(Tensor, model.output(hidden))
    chosen = logits.gather(-1, predicted.expand(len(groups), -1)[..., None])[..., 0]
    return chosen - logits.logsumexp(-1), logits.argmax(-1)


def visible(groups: Iterable[Group], length: int) -> Bool[Tensor, "G S"]:
    """Which source tokens the model sees without each group."""
    rows = []
    for group in groups:
        row = torch.ones(length, dtype=torch.bool)
        row[list(group)] = False
        rows.append(row)
    return torch.stack(rows)


def tokens_and_words(tokens: Sequence[Token]) -> list[Group]:
    """Each token alone, then the tokens of each word that has several."""
    words: dict[int, Group] = {}
    for place, token in enumerate(tokens):
        if token.word is not None:
            words[token.word] = (*words.get(token.word, ()), place)
    alone = [(place,) for place in range(len(tokens))]
    return [*alone, *(group for group in words.values() if len(group) > 1)]
