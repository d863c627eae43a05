"""What strangers send, and how long a neighbour waits meanwhile: a part of `make attack`."""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from multiprocessing.connection import Connection

import psutil

from tests.benchmarks.hostile import Figures
from tests.visitor import Server, Visitor

PROCESSES = multiprocessing.get_context("spawn")
NEIGHBOUR = "127.0.0.2"  # on Linux the whole of 127.0.0.0/8 is this machine
LONGEST, MOST = "a neighbour waits, longest s", "memory above the start, MB"
LIMITS = {LONGEST: 1.0, MOST: 300.0}
LONG = " ".join(["Der kleine Hund läuft mit einem großen Ball durch den tiefen Schnee,"] * 8)  # 104 tokens
JSON = "Content-Type: application/json\r\n"
CHUNKS = b"1\r\n1\r\n" * 131_072 + b"0\r\n\r\n"


def request(line: str, headers: str = "", body: bytes = b"") -> bytes:
    """The bytes of a request."""
    return f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode() + body


CALL, ASK = "POST /gradio_api/call/translate", "POST /gradio_api/component_server"
# Requests and how many connections send each without pause.
FLOODS: dict[str, tuple[bytes, int]] = {
    "F2 chunks of one byte": (request(CALL, JSON + "Transfer-Encoding: chunked\r\n", CHUNKS), 20),
    "F2 chunks of a GET": (request("GET /healthz", "Transfer-Encoding: chunked\r\n", CHUNKS), 20),
    "F2 a GET with a body": (request("GET /", "Content-Length: 400000\r\n", b"1" * 400_000), 20),
    "F6 16,000 header lines": (request("GET /healthz", "a:\r\n" * 16_000), 20),
    "F6 headers of 4 lines more than nginx takes": (request("GET /healthz", f"a: {'a' * 9000}\r\n" * 4), 20),
    "F7 the document": (request("GET /", "Accept-Encoding: gzip\r\n"), 250),
    "F7 the settings of the page": (request("GET /config"), 50),
    "many small requests": (request("GET /nothing"), 50),
}


@contextmanager
def watched(server: Server) -> Iterator[Figures]:
    """Measure the waits of a neighbour and the memory of the server while the block runs.

    The neighbour has a process of its own, because the attack keeps this one busy.
    """
    found: Figures = {}
    mine, its = PROCESSES.Pipe()
    process = PROCESSES.Process(target=measure, args=(server.visitor.port, server.process.pid, its))
    process.start()
    mine.recv()  # it has begun
    try:
        yield found
    finally:
        mine.send("end")
        found |= mine.recv()
        process.join()


def measure(port: int, pid: int, attacker: Connection) -> None:
    """Ask as a neighbour until the attack has ended; then send the longest wait and the memory."""
    found: Figures = {LONGEST: 0.0, MOST: 0.0}
    server, neighbour = psutil.Process(pid), Visitor(port, "person", NEIGHBOUR)
    number = count()
    neighbour.ask("/gradio_api/component_server", _question(next(number)))
    before = server.memory_info().rss / 1e6
    attacker.send("begun")
    while not attacker.poll(0.02):
        for path, body in (("/healthz", None), ("/gradio_api/component_server", _question(next(number)))):
            started = time.monotonic()
            try:
                status = neighbour.ask(path, body)[0]
            except OSError:
                status = 0
            waited = time.monotonic() - started if status == 200 else 99.0  # a refusal is no answer
            found[LONGEST] = max(found[LONGEST], waited)
        found[MOST] = max(found[MOST], server.memory_info().rss / 1e6 - before)
    attacker.send(found)


def _question(number: int) -> dict[str, object]:
    asked = {"do": "translate", "model": "de-en", "text": f"Der Hund {number} schläft.", "beam_size": 1}
    data = asked | {"length_penalty": 1, "forced": []}
    return {"fn_name": "ask", "session_hash": "person", "data": data}


