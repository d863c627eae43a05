"""Progress of long work: what runs reports how far it is, and whoever waits listens or cancels it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


class WorkCancelled(BaseException):
    """Nobody waits for the result any more; a listener raises this to end the work."""


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Pass what the work in this block reports to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(progress: str) -> None:
    """Say how far the work is, as "12 of 144 heads". Call it every second or so."""
    listener = _listener.get()
    if listener is not None:
        listener(progress)
