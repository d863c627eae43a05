"""Hostile texts by category, for every text input: sentence, target, link, name of a model, API field."""

from __future__ import annotations

from tests.hostile import characters, payloads
from tests.hostile.payloads import CANARY

__all__ = ["CANARY", "CATEGORIES", "STRINGS", "some"]

CATEGORIES: dict[str, list[str]] = {
    "control characters": characters.CONTROLS,
    "lone surrogates": characters.SURROGATES,
    "turning the line": characters.TURNING,
    "unseen characters": characters.UNSEEN,
    "stacks of marks": characters.STACKS,
    "ends of lines": characters.LINES,
    "nothing but space": characters.SPACES,
    "no characters": characters.STRANGE,
    "normal forms": characters.NORMAL_FORMS,
    "lookalikes": characters.LOOKALIKES,
    "mixed scripts": characters.SCRIPTS,
    "emoji": characters.EMOJI,
    "long": characters.LONG,
    "HTML": payloads.HTML,
    "event handlers": payloads.HANDLERS,
    "attributes": payloads.ATTRIBUTES,
    "SVG and MathML": payloads.SVG_AND_MATHML,
    "CSS": payloads.CSS,
    "addresses": payloads.ADDRESSES,
    "Markdown": payloads.MARKDOWN,
    "templates": payloads.TEMPLATES,
    "formats": payloads.FORMATS,
    "commands": payloads.COMMANDS,
    "paths": payloads.PATHS,
    "JSON": payloads.JSONISH,
    "numbers": payloads.NUMBERS,
    "special tokens": payloads.TOKENS,
}
STRINGS: list[str] = list(dict.fromkeys(text for texts in CATEGORIES.values() for text in texts))


def some(of_each: int) -> list[str]:
    """The first texts of each category."""
    return list(dict.fromkeys(text for texts in CATEGORIES.values() for text in texts[:of_each]))
