"""Errors that a user can cause."""


class UserError(ValueError):
    """One clear sentence that says what is wrong and what to do; shown as it is."""


class TooLongError(UserError):
    """A text is longer than a model reads at once."""
