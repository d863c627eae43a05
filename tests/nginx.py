"""nginx with the configuration of docs/server, in front of a server of the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.visitor import ROOT, Server, Visitor, free_port

SITE = ROOT / "docs/server/headlight.nginx"
MAIN = """daemon off; pid {folder}/pid; worker_rlimit_nofile 4096; {user}
error_log {folder}/errors; events {{ worker_connections 2000; }}
http {{ access_log off; {paths} include {folder}/site; }}
"""
PATHS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def program() -> str | None:
    """Where nginx is, None if it is not installed. Debian puts it where only root looks."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def behind_nginx(server: Server) -> Iterator[Server]:
    """The same server, reached through nginx; it must trust 127.0.0.1 as its proxy."""
    port, found = free_port(), program()
    assert found is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = SITE.read_text(encoding="utf-8").replace("127.0.0.1:7860", f"127.0.0.1:{server.visitor.port}")
        site = site.replace("listen 80;", f"listen 127.0.0.1:{port};").replace("    listen [::]:80;\n", "")
        (folder / "site").write_text(site.replace("/var/cache/nginx/headlight", f"{folder}/cache"))
        paths = " ".join(f"{each}_temp_path {folder}/{each};" for each in PATHS)
        user = "user root;" if os.geteuid() == 0 else ""  # else its workers may not read the folder
        (folder / "main").write_text(MAIN.format(folder=folder, paths=paths, user=user))
        with subprocess.Popen([found, "-c", folder / "main", "-e", folder / "errors"]) as process:
            try:
                _wait(process, port)
                yield Server(server.process, Visitor(port, source=server.visitor.source), server.lines)
            finally:
                process.terminate()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert process.poll() is None, "nginx does not start"
            assert time.monotonic() < deadline, "nginx does not answer"
            time.sleep(0.05)
