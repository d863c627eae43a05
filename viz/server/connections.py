"""Who may connect: host names and proxies, and how a connection is read."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import h11
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from model.errors import UserError, quote_untrusted

MAX_CONNECTIONS = 1000  # a hundred browsers open up to six each
MAX_HEADER = 16 << 10  # bytes
MAX_HEADER_LINES = 100
READ_BYTES = 1 << 10  # of a header at a time

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# A Space is reached through proxies of Hugging Face, whose addresses are private, and is shown by its site.
SPACE_PROXIES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.1")
SPACE_NAMES, SPACE_SITE = ".hf.space", "https://huggingface.co"


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

    def is_open(self, host: str) -> bool:
        """Whether other machines reach a page that listens on `host` without a named proxy."""
        return host.strip("[]") not in LOOPBACK and not self.trusted_proxies

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

        Otherwise another site could point its own host name at this server and read the answers: DNS
        rebinding.
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
    """ASGI middleware that believes X-Forwarded headers of the trusted proxies and drops others' headers.

    X-Gradio-Server, by which Gradio's own proxy names the page's address, is dropped from everybody.
    """

    def __init__(self, app: ASGIApp, proxies: Sequence[str]) -> None:
        self.app = app
        self.believing = ProxyHeadersMiddleware(app, list(proxies))  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        is_proxy = (scope.get("client") or ("",))[0] in self.believing.trusted_hosts
        dropped = b"x-gradio-server" if is_proxy else (b"x-gradio-server", b"x-forwarded-")
        if "headers" in scope:
            kept = [each for each in scope["headers"] if not each[0].startswith(dropped)]
            scope = {**scope, "headers": kept}
        await (self.believing if is_proxy else self.app)(scope, receive, send)  # type: ignore[arg-type]


class Connection(H11Protocol):
    """uvicorn's connection, but it gives h11 few bytes at a time.

    h11 parses all that it gets before another connection has its turn. Three things follow from few bytes.
    No header exceeds its bound. A header of many short lines is refused early. A body in chunks, which the
    filter refuses anyway, is hardly parsed. Other bodies are read in pieces of MAX_HEADER bytes, because the
    next header may begin in the same piece.
    """

    def data_received(self, data: bytes) -> None:
        """Read a part, and stop at what will be refused."""
        start = 0
        while start < len(data) and not self.transport.is_closing():
            in_body = self.conn.their_state is h11.SEND_BODY
            if in_body and self._is_chunked:
                return
            end = start + (MAX_HEADER if in_body else READ_BYTES)
            super().data_received(data[start:end])
            unfinished, _ = self.conn.trailing_data
            if self.conn.their_state is h11.IDLE and unfinished.count(b"\n") > MAX_HEADER_LINES:
                self.send_400_response("The header has too many lines.")
            start = end

    @property
    def _is_chunked(self) -> bool:
        return any(name == b"transfer-encoding" for name, _ in self.headers)
