"""What clients have sent or been sent and is not worked off, in bytes by address: the one bound on memory."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException

from viz.server.work_queue import NOBODY, Client, asking

MAX_OF_ADDRESS = 64 << 20  # bytes
MAX_IN_ALL = 128 << 20
CALL_BYTES = 4096  # that the smallest call takes, with what Python needs for it
REQUEST_BYTES = 1 << 18  # of a request in progress: as objects the values of its JSON take so much
FRESH_SECONDS = 2  # in which a client that has started a call comes back to read its result
TOO_MUCH = f"Too much of your address is waiting; try again in {FRESH_SECONDS} seconds."


@dataclass
class Call:
    """A call of an endpoint, which waits for its client to read the result; as objects it would be larger."""

    endpoint: str
    body: bytes
    client: Client = field(default_factory=lambda: asking.get(NOBODY))
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.monotonic)

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return CALL_BYTES + len(self.body)


class Inbox:
    """Counts the requests in progress, the calls that no client reads yet, and the answers on their way.

    What is too much is refused. An address always has room for one thing, so that no other can lock it out.
    """

    def __init__(self) -> None:
        self.sizes: Counter[str] = Counter()  # by address
        # All by id, the oldest first; an address may have thousands, so nothing looks through them.
        self.calls: dict[str, Call] = {}
        self.of_address: dict[str, dict[str, Call]] = {}
        self.of_session: dict[Client, dict[str, Call]] = {}

    def count(self, address: str, before: int, now: int) -> None:
        """Count `now` bytes in place of those `before`. Raises HTTPException if there is no room for them."""
        self.sizes[address] -= before
        if now > before and not self._fits(address, now):
            self._drop_stale(address, now)
            if not self._fits(address, now):
                self.sizes[address] += before
                raise HTTPException(429, TOO_MUCH, {"Retry-After": str(FRESH_SECONDS)})
        self.sizes[address] += now
        if not self.sizes[address]:
            del self.sizes[address]

    @contextmanager
    def counted(self, call: Call) -> Iterator[None]:
        """Count a call while it is computed."""
        self.count(call.client.address, 0, call.size)
        try:
            yield
        finally:
            self.count(call.client.address, call.size, 0)

    def add(self, call: Call) -> None:
        """Keep a call. Raises HTTPException if there is no room for it."""
        self.count(call.client.address, 0, call.size)
        self.calls[call.id] = call
        self.of_address.setdefault(call.client.address, {})[call.id] = call
        self.of_session.setdefault(call.client, {})[call.id] = call

    def pop(self, call: Call | None) -> Call | None:
        """Remove a call and return it, None if it is not there."""
        if call is None or self.calls.pop(call.id, None) is None:
            return None
        _remove(self.of_address, call.client.address, call)
        _remove(self.of_session, call.client, call)
        self.count(call.client.address, call.size, 0)
        return call

    def next_of(self, client: Client) -> Call | None:
        """Return the oldest call of a session, which belongs to one address."""
        return next(iter(self.of_session.get(client, {}).values()), None)

    def _fits(self, address: str, size: int) -> bool:
        here, in_all = self.sizes[address], self.sizes.total()
        return not here or (here + size <= MAX_OF_ADDRESS and in_all + size <= MAX_IN_ALL)

    def _drop_stale(self, address: str, size: int) -> None:
        """Drop calls that nobody has come back for: of this address, or of anyone if all have too much."""
        while not self._fits(address, size):
            is_full = self.sizes.total() + size > MAX_IN_ALL
            calls = self.calls if is_full else self.of_address.get(address, {})
            oldest = next(iter(calls.values()), None)
            if oldest is None or time.monotonic() - oldest.started < FRESH_SECONDS:
                return
            self.pop(oldest)


def _remove(index: dict[Any, dict[str, Call]], key: object, call: Call) -> None:
    del index[key][call.id]
    if not index[key]:
        del index[key]
