"""Hostile files, sites and neighbours, the part of `make attack` that needs no crowd of clients."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from model.errors import UserError
from model.storage.checkpoint import save
from model.text.sentencepiece import MAX_LOOKUPS, MAX_PIECE
from model.text.tokenizer import Tokenizer
from model.translator import Translator
from tests.hostile.tokenizers import GROWTH, LETTER, slow_checkpoint
from tests.visitor import ROOT, STATUS, Server, serving
from training.run.directory import locked

MODEL = ROOT / "assets" / "models" / "reverse"
PATHS = ("/", "/config", "/healthz", "/gradio_api/info")
Figures = dict[str, float]


def ask(server: Server, do: str, model: str, **fields: Any) -> tuple[float, Any]:
    """Return how many seconds an answer to a request of the viewer takes, and the answer."""
    viewer = server.visitor.viewer()
    data = {"do": do, "model": model, "text": "hello", "beam_size": 1, "length_penalty": 1, **fields}
    body = {"data": data, "component_id": viewer, "session_hash": "person", "fn_name": "ask"}
    started = time.monotonic()
    answered = server.visitor.ask("/gradio_api/component_server", body)[1]
    return time.monotonic() - started, answered


@contextmanager
def hostile_models() -> Iterator[Path]:
    """A folder with three copies of a model, whose logs of the training are hostile."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = {each: folder / each / "metrics.jsonl" for each in ("pipe", "device", "rows")}
        for each, log in logs.items():
            shutil.copytree(MODEL, folder / each)
            log.unlink()
        os.mkfifo(logs["pipe"])
        logs["device"].symlink_to("/dev/zero")
        rows = (json.dumps({"step": step, "train/loss": 1.0}) for step in range(600_000))
        logs["rows"].write_text("\n".join(rows))
        yield folder


def logs_of_trainings() -> Figures:
    """D2 and D11: logs of trainings that never end or are long, then a question."""
    with hostile_models() as folder, serving(after=["--models", str(folder)]) as server:
        ask(server, "translate", "rows", forced=[])  # what any work takes the first time
        pipe, _ = ask(server, "training", "pipe")
        device, _ = ask(server, "training", "device")
        rows, answered = ask(server, "training", "rows")
        question, _ = ask(server, "translate", "rows", text="other", forced=[])
    return {
        "log that is a pipe: answer after, s": pipe,
        "log that is /dev/zero: answer after, s": device,
        "log of 600,000 rows: answer after, s": rows,
        "log of 600,000 rows: answer, MB": len(json.dumps(answered)) / 1e6,
        "a question after that, s": question,
    }


def slow_tokenizer() -> Figures:
    """E1: a model whose tokenizer makes a text 127 times as long; then a question to another model."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as thread:
        shutil.copytree(MODEL, Path(name) / "reverse")
        save(slow_checkpoint(), Path(name) / "slow")
        with serving(after=["--models", name]) as server:
            ask(server, "translate", "reverse", forced=[])  # what any work takes the first time
            longest, fits = LETTER * 5000, LETTER * (MAX_LOOKUPS // (MAX_PIECE * GROWTH))
            asked = [
                thread.submit(ask, server, "translate", "slow", text=text, forced=[])
                for text in (longest, fits)
            ]
            health = 0.0
            while not asked[-1].done():
                started = time.monotonic()
                server.visitor.ask("/healthz")
                health = max(health, time.monotonic() - started)
            question, _ = ask(server, "translate", "reverse", text="other", forced=[])
    refused, read = (one.result()[0] for one in asked)
    return {
        "5,000 letters: refused after, s": refused,
        "the most letters that it reads: after, s": read,
        "/healthz meanwhile, longest s": health,
        "a question after that, s": question,
    }


def vocabulary_entry() -> Figures:
    """D6: a vocabulary with an entry of three million characters."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "model"
        shutil.copytree(MODEL, directory)
        tokenizer = directory / "tokenizer.json"
        content = json.loads(tokenizer.read_text("utf-8"))
        entries = content["model"]["vocab"]
        entries["x" * 3_000_000] = entries.pop(next(reversed(entries)))
        tokenizer.write_text(json.dumps(content), "utf-8")
        started, refused = time.monotonic(), 0
        try:
            Translator.load(directory)
        except UserError:
            refused = 1
        return {"models refused, of 1": refused, "seconds": time.monotonic() - started}