async def flood(server: Server, name: str, seconds: float = 5) -> Figures:
    """Send a request again and again on many connections."""
    content, connections = FLOODS[name]
    end = time.monotonic() + seconds
    answers = 0

    async def send() -> None:
        nonlocal answers
        while time.monotonic() < end:
            with suppress(OSError, TimeoutError):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.visitor.port)
                while time.monotonic() < end and not writer.is_closing():
                    writer.write(content)
                    async with asyncio.timeout(20):
                        await writer.drain()
                        answer = await reader.read(1 << 18)
                    answers += 1
                    if not answer or b"close" in answer[:2000]:
                        writer.close()

    with watched(server) as found:
        await asyncio.gather(*(send() for _ in range(connections)))
    return found | {"answers": answers}


async def calls_of_read_sessions(server: Server, sessions: int = 40, calls: int = 800) -> Figures:
    """F1: add calls with large bodies to sessions whose streams are being read."""
    visitor = server.visitor
    functions = visitor.ask("/config")[1]["dependencies"]
    index = next(each["id"] for each in functions if each["api_name"] == "translate")
    accepted = 0

    def join(session: int, data: object) -> bool:
        body = {"fn_index": index, "session_hash": f"S{session}", "data": data}
        return visitor.ask("/gradio_api/queue/join", body)[0] == 200

    def attack() -> None:
        nonlocal accepted
        with ExitStack() as opened:
            for session in range(sessions):
                join(session, [f"{session} {LONG}", "de-en", 8])
                stream = opened.enter_context(socket.create_connection(("127.0.0.1", visitor.port)))
                stream.sendall(request(f"GET /gradio_api/queue/data?session_hash=S{session}"))
            large = ["x", "de-en", 1, 1, [{}] * 3900]  # as many values as a body may have
            texts = ["x" * 120_000, "de-en"]
            for number in range(calls):
                with suppress(OSError, http.client.HTTPException):
                    accepted += join(number % sessions, large if number % 2 else texts)

    with watched(server) as found:
        await asyncio.to_thread(attack)
    return found | {"calls accepted": accepted}


async def unread_answers(server: Server, connections: int = 300) -> Figures:
    """Ask for large answers on many connections, and read none."""
    data = {"do": "translate", "model": "de-en", "beam_size": 1, "length_penalty": 1, "forced": []}

    def attack() -> None:
        with ExitStack() as opened:
            for number in range(connections):
                asked = {
                    "fn_name": "ask",
                    "session_hash": "one",
                    "data": data | {"text": f"{number % 9} {LONG}"},
                }
                body = json.dumps(asked).encode()
                content = request(
                    "POST /gradio_api/component_server", f"{JSON}Content-Length: {len(body)}\r\n", body
                )
                with suppress(OSError):
                    connection = socket.create_connection(("127.0.0.1", server.visitor.port))
                    opened.enter_context(connection).sendall(content)
            time.sleep(8)

    with watched(server) as found:
        await asyncio.to_thread(attack)
    return found


async def half_bodies(server: Server, connections: int = 500) -> Figures:
    """Send all of a body but its last byte, on many connections."""
    content = request(CALL, f"{JSON}Content-Length: 131072\r\n", b"1" * 131_071)

    def attack() -> None:
        with ExitStack() as opened:
            for _ in range(connections):
                with suppress(OSError):
                    connection = socket.create_connection(("127.0.0.1", server.visitor.port), 5)
                    opened.enter_context(connection).sendall(content)
            time.sleep(3)

    with watched(server) as found:
        await asyncio.to_thread(attack)
    return found


ATTACKS: dict[str, Callable[[Server], Awaitable[Figures]]] = {
    "F1 calls added to sessions that are read": calls_of_read_sessions,
    **{name: lambda server, name=name: flood(server, name) for name in FLOODS},  # type: ignore[misc]
    "answers that nobody reads": unread_answers,
    "bodies that never end": half_bodies,
}
