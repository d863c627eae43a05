"""The page as a service: may it listen, is it well, how does it stop."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from model.errors import UserError
from viz.server.middleware import Guard, Workload

FINISH_SECONDS = 6  # what runs when the server is stopped may take so long
LEAVE_SECONDS = 1  # what is still open then, such as the heartbeat of an open page, is cut after this
STOP_SECONDS = 8.5  # whatever happens, the process is gone: those who stop services wait for 10

logger = logging.getLogger("headlight")


class Service:
    """What surrounds the page while it is served."""

    def __init__(self, models: Iterable[str] = ()) -> None:
        self.workload = Workload()
        self._models = list(models)
        self._started = time.monotonic()
        self._told = threading.Event()

    def app_kwargs(self) -> dict[str, Any]:
        """Return what `launch` hands on to FastAPI."""
        return {
            "routes": [Route("/healthz", self.health)],
            "middleware": [Middleware(Guard, workload=self.workload)],
        }

    async def health(self, _: Request) -> JSONResponse:
        """Answer a probe; no model is asked."""
        stopping = self.workload.stopping
        told = {
            "status": "stopping" if stopping else "ok",
            "models": self._models,
            "seconds": round(time.monotonic() - self._started, 1),
        }
        return JSONResponse(told, 503 if stopping else 200, {"Cache-Control": "no-store"})

    def install_signal_handlers(self) -> None:
        """Note SIGTERM and Ctrl-C from now on: called before the launch, which serves before it returns."""
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: self._told.set())

    def run(self, page: gr.Blocks) -> None:
        """Return when a launched page has been told to stop, within ten seconds of that.

        What runs is finished, new work is refused. Whoever presses Ctrl-C twice does not wait.
        """
        self._told.wait()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        last = threading.Timer(STOP_SECONDS, os._exit, [0])  # a thread that never ends would hold the process
        last.daemon = True
        last.start()
        self.stop(page)

    def stop(self, page: gr.Blocks) -> None:
        """Finish what runs, then close the page."""
        self.workload.stopping = True
        logger.info("The server stops; %d requests are being worked on.", self.workload.running)
        deadline = time.monotonic() + FINISH_SECONDS
        while self._busy(page) and time.monotonic() < deadline:
            time.sleep(0.05)
        page.server.config.timeout_graceful_shutdown = LEAVE_SECONDS
        page.close(verbose=False)

    def _busy(self, page: gr.Blocks) -> bool:
        """Whether somebody waits for an answer, or will as soon as the work has one."""
        return self.workload.running > 0 or page._queue.get_active_worker_count() > 0


def check_address(host: str, port: int) -> None:
    """Raise UserError unless the page can listen there."""
    if not 0 < port < 1 << 16:
        raise UserError(f"There is no port {port}; choose one from 1 to 65535, as in --port 7860.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        raise UserError(_refused(host, port, error.errno)) from error


def _refused(host: str, port: int, reason: int | None) -> str:
    if reason == errno.EADDRINUSE:
        other = port + 1 if port < 65_535 else port - 1
        return (
            f"Port {port} on {host} is in use, perhaps by another Headlight: "
            f"stop that program, or choose another port, as in --port {other}."
        )
    if reason == errno.EACCES:
        return f"Port {port} is not for everybody; choose one above 1023, as in --port 7860."
    return f"The page cannot be served on {host}, port {port}; check --host and --port."


class JsonLines(logging.Formatter):
    """Each record of the log as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Leave out an exception's own words: they may repeat what somebody sent."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0]:
            line |= {"error": record.exc_info[0].__name__, "at": traceback.format_tb(record.exc_info[2])}
        return json.dumps(line | getattr(record, "fields", {}), ensure_ascii=False)


def log_lines() -> None:
    """Write every log of this process to the standard error, one line of JSON for each record."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], force=True)
    logger.setLevel(logging.INFO)
    uvicorn = logging.getLogger("uvicorn")  # has handlers of its own once it runs
    uvicorn.handlers.clear()
    uvicorn.propagate = True
    traceback.print_exc = _log_exception


def _log_exception(*_: object, **__: object) -> None:
    """Log what Gradio's queue would print with the error's own words, which repeat a request's fields."""
    logger.error("callback", exc_info=True)
