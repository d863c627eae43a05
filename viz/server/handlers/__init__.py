"""Answers each kind of request: one function for each, registered under its name in the protocol."""

from viz.server.handlers import (  # noqa: F401 - they register their handlers
    instruments,
    portable,
    records,
    training,
)
from viz.server.handlers.registry import CHEAPEST, HANDLERS, Answer, estimate_seconds, find_handler

__all__ = ["CHEAPEST", "HANDLERS", "Answer", "estimate_seconds", "find_handler"]
