"""Port check, health endpoint, graceful shutdown."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from model.errors import UserError
from viz.server.api import Calls
from viz.server.connections import LimitedConnection, raise_file_limit
from viz.server.middleware import RequestFilter, Workload
from viz.server.scheduler import Scheduler

FINISH_SECONDS = 5  # for requests in progress when the server is stopped
CLOSE_SECONDS = 1  # for connections that are still open then, such as the heartbeat of an open page
EXIT_SECONDS = 7.5  # the process ends after this in any case: service managers kill it after 10

# A thread asks for Python's lock at each of the hundreds of operations of a translation, and waits this long
# while another computes; with the 5 ms of Python a short request would take seconds beside a long one.
SWITCH_SECONDS = 5e-4

logger = logging.getLogger("headlight")


class Service:
    """The page in its process: its launch, middleware, health endpoint and shutdown."""

    def __init__(
        self,
        page: gr.Blocks,
        scheduler: Scheduler,
        calls: Calls,
        models: Sequence[str],
        look: Mapping[str, Any],
        origins: Sequence[str] = (),
    ) -> None:
        self.page = page
        self.scheduler = scheduler
        self.workload = Workload()
        self._calls, self._models, self._look, self._origins = calls, models, look, origins
        self._started = time.monotonic()
        self._stop_requested = threading.Event()

    def app_kwargs(self) -> dict[str, Any]:
        """Return what `launch` passes on to FastAPI."""
        return {
            "routes": [Route("/healthz", self.health), *self._calls.routes()],
            "middleware": [Middleware(RequestFilter, workload=self.workload, origins=self._origins)],
        }

    async def health(self, _: Request) -> JSONResponse:
        """Report the status without running a model."""
        status = "ok"
        if self.workload.stopping:
            status = "stopping"
        elif self.scheduler.is_stuck():
            status = "stuck"
        report = {
            "status": status,
            "models": self._models,
            "seconds": round(time.monotonic() - self._started, 1),
        }
        return JSONResponse(report, 200 if status == "ok" else 503, {"Cache-Control": "no-store"})

    def install_signal_handlers(self) -> None:
        """Note SIGTERM and Ctrl-C. Call this before `launch`, which serves before it returns."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop_requested.set())

    def launch(self, host: str = "127.0.0.1", port: int | None = None) -> str:
        """Serve the page in a thread of its own, and return its address."""
        os.environ["no_proxy"] = "*"  # at launch Gradio sends requests to this server
        _, address, _ = self.page.launch(
            server_name=host,
            server_port=port,
            app_kwargs=self.app_kwargs(),
            **self._look,
            footer_links=[],
            run_history=False,
            ssr_mode=False,
            share=False,
            quiet=True,
            prevent_thread_lock=True,
            state_session_capacity=200,  # Gradio keeps 75 kB for each of the latest sessions
            _frontend=False,  # sends no request to itself, which a busy machine answers too late
        )
        raise_file_limit()
        sys.setswitchinterval(SWITCH_SECONDS)
        # uvicorn looks this up for each new connection.
        self.page.server.config.http_protocol_class = LimitedConnection
        return str(address)

    def run(self) -> None:
        """Serve a launched page until a signal, then shut down within ten seconds.

        Running work is finished, all other is refused. A second Ctrl-C ends the process at once.
        """
        self._stop_requested.wait()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        deadline = threading.Timer(EXIT_SECONDS, os._exit, [0])  # in case a worker thread never ends
        deadline.daemon = True
        deadline.start()
        self.stop()

    def stop(self) -> None:
        """Finish the work in progress and refuse all other, then close the page."""
        self.workload.stopping = True
        logger.info("The server stops; %d requests are in progress.", self.workload.running)
        loop = self.page.server.servers[0].get_loop()
        loop.call_soon_threadsafe(self.scheduler.stop)
        self._wait_for_requests(FINISH_SECONDS)
        loop.call_soon_threadsafe(self.scheduler.close)
        self._wait_for_requests(CLOSE_SECONDS)
        self.page.server.config.timeout_graceful_shutdown = CLOSE_SECONDS
        self.page.close(verbose=False)

    def _wait_for_requests(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.workload.running > 0 and time.monotonic() < deadline:
            time.sleep(0.05)


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
