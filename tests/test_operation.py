"""The page as a service whose surroundings fail: app.py in a process of its own, with the shipped models."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import app
from tests.visitor import ROOT, TEXT, Server, Visitor, completed, serving
from viz.server.middleware import CLIENT_GONE

LONG = " ".join(["Der kleine Hund läuft mit einem großen Ball durch den tiefen Schnee,"] * 6)
ON_SCREEN = {"model": "de-en", "text": TEXT, "beam_size": 1, "length_penalty": 1, "prefix": [], "heads": []}
MEGABYTES = 1200


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def export(visitor: Visitor) -> list[object]:
    request = ON_SCREEN | {"address": f"http://127.0.0.1:{visitor.port}"}
    return visitor.run("export", request)


def ask(visitor: Visitor, **request: object) -> dict[str, object]:
    """Ask as the viewer does."""
    components = visitor.ask("/config")[1]["components"]
    viewer = next(each["id"] for each in components if each["props"].get("elem_id") == "hl-viewer")
    body = {"data": ON_SCREEN | request, "component_id": viewer, "session_hash": "a", "fn_name": "ask"}
    return visitor.ask("/gradio_api/component_server", body)[1]


# Starting


def test_a_port_in_use_is_one_sentence():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        command = [sys.executable, "app.py", "--port", str(port)]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 1
    assert run.stderr.startswith(f"Port {port} on 127.0.0.1 is in use")
    assert "--port" in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("port", ["eight", "1e3", "-1", "99999", ""])
def test_a_port_that_is_none_is_one_sentence(port: str):
    named = os.environ | {"GRADIO_SERVER_PORT": port}
    command = [sys.executable, "app.py"]
    run = subprocess.run(
        command, cwd=ROOT, env=named, capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 1
    assert "from 1 to 65535" in run.stderr
    assert run.stderr.count("\n") == 1


# No network, no disk, no time


def test_nothing_is_asked_of_the_network():
    """Not even through the proxy that the environment names."""
    proxy = "http://192.0.2.1:9"
    with serving(
        "-m", "tests.cage", "network", HTTP_PROXY=proxy, HTTPS_PROXY=proxy, http_proxy=proxy
    ) as server:
        assert server.visitor.ask("/")[0] == 200
        assert "dog" in server.visitor.translate()["translation"]
        assert "curl" in str(export(server.visitor))
        assert "answer" in ask(server.visitor, do="beams", beam_size=2)
        assert server.end() == 0
    assert not re.findall("REFUSED.*", server.errors)


@pytest.mark.parametrize(
    "call",
    [
        "import urllib.request; urllib.request.urlopen('http://192.0.2.1/')",
        "import urllib.request; urllib.request.urlopen('https://example.org/')",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 9))",
        "import subprocess; subprocess.run(['curl', 'http://192.0.2.1/'])",
    ],
)
def test_a_call_to_the_outside_is_noticed(call: str, tmp_path: Path):
    """Else the test above could not fail."""
    (tmp_path / "call.py").write_text(call)
    command = [sys.executable, "-m", "tests.cage", "network", str(tmp_path / "call.py")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 1
    assert "REFUSED" in run.stderr


@pytest.mark.parametrize("cage", ["full-disk", "read-only"])
def test_where_nothing_can_be_written_the_page_translates(cage: str):
    with serving("-m", "tests.cage", cage) as server:
        assert server.visitor.ask("/")[0] == 200
        assert "dog" in server.visitor.translate()["translation"]
        assert export(server.visitor)[0] == app.html.escape(app.DISK_FULL)
        assert "answer" in ask(server.visitor, do="importance")
        assert server.end() == 0
    assert {line["level"] for line in server.log()} == {"INFO"}


def test_a_clock_that_jumps_harms_nothing():
    with serving("-m", "tests.cage", "jumping-clock") as server:
        assert "dog" in server.visitor.translate()["translation"]
        assert "curl" in str(export(server.visitor))
        assert server.visitor.ask("/healthz")[1]["seconds"] >= 0
        assert server.end() == 0
    spent = [line["ms"] for line in server.log() if "ms" in line]
    assert spent
    assert all(0 <= each < 60_000 for each in spent)


# Visitors who leave, and a server that does


def test_whoever_goes_in_the_middle_is_one_line_and_others_are_served(server: Server):
    gone = Visitor(server.visitor.port, "gone")
    gone.join("translate", LONG, "de-en", 8, 1.0, [])
    with gone.stream() as messages:
        assert next(messages)
    assert "dog" in server.visitor.translate()["translation"]
    assert server.end() == 0
    streams = [line for line in server.log() if line.get("path") == "/gradio_api/queue/data"]
    assert len(streams) == 2
    # Whether Gradio notices depends on where it was.
    assert {line["status"] for line in streams} <= {200, CLIENT_GONE}
    assert {line["level"] for line in server.log()} == {"INFO"}


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_server_finishes_what_runs(told: signal.Signals, server: Server):
    visitor = server.visitor
    with visitor.open("/gradio_api/heartbeat/visitor") as page:  # as long as somebody looks at the page
        assert page.readline()
        visitor.join("translate", LONG, "de-en", 8, 1.0, [])
        with visitor.stream() as messages:
            assert any(each["msg"] == "process_starts" for each in messages)
            started = time.monotonic()
            server.process.send_signal(told)
            assert completed(messages)[0]["translation"]
        assert server.process.wait(timeout=10) == 0
    assert time.monotonic() - started < 10
    server.end()
    assert "ERROR" not in server.errors
    assert "Traceback" not in server.errors


# The log and the memory


def test_the_log_is_lines_without_sentences(server: Server):
    secret = "Erdbeere"
    server.visitor.translate(secret)
    ask(server.visitor, do="score", target=secret, text=secret)
    ask(server.visitor, do=secret)
    server.visitor.ask(f"/{secret}?{secret}")
    server.visitor.ask("/gradio_api/queue/join", {"data": secret, "fn_index": secret})
    for name in ("translate", "_choose_model"):  # fields are missing, a model that is none
        server.visitor.join(name, secret)
        with server.visitor.stream() as messages:
            assert any(each["msg"] == "process_completed" for each in messages)
    assert server.end() == 0
    assert len(server.log()) >= 6
    assert secret not in server.errors
    assert "score" in {line.get("kind") for line in server.log()}


def test_every_model_fits_into_the_memory_of_a_small_machine(server: Server):
    models = server.visitor.ask("/healthz")[1]["models"]
    assert set(models) == {path.name for path in app.MODELS.iterdir()}
    for model in models:
        server.visitor.run("attention", TEXT, model, 4, 1.0, [])
    assert resident_megabytes(server.process.pid) < MEGABYTES


def resident_megabytes(process: int) -> float:
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        pytest.skip("this system does not tell the memory of a process")
    return int(re.search(r"VmRSS:\s+(\d+) kB", status.read_text())[1]) / 1000


@pytest.mark.slow
def test_the_page_answers_six_seconds_after_its_start(tmp_path: Path):
    """With the packages as pip installs them: compiled, here by a first start."""
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    with serving(**compiled):
        pass
    started = time.monotonic()
    with serving(**compiled) as server:
        assert server.visitor.ask("/")[0] == 200
        assert time.monotonic() - started < 6
