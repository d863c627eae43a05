"""The page behind nginx, with the configuration of docs/server."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import pytest

import app
from tests.nginx import behind_nginx, program
from tests.visitor import Server, Visitor
from tests.viz.fakes import FakeTranslator
from viz.server.connections import Access

HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = b"POST /gradio_api/component_server HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n1\r\n" * 50_000 + b"0\r\n\r\n"
NEIGHBOUR, THIRD = "127.0.0.2", "127.0.0.3"  # on Linux the whole of 127.0.0.0/8 is this machine

pytestmark = pytest.mark.skipif(
    program() is None or sys.platform != "linux", reason="there is no nginx, which Debian's package installs"
)


@pytest.fixture
def port() -> Iterator[int]:
    """The port of nginx in front of a page."""
    service = app.create({"tiny": FakeTranslator("tiny", "Tiny")}, access=Access(proxies=["127.0.0.1"]))
    address = urlsplit(service.launch())
    process = subprocess.Popen([sys.executable, "-c", ""])
    with process, behind_nginx(Server(process, Visitor(int(address.port or 0)))) as server:
        yield server.visitor.port
    service.stop()


def test_the_page_and_its_answers_arrive_as_without_nginx(port: int):
    visitor = Visitor(port)
    assert "hl-opening" in visitor.ask("/")[1]
    assert visitor.run("translate", "Hund", "tiny")[0]["translation"] == "hUND"


@pytest.mark.parametrize(
    "request_",
    [
        POST + CHUNKS,
        HEAD + CHUNKS,
        HEAD + b"Content-Length: 4\r\n\r\nbody",
        HEAD + b"a:\r\n" * 16_000 + b"\r\n",
        HEAD + b"a: " + b"a" * 60_000 + b"\r\n\r\n",
        POST + b"Content-Length: 200000\r\n\r\n" + b"1" * 200_000,
    ],
    ids=["chunks", "chunks of a GET", "a body of a GET", "lines", "a long line", "a large body"],
)
def test_what_strangers_send_is_refused(port: int, request_: bytes):
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(request_)
        assert connection.recv(100).split()[1].startswith(b"4")
    assert Visitor(port).ask("/healthz")[0] == 200


def test_slow_and_idle_connections_lock_nobody_out(port: int):
    with ExitStack() as opened:
        for number in range(700):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall([b"", b"G", HEAD, POST + b"Content-Length: 9\r\n\r\n{"][number % 4])
        assert Visitor(port, source=NEIGHBOUR).ask("/healthz")[0] == 200


def test_an_address_is_the_clients_and_no_other_that_it_names(port: int):
    """A session belongs to its address; nginx replaces the headers that a client sends."""
    owner = Visitor(port, "class", NEIGHBOUR)
    owner.join("translate", "Hund", "tiny")
    other = http.client.HTTPConnection("127.0.0.1", port, 30, (THIRD, 0))
    with closing(other):
        forged = {"X-Forwarded-For": NEIGHBOUR, "X-Gradio-Server": "https://evil.example"}
        other.request("GET", "/gradio_api/queue/data?session_hash=class", headers=forged)
        assert other.getresponse().status == 404
    with closing(other):
        other.request("GET", "/config", headers=forged)
        assert json.loads(other.getresponse().read())["root"] == f"http://127.0.0.1:{port}"
    with owner.stream() as messages:
        assert "hUND" in str(list(messages))
