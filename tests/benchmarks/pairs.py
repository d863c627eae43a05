"""The sentence pairs that every contestant of a race trains on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from model.network.config import ModelConfig
from tests.benchmarks.arithmetic import training_flops
from tests.benchmarks.race import Work


@dataclass(frozen=True)
class Pairs:
    """Ids without <s> and </s>, and the shape of the model that learns them."""

    sources: list[list[int]]
    targets: list[list[int]]
    model: ModelConfig

    def work(self, rows: Iterable[int]) -> Work:
        """The work of one step on these rows; </s> is added on either side."""
        lengths = [(len(self.sources[i]) + 1, len(self.targets[i]) + 1) for i in rows]
        return Work(sum(target for _, target in lengths), training_flops(self.model, lengths))

    @property
    def tokens_per_pair(self) -> float:
        """Mean target tokens, </s> counted."""
        return sum(map(len, self.targets)) / len(self.targets) + 1
