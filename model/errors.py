"""Errors that a user can cause."""


class UserError(Exception):  # not a ValueError, which command lines take for a malformed option
    """One clear sentence that says what is wrong and what to do; shown as it is."""


class TooLongError(UserError):
    """A text is longer than a model reads at once."""
