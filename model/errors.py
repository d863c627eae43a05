"""UserError, for mistakes that a user can correct."""

import reprlib


class UserError(Exception):  # not a ValueError, which tyro reports as a malformed option
    """One sentence that says what is wrong and what to do; it is shown to the user as it is."""


class TooLongError(UserError):
    """A text is longer than the model's limit."""


_short = reprlib.Repr()
_short.maxstring = 80


def quote_untrusted(value: object) -> str:
    """Truncated repr() of an untrusted value for error messages: one short line of visible characters."""
    return _short.repr(value)
