"""Learning rate schedules, as pure functions of the step, so that a resumed run needs no state."""

from __future__ import annotations

import math

from training.config import TrainConfig


def learning_rate(config: TrainConfig, step: int, last_step: float | None = None) -> float:
    """The rate of a step, counted from 1: linear warm-up to the peak, then the schedule's decay.

    `inverse_sqrt` is section 5.3 of Vaswani et al. 2017 scaled to reach the peak; `cosine` falls
    to 0 at the last step (Loshchilov and Hutter 2017, without restarts); `trapezoid` stays at the peak and
    falls linearly to 0 over the last `decay_share` of the steps (Hägele et al. 2024), so that a run can
    be given more steps before it begins to fall; `step` multiplies by `decay_factor` after every
    `decay_every` steps; `constant` stays at the peak.
    """
    peak, warmup, last = config.peak_learning_rate, config.warmup_steps, last_step or config.max_steps
    if step < warmup:
        return peak * step / warmup
    after = step - warmup
    if config.schedule == "inverse_sqrt":
        return peak * math.sqrt(max(warmup, 1) / step)
    if config.schedule == "step":
        return float(peak * config.decay_factor ** (after // config.decay_every))
    if config.schedule == "constant":
        return peak
    if config.schedule == "trapezoid":
        left = max(last - step, 0)
        return peak * min(1.0, left / max(config.decay_share * last, 1))
    done = after / max(last - warmup, 1)
    return peak * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def last_step(max_steps: int, step: int, steps: int, seconds: float, left: float) -> float:
    """The step that ends a run after `step`, by its limit or by the seconds that are left.

    The last `steps` took `seconds`. Without any there is no speed yet, and the limit counts.
    """
    return min(max_steps, step + max(left, 0) * steps / seconds) if steps else max_steps
