"""The phrasebook, `training/phrases`: one text in four languages; the page and the cards show none of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.test_house import ROOT

PHRASES = ROOT / "training" / "phrases"
LANGUAGES = ("en", "de", "fr", "it")


def lines(name: str) -> list[str]:
    return (PHRASES / name).read_text(encoding="utf-8").splitlines()


def words(sentence: str) -> str:
    """A sentence without case, punctuation and spacing."""
    return " ".join(re.findall(r"\w+", sentence.lower()))


def strings(value: object) -> Iterator[str]:
    """All strings in what a JSON file holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


@pytest.mark.parametrize("part", ["train", "dev"])
def test_line_n_of_each_language_is_a_sentence(part: str) -> None:
    counts = {len(lines(f"{part}.{language}")) for language in LANGUAGES}
    assert len(counts) == 1
    assert counts != {0}
    assert all(words(line) for language in LANGUAGES for line in lines(f"{part}.{language}"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_comes_twice_or_in_both_parts(language: str) -> None:
    sentences = [words(line) for part in ("train", "dev") for line in lines(f"{part}.{language}")]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_is_one_that_the_page_or_a_card_shows(language: str) -> None:
    shown = {
        words(text)
        for name in ("examples.json", "everyday.json")
        for text in strings(json.loads((ROOT / "assets" / name).read_text(encoding="utf-8")))
    }
    phrases = {words(line) for part in ("train", "dev") for line in lines(f"{part}.{language}")}
    assert not phrases & shown
