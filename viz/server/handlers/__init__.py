"""Answers each kind of request: one function for each, registered under its name in the protocol."""

from viz.server.handlers import instruments, records, training  # noqa: F401 - they register their handlers
from viz.server.handlers.registry import HANDLERS, estimate_seconds, find_handler

__all__ = ["HANDLERS", "estimate_seconds", "find_handler"]
