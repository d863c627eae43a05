"""The word links of one sentence, from its cross-attention, and the source words that have none.

Axis letters: M decoder layers, H heads, T target tokens, S source tokens, W target words, U source words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.alignment import (
    GoldAlignment,
    Link,
    alignment_error_rate,
    grow_diag,
    links,
    merge_to_words,
    strongest_words,
)
from model.analysis.measures import source_focus
from model.errors import UserError
from model.results import AttentionRecord, Head, Token


@dataclass(frozen=True)
class WordLinks:
    """The alignment of one sentence by one head or by the average of all cross-attention heads."""

    head: Head | None  # None for the average
    shifted: bool  # uses the row that reads a target word, not the row that predicts it
    forward: frozenset[Link]  # each target word chooses its source word
    grown: frozenset[Link]  # each source word chooses a target word too; joined by grow-diag
    agreement: float  # links of both directions, divided by those of either, 0 to 1


def word_links(record: AttentionRecord, head: Head | None, shifted: bool) -> WordLinks:
    """The links between the words of a sentence and those of its translation.

    Each target word is linked to the source word that its tokens give most weight, and the other way round
    (`model.analysis.alignment`). Words are those of the tokens: punctuation marks are words, and special
    tokens are in none. Shifted rows: Chen et al. 2020, "Accurate Word Alignment Induction from Neural
    Machine Translation". Limit: attention is not trained to align; the study of a model says how well
    its best head does.
    """
    weights = record.cross.mean((0, 1)) if head is None else record.cross[head.layer, head.head]
    queries, keys = target_words(record, shifted), _words(record.source)
    forward = links(strongest_words(weights, queries, keys).tolist())
    chosen = links(strongest_words(weights.transpose(-2, -1), keys, queries).tolist())
    backward = frozenset((source, target) for target, source in chosen)
    both, either = len(forward & backward), len(forward | backward)
    return WordLinks(head, shifted, forward, grow_diag(forward, backward), both / either if either else 0.0)


def best_links(record: AttentionRecord) -> WordLinks:
    """The links of the head with the highest source focus, of the rows whose directions agree better."""
    words = torch.tensor([token.word is not None for token in record.source])
    focus = source_focus(record.cross, words)
    layer, head = divmod(int(focus.argmax()), focus.shape[1])
    both = (word_links(record, Head("cross", layer, head), shifted) for shifted in (False, True))
    return max(both, key=lambda one: one.agreement)


def coverage(record: AttentionRecord) -> Float[Tensor, " U"]:
    """For each source word the sum over all rows of the weight on its tokens, mean over all heads.

    Around 1 for a word that is translated once; the sum over words is at most T. Tu et al. 2016, "Modeling
    Coverage for Neural Machine Translation".
    """
    weights = record.cross.mean((0, 1)).sum(0, keepdim=True)  # 1 S
    covered: Tensor = merge_to_words(weights, [0], _words(record.source))[0]
    return covered


def unlinked(found: frozenset[Link], record: AttentionRecord) -> tuple[int, ...]:
    """The source words without a link: those that no word of the translation stands for."""
    linked = {source for source, _ in found}
    words = {token.word for token in record.source if token.word is not None}
    return tuple(sorted(words - linked))


def sentence_error(found: frozenset[Link], gold: GoldAlignment, record: AttentionRecord) -> float:
    """The alignment error rate of this sentence, 0 (best) to 1 (Och and Ney 2003).

    Raises UserError if a gold link names a word that the sentence does not have.
    """
    sizes = [
        1 + max((token.word for token in tokens if token.word is not None), default=-1)
        for tokens in (record.source, record.predicted)
    ]
    for source, target in sorted(gold.possible):
        if source >= sizes[0] or target >= sizes[1]:
            raise UserError(
                f"The link {source}-{target} is outside the sentence; its words are 0 to {sizes[0] - 1}, and "
                f"those of the translation 0 to {sizes[1] - 1}."
            )
    return alignment_error_rate([found], [gold])


def target_words(record: AttentionRecord, shifted: bool) -> list[int | None]:
    """The target word of each row: that of the token which the row predicts, or shifted, reads."""
    predicted = _words(record.predicted)
    return [None, *predicted[:-1]] if shifted else predicted


def _words(tokens: Sequence[Token]) -> list[int | None]:
    return [token.word for token in tokens]
