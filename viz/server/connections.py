"""Limits on connections: how many there are, and how long each may do nothing."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 1000
# Sixty people behind one router have one address, and a browser opens up to six connections.
MAX_PER_ADDRESS = 400
AT_ONCE = 128  # connections that the event loop accepts before it counts them
HEADER_SECONDS = 10  # from the connection, or the first byte of a further request, to the end of its header
# After a response. Longer than clients and proxies keep a connection: a request that is sent while the server
# closes it is lost.
KEEP_ALIVE_SECONDS = 75
STALL_SECONDS = 20  # in which a client takes nothing of what is being sent to it

logger = logging.getLogger("headlight.connections")


def client_address(host: str) -> str:
    """Return the address that a client is counted by: of an IPv6 address, the /64 that one home has."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # a socket of the file system has none
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), 64), strict=False))


def raise_file_limit() -> None:
    """Let the process open as many files as it may, up to what its connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 3 * MAX_CONNECTIONS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def max_connections() -> int:
    """Return how many connections the limit on open files allows, with room for those being closed."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MAX_CONNECTIONS, files // 3)


class LimitedConnection(H11Protocol):
    """uvicorn's connection, which is closed when it is one too many or when its client does nothing.

    When there are too many, the connection that has waited longest for a request is closed, so that sockets
    which send nothing lock nobody out.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.idle_since = 0.0
        self._waiting: asyncio.TimerHandle | None = None  # for a request
        self._stalled: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """The address of the client, or of the proxy in front of it."""
        return client_address(self.client[0]) if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for the connection, or refuse it."""
        super().connection_made(transport)
        self.idle_since = time.monotonic()
        self._watch()
        connections: list[Any] = [each for each in self.connections if not each.transport.is_closing()]
        here = [each for each in connections if each.address == self.address]
        if len(here) > MAX_PER_ADDRESS:
            _close_idle(here, self, "too many connections from one address")
        elif len(connections) > max_connections():
            _close_idle(connections, self, "too many connections")

    def data_received(self, data: bytes) -> None:
        """Wait for the end of the header only until the time is over."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request, as long as uvicorn keeps the connection."""
        super().on_response_complete()
        self.idle_since = time.monotonic()
        if self.conn.trailing_data[0]:  # the header of the next one has begun
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        super().connection_lost(exc)
        for timer in (self._waiting, self._stalled):
            if timer:
                timer.cancel()

    def pause_writing(self) -> None:
        """Wait only so long for a client that does not read."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALL_SECONDS, self.drop, "a client that does not read")

    def resume_writing(self) -> None:
        """Go on sending."""
        super().resume_writing()
        if self._stalled:
            self._stalled.cancel()

    def drop(self, why: str) -> None:
        """Close the connection at once, without sending what is left."""
        logger.warning("A connection was closed: %s.", why)
        self.transport.abort()

    def _watch(self) -> None:
        if not self.is_idle and self._waiting:
            self._waiting.cancel()
            self._waiting = None
        elif self.is_idle and self._waiting is None:
            self._waiting = self.loop.call_later(HEADER_SECONDS, self.drop, "no request within the time")


def _close_idle(connections: list[Any], newest: LimitedConnection, why: str) -> None:
    """Close the connection that has been idle longest; if none is, the newest."""
    idle = [each for each in connections if each.is_idle and each is not newest]
    min(idle, key=lambda each: each.idle_since, default=newest).drop(why)
