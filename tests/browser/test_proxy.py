"""The page served by a reverse proxy under a path of its own, as in docs/deployment.md."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from gradio_client import Client
from playwright.sync_api import Browser, expect

import app
from tests.browser.conftest import TRANSLATORS
from tests.browser.screen import FIRST, translate
from viz.server.connections import Access

pytestmark = pytest.mark.browser

PATH = "/headlight"


class Proxy(BaseHTTPRequestHandler):
    """Hands on what lies under PATH, without PATH, and answers as they come; knows nothing else."""

    port: ClassVar[int]
    passed_by: ClassVar[list[str]]

    def do_GET(self) -> None:
        self._hand_on()

    def do_POST(self) -> None:
        self._hand_on()

    def do_HEAD(self) -> None:
        self._hand_on()

    def _hand_on(self) -> None:
        if not self.path.startswith(f"{PATH}/"):
            self.passed_by.append(self.path)
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        forwarded = {"X-Forwarded-Host": self.headers["Host"], "X-Forwarded-Proto": "http"}
        headers = {**self.headers, **forwarded, "Connection": "close"}
        connection.request(self.command, self.path.removeprefix(PATH), body, headers)
        answer = connection.getresponse()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.end_headers()
        while part := answer.read1(65_536):
            self.wfile.write(part)
        connection.close()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("GRADIO_ROOT_PATH", PATH)
    service = app.create(TRANSLATORS, access=Access(proxies=["127.0.0.1"]))
    Proxy.port, Proxy.passed_by = urlsplit(service.launch()).port, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}{PATH}/"
    server.shutdown()
    server.server_close()
    service.stop()


@pytest.mark.slow
def test_page_and_api_work_under_a_path(browser: Browser, proxied: str):
    failed: list[str] = []
    page = browser.new_page()
    page.on("response", lambda answer: failed.append(answer.url) if answer.status >= 400 else None)
    page.set_default_timeout(20_000)
    page.goto(proxied)
    expect(page.locator(".hl-translation")).to_have_text(TRANSLATORS["de-en"].translate(FIRST).text)
    translate(page, "Es geht weiter.")
    page.close()
    answer = Client(proxied, verbose=False).predict("Und noch einer.", api_name="/translate")
    assert answer["translation"] == TRANSLATORS["de-en"].translate("Und noch einer.").text
    assert not failed
    assert set(Proxy.passed_by) <= {"/favicon.ico"}  # which browsers ask for by themselves
