"""Runs a script in a failing environment: `python -m tests.cage network,jumping-clock app.py --port 8000`.

Each refused network access is written to the standard error, in a line that begins with REFUSED.
"""

from __future__ import annotations

import ipaddress
import itertools
import os
import resource
import runpy
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any


def network() -> None:
    """Refuse connections to other machines, name look-ups, and processes that could do either."""

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        asked = {
            "socket.connect": lambda: arguments[1],
            "socket.sendto": lambda: arguments[1],
            "socket.sendmsg": lambda: arguments[1],
            "socket.getaddrinfo": lambda: arguments[:1],
            "socket.gethostbyname": lambda: arguments,
            "subprocess.Popen": lambda: ("a process", arguments[0]),
            "os.system": lambda: ("a process", arguments[0]),
        }.get(event)
        if asked and not _here(asked()):
            _refuse(f"{event} {asked()}", PermissionError("no network"))

    sys.addaudithook(refuse)


def _here(address: object) -> bool:
    host = address[0] if isinstance(address, tuple) else None
    try:
        return host in (None, "localhost") or ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def full_disk() -> None:
    """Let the kernel refuse every write to a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def read_only() -> None:
    """Refuse to create, write or remove anything on any disk."""
    changes = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        opened = event == "open" and isinstance(arguments[0], str) and arguments[2] & writing
        if event in changes or (opened and not arguments[0].startswith("/dev/")):
            raise OSError(30, "Read-only file system", arguments[0])

    sys.addaudithook(refuse)


def jumping_clock() -> None:
    """Move the time of day by a day at each call, forwards and backwards in turn."""
    real, calls = time.time, itertools.count()
    time.time = lambda: real() + (86_400 if next(calls) % 2 else -86_400)


def slow_work() -> None:
    """Let every computation of a worker take a second longer."""
    from viz.server import scheduler

    real = scheduler.listening

    def listening(note: Callable[[str], None]) -> AbstractContextManager[None]:
        time.sleep(1)
        return real(note)

    scheduler.listening = listening  # type: ignore[assignment]


def _refuse(what: str, error: Exception) -> None:
    sys.stderr.write(f"REFUSED {what}\n")
    raise error


CAGES: dict[str, Callable[[], None]] = {
    cage.__name__.replace("_", "-"): cage
    for cage in (network, full_disk, read_only, jumping_clock, slow_work)
}

if __name__ == "__main__":
    cages, script, *arguments = sys.argv[1:]
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = [script, *arguments]
    for cage in cages.split(","):
        CAGES[cage]()
    runpy.run_path(script, run_name="__main__")
