"""Word alignments: taken from cross-attention, written in Pharaoh format, scored against gold links.

The second part aligns one sentence as the page shows it, with the source words that have no link.
Axis letters: L any leading axes (layer, head), T target tokens, S source tokens, W and U words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis.measures import focus_offset, source_focus
from model.errors import Sentence, UserError, quote_untrusted
from model.results import AttentionRecord, Head, Token

Link = tuple[int, int]  # source word, target word, both counted from 0
NO_WORD = -1  # in place of the source word of a target word that has none


@dataclass(frozen=True)
class GoldAlignment:
    """Links between the words of one sentence pair, annotated by people (Och and Ney 2003)."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # includes the sure ones


def merge_to_words(
    weights: Float[Tensor, "*L T S"], query_words: Sequence[int | None], key_words: Sequence[int | None]
) -> Float[Tensor, "*L W U"]:
    """Weights between words: the sum over a key word's tokens, the mean over a query word's tokens.

    The arguments give the word of each query and of each key. Tokens without a word (None), such as
    special tokens, are left out, so a row sums to 1 minus the weight on them. A query word without
    tokens gets zeros.
    """
    keys, queries = _membership(key_words, weights), _membership(query_words, weights)
    mean = queries / queries.sum(-1, keepdim=True).clamp(min=1)
    return mean @ (weights @ keys.T)


def _membership(words: Sequence[int | None], like: Tensor) -> Float[Tensor, "W N"]:
    """1 if token n belongs to word w."""
    count = 1 + max((word for word in words if word is not None), default=-1)
    places = [NO_WORD if word is None else word for word in words]
    token_words = torch.tensor(places, dtype=torch.long, device=like.device)
    return (torch.arange(count, device=like.device)[:, None] == token_words).to(like.dtype)


def strongest_words(
    weights: Float[Tensor, "*L T S"], query_words: Sequence[int | None], key_words: Sequence[int | None]
) -> Int[Tensor, "*L W"]:
    """The source word with the largest merged weight for each target word; NO_WORD if it has no weight.

    `query_words` are the words of the predicted tokens for the unshifted alignment, or of the tokens that are
    read for the shifted one (Naive-Att and Shift-Att in Chen et al. 2020, "Accurate Word Alignment Induction
    from Neural Machine Translation"). With the weights transposed and the words swapped,
    the result is the target word of each source word.
    """
    merged = merge_to_words(weights, query_words, key_words)
    if merged.shape[-1] == 0:
        return torch.full(merged.shape[:-1], NO_WORD, device=merged.device)
    strongest = merged.max(-1)
    return strongest.indices.masked_fill(strongest.values == 0, NO_WORD)


def links(source_words: Sequence[int]) -> frozenset[Link]:
    """One link for each target word that has a source word."""
    return frozenset((source, target) for target, source in enumerate(source_words) if source != NO_WORD)


