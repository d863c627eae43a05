"""The page of a tiny model, and of one with a hostile name, served in a process of its own until its input ends.

As people run it, so without the checks of types that tests have: they would refuse what the page must refuse.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import app
from model import Translator
from tests.hostile.payloads import SET
from tests.viz.questions import TRANSLATOR, train

NAME = f"</script><script>{SET}</script>\"'`${{{SET}}}"  # a directory's name could be this, but for the slash
TITLE = f"<img src=x onerror={SET}></script><script>{SET}</script>"


def serve() -> None:
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    checkpoint = TRANSLATOR.checkpoint
    other = replace(checkpoint, info=replace(checkpoint.info, title=TITLE))
    with tempfile.TemporaryDirectory() as directory:
        train(Path(directory))
        page = app.build(
            {"tiny": TRANSLATOR, NAME: Translator(other, NAME)}, problems=[f"{NAME} is left out."]
        )
        _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, **app.launch_options())
        print(url, flush=True)  # noqa: T201
        sys.stdin.read()


@contextmanager
def running(log: Path) -> Iterator[str]:
    """Start the server, whose error stream goes to `log`; give its address."""
    command = [sys.executable, "-X", "utf8", "-m", "tests.hostile.server"]
    pipe, here = subprocess.PIPE, Path(app.__file__).parent
    with log.open("wb") as stream:
        process = subprocess.Popen(command, cwd=here, stdin=pipe, stdout=pipe, stderr=stream, text=True)
        assert process.stdout
        yield process.stdout.readline().strip()
        process.communicate()


if __name__ == "__main__":
    serve()
