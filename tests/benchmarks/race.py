"""A race of two trainers that take turns, so that a slower machine slows both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from tests.benchmarks.arithmetic import product_rate
from training.hardware import bfloat16_pays

TURN_SECONDS = 1.0  # a turn is the steps that begin within this time
# What torch calls matrix products; fused attention is mostly that, so it is counted too.
FUSED_ATTENTION = "aten::_scaled_dot_product_flash_attention_for_cpu"
PRODUCTS = {
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::linear",
    "aten::matmul",
    FUSED_ATTENTION,
    f"{FUSED_ATTENTION}_backward",
}


class Work(NamedTuple):
    """The work of one step, without padding."""

    target_tokens: int
    flops: int


class Speed(NamedTuple):
    """Target tokens and floating-point operations per second of one turn."""

    tokens: float
    flops: float


class Turn:
    """The steps of one contestant without a break."""

    def __init__(self, profiled: bool) -> None:
        self.profiler = profile(activities=[ProfilerActivity.CPU]) if profiled else None
        if self.profiler:
            self.profiler.start()
        self.work: list[Work] = []
        self.started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the turn began."""
        return time.perf_counter() - self.started

    def speed(self) -> Speed:
        """The speed of the turn until now."""
        seconds = self.seconds
        tokens, flops = (sum(column) for column in zip(*self.work, strict=True))
        return Speed(tokens / seconds, flops / seconds)

    def product_share(self) -> float:
        """End the profiled turn: time in matrix products over all time."""
        assert self.profiler is not None
        seconds = self.seconds
        self.profiler.stop()
        events = self.profiler.key_averages()
        microseconds = sum(event.self_cpu_time_total for event in events if event.key in PRODUCTS)
        return float(microseconds / 1e6 / seconds)


class Race:
    """Turn after turn: a peer, which runs itself, then ours, which is run from here.

    The first turn of each warms up, the last one is profiled, those between are timed. A speed is
    the median over turns; the ratio is the median of the ratios of neighbouring turns.
    """

    def __init__(self, peer: str, our_step: Callable[[], Work], tokens_per_pair: float, turns: int) -> None:
        self.names = (peer, "Headlight")
        self.our_step = our_step
        self.tokens_per_pair = tokens_per_pair
        self.last_turn = turns + 1
        self.turn_number = 0
        self.speeds: tuple[list[Speed], list[Speed]] = ([], [])
        self.product_shares: list[float] = []
        self.dtype = torch.bfloat16 if bfloat16_pays() else torch.float32  # as our trainer chooses
        self.product_rates: list[float] = []  # FLOP/s, one after each turn

    def begin(self) -> None:
        """The first step of a peer's turn is about to start."""
        self.turn = Turn(profiled=self.turn_number == self.last_turn)

    def after_step(self, work: Work) -> bool:
        """Count a step of the peer; after its turn run ours. Returns False when the race is over."""
        self.turn.work.append(work)
        if self.turn.seconds < TURN_SECONDS:
            return True
        self._end(self.turn, self.speeds[0])
        turn = Turn(profiled=self.turn_number == self.last_turn)
        while turn.seconds < TURN_SECONDS:
            turn.work.append(self.our_step())
        self._end(turn, self.speeds[1])
        self.product_rates.append(product_rate(self.dtype))
        self.turn_number += 1
        self.begin()
        return self.turn_number <= self.last_turn

    def _end(self, turn: Turn, speeds: list[Speed]) -> None:
        if self.turn_number == self.last_turn:
            self.product_shares.append(turn.product_share())
        elif self.turn_number > 0:
            speeds.append(turn.speed())

    def table(self) -> str:
        """Both contestants, and how many times faster ours is."""
        limit, dtype = statistics.median(self.product_rates), str(self.dtype).removeprefix("torch.")
        lines = []
        for name, speeds, share in zip(self.names, self.speeds, self.product_shares, strict=True):
            tokens, flops = (statistics.median(column) for column in zip(*speeds, strict=True))
            lines.append(
                f"{name:32}{tokens / self.tokens_per_pair:10,.2f} pairs/s{tokens:9,.0f} tokens/s"
                f"{share:8.0%} in products{flops / limit:8.1%} of {dtype}"
            )
        ratio = statistics.median(ours.tokens / peer.tokens for peer, ours in zip(*self.speeds, strict=True))
        lines.append(f"{'':32}{ratio:10,.2f} x (a {dtype} product: {limit / 1e9:,.0f} GFLOP/s)")
        return "\n".join(lines)
