"""The results of a translation: tokens, probabilities and every attention weight.

Axis letters: L layers, H heads, S source length, T target length (rows of the decoder).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from jaxtyping import Float
from torch import Tensor

from model.decoding.options import SearchOptions

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Head(NamedTuple):
    """One attention head, counted from 0 as in the tensors."""

    kind: str  # one of KINDS
    layer: int
    head: int


@dataclass(frozen=True)
class Token:
    """One token, as the model reads it and as a person reads it."""

    piece: str  # the vocabulary entry, in which U+2581 marks a space
    text: str  # for a person to read; for <unk> the characters of the sentence, if known
    word: int | None  # index of the word it belongs to; None for a special token
    special: bool  # one of <pad>, <unk>, <s>, </s>
    id: int = -1  # in the vocabulary; -1 if no tokenizer made the token


@dataclass(frozen=True)
class Source:
    """A sentence as a model reads it; `model.inputs.parse_source` makes it once on the sentence's way."""

    text: str  # normalised, with what stands before the sentence
    tokens: tuple[Token, ...]  # S, with </s>
    language_prefix: str = ""  # codes of languages or the prompt before the sentence, with the space after it
    first_ids: tuple[int, ...] = ()  # the tokens with which every translation of it begins
    notices: tuple[str, ...] = ()  # what the model cannot read

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids that the encoder reads."""
        return tuple(token.id for token in self.tokens)

    @property
    def sentence(self) -> str:
        """The text without what stands before the sentence."""
        return self.text.removeprefix(self.language_prefix).strip()


@dataclass(frozen=True)
class AttentionRecord:
    """Every attention weight of one translation, [layer, head, query, key], float32.

    Row t of `decoder` and `cross` belongs to the step that reads `read[t]` and predicts
    `predicted[t]`. Weights are the softmax before dropout, in eval mode: each row sums to 1
    and masked cells are exactly 0. If the decoder has a running memory in place of self-attention, `decoder`
    has the mean share of each token in each memory, and what a row lacks to 1 is the share of nothing.
    """

    encoder: Float[Tensor, "L H S S"]
    decoder: Float[Tensor, "M H T T"]
    cross: Float[Tensor, "M H T S"]
    source: tuple[Token, ...]  # S
    read: tuple[Token, ...]  # T, begins with <s>
    predicted: tuple[Token, ...]  # T, ends with </s> unless the length limit cut it
    taught: tuple[int, int] | None = None  # layer and cross-attention head that was taught to align
    is_recurrent: bool = False  # whether the decoder has a running memory in place of self-attention


@dataclass(frozen=True)
class Alternative:
    """One of the most likely tokens of a step."""

    token: Token
    log_probability: float  # natural logarithm


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation of a search."""

    text: str
    score: float  # log-probability divided by the length penalty
    log_probability: float  # natural logarithm, summed over the tokens
    ids: tuple[int, ...] = ()  # ends with </s> unless the length limit cut it
    log_probabilities: tuple[float, ...] = ()  # natural logarithm of each token


NodeStatus = Literal["kept", "finished", "pruned"]


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis that beam search considered: its parent plus one token."""

    step: int  # position of the token in the target, from 0
    token: Token
    parent: int | None  # index of the node that it extends; None for the first token
    log_probability: float  # natural logarithm, summed from the first token
    score: float  # log-probability divided by the length penalty
    status: NodeStatus
    reason: str  # for the status; see model.decoding.beam_tree


@dataclass(frozen=True)
class Translation:
    """The translation of one sentence with everything that the page shows."""

    source: Source
    text: str
    source_language: str
    target_language: str
    attention: AttentionRecord
    log_probabilities: tuple[float, ...]  # T, of each predicted token
    alternatives: tuple[tuple[Alternative, ...], ...]  # T rows, most likely first
    hypotheses: tuple[Hypothesis, ...]  # best first
    notices: tuple[str, ...] = ()  # warnings to show with the result
    timings: Mapping[str, float] = field(default_factory=dict)  # milliseconds by phase
    n_forced: int = 0  # leading target tokens that were given; the model chose the others
    options: SearchOptions = field(default_factory=SearchOptions)  # of the search for the others
    hidden: tuple[int, ...] = ()  # places of the source tokens that nothing read
    ablated: tuple[Head, ...] = ()  # heads whose gates were not open
    beam_tree: tuple[BeamNode, ...] = ()  # empty unless requested; parents come before their children

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the target's tokens, for `translate(forced=...)` and `score`."""
        return tuple(token.id for token in self.attention.predicted)

    @property
    def source_text(self) -> str:
        """The source with what stands before the sentence."""
        return self.source.text


class Word(NamedTuple):
    """A word of a translation that is compared with another translation of the sentence."""

    text: str
    changed: bool  # the other translation does not have it at this place


@dataclass(frozen=True)
class AblationResult:
    """A translation with and without some heads."""

    heads: tuple[Head, ...]
    original: Translation
    ablated: Translation  # the new translation, without the heads
    original_words: tuple[Word, ...]
    ablated_words: tuple[Word, ...]
    differences: tuple[float, ...]  # of the original's log-probabilities: without the heads minus with them


class HeadValues(NamedTuple):
    """One number for each head of each kind."""

    encoder: Float[Tensor, "L H"]
    decoder: Float[Tensor, "M H"]
    cross: Float[Tensor, "M H"]
