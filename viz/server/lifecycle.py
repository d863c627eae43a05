"""Listening, health endpoint, graceful shutdown."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from threading import Event, Thread

import gradio as gr
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from model.errors import UserError
from viz.server.api import Calls
from viz.server.component import send_script
from viz.server.connections import MAX_CONNECTIONS, MAX_HEADER, Access, Connection, ForwardedHeaders
from viz.server.document import Documents
from viz.server.middleware import RequestFilter, security_headers
from viz.server.scheduler import Scheduler
from viz.server.theme import theme

FINISH_SECONDS = 5  # for running work when the server is stopped
CLOSE_SECONDS = 1  # for responses after that
KEEP_ALIVE_SECONDS = 75  # longer than proxies keep a connection, which would use it while it is closed
DAY_SECONDS = 86_400
WAKE_SECONDS = 0.5  # between two looks for a signal
EXIT_SECONDS = 8  # after which the process ends in any case: service managers kill it after 10

# A thread asks for Python's lock at each of the hundreds of operations of a translation, and waits this long
# while another computes, or while the event loop answers a flood; with the 5 ms of Python a short request
# would take seconds.
SWITCH_SECONDS = 1e-4

logger = logging.getLogger("headlight")


class Service:
    """The page in its process: its launch, middleware, health endpoint and shutdown."""

    def __init__(
        self,
        page: gr.Blocks,
        scheduler: Scheduler,
        calls: Calls,
        models: Sequence[str],
        look: Mapping[str, str],
        access: Access | None = None,
    ) -> None:
        self.page = page
        self.scheduler = scheduler
        self._calls, self._models, self._look, self._access = calls, models, look, access or Access()
        self._started = time.monotonic()
        self._stop_requested = Event()

    def app(self) -> Starlette:
        """Return the page, its API and the health endpoint, behind the request filter."""
        middleware = [
            Middleware(ForwardedHeaders, proxies=self._access.trusted_proxies),
            # Gradio would let every site read unless the outer application says which ones may.
            Middleware(CORSMiddleware, allow_origins=self._access.origins, allow_methods=["GET", "POST"]),
            Middleware(
                RequestFilter,
                inbox=self._calls.inbox,
                access=self._access,
                is_stopping=lambda: self.scheduler.is_stopping,
            ),
            Middleware(Documents, **self._look),
        ]
        app = gr.mount_gradio_app(
            Starlette(middleware=middleware),
            self.page,
            "/",
            app_kwargs={"routes": self._routes()},
            root_path=os.environ.get("GRADIO_ROOT_PATH"),
            footer_links=[],
            run_history=False,
            ssr_mode=False,
            theme=theme(),
        )
        # Gradio's queue, which has no work here, would look for some 1,500 times a second.
        self.page._queue.sleep_when_free = self.page._queue.progress_update_sleep_when_free = DAY_SECONDS
        return app

    def _routes(self) -> list[Route]:
        scripts = Route("/scripts/{name}", send_script)
        return [Route("/healthz", self.health), scripts, *self._calls.routes()]

    async def health(self, _: Request) -> JSONResponse:
        """Report the status without running a model."""
        status = "ok"
        if self.scheduler.is_stopping:
            status = "stopping"
        elif self.scheduler.is_stuck():
            status = "stuck"
        report = {
            "status": status,
            "models": self._models,
            "seconds": round(time.monotonic() - self._started, 1),
            **self.scheduler.load(),
        }
        return JSONResponse(report, 200 if status == "ok" else 503, {"Cache-Control": "no-store"})

    def install_signal_handlers(self) -> None:
        """Note SIGTERM, Ctrl-C and the end of the terminal, which Windows does not signal."""
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            if number := getattr(signal, name, None):
                signal.signal(number, lambda *_: self._stop_requested.set())

    def launch(self, listener: socket.socket | None = None) -> str:
        """Serve the page in a thread of its own, and return its address."""
        listener = listener or socket.create_server(("127.0.0.1", 0))
        sys.setswitchinterval(SWITCH_SECONDS)
        headers = security_headers(self._access.frames)
        self._server = _Server(self.app(), self.scheduler, headers)
        self._thread = Thread(target=self._server.run, args=([listener],), daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)
        if not self._server.started:
            raise RuntimeError("The server did not start; its log says why.")
        host, port = listener.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def run(self) -> None:
        """Serve a launched page until a signal, then end the process within ten seconds.

        A second Ctrl-C ends it at once.
        """
        # The system may give a signal to any thread, and only a main thread that runs handles it.
        while not self._stop_requested.wait(WAKE_SECONDS):
            pass
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self.stop()
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)  # sys.exit would wait for worker threads, whose results nobody gets any more

    def stop(self) -> None:
        """Finish the work in progress and refuse all other, then close the page."""
        self._server.should_exit = True
        self._thread.join(EXIT_SECONDS)


class _Server(uvicorn.Server):
    """uvicorn with a shutdown that answers everybody."""

    def __init__(self, app: Starlette, scheduler: Scheduler, headers: Mapping[str, str]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                backlog=MAX_CONNECTIONS,
                log_config=None,
                log_level="warning",
                access_log=False,
                headers=list(headers.items()),
                proxy_headers=False,  # ForwardedHeaders does it
                limit_concurrency=MAX_CONNECTIONS,
                h11_max_incomplete_event_size=MAX_HEADER,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=FINISH_SECONDS + CLOSE_SECONDS,
            )
        )
        self.scheduler = scheduler

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse waiting work at once, and running work that is not finished in time."""
        logger.info("The server stops; %d requests are in progress.", len(self.server_state.tasks))
        self.scheduler.stop()
        asyncio.get_running_loop().call_later(FINISH_SECONDS, self.scheduler.close)
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections there. Raises UserError."""
    if not 0 < port < 1 << 16:
        raise UserError(f"There is no port {port}; choose one from 1 to 65535, as in --port 7860.")
    try:
        family, *_, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=MAX_CONNECTIONS)
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
