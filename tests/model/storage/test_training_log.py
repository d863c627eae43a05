"""The log of a run is read back, and a broken line is skipped."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from model.errors import UserError
from model.storage.training_log import METRICS, TrainingLog

ROWS = (
    {"step": 50, "train/loss": 5.25, "train/learning_rate": 1e-4},
    {"step": 100, "validation/loss": 4.5, "validation/bleu": 1, "validation/bleu_signature": "tok:13a"},
    {"step": 100, "train/loss": 4.75},
)
BROKEN = (
    b"",
    b"{",
    b"7",
    b"[]",
    b"null",
    b'{"train/loss": 1.0}',
    b'{"step": "50"}',
    b'{"step": 1.5}',
    b'{"step": true}',
    b'{"step": -1}',
    b'{"step": 50, "train/loss": NaN}',
    b'{"step": 50, "train/loss": 1e999}',
    b'{"step": 50, "train/loss": ' + b"1" * 400 + b"}",
    b'{"step": 50, "train/loss": ' + b"1" * 5000 + b"}",
    b'{"step": 50, "train/loss": true}',
    b'{"step": 50, "train/loss": [1.0]}',
    b'{"step": 50, "train/loss": null}',
    b'{"step": 50, "sample": "\xff"}',
    b"[" * 100_000,
)


def write(directory: Path, lines: list[bytes]) -> None:
    (directory / METRICS).write_bytes(b"".join(line + b"\n" for line in lines))


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    write(tmp_path, [json.dumps(row).encode() for row in ROWS])
    curves = TrainingLog.load(tmp_path)
    assert curves == TrainingLog(ROWS, 0)


@pytest.mark.parametrize("line", BROKEN, ids=lambda line: line[:40].decode(errors="replace"))
def test_a_broken_line_is_counted_and_the_others_stay(tmp_path: Path, line: bytes) -> None:
    first, *others = (json.dumps(row).encode() for row in ROWS)
    write(tmp_path, [first, line, *others])
    assert TrainingLog.load(tmp_path) == TrainingLog(ROWS, 1)


def test_a_line_cut_short_is_counted(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text('{"step": 50, "train/loss": 5.25}\n{"step": 100, "tra', encoding="utf-8")
    curves = TrainingLog.load(tmp_path)
    assert (len(curves.rows), curves.skipped) == (1, 1)


def test_a_model_without_a_log_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="metrics.jsonl is missing; copy the whole model directory"):
        TrainingLog.load(tmp_path)


def test_a_file_beyond_all_measure_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / METRICS).open("wb") as stream:
        stream.truncate(5 << 20)
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("the file was read"))
    with pytest.raises(UserError, match="at most 4,194,304 are read"):
        TrainingLog.load(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "device", "link"])
def test_what_is_not_a_file_of_the_directory_is_refused_unread(tmp_path: Path, kind: str) -> None:
    """Opening the pipe would block for good, and reading the device would never end."""
    directory, path = tmp_path / "model", tmp_path / "model" / METRICS
    directory.mkdir()
    (tmp_path / "secret").write_text('{"step": 1}')
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "secret")
    with pytest.raises(UserError, match="is not a file|is a link"):
        TrainingLog.load(directory)
