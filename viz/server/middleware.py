"""What may reach the page from the network, within which bounds, and what the log says of it."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import re
import time
import traceback
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viz.server.handlers import ANSWERS

# Gradio serves more than this page needs: uploads, a proxy, files from addresses, an editor. By each of
# them a stranger could write to the disk or make the server ask elsewhere, so what is not named is not there.
# * stands for one part of a path, ** for the rest. Work is logged, and refused once the server stops.
PAGE = (
    "GET /",
    "GET /healthz",
    "GET /config",
    "GET /theme.css",
    "GET /favicon.ico",
    "GET /robots.txt",
    "GET /manifest.json",
    "GET /pwa_icon/*",
    "GET /assets/**",
    "GET /static/**",
    "GET /svelte/**",
    "GET /gradio_api/app_id",
    "GET /gradio_api/info",
    "GET /gradio_api/openapi.json",
    "GET /gradio_api/startup-events",
    "GET /gradio_api/heartbeat/*",
    "GET /gradio_api/queue/status",
    "GET /gradio_api/file=**",
    "POST /gradio_api/cancel",
    "POST /gradio_api/reset",
)
ASK = "POST /gradio_api/component_server"  # what the viewer asks
WORK = (
    "GET /gradio_api/queue/data",
    "GET /gradio_api/call/*/*",
    "GET /gradio_api/call/v2/*/*",
    "POST /gradio_api/queue/join",
    "POST /gradio_api/call/*",
    "POST /gradio_api/call/v2/*",
    ASK,
)


def _regex(pattern: str) -> re.Pattern[str]:
    anything = re.escape(pattern).replace(r"\*\*", ".+").replace(r"\*", "[^/]+")
    return re.compile(anything.replace("file=", "file=(?!(?i:https?):)") + "/?")


PATTERNS = {pattern: _regex(pattern) for pattern in (*PAGE, *WORK)}
MAX_BODY = 1 << 17  # a sentence with every head and token named stays below a half
MAX_DEPTH = 32
BODY_SECONDS = 20
CLIENT_GONE = 499  # as nginx says it

NOTHING = "There is nothing here; the page is at /."
TOO_LARGE = f"The request is larger than {MAX_BODY >> 10} KiB, which no sentence needs; make it smaller."

logger = logging.getLogger("headlight.requests")


class RefusalError(Exception):
    """A request that is not handed on, with the status and the sentence of its answer."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Workload:
    """How many requests are being worked on, and whether more are taken. Only the event loop changes them."""

    def __init__(self) -> None:
        self.running = 0
        self.stopping = False

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count one request while the block lasts."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


class Guard:
    """ASGI middleware in front of the page."""

    def __init__(self, app: ASGIApp, workload: Workload) -> None:
        self.app = app
        self.workload = workload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on if it is one of the page's; answer the others."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit = Visit(scope, receive, send)
        try:
            await self._admit(visit)
            with self.workload.counted() if visit.is_work else nullcontext():
                work = self.app(scope, visit.receive, visit.send)
                await (_until_gone(work, receive) if visit.pattern == ASK else work)
        except ClientDisconnect:
            pass
        except RefusalError as refusal:
            await visit.answer(refusal.status, str(refusal))
        except Exception as error:
            if not isinstance(error.__cause__, HTTPException):  # else Gradio knows no such session
                visit.failed(error)
            await visit.answer(*_blamed(visit, error))
        finally:
            visit.log()

    async def _admit(self, visit: Visit) -> None:
        """Raise RefusalError unless this is a request of the page's; read the body of one that has one."""
        if visit.pattern is None:
            raise RefusalError(404, NOTHING)
        if not visit.pattern.startswith("POST "):
            return
        if self.workload.stopping and visit.is_work:
            raise RefusalError(503, "The server is stopping; try again in a moment.")
        await visit.read()


