"""Progress of long work: the work reports it, and a listener shows it or cancels the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


class WorkCancelled(BaseException):
    """A listener raises this to end work whose result is no longer needed."""


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Pass every report of the work in this block to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(progress: str) -> None:
    """Report progress, such as "12 of 144 heads". Call it about once a second."""
    listener = _listener.get()
    if listener is not None:
        listener(progress)
