"""Who may connect: host names, proxies, and limits on connections and requests."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from model.errors import UserError, quote_untrusted
from viz.server.work_queue import RETRY_LATER, RETRY_SECONDS

MAX_CONNECTIONS = 1000
# Sixty people behind one router have one address, and a browser opens up to six connections.
MAX_PER_ADDRESS = 400
AT_ONCE = 128  # connections that the event loop accepts before it counts them
HEADER_SECONDS = 10  # from the connection, or the first byte of a further request, to the end of its header
# After a response. Longer than clients and proxies keep a connection: a request that is sent while the server
# closes it is lost.
KEEP_ALIVE_SECONDS = 75
STALL_SECONDS = 20  # in which a client takes nothing of what is being sent to it
MAX_REQUESTS = 300  # in progress for one address; fewer than the connections of a proxy in front of it
MAX_UNSENT = 64 * 2**20  # bytes of responses that clients have yet to read
TOO_MANY = f"Too many requests from your address are in progress; try again in {RETRY_SECONDS} seconds."

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# A Space is reached through proxies of Hugging Face, whose addresses are private, and is shown by its site.
SPACE_PROXIES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.1")
SPACE_NAMES, SPACE_SITE = ".hf.space", "https://huggingface.co"

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


@dataclass(frozen=True)
class Access:
    """The other sites, names and proxies that the configuration names. A Hugging Face Space has its own."""

    origins: Sequence[str] = ()  # sites that may call the API and show the page in a frame
    hosts: Sequence[str] = ()  # names by which browsers may ask for the page
    proxies: Sequence[str] = ()  # addresses or networks whose X-Forwarded headers are believed
    is_space: bool = field(default_factory=lambda: "SPACE_ID" in os.environ)

    def check(self) -> None:
        """Raise UserError for what is not an origin, a name or an address."""
        for origin in self.origins:
            if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?", origin):
                raise UserError(
                    f"{quote_untrusted(origin)} is not an origin; write it as in https://school.example."
                )
        for host in self.hosts:
            if not re.fullmatch(r"[A-Za-z0-9.-]+", host) and not _is_network(host):
                raise UserError(f"{quote_untrusted(host)} is not a host; write it as in school.example.")
        for proxy in self.proxies:
            if not _is_network(proxy):
                raise UserError(
                    f"{quote_untrusted(proxy)} is not an address or a network; write it as in 10.0.0.0/8."
                )

    @property
    def frames(self) -> list[str]:
        """The sites that may show the page in a frame."""
        return [*([SPACE_SITE] if self.is_space else []), *sorted(self.origins)]

    @property
    def trusted_proxies(self) -> list[str]:
        """The addresses and networks of the proxies."""
        return [*self.proxies, *(SPACE_PROXIES if self.is_space else ())]

    def refused_host(self, scope: Scope) -> str | None:
        """Return the name for which this server does not answer a request, None if it does.

        A page of another site could give its own name the address of this server, and then read the answers.
        """
        server = (scope.get("server") or ("",))[0]  # the address that the connection was made to
        for header in ("host", "x-forwarded-host"):
            for host in Headers(scope=scope).getlist(header):
                name = re.sub(r":\d*$", "", host).strip("[]").lower()
                known = name in (*LOOPBACK, server, *map(str.lower, self.hosts))
                if not known and not (self.is_space and name.endswith(SPACE_NAMES)):
                    return host
        return None


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


class ForwardedHeaders:
    """ASGI middleware that believes X-Forwarded headers of the trusted proxies and drops others' headers."""

    def __init__(self, app: ASGIApp, proxies: Sequence[str]) -> None:
        self.app = app
        self.believing = ProxyHeadersMiddleware(app, list(proxies))  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if (scope.get("client") or ("",))[0] in self.believing.trusted_hosts:
            await self.believing(scope, receive, send)  # type: ignore[arg-type]
            return
        if "headers" in scope:
            kept = [each for each in scope["headers"] if not each[0].startswith(b"x-forwarded-")]
            scope = {**scope, "headers": kept}
        await self.app(scope, receive, send)


class Workload:
    """The number of requests in progress, and whether new ones are refused. Used by the event loop alone."""

    def __init__(self) -> None:
        self.running = 0
        self.stopping = False
        self._addresses: Counter[str] = Counter()  # the requests in progress of each
        self._unsent: dict[asyncio.Timeout, tuple[str, int]] = {}  # addresses, and bytes yet to be read
        self.large_bodies = asyncio.Lock()  # held while one of them is parsed

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count one request while the block runs."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    @contextmanager
    def admitted(self, address: str) -> Iterator[None]:
        """Hold one of the requests that an address may have in progress. Raises HTTPException."""
        if self._addresses[address] >= MAX_REQUESTS:
            raise HTTPException(429, TOO_MANY, RETRY_LATER)
        self._addresses[address] += 1
        try:
            yield
        finally:
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]

    @asynccontextmanager
    async def sending(self, address: str, size: int) -> AsyncIterator[None]:
        """Count the bytes of a response.

        When there are too many, the oldest responses to the address that has most of them are broken off.
        """
        try:
            async with asyncio.timeout(None) as limit:
                self._unsent[limit] = address, size
                while sum(size for _, size in self._unsent.values()) > MAX_UNSENT and len(self._unsent) > 1:
                    self._break_off()
                yield
        except TimeoutError as error:
            raise ClientDisconnect from error
        finally:
            self._unsent.pop(limit, None)

    def _break_off(self) -> None:
        totals: Counter[str] = Counter()
        for address, size in self._unsent.values():
            totals[address] += size
        ((most, _),) = totals.most_common(1)
        oldest = next(limit for limit, (address, _) in self._unsent.items() if address == most)
        del self._unsent[oldest]
        oldest.reschedule(asyncio.get_running_loop().time())


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
