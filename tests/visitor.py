"""A client of a served page, without a browser, and the server in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STATUS = ":status"
TEXT = "Ein kleiner Hund läuft durch den Schnee."


def free_port() -> int:
    """A port that no program listens on, and that the system gives to no client.

    A client that waits for a server there could otherwise get that port itself, and connect to itself.
    """
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


class Visitor:
    """Sends the requests that Gradio's JavaScript sends."""

    def __init__(self, port: int, session: str = "visitor", source: str = "127.0.0.1") -> None:
        self.port = port
        self.session = session
        self.source = source  # the address that it comes from

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        """Status and content of the response; a GET unless there is a body."""
        with self.open(path, body) as answer:
            content = answer.read().decode()
            return answer.status, json.loads(content) if content.startswith(("{", "[")) else content

    @contextmanager
    def open(self, path: str, body: object = None) -> Iterator[http.client.HTTPResponse]:
        """The response as a stream; after the block the connection is dropped."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, 60, (self.source, 0))
        try:
            method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            yield connection.getresponse()
        finally:
            connection.close()

    def headers(self, path: str, headers: Mapping[str, str]) -> Mapping[str, str]:
        """The headers of the response to a GET with these headers, in lower case, and its status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, 60)
        with closing(connection):
            connection.request("GET", path, headers=dict(headers))
            answer = connection.getresponse()
            return {name.lower(): text for name, text in answer.getheaders()} | {STATUS: str(answer.status)}

    def viewer(self) -> int:
        """The number of the viewer in the page, which the viewer's requests name."""
        components = self.ask("/config")[1]["components"]
        return next(int(each["id"]) for each in components if each["props"].get("elem_id") == "hl-viewer")

    def join(self, name: str, *data: object) -> None:
        """Queue the callback or endpoint of this name."""
        functions = self.ask("/config")[1]["dependencies"]
        index = next(each["id"] for each in functions if each["api_name"] == name)
        joining = {"data": data, "fn_index": index, "session_hash": self.session}
        status, content = self.ask("/gradio_api/queue/join", joining)
        assert status == 200, content

    @contextmanager
    def stream(self) -> Iterator[Iterator[dict[str, Any]]]:
        """The messages about the queued work of this visitor, as they come."""
        with self.open(f"/gradio_api/queue/data?session_hash={self.session}") as answer:
            lines = (line.decode() for line in answer)
            yield (json.loads(line[6:]) for line in lines if line.startswith("data: "))

    def run(self, name: str, *data: object) -> list[Any]:
        """What the callback or endpoint of this name returns."""
        self.join(name, *data)
        with self.stream() as messages:
            return completed(messages)

    def translate(self, text: str = TEXT, beam_size: int = 1) -> dict[str, Any]:
        summary: dict[str, Any] = self.run("translate", text, "de-en", beam_size, 1.0, [])[0]
        return summary


def completed(messages: Iterator[dict[str, Any]]) -> list[Any]:
    done = next(each for each in messages if each["msg"] == "process_completed")
    assert done["success"], done
    data: list[Any] = done["output"]["data"]
    return data


@dataclass
class Server:
    """A running app.py, and the lines that it has written to the standard error so far."""

    process: subprocess.Popen[str]
    visitor: Visitor
    lines: list[str] = field(default_factory=list)
    readers: list[Thread] = field(default_factory=list)

    @property
    def errors(self) -> str:
        """What it has written to the standard error; complete once the server has ended."""
        return "".join(self.lines)

    def end(self) -> int:
        """Stop the server as a service manager does, and return its exit code."""
        self.process.terminate()
        self.process.wait(60)
        for reader in self.readers:
            reader.join()
        return self.process.returncode

    def log(self, since: int = 0) -> list[dict[str, Any]]:
        """The lines of the log from one on, each of which must be JSON."""
        return [json.loads(line) for line in self.lines[since:]]

    def wait_for_log(
        self, since: int, condition: Callable[[list[dict[str, Any]]], bool]
    ) -> list[dict[str, Any]]:
        """The lines from one on, once they meet the condition: a line is written after its response."""
        deadline = time.monotonic() + 60
        while not condition(self.log(since)):
            assert time.monotonic() < deadline, self.log(since)
            time.sleep(0.05)
        return self.log(since)


@contextmanager
def serving(
    *before: str, after: Sequence[str] = (), root: Path = ROOT, **environment: str
) -> Iterator[Server]:
    """app.py of the folder `root` once it responds, run by `python BEFORE app.py AFTER`."""
    port = free_port()
    command = [sys.executable, *before, "app.py", "--port", str(port), *after]
    settings, pipe = os.environ | environment, subprocess.PIPE  # not files: one test has a full disk
    with subprocess.Popen(command, cwd=root, env=settings, stdout=pipe, stderr=pipe, text=True) as process:
        server = Server(process, Visitor(port))
        # Both pipes are read as they fill, because a full pipe blocks the process that writes.
        for stream, lines in ((process.stdout, []), (process.stderr, server.lines)):
            server.readers.append(Thread(target=lines.extend, args=(stream,), daemon=True))
            server.readers[-1].start()
        try:
            _wait(server)
            yield server
        finally:
            process.kill()
            for reader in server.readers:
                reader.join()


def _wait(server: Server) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            server.visitor.ask("/healthz")
            return
        except OSError:
            assert server.process.poll() is None, (server.end(), server.errors)
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.1)
