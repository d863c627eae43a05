"""The document and what Gradio's clients read before they ask: made once, for every name of the server."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping

from gradio.route_utils import get_root_url
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viz.server.component import script_address

PATHS = ("/", "/config", "/gradio_api/info", "/gradio_api/openapi.json")
HOST = "document.invalid"  # for which they are made
MAX_PACKED = 64  # answers, each for one address of the page


class Documents:
    """ASGI middleware that answers with what Gradio would: Gradio takes 45 ms for each document.

    Answers differ only in the address of the page. `head` and `opening` are written into the document here:
    Gradio would add the head with a script after the first picture, and the page would jump. The `opening` is
    seen until Gradio's scripts have drawn the page.
    """

    def __init__(self, app: ASGIApp, head: str, opening: str) -> None:
        self.app = app
        self.added = {b"</head>": head.encode(), b"<gradio-app": opening.encode()}
        self.link = f"<{script_address('viewer.js')}>; rel=preload; as=script"
        self.made: dict[str, tuple[bytes, str]] = {}  # content and its type, by path
        self.making = asyncio.Lock()
        self.packed: dict[tuple[str, str], bytes] = {}  # by path and address of the page

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
        content, kind = self.made[path]
        origin = get_root_url(request, request.url.path, None)
        headers = {"Vary": "Accept-Encoding"} | ({"Link": self.link} if path == "/" else {})
        if "gzip" in request.headers.get("accept-encoding", "") and self._is_packed(path, origin):
            headers, content = headers | {"Content-Encoding": "gzip"}, self.packed[path, origin]
        else:
            content = _at(origin, content)
        await Response(content, 200, headers, kind)(scope, receive, send)

    def _is_packed(self, path: str, origin: str) -> bool:
        """Whether the compressed answer exists.

        Compressing takes 5 ms. So it is done for MAX_PACKED addresses at most: clients can name any port.
        """
        if (path, origin) not in self.packed and len(self.packed) < MAX_PACKED:
            self.packed[path, origin] = gzip.compress(_at(origin, self.made[path][0]))
        return (path, origin) in self.packed

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


def _at(origin: str, content: bytes) -> bytes:
    return content.replace(f"http://{HOST}".encode(), origin.encode())