def grow_diag(forward: Set[Link], backward: Set[Link]) -> frozenset[Link]:
    """One alignment from both directions: the shared links, and links that grow from them.

    Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation". A link of either direction is
    added if it is next to an existing link, at a side or a corner, and one of its words has no link yet.
    The links are visited in order, repeatedly, until none is added.
    """
    found = set(forward & backward)
    sources, targets = ({link[side] for link in found} for side in (0, 1))
    size = -1
    while size != len(found):
        size = len(found)
        for source, target in sorted(forward | backward):
            touching = {(source + i, target + j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
            if (source not in sources or target not in targets) and not found.isdisjoint(touching):
                found.add((source, target))
                sources.add(source)
                targets.add(target)
    return frozenset(found)


def format_pharaoh(alignment: Iterable[Link]) -> str:
    """Links in Pharaoh format, such as "0-0 1-2": source word, target word, counted from 0, sorted."""
    return " ".join(f"{source}-{target}" for source, target in sorted(alignment))


def parse_gold(line: str, first: int = 1) -> GoldAlignment:
    """The links of one line of a gold file such as "1-1 2p3", whose words are counted from `first`.

    i-j is a sure link and ipj a possible one, i the source word and j the target word. The returned
    links count from 0. Counted from 1, this is the format of the German-English links of Vilar, Popovic
    and Ney 2006; counted from 0, Pharaoh's form. Raises UserError if the line has another format.
    """
    sure, possible = set(), set()
    for link in line.split():
        match = re.fullmatch(r"([0-9]{1,6})([-p])([0-9]{1,6})", link)
        if match is None:
            raise UserError(
                Sentence("{link} is not a valid link; write 3-4 or 3p4.", link=quote_untrusted(link))
            )
        source, target = int(match[1]) - first, int(match[3]) - first
        if source < 0 or target < 0:
            raise UserError(f"“{link}” names word 0; count words from 1.")
        possible.add((source, target))
        if match[2] == "-":
            sure.add((source, target))
    return GoldAlignment(frozenset(sure), frozenset(possible))


def alignment_error_rate(found: Iterable[Set[Link]], gold: Iterable[GoldAlignment]) -> float:
    """AER = 1 - (|A n S| + |A n P|) / (|A| + |S|), from 0 (best) to 1.

    Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models". A, S and P
    are the links found, sure and possible; the counts are summed over the corpus. The result is 0 if
    there are no links to find and none was found.
    """
    hits = total = 0
    for alignment, reference in zip(found, gold, strict=True):
        hits += len(alignment & reference.sure) + len(alignment & reference.possible)
        total += len(alignment) + len(reference.sure)
    return 1 - hits / total if total else 0.0


# One sentence


@dataclass(frozen=True)
class WordLinks:
    """The alignment of one sentence by one head or by the average of all cross-attention heads."""

    head: Head | None  # None for the average
    shifted: bool  # uses the row that reads a target word, not the row that predicts it
    forward: frozenset[Link]  # each target word chooses its source word
    grown: frozenset[Link]  # each source word chooses a target word too; joined by grow-diag
    agreement: float  # links that both directions have, divided by links that either has, 0 to 1


def word_links(record: AttentionRecord, head: Head | None, shifted: bool) -> WordLinks:
    """The links between the words of a sentence and the words of its translation.

    Each target word is linked to the source word that its tokens give most weight, and the other way round.
    Words are the words of the tokens: punctuation marks are words, and special tokens are in none. Shifted
    rows: Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation". Limit:
    attention is not trained to align; the study of a model says how well its best head does.
    """
    weights = record.cross.mean((0, 1)) if head is None else record.cross[head.layer, head.head]
    queries, keys = target_words(record, shifted), _words(record.source)
    forward = links(strongest_words(weights, queries, keys).tolist())
    chosen = links(strongest_words(weights.transpose(-2, -1), keys, queries).tolist())
    backward = frozenset((source, target) for target, source in chosen)
    both, either = len(forward & backward), len(forward | backward)
    return WordLinks(head, shifted, forward, grow_diag(forward, backward), both / either if either else 0.0)


def best_links(record: AttentionRecord) -> WordLinks:
    """The links of the head with the highest source focus."""
    words = torch.tensor([token.word is not None for token in record.source])
    focus = source_focus(record.cross, words)
    layer, head = divmod(int(focus.argmax()), focus.shape[1])
    return head_links(record, Head("cross", layer, head))


def head_links(record: AttentionRecord, head: Head) -> WordLinks:
    """The links of one head, by the rows that align: see `measures.focus_offset`."""
    words = torch.tensor([token.word is not None for token in record.source])
    offset = focus_offset(record.cross, words)[head.layer, head.head]
    return word_links(record, head, shifted=bool(offset < 0))


def coverage(record: AttentionRecord) -> Float[Tensor, " U"]:
    """For each source word the sum over all rows of the weight on its tokens, mean over all heads.

    Around 1 for a word that is translated once; the sum over words is at most T. Tu et al. 2016, "Modeling
    Coverage for Neural Machine Translation".
    """
    weights = record.cross.mean((0, 1)).sum(0, keepdim=True)  # 1 S
    covered: Tensor = merge_to_words(weights, [0], _words(record.source))[0]
    return covered


def unlinked(found: frozenset[Link], record: AttentionRecord) -> tuple[int, ...]:
    """The source words that no word of the translation is linked to."""
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
                Sentence(
                    "The link {source}-{target} is outside the sentence; its words are 0 to {last_source}, "
                    "and those of the translation 0 to {last_target}.",
                    source=source,
                    target=target,
                    last_source=sizes[0] - 1,
                    last_target=sizes[1] - 1,
                )
            )
    return alignment_error_rate([found], [gold])


def target_words(record: AttentionRecord, shifted: bool) -> list[int | None]:
    """The target word of each row, by the token that the row predicts or, if shifted, reads."""
    predicted = _words(record.predicted)
    return [None, *predicted[:-1]] if shifted else predicted


def _words(tokens: Sequence[Token]) -> list[int | None]:
    return [token.word for token in tokens]
