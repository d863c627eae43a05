"""Learning rates: warm-up, then decay, as functions of the step."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.tiny import REVERSE
from training.schedule import learning_rate

PEAK, WARMUP, STEPS = 2e-3, 40, 400
FALLING = ["inverse_sqrt", "cosine"]
SCHEDULES = [*FALLING, "trapezoid", "step", "constant"]
CONFIG = replace(
    REVERSE, peak_learning_rate=PEAK, warmup_steps=WARMUP, max_steps=STEPS, decay_every=50, decay_factor=0.5
)


def rate(step: int, schedule: str) -> float:
    return learning_rate(replace(CONFIG, schedule=schedule), step)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rate_reaches_the_peak_at_the_end_of_the_warm_up_without_a_jump(schedule):
    assert rate(WARMUP, schedule) == pytest.approx(PEAK)
    for step in (WARMUP - 1, WARMUP + 1):
        assert rate(step, schedule) == pytest.approx(PEAK, rel=1.5 / WARMUP)
        assert rate(step, schedule) < PEAK or (schedule not in FALLING and step > WARMUP)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rate_rises_in_equal_steps_then_only_falls(schedule):
    rates = [rate(step, schedule) for step in range(1, STEPS + 1)]
    rises = [after - before for before, after in itertools.pairwise(rates)]
    assert rises[: WARMUP - 1] == pytest.approx([PEAK / WARMUP] * (WARMUP - 1))
    assert all(rise < 0 if schedule in FALLING else rise <= 0 for rise in rises[WARMUP - 1 :])
    assert rates[0] > 0


def test_cosine_is_half_the_peak_in_the_middle_and_ends_at_zero():
    assert rate((WARMUP + STEPS) // 2, "cosine") == pytest.approx(PEAK / 2)
    assert rate(STEPS, "cosine") == pytest.approx(0, abs=1e-12)
    assert rate(2 * STEPS, "cosine") == pytest.approx(0, abs=1e-12)


def test_a_trapezoid_stays_at_the_peak_and_falls_in_equal_steps_to_zero():
    config = replace(CONFIG, schedule="trapezoid", decay_share=0.25)
    rates = [learning_rate(config, step) / PEAK for step in range(WARMUP, STEPS + 1)]
    last = STEPS // 4
    assert rates[:-last] == pytest.approx([1] * (STEPS - WARMUP + 1 - last))
    assert rates[-last:] == pytest.approx([left / last for left in reversed(range(last))])


def test_steps_halve_the_rate_at_equal_distances_and_a_constant_stays():
    assert [rate(WARMUP + after, "step") / PEAK for after in (0, 49, 50, 99, 100, 349)] == pytest.approx(
        [1, 1, 0.5, 0.5, 0.25, 2**-6]
    )
    assert {rate(step, "constant") for step in (WARMUP, WARMUP + 1, STEPS, 2 * STEPS)} == {PEAK}


@given(st.integers(1, 10_000), st.integers(1, 512))
def test_inverse_square_root_is_the_papers_formula(step, d_model):
    """Equation 3: d_model^-0.5 min(step^-0.5, step warmup^-1.5), which peaks at (d_model warmup)^-0.5."""
    wanted = d_model**-0.5 * min(step**-0.5, step * WARMUP**-1.5)
    peak = (d_model * WARMUP) ** -0.5
    found = learning_rate(replace(CONFIG, peak_learning_rate=peak, schedule="inverse_sqrt"), step)
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup", [0, 1, 10])
def test_short_runs_have_a_rate_at_every_step(schedule, warmup):
    config = replace(CONFIG, warmup_steps=warmup, max_steps=10, schedule=schedule)
    rates = [learning_rate(config, step) for step in range(1, 12)]
    assert all(math.isfinite(rate) and 0 <= rate <= PEAK for rate in rates)
