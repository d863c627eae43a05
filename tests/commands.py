"""Runs commands in this process: one of its own would import torch for seconds."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import NamedTuple

import pytest


class Ended(NamedTuple):
    """What a command has left."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run_command(package: str, *words: object, encoding: str = "utf-8") -> Ended:
    """What `python -m PACKAGE WORDS` writes if the system says that its streams have this encoding."""
    name, _, errors = encoding.partition(":")
    out = io.TextIOWrapper(io.BytesIO(), name, errors or None)
    err = io.TextIOWrapper(io.BytesIO(), name, "backslashreplace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [package, *map(str, words)])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        status = _status(package)
    for stream in (out, err):
        stream.flush()
    return Ended(status, out.buffer.getvalue(), err.buffer.getvalue())  # type: ignore[attr-defined]


def _status(package: str) -> int:
    """Run the command; print why it stops, as Python does."""
    try:
        import_module(f"{package}.__main__").main()
    except SystemExit as stopped:
        if isinstance(stopped.code, str):
            print(stopped.code, file=sys.stderr)  # noqa: T201
            return 1
        return stopped.code or 0
    return 0
