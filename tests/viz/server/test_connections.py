"""What a connection may send, and whom it comes from."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

import app
from tests.visitor import free_port
from tests.viz.fakes import FakeTranslator
from viz.server import connections
from viz.server.lifecycle import listen

BODY = 64 << 10  # bytes, fewer than the server refuses
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


POST = b"POST /gradio_api/component_server HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n1\r\n" * 100_000 + b"0\r\n\r\n", b"411"),
        (HALF + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n1\r\n" * 100_000 + b"0\r\n\r\n", b"411"),
        (HALF + b"Content-Length: 4\r\n\r\nbody", b"400"),
        (HALF + b"a:\r\n" * 100 + b"\r\n", b"431"),
        (HALF + b"a:\r\n" * 60_000 + b"\r\n", b"400"),
        (HALF + b"a: " + b"a" * 60_000 + b"\r\n\r\n", b"400"),
        (POST + b"Content-Length: 130000\r\n\r\n" + b"\n" * 130_000, b"400"),  # a body may have many lines
    ],
    ids=["chunks", "chunks of a GET", "a body of a GET", "101 lines", "lines", "a long line", "no JSON"],
)
def test_what_costs_the_loop_time_is_refused_before_it_is_read(
    connect: Connect, request_: bytes, status: bytes
):
    """h11 takes 10 microseconds for a chunk or a line, and nobody else is answered meanwhile."""
    began = time.process_time()
    assert ask(connect(), request_).split()[1] == status
    assert time.process_time() - began < 0.5
    assert ask(connect()) == b"HTTP/1.1 200 OK"


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


def test_a_crowd_connects_before_the_server_takes_the_first():
    """The system drops a connection beyond its queue, and the client's own asks again only after a second."""
    with ExitStack() as opened:
        door = opened.enter_context(listen("127.0.0.1", free_port()))
        for _ in range(connections.MAX_CONNECTIONS // 2):
            opened.enter_context(socket.create_connection(door.getsockname(), timeout=0.5))


def test_a_body_is_read_in_few_pieces_and_a_header_in_small_ones(monkeypatch: pytest.MonkeyPatch):
    sizes: list[int] = []
    read = connections.H11Protocol.data_received
    monkeypatch.setattr(
        connections.H11Protocol,
        "data_received",
        lambda self, data: (sizes.append(len(data)), read(self, data))[1],
    )
    service = app.create({"tiny": FakeTranslator("tiny", "Tiny", layers=1, heads=1)})
    port = int(urlsplit(service.launch()).port or 0)
    header = (
        b"POST /gradio_api/component_server HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % BODY
    )
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(header + b"1" * BODY)
        connection.recv(1 << 10)
    service.stop()
    assert sizes[0] <= connections.READ_BYTES
    assert sum(sizes) == len(header) + BODY
    assert len(sizes) <= 2 + 4 * BODY // connections.MAX_HEADER
