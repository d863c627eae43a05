"""UserError, for mistakes that a user can correct, and sentences that the page can translate."""

from __future__ import annotations

import reprlib
from typing import Any


class UserError(Exception):  # not a ValueError, which tyro reports as a malformed option
    """One sentence that says what is wrong and what to do; it is shown to the user as it is."""


class Sentence(str):
    """An English sentence that also knows its template and its values, so that the page can translate it.

    The template is the key of the catalogues in viz/viewer/locales. It has places for values: `{name}`,
    `{name:,}` (thousands are grouped) or `{name:.2f}` (two decimals). A value is a number, a text or another
    Sentence.
    """

    template: str
    values: dict[str, object]

    def __new__(cls, template: str, **values: object) -> Sentence:
        sentence = super().__new__(cls, template.format(**values) if values else template)
        sentence.template, sentence.values = template, values
        return sentence


def said(sentence: object) -> list[Any]:
    """Return [template, values] of a sentence or of an error's one; the page says it in its language."""
    if isinstance(sentence, Exception):
        return said(sentence.args[0])
    if not isinstance(sentence, Sentence):
        return [str(sentence), {}]
    values = {name: said(one) if isinstance(one, Sentence) else one for name, one in sentence.values.items()}
    return [sentence.template, values]


NOT_FINITE = Sentence("The model gives numbers that are not finite; its weights are too large.")


class TooLongError(UserError):
    """A text is longer than the model's limit."""


_short = reprlib.Repr()
_short.maxstring = 80


def quote_untrusted(value: object) -> str:
    """Truncated repr() of an untrusted value for error messages: one short line of visible characters."""
    return _short.repr(value)
