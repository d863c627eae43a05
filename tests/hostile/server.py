"""Serve the page of a tiny model in a process of its own, until its input ends.

As people run it, so without the checks of types that tests have: they would refuse what the page must refuse.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

import app
from tests.viz.questions import TRANSLATOR, train

if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    with tempfile.TemporaryDirectory() as directory:
        train(Path(directory))
        page = app.build({"tiny": TRANSLATOR})
        _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, **app.launch_options())
        print(url, flush=True)  # noqa: T201
        sys.stdin.read()
