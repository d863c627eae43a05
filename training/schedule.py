"""Learning rate schedules, as pure functions of the step, so that a resumed run needs no state."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["inverse_sqrt", "cosine", "step", "constant"]


def learning_rate(
    step: int,
    *,
    peak: float,
    warmup_steps: int,
    max_steps: int,
    schedule: Schedule,
    decay_every: int = 1,
    decay_factor: float = 1.0,
) -> float:
    """The rate of a step, counted from 1: linear warm-up to `peak`, then the schedule's decay.

    `inverse_sqrt` is section 5.3 of Vaswani et al. 2017 scaled to reach `peak`; `cosine` falls
    to 0 at `max_steps` (Loshchilov and Hutter 2017, without restarts); `step` multiplies by
    `decay_factor` after every `decay_every` steps; `constant` stays at `peak`.
    """
    if step < warmup_steps:
        return peak * step / warmup_steps
    after = step - warmup_steps
    if schedule == "inverse_sqrt":
        return peak * math.sqrt(max(warmup_steps, 1) / step)
    if schedule == "step":
        return float(peak * decay_factor ** (after // decay_every))
    if schedule == "constant":
        return peak
    done = after / max(max_steps - warmup_steps, 1)
    return peak * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
