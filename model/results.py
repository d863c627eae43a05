"""What one translation leaves behind: tokens, probabilities and every attention weight.

Axis letters: L layers, H heads, S source length, T target length (rows of the decoder).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from jaxtyping import Float
from torch import Tensor

KINDS = ("encoder", "decoder", "cross")


class Head(NamedTuple):
    """One attention head, counted from 0 as in the tensors."""

    kind: str  # one of KINDS
    layer: int
    head: int


@dataclass(frozen=True)
class Token:
    """One token of a sentence as the model sees it and as a person reads it."""

    piece: str  # the entry of the vocabulary, with its marker of a preceding space
    text: str  # what a person reads; for an unknown piece, the characters it stands for
    word: int | None  # index of the word it belongs to; None for a special token
    special: bool  # one of <pad>, <unk>, <s>, </s>
    id: int = -1  # place in the vocabulary; -1 for a token that no tokenizer made


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
    ids: tuple[int, ...] = ()  # ends with </s> unless the length limit cut it
    log_probabilities: tuple[float, ...] = ()  # natural logarithm of each token


NodeStatus = Literal["kept", "finished", "pruned"]


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis that beam search considered: the parent's, one token longer."""

    step: int  # position of the token in the target, from 0
    token: Token
    parent: int | None  # index of the node that it extends; None for the first token
    log_probability: float  # natural logarithm, summed from the first token
    score: float  # log-probability divided by the length penalty
    status: NodeStatus
    reason: str  # why: one of model.decoding.beam_tree.REASONS


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
    n_prefix: int = 0  # leading target tokens that were given; the model chose only those behind them
    beam_tree: tuple[BeamNode, ...] = ()  # empty unless asked for; a parent stands before its children

    @property
    def ids(self) -> tuple[int, ...]:
        """The target's tokens as ids, as `prefix` and `score` take them."""
        return tuple(token.id for token in self.attention.predicted)


class Word(NamedTuple):
    """A word of a translation beside another translation of the same sentence."""

    text: str
    changed: bool  # the other translation lacks it at this place


@dataclass(frozen=True)
class AblationResult:
    """What becomes of a translation when some heads are silent."""

    heads: tuple[Head, ...]
    original: Translation
    translation: Translation  # with the heads silent
    original_words: tuple[Word, ...]
    words: tuple[Word, ...]  # of the new translation
    differences: tuple[float, ...]  # T of the original: log-probability with the heads silent minus without


class HeadValues(NamedTuple):
    """One number for each head of each kind."""

    encoder: Float[Tensor, "L H"]
    decoder: Float[Tensor, "M H"]
    cross: Float[Tensor, "M H"]
