"""Lets the app start without a writable temporary directory."""

import os
import tempfile


def ensure_tempdir() -> None:
    """Let `tempfile.gettempdir` return a folder even if it is not writable.

    torch and Gradio call it when they are imported, and would fail. Writing a temporary file still fails
    until the disk has space again.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        tempfile.tempdir = os.environ.get("TMPDIR", "/tmp")  # noqa: S108


ensure_tempdir()