def two_trainings() -> Figures:
    """D7: a training into the folder of another one."""
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        command = [sys.executable, "-m", "training", "train", "reverse-words", "--output", str(run)]
        with locked(run):
            ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        refused = f"Process {os.getpid()} trains into" in ended.stderr
        return {"trainings refused, of 1": refused, "files that it wrote": run.exists()}


def long_word() -> Figures:
    """D8: a vocabulary learned from one long run of a letter."""
    started = time.monotonic()
    Tokenizer.train(["a" * 200_000], "bpe", 200)
    return {"vocabulary of 200,000 a, s": time.monotonic() - started}


def busy_start(others: int = 8) -> Figures:
    """D10: start the server while eight other processes use the cores."""
    with ExitStack() as stack:
        for _ in range(others):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(busy.kill)
        started = time.monotonic()
        with serving() as server:
            seconds = time.monotonic() - started
            return {"first answer after, s": seconds, "tracebacks": server.errors.count("Traceback")}


async def missing_fields(server: Server) -> Figures:
    """D11: a call without its fields."""
    before = len(server.lines)
    status, content = server.visitor.ask("/gradio_api/call/score", {"data": []})
    time.sleep(1)  # a line is written after its response
    errors = sum('"ERROR"' in line or "Traceback" in line for line in server.lines[before:])
    return {"status": status, "sentences": "detail" in content, "errors in the log": errors}


async def foreign_site(server: Server) -> Figures:
    """D12 and E5: what a page of another site may read or frame."""
    foreign = {"Host": f"127.0.0.1:{server.visitor.port}", "Origin": "https://foreign.example"}
    found = [server.visitor.headers(path, foreign) for path in PATHS]
    named = [server.visitor.headers(path, foreign | {"Host": "foreign.example"}) for path in PATHS]
    read = sum("access-control-allow-origin" in each for each in found)
    framed = sum("frame-ancestors" not in each.get("content-security-policy", "") for each in found)
    return {
        "responses it may read, of 4": read,
        "responses it may frame, of 4": framed,
        "responses under its own name, of 4": sum(each[STATUS] == "200" for each in named),
    }


@asynccontextmanager
async def flood(server: Server, path: str, body: str, connections: int) -> AsyncIterator[Counter[bytes]]:
    """Send this body without pause meanwhile; the statuses of the answers are counted."""
    statuses: Counter[bytes] = Counter()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()

    async def send() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.visitor.port)
                while not writer.is_closing():
                    writer.write(request)
                    answer = await reader.read(1 << 16)
                    statuses[answer[9:12]] += 1
                    if not answer or b"close" in answer:
                        writer.close()

    floods = [asyncio.create_task(send()) for _ in range(connections)]
    try:
        yield statuses
    finally:
        for task in floods:
            task.cancel()
        await asyncio.gather(*floods, return_exceptions=True)


# With no server, or one of their own. The previous release is spared: it would read /dev/zero for good.
ON_THEIR_OWN: dict[str, Callable[[], Figures]] = {
    "D2 logs of trainings (D11: the long one)": logs_of_trainings,
    "E1 a tokenizer that takes minutes": slow_tokenizer,
    "D6 a vocabulary entry of 3,000,000 letters": vocabulary_entry,
    "D7 two trainings into one folder": two_trainings,
    "D8 a word of 200,000 letters": long_word,
    "D10 a start beside eight busy processes": busy_start,
}
