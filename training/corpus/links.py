"""Word alignments of the training pairs: reads a Pharaoh file, and finds the tokens of linked words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset

from model.errors import UserError
from model.files import read_lines

# Letters and digits with the hyphens and apostrophes between them, or one mark.
WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")
LINK = re.compile(r"([0-9]+)-([0-9]+)")

Span = tuple[int, int]


def words(text: str) -> list[str]:
    """The words of a text as alignments count them: what spaces separate, and each punctuation mark."""
    return WORD.findall(text)


def with_links(pairs: Dataset, path: Path) -> Dataset:
    """The pairs with a column `links`, the lines of a Pharaoh file: one line of links such as 0-0 for each.

    Raises UserError if the file has another number of lines or links a word that a pair does not have.
    """
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise UserError(
            f"{path} has {len(lines):,} lines for {len(pairs):,} training pairs; give one line for each, in "
            "the order of the data folders and of the names of their files."
        )
    for number, (line, source, target) in enumerate(
        zip(lines, pairs["source"], pairs["target"], strict=True), start=1
    ):
        counts = len(words(source)), len(words(target))
        for link in line.split():
            found = LINK.fullmatch(link)
            if found is None or any(int(place) >= n for place, n in zip(found.groups(), counts, strict=True)):
                raise UserError(
                    f"Line {number:,} of {path} has the link {link!r}, but its pair has {counts[0]} and "
                    f"{counts[1]} words; write i-j, counted from 0, where punctuation marks are words too."
                )
    return pairs.add_column("links", lines)


def parse(line: str) -> list[tuple[int, int]]:
    """Source and target word of each link of a line."""
    return [
        (int(source), int(target)) for source, _, target in (link.partition("-") for link in line.split())
    ]


def join_links(pairs: Sequence[tuple[str, str, str]]) -> str:
    """The links of pairs that are joined to one: each has its links, its source and its target."""
    links, before = [], (0, 0)
    for line, source, target in pairs:
        links += [f"{i + before[0]}-{j + before[1]}" for i, j in parse(line)]
        before = before[0] + len(words(source)), before[1] + len(words(target))
    return " ".join(links)


def linked_share(line: str, source: str, target: str) -> float:
    """The smaller of two shares: linked words among the source words, and among the target words."""
    links = parse(line)
    sides = zip(zip(*links, strict=True) if links else ((), ()), (source, target), strict=True)
    return min(len(set(linked)) / max(len(words(text)), 1) for linked, text in sides)


def token_links(line: str, texts: tuple[str, str], spans: tuple[Sequence[Span], Sequence[Span]]) -> list[int]:
    """The links of a pair between its tokens, which inherit them from their words: target, source, and so on.

    `spans` are the characters of each token in the text, source and target side.
    """
    sources, targets = (_tokens_of_words(text, tokens) for text, tokens in zip(texts, spans, strict=True))
    return [
        token
        for i, j in parse(line)
        for target in targets[j]
        for source in sources[i]
        for token in (target, source)
    ]


def _tokens_of_words(text: str, spans: Sequence[Span]) -> list[list[int]]:
    ends = [found.end() for found in WORD.finditer(text)]
    tokens: list[list[int]] = [[] for _ in ends]
    for token, (start, _) in enumerate(spans):
        # A token may begin with the space before its word.
        if (word := bisect_right(ends, start)) < len(ends):
            tokens[word].append(token)
    return tokens
