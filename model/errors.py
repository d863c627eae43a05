"""Errors that a user can cause."""

import reprlib


class UserError(Exception):  # not a ValueError, which command lines take for a malformed option
    """One clear sentence that says what is wrong and what to do; shown as it is."""


class TooLongError(UserError):
    """A text is longer than a model reads at once."""


_short = reprlib.Repr()
_short.maxstring = 80


def quote_untrusted(value: object) -> str:
    """A value from somebody's file as a sentence can quote it: short, on one line, nothing invisible."""
    return _short.repr(value)
