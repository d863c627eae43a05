"""The curves of a training: thinned, bounded in number and read once."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from model.storage.training_log import METRICS, TrainingLog
from viz.server.handlers.training import MAX_CURVES, MAX_POINTS, _curves


def test_long_curves_are_thinned_and_read_once(tmp_path, monkeypatch):
    rows = [{"step": step, "train/loss": 1.0} for step in range(5000)]
    rows[100:100] = [{"step": 50, "validation/bleu": 30.0}]
    (tmp_path / METRICS).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    curves, notice = _curves(tmp_path, 1)
    monkeypatch.setattr(TrainingLog, "load", lambda _: pytest.fail("the log was read again"))
    assert _curves(tmp_path, 1) == (curves, notice)
    steps = [row["step"] for row in curves if "train/loss" in row]
    assert 500 <= len(steps) <= MAX_POINTS
    assert steps[-1] == 4999
    assert {later - earlier for earlier, later in pairwise(steps)} == {5}
    assert rows[100] in curves


def test_a_log_of_countless_curves_is_cut(tmp_path):
    """The log of a stranger's model may give each row a curve of its own."""
    rows = [{"step": step, f"train/{step}": 1.0, "train/loss": 1.0} for step in range(5000)]
    (tmp_path / METRICS).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    curves, _ = _curves(tmp_path, 2)
    names = {name for row in curves for name in row} - {"step"}
    assert "train/loss" in names
    assert len(names) == MAX_CURVES
    assert len(curves) <= MAX_POINTS + MAX_CURVES
