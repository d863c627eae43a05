"""What one translation leaves behind: tokens, probabilities and every attention weight.

Axis letters: L layers, H heads, S source length, T target length (rows of the decoder).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Token:
    """One token of a sentence as the model sees it and as a person reads it."""

    piece: str  # the entry of the vocabulary, with its marker of a preceding space
    text: str  # what a person reads; for an unknown piece, the characters it stands for
    word: int | None  # index of the word it belongs to; None for a special token
    special: bool  # one of <pad>, <unk>, <s>, </s>


@dataclass(frozen=True)
class AttentionRecord:
    """Every attention weight of one translation, [layer, head, query, key], float32.

    Row t of `decoder` and `cross` belongs to the step that reads `read[t]` and predicts
    `predicted[t]`. Weights are the softmax before dropout, in eval mode: each row sums to 1
    and cells that the mask forbids are exactly 0.
    """

    encoder: Float[Tensor, "L H S S"]
    decoder: Float[Tensor, "M H T T"]
    cross: Float[Tensor, "M H T S"]
    source: tuple[Token, ...]  # S
    read: tuple[Token, ...]  # T, begins with <s>
    predicted: tuple[Token, ...]  # T, ends with </s> unless the length limit cut it


@dataclass(frozen=True)
class Alternative:
    """One of the likeliest tokens of a step."""

    token: Token
    log_probability: float  # natural logarithm


@dataclass(frozen=True)
class Hypothesis:
    """One finished translation of a search."""

    text: str
    score: float  # log-probability divided by the length penalty
    log_probability: float  # natural logarithm, summed over the tokens


@dataclass(frozen=True)
class Translation:
    """One sentence translated, with everything that the page shows."""

    source_text: str
    text: str
    source_language: str
    target_language: str
    attention: AttentionRecord
    log_probabilities: tuple[float, ...]  # T, of each predicted token
    alternatives: tuple[tuple[Alternative, ...], ...]  # T rows, the likeliest first
    hypotheses: tuple[Hypothesis, ...]  # n-best, the best first
    notices: tuple[str, ...] = ()  # sentences a person should read beside the result
    timings: Mapping[str, float] = field(default_factory=dict)  # milliseconds by phase
