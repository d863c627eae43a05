"""Word alignments: read from cross-attention, written in Pharaoh's form, scored against gold links.

Axis letters: L any leading axes (layer, head), T target tokens, S source tokens, W and U words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.errors import UserError
from model.results import AttentionRecord

Link = tuple[int, int]  # source word, target word, both counted from 0
NO_WORD = -1  # stands for the source word of a target word that has none


@dataclass(frozen=True)
class GoldAlignment:
    """Links that people drew between the words of one sentence pair (Och and Ney 2003)."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # the sure ones included


def merge_to_words(
    weights: Float[Tensor, "*L T S"], query_words: Sequence[int | None], key_words: Sequence[int | None]
) -> Float[Tensor, "*L W U"]:
    """Weights between words: the sum over a key word's tokens, the mean over a query word's tokens.

    The arguments give the word of each query and each key; None, as on special tokens, leaves it
    out, so a row sums to 1 less the weight on specials. A query word without tokens gets zeros.
    """
    keys, queries = _membership(key_words, weights), _membership(query_words, weights)
    mean = queries / queries.sum(-1, keepdim=True).clamp(min=1)
    return mean @ (weights @ keys.T)


def _membership(words: Sequence[int | None], like: Tensor) -> Float[Tensor, "W N"]:
    """1 where token n belongs to word w."""
    count = 1 + max((word for word in words if word is not None), default=-1)
    places = [NO_WORD if word is None else word for word in words]
    token_words = torch.tensor(places, dtype=torch.long, device=like.device)
    return (torch.arange(count, device=like.device)[:, None] == token_words).to(like.dtype)


def strongest_words(
    weights: Float[Tensor, "*L T S"], query_words: Sequence[int | None], key_words: Sequence[int | None]
) -> Int[Tensor, "*L W"]:
    """The source word with the largest merged weight for each target word; NO_WORD without any weight.

    `query_words` decides which row speaks for a target token t: the words of the predicted tokens
    give the unshifted alignment, those of the tokens read the shifted one (Naive-Att and Shift-Att
    in Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine Translation"). With
    the weights transposed and the words swapped it is the target word of each source word.
    """
    merged = merge_to_words(weights, query_words, key_words)
    if merged.shape[-1] == 0:
        return torch.full(merged.shape[:-1], NO_WORD, device=merged.device)
    strongest = merged.max(-1)
    return strongest.indices.masked_fill(strongest.values == 0, NO_WORD)


def align_record(record: AttentionRecord, shifted: bool = False) -> Int[Tensor, "M H W"]:
    """The source word that each head of each decoder layer aligns each target word to.

    Unshifted takes the row that predicts a token, shifted the row that reads it. A translation
    that the length limit cut never reads its last token, so that its last word may be missing
    from the shifted rows.
    """
    queries = record.read if shifted else record.predicted
    return strongest_words(
        record.cross, [token.word for token in queries], [token.word for token in record.source]
    )


def links(source_words: Sequence[int]) -> frozenset[Link]:
    """One link for each target word that has a source word."""
    return frozenset((source, target) for target, source in enumerate(source_words) if source != NO_WORD)


def grow_diag(forward: Set[Link], backward: Set[Link]) -> frozenset[Link]:
    """One alignment from those of both directions: the links they share, and those that grow from them.

    Koehn, Och and Marcu 2003, "Statistical Phrase-Based Translation". A link of either direction is
    added when it touches one that is there, at a side or a corner, and links a word that had no
    link; in the order of the links, over and over until none is added.
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
    """Links as "0-0 1-2": source word, target word, counted from 0, in order."""
    return " ".join(f"{source}-{target}" for source, target in sorted(alignment))


def parse_pharaoh(line: str) -> frozenset[Link]:
    """The links that `format_pharaoh` wrote. Raises UserError when the line has another form."""
    return frozenset((source, target) for source, _, target in _parse_links(line, "-", first=0))


def parse_gold(line: str) -> GoldAlignment:
    """One line of a gold file: "1-1 2p3", counted from 1, i-j sure and ipj possible.

    i is the word of the source, j that of the target. The links returned count from 0. The form
    is that of the German-English links of Vilar, Popovic and Ney 2006. Raises UserError when the
    line has another form.
    """
    parsed = _parse_links(line, "-p", first=1)
    sure = frozenset((source, target) for source, kind, target in parsed if kind == "-")
    return GoldAlignment(sure, frozenset((source, target) for source, _, target in parsed))


def _parse_links(line: str, kinds: str, first: int) -> list[tuple[int, str, int]]:
    """Source word, sign between and target word of each link, moved to count from 0."""
    parsed = []
    for link in line.split():
        match = re.fullmatch(rf"([0-9]+)([{kinds}])([0-9]+)", link)
        if match is None:
            forms = " or ".join(f"3{kind}4" for kind in kinds)
            raise UserError(f"“{link}” is no link; write {forms}.")
        source, target = int(match[1]) - first, int(match[3]) - first
        if source < 0 or target < 0:
            raise UserError(f"“{link}” names word 0, but words count from {first} here.")
        parsed.append((source, match[2], target))
    return parsed


def alignment_error_rate(found: Iterable[Set[Link]], gold: Iterable[GoldAlignment]) -> float:
    """AER = 1 - (|A n S| + |A n P|) / (|A| + |S|), from 0 (best) to 1.

    Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models". A, S and P
    are the links found, sure and possible; the counts are summed over the corpus. With nothing
    found and nothing to find it is 0.
    """
    hits = total = 0
    for alignment, reference in zip(found, gold, strict=True):
        hits += len(alignment & reference.sure) + len(alignment & reference.possible)
        total += len(alignment) + len(reference.sure)
    return 1 - hits / total if total else 0.0
