"""Checks GRADIO_SERVER_PORT before Gradio is imported, because Gradio crashes on an invalid value."""

from __future__ import annotations

import os

from model.errors import UserError, quote_untrusted

PORT = os.environ.pop("GRADIO_SERVER_PORT", "7860")


def port() -> int:
    """Return the port that the environment names, or Gradio's default. Raises UserError."""
    if not (PORT.isascii() and PORT.isdecimal() and len(PORT) <= 5):
        raise UserError(
            f"GRADIO_SERVER_PORT is {quote_untrusted(PORT)}, an invalid port; set a number from 1 to 65535."
        )
    return int(PORT)
