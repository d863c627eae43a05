"""Port check, health endpoint, graceful shutdown."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from model.errors import UserError
from viz.server.middleware import RequestFilter, Workload

FINISH_SECONDS = 6  # for requests in progress when the server is stopped
CLOSE_SECONDS = 1  # for connections that are still open then, such as the heartbeat of an open page
EXIT_SECONDS = 8.5  # the process ends after this in any case: service managers kill it after 10

logger = logging.getLogger("headlight")


class Service:
    """The process around the page: its middleware, health endpoint and shutdown."""

    def __init__(self, models: Iterable[str] = ()) -> None:
        self.workload = Workload()
        self._models = list(models)
        self._started = time.monotonic()
        self._stop_requested = threading.Event()

    def app_kwargs(self) -> dict[str, Any]:
        """Return what `launch` passes on to FastAPI."""
        return {
            "routes": [Route("/healthz", self.health)],
            "middleware": [Middleware(RequestFilter, workload=self.workload)],
        }

    async def health(self, _: Request) -> JSONResponse:
        """Report the status without running a model."""
        stopping = self.workload.stopping
        report = {
            "status": "stopping" if stopping else "ok",
            "models": self._models,
            "seconds": round(time.monotonic() - self._started, 1),
        }
        return JSONResponse(report, 503 if stopping else 200, {"Cache-Control": "no-store"})

    def install_signal_handlers(self) -> None:
        """Note SIGTERM and Ctrl-C. Call this before `launch`, which serves before it returns."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop_requested.set())

    def run(self, page: gr.Blocks) -> None:
        """Serve a launched page until a signal, then shut down within ten seconds.

        Requests in progress are finished, new work is refused. A second Ctrl-C ends the process at once.
        """
        self._stop_requested.wait()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        deadline = threading.Timer(EXIT_SECONDS, os._exit, [0])  # in case a worker thread never ends
        deadline.daemon = True
        deadline.start()
        self.stop(page)

    def stop(self, page: gr.Blocks) -> None:
        """Finish the requests in progress, then close the page."""
        self.workload.stopping = True
        logger.info("The server stops; %d requests are in progress.", self.workload.running)
        deadline = time.monotonic() + FINISH_SECONDS
        while self._is_busy(page) and time.monotonic() < deadline:
            time.sleep(0.05)
        page.server.config.timeout_graceful_shutdown = CLOSE_SECONDS
        page.close(verbose=False)

    def _is_busy(self, page: gr.Blocks) -> bool:
        """Whether a request is in progress, or a callback whose client has not yet asked for its result."""
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
        raise UserError(_cannot_listen(host, port, error.errno)) from error


def _cannot_listen(host: str, port: int, reason: int | None) -> str:
    if reason == errno.EADDRINUSE:
        other = port + 1 if port < 65_535 else port - 1
        return (
            f"Port {port} on {host} is in use, perhaps by another Headlight: "
            f"stop that program, or choose another port, as in --port {other}."
        )
    if reason == errno.EACCES:
        return f"Port {port} needs administrator rights; choose one above 1023, as in --port 7860."
    return f"The page cannot be served on {host}, port {port}; check --host and --port."
