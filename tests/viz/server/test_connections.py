"""Connections that do nothing, too many of them, and requests that come in parts."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

import app
from tests.viz.fakes import FakeTranslator
from viz.server import connections

HALF = b"HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
Connect = Callable[[], socket.socket]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    service = app.create({"tiny": FakeTranslator("tiny", "Tiny", layers=1, heads=1)})
    yield int(urlsplit(service.launch()).port or 0)
    service.stop()


@pytest.fixture
def connect(port: int) -> Iterator[Connect]:
    """A function that opens a connection; all are closed in the end."""
    opened: list[socket.socket] = []

    def one() -> socket.socket:
        opened.append(socket.create_connection(("127.0.0.1", port), timeout=30))
        return opened[-1]

    yield one
    for each in opened:
        each.close()


def ask(connection: socket.socket, request: bytes = HALF + b"\r\n") -> bytes:
    """Send a request; return the first line of the response, nothing if the connection is closed."""
    try:
        connection.sendall(request)
        return connection.recv(1 << 16).partition(b"\r\n")[0]
    except ConnectionError:
        return b""


@pytest.mark.parametrize("sent", [b"", HALF, HALF + b"\r\n" + HALF], ids=["idle", "half", "second half"])
def test_a_connection_without_a_whole_header_is_closed(
    connect: Connect, sent: bytes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    connection = connect()
    connection.sendall(sent)
    received = b""
    try:
        while part := connection.recv(1 << 16):  # raises TimeoutError if it stays open
            received += part
    except ConnectionError:
        pass
    assert received.startswith(b"HTTP/1.1 200" if HALF + b"\r\n" in sent else b"")
    assert ask(connect()) == b"HTTP/1.1 200 OK"


def test_a_connection_waits_longer_for_a_further_request(connect: Connect, monkeypatch: pytest.MonkeyPatch):
    """Otherwise the request of a client that reuses it meets the end of the connection."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    connection = connect()
    for _ in range(2):
        assert ask(connection) == b"HTTP/1.1 200 OK"
        time.sleep(0.6)
    assert is_closed_after(connection, b"G")  # its header has begun


def test_a_header_that_drips_is_not_waited_for(connect: Connect, monkeypatch: pytest.MonkeyPatch):
    """A byte that arrives does not give the rest more time."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    connection = connect()
    connection.settimeout(0.1)
    assert any(is_closed_after(connection, b"G") for _ in range(100))


def is_closed_after(connection: socket.socket, sent: bytes) -> bool:
    """Send a byte; return whether the server closes the connection within its time limit."""
    try:
        connection.sendall(sent)
        return not connection.recv(1)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("limit", ["MAX_PER_ADDRESS", "MAX_CONNECTIONS"])
def test_the_connection_that_is_idle_longest_makes_room(
    connect: Connect, limit: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, limit, 3)
    opened = []
    for _ in range(6):
        opened.append(connect())
        assert ask(opened[-1]) == b"HTTP/1.1 200 OK"
    assert [bool(ask(each)) for each in opened] == [False, False, False, True, True, True]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"),
        ("2001:db8:0:1::", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),  # IPv4, as a server sees it that listens on ::
        ("", ""),
    ],
)
def test_one_home_is_one_address(host: str, address: str):
    assert connections.client_address(host) == address


def test_a_client_that_takes_nothing_is_closed(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(connections, "STALL_SECONDS", 0.2)
    connection = connect()
    connection.setblocking(False)
    pages = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 500  # more than the buffers of the kernel hold
    with suppress(BlockingIOError):
        connection.send(pages)
    deadline = time.monotonic() + 60
    while "does not read" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_start_does_not_wait_for_an_answer_of_its_own(monkeypatch: pytest.MonkeyPatch):
    """Gradio's launch asks its page, and ends with a traceback if the answer takes more than 3 s."""

    def refuse(*_: object) -> None:
        raise TimeoutError

    service = app.create({"tiny": FakeTranslator("tiny", "Tiny", layers=1, heads=1)})
    with monkeypatch.context() as loaded:
        loaded.setattr(socket.socket, "connect", refuse)
        port = int(urlsplit(service.launch()).port or 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            assert ask(connection) == b"HTTP/1.1 200 OK"
    finally:
        service.stop()
