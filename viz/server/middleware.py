"""Filters HTTP requests: which routes exist, how large a body may be, who may read, and what is logged."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from model.errors import quote_untrusted
from viz.limits import MAX_BODY, MAX_DEPTH, MAX_TICKET_BODY, MAX_VALUES, SMALL_BODY
from viz.server.connections import MAX_HEADER_LINES, Access, client_address
from viz.server.handlers import find_handler
from viz.server.inbox import REQUEST_BYTES, Inbox
from viz.server.logs import REQUESTS
from viz.server.work_queue import RETRY_LATER, STOPPING, Client, asking

# Gradio also exposes uploads, a proxy and remote files, with which a stranger could write to the disk or make
# the server send requests. Only these routes are served; all others return 404. * matches one part of a path,
# ** the rest. Work is logged. Once the server stops, new work (POST) is refused; results can still be read.
PAGE_ROUTES = (
    "GET /",
    "GET /healthz",
    "GET /config",
    "GET /theme.css",
    "GET /favicon.ico",
    "GET /robots.txt",
    "GET /manifest.json",
    "GET /pwa_icon/*",
    "GET /assets/**",
    "GET /scripts/*",
    "GET /static/**",
    "GET /svelte/**",
    "GET /gradio_api/app_id",
    "GET /gradio_api/info",
    "GET /gradio_api/openapi.json",
)
VIEWER_ROUTE = "POST /gradio_api/component_server"  # requests of the viewer
WORK_ROUTES = (
    "GET /gradio_api/queue/data",
    "GET /gradio_api/call/*/*",
    "GET /gradio_api/call/v2/*/*",
    "POST /gradio_api/queue/join",
    "POST /gradio_api/call/*",
    "POST /gradio_api/call/v2/*",
    VIEWER_ROUTE,
)


def _regex(route: str) -> re.Pattern[str]:
    pattern = re.escape(route).replace(r"\*\*", ".+").replace(r"\*", "[^/]+")
    return re.compile(pattern)


ROUTES = {route: _regex(route) for route in (*PAGE_ROUTES, *WORK_ROUTES)}
PIECE = 1 << 16
CLIENT_GONE = 499  # nginx's status for a client that disconnected

SELF = "'self'"
# Gradio's page makes functions from text and has inline scripts and styles; a blob is an exported file.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; worker-src blob:"
)

NOT_FOUND = "There is nothing here; the page is at /."
UNKNOWN_HOST = "This server does not answer for the name {host}; start it with --allow-host and the name."
NO_BODY = "A GET has no body; send the request without one."
NEEDS_LENGTH = "Send the body with its Content-Length; chunks are not read."
TOO_LARGE = f"The request is larger than {MAX_BODY >> 10} KiB, more than any sentence needs; make it smaller."
NEEDS_TICKET = "Name your request by its ticket, a number; the rest of this body is not needed."
# In a body about work, before it is parsed. A typed text cannot match: its quotes are escaped.
ABOUT_WORK = re.compile(rb'"fn_name"\s*:\s*"(?:queue_position|cancel)"')
MAX_NAME, MAX_PATH = 255, 2000  # bytes; no file has a longer name, and none of ours has a longer path

logger = logging.getLogger(REQUESTS)


class RequestFilter:
    """ASGI middleware that passes valid requests on to Gradio and answers all others."""

    def __init__(
        self,
        app: ASGIApp,
        inbox: Inbox,
        access: Access | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.app = app
        self.inbox = inbox
        self.access = access or Access()
        self.is_stopping = is_stopping
        self.large_bodies = asyncio.Lock()  # held while one of them is parsed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Gradio's page asks with a slash at the end. A redirect would leave the path of a proxy.
        scope = {**scope, "path": scope["path"].removesuffix("/") or "/"}
        context = RequestContext(scope, receive, send, self.inbox)
        try:
            self._check(context)
            if context.has_body:
                context.count(REQUEST_BYTES + context.length)
                await context.read_body(self.large_bodies)
            asking.set(context.client)
            work = self.app(scope, context.receive, context.send)
            await (_cancel_on_disconnect(work, receive) if context.route == VIEWER_ROUTE else work)
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # uvicorn cancels what a stop has left, such as half a body
            await context.respond(503, STOPPING, RETRY_LATER)
        except HTTPException as refusal:
            await context.respond(refusal.status_code, refusal.detail, refusal.headers)
        except Exception as error:
            if not isinstance(error.__cause__, HTTPException):  # Gradio raises that for an unknown session
                context.note_failure(error)
            await context.respond(*_response_to(error, context.is_work))
        finally:
            context.count(0)
            context.log()

    def _check(self, context: RequestContext) -> None:
        """Raise HTTPException for a request of which nothing is read."""
        headers = context.headers
        if len(headers) > MAX_HEADER_LINES:
            raise HTTPException(431, f"The header has more than {MAX_HEADER_LINES} lines; send fewer.")
        if (host := self.access.refused_host(context.scope)) is not None:
            raise HTTPException(421, UNKNOWN_HOST.format(host=quote_untrusted(host)))
        if context.route is None:
            raise HTTPException(404, NOT_FOUND)
        if "transfer-encoding" in headers:
            raise HTTPException(411, NEEDS_LENGTH)
        if context.length and not context.has_body:
            raise HTTPException(400, NO_BODY)
        if context.length > MAX_BODY:
            raise HTTPException(413, TOO_LARGE)
        if context.has_body and self.is_stopping():
            raise HTTPException(503, STOPPING, RETRY_LATER)


class RequestContext:
    """One request on its way through, and what is logged of it: never what a person wrote."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, inbox: Inbox) -> None:
        self.route = _route(scope)
        self.is_work = self.route in WORK_ROUTES
        self.has_body = self.route is not None and self.route.startswith("POST ")
        self.headers = Headers(scope=scope)
        self.length = int(self.headers.get("content-length", 0))
        # uvicorn has put in the address that a trusted proxy has forwarded.
        self.client = Client(client_address((scope.get("client") or ("",))[0]), _session_in_query(scope))
        self.scope, self._receive, self._send, self._inbox = scope, receive, send, inbox
        self._started = time.monotonic()
        self._body: bytes | None = None  # read here, and not yet passed on
        self._start: Message | None = None  # of the response, sent with its first bytes
        self._counted = 0  # bytes
        self._status: int | None = None
        self._is_complete = self._is_gone = False
        self._fields: dict[str, object] = {}

    async def receive(self) -> Message:
        """Pass on the body that has been read, then further messages."""
        if self._body is None:
            message = await self._receive()
            self._is_gone |= message["type"] == "http.disconnect" and not self._is_complete
            return message
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        """Send a part of the response, in pieces that each wait until the last one is taken."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        self.count(len(body))
        if self._start is not None:
            self._status = self._start["status"]
            await self._send(self._start)
            self._start = None
        for start in range(0, len(body) or 1, PIECE):
            last = start + PIECE >= len(body)
            piece = {"body": body[start : start + PIECE], "more_body": more or not last}
            await self._send({"type": "http.response.body", **piece})
        self._is_complete = not more

    def count(self, size: int) -> None:
        """Say how many bytes of the request or of its response wait now. Raises HTTPException."""
        self._inbox.count(self.client.address, self._counted, size)
        self._counted = size

    async def respond(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        """Respond with one sentence, in the field that Gradio's clients read; end a started stream."""
        if self._status is None:
            closing = {"Connection": "close", **(headers or {})}  # the rest of the body is not read
            await JSONResponse({"detail": sentence}, status, closing)(self.scope, self.receive, self.send)
        elif self.is_work and not self._is_complete:  # a stream, which already contains Gradio's error event
            await self.send({"type": "http.response.body", "body": b""})

    async def read_body(self, large_bodies: asyncio.Lock) -> None:
        """Read and check the JSON of the body. Raises HTTPException."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "Send JSON, with the header Content-Type: application/json.")
        self._body = await Request(self.scope, self._receive).body()
        if len(self._body) > MAX_TICKET_BODY and ABOUT_WORK.search(self._body):
            raise HTTPException(413, NEEDS_TICKET)
        value = self.scope["json"] = await _parsed(self._body, large_bodies)
        call = value if isinstance(value, dict) else {}
        if isinstance(session := call.get("session_hash"), str):
            self.client = self.client._replace(session=session)
        if self.route == VIEWER_ROUTE and call.get("fn_name") in ("queue_position", "cancel"):
            self.is_work = False  # about work; a waiting page asks for its position every other second
        if handler := find_handler(call.get("data")):
            self._fields["kind"] = handler.name

    def note_failure(self, error: Exception) -> None:
        """Log where the server failed, without the error's message, which may repeat a person's words."""
        self._fields |= {"error": type(error).__name__, "at": traceback.format_tb(error.__traceback__)}

    def log(self) -> None:
        """Write one line about work and about every request that failed."""
        status = self._status if self._is_complete and not self._is_gone else CLIENT_GONE
        if not self.is_work and (self._status is None or self._status < 400):
            return
        method, _, path = (self.route or "other other").partition(" ")
        milliseconds = round(1000 * (time.monotonic() - self._started))
        fields = {"method": method, "path": path, "status": status, "ms": milliseconds} | self._fields
        level = logging.ERROR if "error" in fields else logging.INFO
        logger.log(level, "request", extra={"fields": fields})


def security_headers(frames: Iterable[str]) -> dict[str, str]:
    """Return the headers of every response, for a page that these sites may show in a frame."""
    return {
        "Content-Security-Policy": f"{POLICY}; frame-ancestors {' '.join((SELF, *frames))}",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }


def _session_in_query(scope: Scope) -> str:
    return QueryParams(scope.get("query_string", b"")).get("session_hash", "")


def _route(scope: Scope) -> str | None:
    """The route of a request, None for an unknown one."""
    names = scope["path"].encode(errors="replace").split(b"/")
    if max(map(len, names)) > MAX_NAME or sum(map(len, names)) > MAX_PATH:
        return None  # Gradio would fail when it looks for such a file
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    asked = f"{method} {scope['path']}"
    return next((route for route, pattern in ROUTES.items() if pattern.fullmatch(asked)), None)


def _response_to(error: Exception, is_work: bool) -> tuple[int, str]:
    """Map an exception to 400 (bad request) or 500 (our bug).

    Gradio does not check the fields of a body, and a wrong field can raise almost any exception. Our own
    callbacks catch their errors.
    """
    if is_work and not isinstance(error, OSError | RuntimeError | MemoryError):
        return 400, "The page has no such function or component; check the fields of the request."
    return 500, "Something went wrong inside the server; its log says more."


async def _cancel_on_disconnect(work: Awaitable[None], receive: Receive) -> None:
    """Cancel the request when the client disconnects; Gradio would keep computing."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _parsed(body: bytes, large_bodies: asyncio.Lock) -> Any:
    """The JSON of a body. Large ones are parsed one at a time, and others take their turn in between."""
    if len(body) <= SMALL_BODY:
        return _parse(body)
    async with large_bodies:
        started = time.monotonic()
        try:
            return _parse(body)
        finally:
            await asyncio.sleep(time.monotonic() - started)


def _parse(body: bytes) -> Any:
    """The JSON of a body. Raises HTTPException for NaN and for invalid, deep or bulky JSON."""
    try:
        value = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "The body is not valid JSON; check it.") from error
    level, count = [value], 0
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        count += len(level)
        if count > MAX_VALUES:
            raise HTTPException(400, f"The JSON has more than {MAX_VALUES:,} values; ask for less.")
    if any(isinstance(each, dict | list) for each in level):
        raise HTTPException(400, f"The JSON is nested deeper than {MAX_DEPTH} levels; make it flatter.")
    return value


def _children(value: object) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")
