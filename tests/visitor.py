"""A visitor of a served page, without a browser, and the server in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TEXT = "Ein kleiner Hund läuft durch den Schnee."


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Visitor:
    """Asks as Gradio's JavaScript does."""

    def __init__(self, port: int, session: str = "visitor") -> None:
        self.port = port
        self.session = session

    def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        """Status and content of the answer; a GET unless there is a body."""
        with self.open(path, body) as answer:
            content = answer.read().decode()
            return answer.status, json.loads(content) if content.startswith(("{", "[")) else content

    @contextmanager
    def open(self, path: str, body: object = None) -> Iterator[http.client.HTTPResponse]:
        """The answer while it comes; behind the block the connection is dropped."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            yield connection.getresponse()
        finally:
            connection.close()

    def join(self, name: str, *data: object) -> None:
        """Queue the callback or endpoint of this name."""
        functions = self.ask("/config")[1]["dependencies"]
        index = next(each["id"] for each in functions if each["api_name"] == name)
        joining = {"data": data, "fn_index": index, "session_hash": self.session}
        status, told = self.ask("/gradio_api/queue/join", joining)
        assert status == 200, told

    @contextmanager
    def stream(self) -> Iterator[Iterator[dict[str, Any]]]:
        """The messages about what this visitor has queued, as they come."""
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
    """A running app.py; once it has ended, what it wrote."""

    process: subprocess.Popen[str]
    visitor: Visitor
    written: list[Future[str]]  # read as it comes, since a pipe that nobody reads stops who writes
    output: str = ""
    errors: str = ""

    def end(self) -> int:
        """Stop the server as a service manager does, and return its exit code."""
        self.process.terminate()
        self.process.wait(60)
        self.output, self.errors = (stream.result() for stream in self.written)
        return self.process.returncode

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log, each of which has to be JSON."""
        return [json.loads(line) for line in self.errors.splitlines()]


@contextmanager
def serving(*before: str, after: Sequence[str] = (), **environment: str) -> Iterator[Server]:
    """app.py once it answers, run by `python BEFORE app.py AFTER`."""
    port = free_port()
    command = [sys.executable, *before, "app.py", "--port", str(port), *after]
    settings, pipe = os.environ | environment, subprocess.PIPE  # no files: there is a test of a full disk
    with (
        ThreadPoolExecutor() as threads,
        subprocess.Popen(command, cwd=ROOT, env=settings, stdout=pipe, stderr=pipe, text=True) as process,
    ):
        streams = [threads.submit(stream.read) for stream in (process.stdout, process.stderr) if stream]
        server = Server(process, Visitor(port), streams)
        try:
            _wait(server)
            yield server
        finally:
            process.kill()


def _wait(server: Server) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            server.visitor.ask("/healthz")
            return
        except OSError:
            assert server.process.poll() is None, (server.end(), server.errors)
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.1)  # between two questions
