"""A script in a process that lacks something: `python -m tests.cage network app.py --port 8000`.

Whatever is refused is told on the standard error, in a line that begins with REFUSED.
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
from pathlib import Path
from typing import Any


def network() -> None:
    """No connection but to this machine, no name looked up, no other process that could do either."""

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
    """No file takes a single byte; the kernel sees to it."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def read_only() -> None:
    """Nothing is made, written or taken away on any disk."""
    changes = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        opened = event == "open" and isinstance(arguments[0], str) and arguments[2] & writing
        if event in changes or (opened and not arguments[0].startswith("/dev/")):
            raise OSError(30, "Read-only file system", arguments[0])

    sys.addaudithook(refuse)


def jumping_clock() -> None:
    """The time of day leaps by a day at each look, ahead and back in turn."""
    real, looks = time.time, itertools.count()
    time.time = lambda: real() + (86_400 if next(looks) % 2 else -86_400)


def _refuse(what: str, error: Exception) -> None:
    sys.stderr.write(f"REFUSED {what}\n")
    raise error


CAGES: dict[str, Callable[[], None]] = {
    cage.__name__.replace("_", "-"): cage for cage in (network, full_disk, read_only, jumping_clock)
}

if __name__ == "__main__":
    cage, script, *arguments = sys.argv[1:]
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = [script, *arguments]
    CAGES[cage]()
    runpy.run_path(script, run_name="__main__")
