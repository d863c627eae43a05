"""Each file that --resume reads, damaged in every way: one sentence that says what is left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from model.errors import UserError
from model.storage.checkpoint import JOINT
from model.storage.probes import PROBES
from model.storage.run import RUN
from model.storage.training_log import METRICS
from tests.hostile.changes import change, changes
from tests.training.tiny import REVERSE, prepared, run, word_list
from training.run.damage import BEST
from training.run.directory import SAMPLES, SPLIT, STATE

CONFIG = replace(REVERSE, max_steps=8, validate_every=4)
NEEDED, OTHERS = (STATE, RUN, SPLIT, JOINT), (METRICS, SAMPLES, PROBES)
KINDS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "binary": lambda path: path.write_bytes(b"\xff\xfe\x00\n" * 100),
    "a list": lambda path: path.write_text("[]\n"),
    "null": lambda path: path.write_text("null\n"),
    "a number": lambda path: path.write_text("3\n"),
    "other fields": lambda path: path.write_text('{"step": "x", "config": [], "version": {}}\n'),
    "deep": lambda path: path.write_text("[" * 100_000 + "\n"),
    "huge": lambda path: os.truncate(path, 5 << 30),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    run(CONFIG, word_list(folder / "data"), folder / "run")
    return folder / "run"


def refusal(output: Path, whole: Path) -> str:
    """What --resume says; empty if it goes on."""
    try:
        prepared(replace(CONFIG, max_steps=9), whole.parent / "data", output, resume=True).run()
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*NEEDED, *OTHERS])
def test_a_damaged_file_is_one_sentence_that_names_what_is_left(
    tmp_path: Path, whole: Path, name: str, kind: str
):
    shutil.copytree(whole, tmp_path / "run")
    KINDS[kind](tmp_path / "run" / name)
    said = refusal(tmp_path / "run", whole)
    if name in OTHERS and not said:
        assert kind in ("empty", "cut")  # as if nothing had been logged since; a kill cuts a line too
        return
    assert str(tmp_path / "run") in said
    assert len(said.replace("...", "").split(". ")) == 1, said
    assert ("remove this file" if name in OTHERS else f"{BEST}, snapshots/step-") in said or name == STATE


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NEEDED, *OTHERS])
def test_changed_bytes_are_refused_in_a_sentence_or_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, whole: Path, name: str
):
    size = (whole / name).stat().st_size

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(changes(size))
    def judge(made: list) -> None:
        folder = tmp_path_factory.mktemp("changed") / "run"
        shutil.copytree(whole, folder)
        change(folder / name, made)
        refusal(folder, whole)

    judge()
