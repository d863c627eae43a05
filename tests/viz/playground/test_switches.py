"""What the playground says next to its switches is what trainings do.

Each seed trains the same everywhere but for rounding, so the claims are of the kind that rounding does not
turn: much or little, first or later.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.viz.node import run_node
from tests.viz.playground.test_directory import SETTINGS

pytestmark = pytest.mark.slow
WIDE: dict[str, Any] = {"width": 32}
Outcome = dict[str, Any]


def outcomes(folder: Path, *runs: tuple[int, dict[str, Any]]) -> list[Outcome]:
    """What trainings come to, each (steps, changes of the usual settings)."""
    asked = [{"settings": SETTINGS | WIDE | changes, "steps": steps} for steps, changes in runs]
    (folder / "settings.json").write_text(json.dumps(asked), "utf-8")
    run_node(folder, Path(__file__).parent, "tests/outcomes.mjs")
    found: list[Outcome] = json.loads((folder / "outcomes.json").read_text("utf-8"))
    return found


def test_copying_takes_fewer_steps_and_sorting_more(tmp_path):
    copied, reversed_, sorted_ = outcomes(
        tmp_path, (600, {"task": "copy"}), (1000, {}), (3000, {"task": "sort"})
    )
    assert copied["good"] < reversed_["good"] < sorted_["good"]


@pytest.mark.parametrize("task", ["shift", "double", "numbers", "dates"])
def test_the_other_tasks_are_learned(tmp_path, task):
    (found,) = outcomes(tmp_path, (1000, {"task": task}))
    assert found["good"] is not None


def test_one_layer_and_one_head_are_enough(tmp_path):
    for found in outcomes(tmp_path, (1500, {"heads": 1}), (1000, {})):
        assert found["good"] is not None


def test_a_narrow_model_needs_more_steps(tmp_path):
    narrow, usual = outcomes(tmp_path, (2500, {"width": 16}), (1000, {}))
    assert narrow["good"] > usual["good"]


@pytest.mark.parametrize("task", ["reverse", "copy"])
def test_copying_and_reversing_need_positions(tmp_path, task):
    (found,) = outcomes(tmp_path, (800, {"positions": False, "task": task}))
    assert found["share"] < 0.1


def test_sorting_does_not_need_positions(tmp_path):
    (found,) = outcomes(tmp_path, (1500, {"positions": False, "task": "sort"}))
    assert found["share"] > 0.5


def test_a_decoder_that_peeks_writes_nothing_right(tmp_path):
    (found,) = outcomes(tmp_path, (400, {"mask": False}))
    assert found["loss"] < 0.01
    assert found["share"] == 0


def test_a_low_rate_is_slow_and_a_high_one_fails(tmp_path):
    low, usual, high = outcomes(tmp_path, (2500, {"rate": 0.001}), (1000, {}), (800, {"rate": 0.1}))
    assert low["good"] is None or low["good"] > usual["good"]
    assert high["share"] < 0.1


def test_only_the_last_state_is_enough_for_short_words_alone(tmp_path):
    for seed in (1, 2):
        free, last = outcomes(tmp_path, (1000, {"seed": seed}), (1000, {"seed": seed, "last": True}))
        assert free["share"] > 0.9
        assert last["lengths"]["3"] > 0.8
        assert last["lengths"]["8"] < 0.2


def test_no_challenge_is_solved_best_by_the_smallest_switches(tmp_path):
    smallest = {"width": 16, "heads": 1}
    alone, heads = outcomes(
        tmp_path, (1000, {"task": "sort", **smallest}), (1000, {"task": "sort", "width": 16, "heads": 4})
    )
    assert alone["good"] is None  # within 1000 steps
    assert heads["good"] is not None  # with as many parameters
    slow, quick = outcomes(tmp_path, (2500, smallest), (1000, {"rate": 0.03}))
    assert slow["good"] is None or quick["good"] < slow["good"]
