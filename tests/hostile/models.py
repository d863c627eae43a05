"""Serves a folder of models: a normal one, one with a hostile name, and a broken one with another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from model.storage.checkpoint import CONFIG, save
from tests.hostile.payloads import SET
from tests.visitor import Server, serving
from tests.viz.questions import TRANSLATOR, train

# Names of directories have no slash; the first model by name is the one that the page opens with.
NAME = f"~<img src=x onerror={SET}>\"'`${{{SET}}}"
BROKEN = f"~<script>{SET}<!--"
TITLE = f"<img src=x onerror={SET}></script><script>{SET}</script>"


@contextmanager
def serving_them(folder: Path) -> Iterator[Server]:
    """The page in its own process, without the type checks of the tests, which would raise first."""
    checkpoint = TRANSLATOR.checkpoint
    save(checkpoint, folder / "tiny")
    train(folder / "tiny")
    save(replace(checkpoint, info=replace(checkpoint.info, title=TITLE)), folder / NAME)
    (folder / BROKEN).mkdir()
    (folder / BROKEN / CONFIG).write_text("{}")
    with serving(after=["--models", str(folder)]) as server:
        yield server
