"""Learning rates as pure functions of the step, so that nothing is lost on resume."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["inverse_sqrt", "cosine"]


def learning_rate(step: int, *, peak: float, warmup_steps: int, max_steps: int, schedule: Schedule) -> float:
    """Rate of step 1, 2, ...: linear warm-up to `peak`, then the schedule's decay.

    `inverse_sqrt` is section 5.3 of Vaswani et al. 2017 scaled to reach `peak`; `cosine` falls
    to 0 at `max_steps` (Loshchilov and Hutter 2017, without restarts).
    """
    if step < warmup_steps:
        return peak * step / warmup_steps
    if schedule == "inverse_sqrt":
        return peak * math.sqrt(max(warmup_steps, 1) / step)
    done = (step - warmup_steps) / max(max_steps - warmup_steps, 1)
    return peak * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
