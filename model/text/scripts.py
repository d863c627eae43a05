"""Scripts that write no spaces between words, and invisible characters inside words."""

from __future__ import annotations

import re

_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA = "\u3040-\u30ff"
# Thai and Lao, Tibetan, Burmese, Khmer.
_OTHERS = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0eff\u0f40-\u0fbc\u1000-\u109f\u1780-\u17dd"
HAN, KANA = re.compile(f"[{_HAN}]"), re.compile(f"[{_KANA}]")
SPACELESS = re.compile(f"[{_HAN}{_KANA}{_OTHERS}]")
CHARACTERS_PER_WORD = 2  # of these scripts, about
# Soft hyphens, and marks that only say where a line may break or which way a text runs. The joiners U+200C
# and U+200D change Arabic and Indic letters and join emoji, so they go only between European letters.
_EUROPEAN = "A-Za-z\u00c0-\u024f\u0370-\u052f"
INVISIBLE = re.compile(
    "[\u00ad\u200b\u200e\u200f\u2060\ufeff\u202a-\u202e\u2066-\u2069]"
    f"|(?<=[{_EUROPEAN}])[\u200c\u200d](?=[{_EUROPEAN}])"
)


def count_words(text: str) -> int:
    """What spaces separate; in scripts without spaces two characters count as a word."""
    spaceless = len(SPACELESS.findall(text))
    separated = len(SPACELESS.sub(" ", text).split()) if spaceless else len(text.split())
    return separated + -(-spaceless // CHARACTERS_PER_WORD)


def space_out(text: str) -> str:
    """The text with spaces around each character of a script without spaces, so that it counts as a word."""
    return SPACELESS.sub(r" \g<0> ", text)
