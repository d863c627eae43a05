"""The page without a server for the tests: written with the shipped models, served by a plain file server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR, socket
from threading import Thread
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, Dialog, Page, expect

from app import ASSETS, MODELS
from model import Translator
from viz.static.site import write_site


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder as any file server does."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class CachedHandler(QuietHandler):
    """Lets browsers keep every file but the document for ten minutes, as many hosts do."""

    def end_headers(self) -> None:
        """Write the header for the browser's cache."""
        self.send_header("Cache-Control", "no-cache" if self.path[:2] in ("/", "/?") else "max-age=600")
        super().end_headers()


class Server(ThreadingHTTPServer):
    """Also closes the connections that browsers keep open, on which it would go on answering."""

    daemon_threads = True

    def __init__(self, handler: Callable[..., QuietHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.connections: list[socket] = []

    def get_request(self) -> tuple[socket, Any]:
        """Take a connection and remember it."""
        connection, client = super().get_request()
        self.connections.append(connection)
        return connection, client

    def server_close(self) -> None:
        """Close the server and its connections."""
        super().server_close()
        for connection in self.connections:
            with suppress(OSError):  # the browser has closed it
                connection.shutdown(SHUT_RDWR)


@contextmanager
def served(folder: Path, handler: type[QuietHandler] = QuietHandler) -> Iterator[str]:
    """Serve a folder and yield its address; afterwards nothing answers there."""
    server = Server(partial(handler, directory=folder))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def translators(*names: str) -> dict[str, Translator]:
    return {name: Translator.load(MODELS / name) for name in names}


def write(folder: Path, models: dict[str, Translator], single: bool = False) -> Path:
    write_site(list(models.values()), folder, ASSETS, single=single)
    return folder


def submit(page: Page, text: str) -> None:
    page.get_by_label("Sentence", exact=True).fill(text)
    page.get_by_role("button", name="Translate").click()


def expect_translation(page: Page, text: str, inside: str | None = None) -> None:
    """Wait until the page shows this translation; `inside` is the label of one of its two strips."""
    place = page.get_by_label(inside, exact=True) if inside else page
    expect(place.locator(".hl-translation")).to_have_text(text or "(nothing)", timeout=30_000)


# Codes of weights, in base64.
ASK = """async (requests) => {
  const textOf = (bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
  const plain = (value) => {
    if (value instanceof ArrayBuffer) return { base64: btoa(textOf(new Uint8Array(value))) };
    if (Array.isArray(value)) return value.map(plain);
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each)]));
  };
  const replies = [];
  for (const request of requests) {
    try {
      replies.push({ answer: plain(await Headlight.viewer.ask(request)) });
    } catch (error) {
      replies.push({ error: error.message });
    }
  }
  return JSON.stringify(replies);
}"""


def await_viewer(page: Page) -> None:
    """Wait for the viewer, which the page fetches."""
    page.wait_for_function("() => typeof Headlight !== 'undefined' && Headlight.viewer")


KEPT = """async () => {
  for (let tries = 0; tries < 300; tries += 1) {
    const kept = await (await caches.match(new URL('./', location)))?.text();
    if (kept?.includes(document.getElementById('site').textContent)) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error('The browser did not keep this page.');
}"""


def await_kept(page: Page) -> None:
    """Wait until the service worker has kept this page for later visits."""
    page.evaluate(KEPT)


def ask_page(page: Page, requests: list[dict[str, Any]]) -> list[Any]:
    """The replies of the engine in the page's Worker, some at a time: Playwright has no room for hundreds."""
    await_viewer(page)
    parts = [requests[start : start + 20] for start in range(0, len(requests), 20)]
    return [reply for part in parts for reply in json.loads(page.evaluate(ASK, part))]


def is_outside(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:"))


class Visitor:
    """Opens pages, each in a browser profile of its own, and collects what should not happen in them."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.contexts: list[BrowserContext] = []
        self.trouble: list[str] = []

    def page(
        self, width: int = 1440, scheme: Literal["light", "dark"] = "light", locale: str = "en-US"
    ) -> Page:
        """A page that has not gone anywhere yet."""
        size = {"width": width, "height": 900}
        context = self.browser.new_context(viewport=size, color_scheme=scheme, locale=locale)  # type: ignore[arg-type]
        context.set_default_timeout(30_000)
        self.contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self._note(str(error), True))
        page.on("dialog", self._dismiss)
        page.on("request", lambda request: self._note(request.url, is_outside(request.url)))
        page.on("console", lambda message: self._note(message.text, "Content Security" in message.text))
        return page

    def visit(self, url: str) -> Page:
        page = self.page()
        page.goto(url)
        return page

    def _note(self, message: str, is_trouble: bool) -> None:
        if is_trouble:
            self.trouble.append(message)

    def _dismiss(self, dialog: Dialog) -> None:
        self._note(dialog.message, True)
        dialog.dismiss()

    def close(self) -> None:
        for context in self.contexts:
            context.close()
