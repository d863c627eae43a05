"""The port that the environment names. Gradio too reads it when imported, and fails: this comes first."""

from __future__ import annotations

import os

from model.errors import UserError, quote_untrusted

PORT = os.environ.pop("GRADIO_SERVER_PORT", "7860")


def port() -> int:
    """Return it. Raises UserError."""
    if not (PORT.isascii() and PORT.isdecimal() and len(PORT) <= 5):
        raise UserError(
            f"GRADIO_SERVER_PORT is {quote_untrusted(PORT)}, which is no port; set a number from 1 to 65535."
        )
    return int(PORT)