class Visit:
    """One request on its way through, and what the log may say of it: nothing that a person wrote."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.pattern = _pattern(scope)
        self.is_work = self.pattern in WORK
        self._scope, self._receive, self._send = scope, receive, send
        self._started = time.monotonic()
        self._body: bytes | None = None  # read, and not yet handed on
        self._status: int | None = None
        self._answered = self._gone = False
        self._more: dict[str, Any] = {}

    async def receive(self) -> Message:
        """Hand the body on that has been read, then whatever comes."""
        if self._body is None:
            message = await self._receive()
            self._gone |= message["type"] == "http.disconnect" and not self._answered
            return message
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)
        self._answered = message["type"] == "http.response.body" and not message.get("more_body")

    async def answer(self, status: int, sentence: str) -> None:
        """Answer with one sentence, where Gradio's clients look for it, unless an answer has begun."""
        if self._status is None:
            closing = {"Connection": "close"}  # there may be a body that nobody reads
            await JSONResponse({"detail": sentence}, status, closing)(self._scope, self.receive, self.send)
        elif self.is_work and not self._answered:  # a stream, in which Gradio has told the error
            await self.send({"type": "http.response.body", "body": b""})

    async def read(self) -> None:
        """Read the JSON of the body. Raises RefusalError."""
        headers = Headers(scope=self._scope)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RefusalError(415, "Send JSON, with the header Content-Type: application/json.")
        if int(headers.get("content-length", 0)) > MAX_BODY:
            raise RefusalError(413, TOO_LARGE)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                self._body = await _body(self._receive)
        except TimeoutError as error:
            raise RefusalError(408, "The request took too long to arrive; send it again.") from error
        value = _json(self._body)
        if self.pattern == ASK and isinstance(value, dict) and value.get("fn_name") == "place":
            self.is_work = False  # a look at the queue, every other second
        kind = _kind(value)
        self._more |= {"kind": kind} if kind else {}

    def failed(self, error: Exception) -> None:
        """Note where the server failed; an error's own words may repeat what somebody sent."""
        self._more |= {"error": type(error).__name__, "at": traceback.format_tb(error.__traceback__)}

    def log(self) -> None:
        """Write one line about work, and about whatever went wrong."""
        status = self._status if self._answered and not self._gone else CLIENT_GONE
        if not self.is_work and (self._status is None or self._status < 400):
            return
        method, _, path = (self.pattern or "other other").partition(" ")
        milliseconds = round(1000 * (time.monotonic() - self._started))
        told = {"method": method, "path": path, "status": status, "ms": milliseconds}
        level = logging.ERROR if "error" in self._more else logging.INFO
        logger.log(level, "request", extra={"fields": told | self._more})


def _pattern(scope: Scope) -> str | None:
    """The pattern of the page's that a request fits."""
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    asked = f"{method} {scope['path']}"
    return next((pattern for pattern, fits in PATTERNS.items() if fits.fullmatch(asked)), None)


def _blamed(visit: Visit, error: Exception) -> tuple[int, str]:
    """Whose mistake it was: Gradio looks up what a body names unchecked; our own work tells its errors."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return 404, NOTHING  # no file has such a name
    if visit.is_work and not isinstance(error, OSError | RuntimeError | MemoryError):
        return 400, "The page has nothing like that to ask; check what the request holds."
    return 500, "Something went wrong inside the server; its log says more."


async def _until_gone(work: Awaitable[None], receive: Receive) -> None:
    """Await work that is called off when the browser goes: Gradio would do it for nobody."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(receive: Receive) -> bytes:
    """The whole body, whatever length it announces. Raises RefusalError."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise RefusalError(413, TOO_LARGE)
        if not message.get("more_body"):
            return bytes(body)


def _json(body: bytes) -> Any:
    """What the body says. Raises RefusalError for what others' readers would stumble over."""
    try:
        value = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise RefusalError(400, "The body is not proper JSON; check it.") from error
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
    if level:
        raise RefusalError(400, f"The JSON is nested deeper than {MAX_DEPTH} levels; make it flatter.")
    return value


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _kind(request: Any) -> str | None:
    """Which question of the viewer this is, if it is one; a kind is one of our own words."""
    question = request.get("data") if isinstance(request, dict) else None
    kind = question.get("do") if isinstance(question, dict) else None
    return kind if isinstance(kind, str) and kind in ANSWERS else None
