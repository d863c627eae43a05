"""The document and what Gradio's clients read before they ask: made once, for every name of the server."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from functools import lru_cache

from gradio.route_utils import get_root_url
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viz.server.component import script_address

PATHS = ("/", "/config", "/gradio_api/info", "/gradio_api/openapi.json")
HOST = "document.invalid"  # for which they are made
MAX_KEPT = 64  # answers, each for one address of the page


class Documents:
    """ASGI middleware that answers with what Gradio would: Gradio takes 45 ms for each document.

    Only the address of the page differs. Into the document go `head` and `opening`: Gradio itself adds such a
    head with a script, after the first picture, so the page would jump. The `opening` is seen until Gradio's
    scripts have drawn the page.
    """

    def __init__(self, app: ASGIApp, head: str, opening: str) -> None:
        self.app = app
        self.added = {b"</head>": head.encode(), b"<gradio-app": opening.encode()}
        self.link = f"<{script_address('viewer.js')}>; rel=preload; as=script"
        self.made: dict[str, tuple[bytes, str]] = {}  # content and its type, by path
        self.making = asyncio.Lock()
        self.packed = lru_cache(MAX_KEPT)(self._packed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        path = scope.get("path") or "/"
        if scope["type"] != "http" or path not in PATHS:
            await self.app(scope, receive, send)
            return
        async with self.making:
            if path not in self.made:
                self.made[path] = await self._make({**scope, "path": path})
        request = Request(scope)
        is_packed = "gzip" in request.headers.get("accept-encoding", "")
        content = self.packed(path, get_root_url(request, request.url.path, None), is_packed)
        headers = {"Vary": "Accept-Encoding"} | ({"Content-Encoding": "gzip"} if is_packed else {})
        headers |= {"Link": self.link} if path == "/" else {}
        await Response(content, 200, headers, self.made[path][1])(scope, receive, send)

    async def _make(self, scope: Scope) -> tuple[bytes, str]:
        parts: list[bytes] = []
        headers: Mapping[bytes, bytes] = {}

        async def collect(message: Message) -> None:
            nonlocal headers
            headers = dict(message.get("headers", headers))
            parts.append(message.get("body", b""))

        async def nothing() -> Message:
            return {"type": "http.request"}

        asked = {"method": "GET", "query_string": b"", "headers": [(b"host", HOST.encode())]}
        await self.app({**scope, **asked, "scheme": "http"}, nothing, collect)
        content = b"".join(parts)
        for mark, added in self.added.items():
            content = content.replace(mark, added + mark, 1)
        return content, headers[b"content-type"].decode()

    def _packed(self, path: str, origin: str, is_packed: bool) -> bytes:
        content = self.made[path][0].replace(f"http://{HOST}".encode(), origin.encode())
        return gzip.compress(content, 6) if is_packed else content
