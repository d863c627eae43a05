"""The page as a service in a failing environment: app.py in its own process, with the shipped models."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import app
from model.errors import UserError
from tests.visitor import ROOT, TEXT, Server, Visitor, completed, serving
from viz.server import port as port_setting
from viz.server.connections import Access
from viz.server.lifecycle import listen
from viz.server.middleware import CLIENT_GONE

LONG = " ".join(["Der kleine Hund läuft mit einem großen Ball durch den tiefen Schnee,"] * 6)
ON_SCREEN = {"model": "de-en", "text": TEXT, "beam_size": 1, "length_penalty": 1, "forced": [], "heads": []}
SECRET = "Erdbeere"
MEGABYTES = 1200


# The proxy that the environment names is not asked either.
PROXIES = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy"), "http://192.0.2.1:9")


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    """One server for the tests that do not stop it: without a network, a free disk or a steady clock.

    Its start takes seconds.
    """
    with serving("-m", "tests.cage", "network,jumping-clock,full-disk", **PROXIES) as running:
        yield running
        assert running.end() == 0
    assert SECRET not in running.errors
    assert not re.findall("REFUSED.*", running.errors)
    assert {line["level"] for line in running.log()} == {"INFO"}
    durations = [line["ms"] for line in running.log() if "ms" in line]
    assert durations
    assert all(0 <= each < 60_000 for each in durations)


def ask(visitor: Visitor, **request: object) -> dict[str, object]:
    """Send a request of the viewer."""
    envelope = {"component_id": visitor.viewer(), "session_hash": "a", "fn_name": "ask"}
    return visitor.ask("/gradio_api/component_server", {"data": ON_SCREEN | request, **envelope})[1]


# Starting


@pytest.mark.slow
def test_the_browser_opens_once_the_server_answers(tmp_path: Path):
    opened = tmp_path / "opened"
    with serving(after=["--open"], BROWSER=f"sh -c 'echo %s >{opened}'") as server:
        deadline = time.monotonic() + 60
        while not (opened.exists() and opened.read_text()):
            assert time.monotonic() < deadline, "no browser opens"
            time.sleep(0.1)
        assert opened.read_text() == f"http://127.0.0.1:{server.visitor.port}/\n"


@pytest.mark.parametrize(
    ("address", "local"),
    [("http://0.0.0.0:7860/", "http://127.0.0.1:7860/"), ("http://[::]:7860/", "http://[::1]:7860/")],
)
def test_a_server_on_all_addresses_opens_at_the_local_one(monkeypatch, address: str, local: str):
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: asked.append(url) or True)
    app.open_in_browser(address)
    assert asked == [local]


def failed_start(*arguments: str, **settings: str) -> str:
    """The standard error of app.py, which must fail with one sentence on one line."""
    command = [sys.executable, "app.py", *arguments]
    run = subprocess.run(
        command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    return run.stderr


@pytest.mark.slow
def test_a_port_in_use_is_one_sentence():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        sentence = failed_start("--port", str(port))
    assert sentence.startswith(f"Port {port} on 127.0.0.1 is in use")
    assert "--port" in sentence


@pytest.mark.slow
def test_an_invalid_port_in_the_environment_is_one_sentence():
    """Gradio would crash on it when it is imported."""
    assert "from 1 to 65535" in failed_start(GRADIO_SERVER_PORT="eight")


@pytest.mark.parametrize("port", ["eight", "1e3", "-1", "99999", "0", ""])
def test_an_invalid_port_is_refused(port: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(port_setting, "PORT", port)
    with pytest.raises(UserError, match="from 1 to 65535"):
        listen("127.0.0.1", port_setting.port())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "school.example"])
def test_a_page_that_others_reach_without_a_proxy_says_so(host: str):
    assert Access().is_open(host)
    assert not Access(proxies=["127.0.0.1"]).is_open(host)
    assert not any(map(Access().is_open, ("127.0.0.1", "localhost", "::1", "[::1]")))


IDLE = """
import time, app
from tests.viz.fakes import FakeTranslator
service = app.create({"tiny": FakeTranslator("tiny", "Tiny")})
service.launch()
time.sleep(2)
before = time.process_time()
time.sleep(5)
print((time.process_time() - before) / 5)
"""


@pytest.mark.slow
def test_an_idle_page_takes_no_time():
    run = subprocess.run([sys.executable, "-c", IDLE], cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(run.stdout) < 0.003  # of a core


# Without a network, a disk or a steady clock


def test_without_a_network_a_free_disk_and_a_steady_clock_the_page_works(shared: Server):
    assert_works(shared)


@pytest.mark.slow
def test_without_a_network_on_a_read_only_disk_the_page_works():
    with serving("-m", "tests.cage", "network,read-only", **PROXIES) as server:
        assert_works(server)
        assert server.end() == 0
    assert not re.findall("REFUSED.*", server.errors)


def assert_works(server: Server) -> None:
    assert server.visitor.ask("/")[0] == 200
    assert "dog" in server.visitor.translate()["translation"]
    assert "answer" in ask(server.visitor, do="export", address="http://127.0.0.1/")
    assert "answer" in ask(server.visitor, do="beams", beam_size=2)
    assert "answer" in ask(server.visitor, do="importance")
    assert server.visitor.ask("/healthz")[1]["seconds"] >= 0


@pytest.mark.parametrize(
    "call",
    [
        "import urllib.request; urllib.request.urlopen('http://192.0.2.1/')",
        "import urllib.request; urllib.request.urlopen('https://example.org/')",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 9))",
        "import subprocess; subprocess.run(['curl', 'http://192.0.2.1/'])",
    ],
)
def test_a_call_to_another_machine_is_noticed(call: str, tmp_path: Path):
    """Otherwise the test above could not fail."""
    (tmp_path / "call.py").write_text(call)
    command = [sys.executable, "-m", "tests.cage", "network", str(tmp_path / "call.py")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 1
    assert "REFUSED" in run.stderr


# Clients that disconnect, and a server that stops


def test_a_client_that_disconnects_is_one_line_of_the_log_and_others_are_served(shared: Server):
    since = len(shared.lines)
    gone = Visitor(shared.visitor.port, "gone")
    gone.join("translate", LONG, "de-en", 8, 1.0, [])
    with gone.stream() as messages:
        assert next(messages)
    assert "dog" in shared.visitor.translate()["translation"]

    def is_stream(line: dict[str, object]) -> bool:
        return line.get("path") == "/gradio_api/queue/data"

    lines = shared.wait_for_log(since, lambda lines: len(list(filter(is_stream, lines))) == 2)
    # Gradio notices the disconnection only if it is waiting at that moment.
    assert {line["status"] for line in filter(is_stream, lines)} <= {200, CLIENT_GONE}
    assert {line["level"] for line in lines} == {"INFO"}


@pytest.mark.slow  # in `make test` a crowd waits: tests/test_attacks.py
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stopped_server_finishes_the_work_in_progress(number: signal.Signals):
    with serving("-m", "tests.cage", "slow-work") as server:
        visitor = server.visitor
        with visitor.open("/healthz"):  # a connection that stays open
            visitor.join("translate", TEXT, "de-en", 1, 1.0, [])
            with visitor.stream() as messages:
                while not visitor.ask("/healthz")[1]["running"]:
                    time.sleep(0.01)
                started = time.monotonic()
                server.process.send_signal(number)
                assert completed(messages)[0]["translation"]
            assert server.process.wait(timeout=10) == 0
        assert time.monotonic() - started < 10
        server.end()
    assert "ERROR" not in server.errors
    assert "Traceback" not in server.errors


def test_a_signal_that_another_thread_gets_stops_the_server(monkeypatch: pytest.MonkeyPatch):
    """The system may choose any thread, and then the main thread goes on waiting."""

    def get_signal() -> None:
        time.sleep(0.2)  # the main thread waits by then
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        if not done.wait(10):
            ended.append("too late")
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    done, ended = threading.Event(), []
    service = app.create({})
    monkeypatch.setattr(service, "stop", lambda: ended.append("stopped"))
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    service.install_signal_handlers()
    other = threading.Thread(target=get_signal)
    other.start()
    try:
        service.run()
        done.set()
        other.join()
        assert ended == ["stopped", 0]
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


# The log and the memory


def test_the_log_is_lines_of_json_without_the_words_of_a_client(shared: Server):
    since = len(shared.lines)
    shared.visitor.translate(SECRET)
    ask(shared.visitor, do="score", target=SECRET, text=SECRET)
    ask(shared.visitor, do=SECRET)
    shared.visitor.ask(f"/{SECRET}?{SECRET}")
    shared.visitor.ask("/gradio_api/queue/join", {"data": SECRET, "fn_index": SECRET})
    shared.visitor.join("translate", SECRET, SECRET)  # an unknown model
    with shared.visitor.stream() as messages:
        assert any(each["msg"] == "process_completed" for each in messages)
    lines = shared.wait_for_log(since, lambda lines: len(lines) >= 6)
    assert SECRET not in str(lines)
    assert "score" in {line.get("kind") for line in lines}


def test_every_model_fits_into_the_memory_of_a_small_machine(shared: Server):
    models = shared.visitor.ask("/healthz")[1]["models"]
    assert set(models) == {path.name for path in app.MODELS.iterdir()}
    for model in models:
        shared.visitor.run("attention", TEXT, model, 4, 1.0, [])
    assert resident_megabytes(shared.process.pid) < MEGABYTES


def resident_megabytes(process: int) -> float:
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        pytest.skip("this system does not report the memory of a process")
    return int(re.search(r"VmRSS:\s+(\d+) kB", status.read_text())[1]) / 1000


@pytest.mark.slow
def test_the_page_imports_nothing_that_would_slow_its_start():
    script = (
        "import sys, app; print({'altair', 'datasets', 'numba', 'plotly', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_the_page_responds_six_seconds_after_its_start(tmp_path: Path):
    """With the packages as pip installs them: compiled, here by a first start."""
    compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    with serving(**compiled):
        pass
    started = time.monotonic()
    with serving(**compiled) as server:
        assert server.visitor.ask("/")[0] == 200
        assert time.monotonic() - started < 6
