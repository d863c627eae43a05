"""A disk that takes nothing keeps nobody from translating: no file is needed for that."""

import os
import tempfile


def ensure_tempdir() -> None:
    """Let `tempfile` name its usual folder where no file can be written; torch and Gradio ask when imported.

    Whoever writes there is told, and succeeds once there is room again.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        tempfile.tempdir = os.environ.get("TMPDIR", "/tmp")  # noqa: S108


ensure_tempdir()
