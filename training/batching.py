"""Token-budget batches of sentences of like length; a position in them is one number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class TokenBatches:
    """The batches of every epoch, a pure function of lengths, budget, seed and epoch.

    A batch holds at most `budget` tokens on either side, padding counted, except that a
    sentence longer than the budget makes a batch of its own.
    """

    source_lengths: Lengths
    target_lengths: Lengths
    budget: int
    seed: int

    def epoch(self, epoch: int) -> list[Lengths]:
        """Row numbers of each batch: every row exactly once, in an order fresh for each epoch."""
        random = np.random.default_rng((self.seed, epoch))
        order = random.permutation(len(self.source_lengths))
        # A stable sort of shuffled rows: batches of one length differ from epoch to epoch.
        key = np.stack((self.source_lengths[order], self.target_lengths[order]))
        order = order[np.lexsort(key)]
        batches = self._cut(order)
        return [batches[i] for i in random.permutation(len(batches))]

    def _cut(self, order: Lengths) -> list[Lengths]:
        batches, start, widest = [], 0, 0
        widths = np.maximum(self.source_lengths, self.target_lengths)[order].tolist()
        for end, width in enumerate(widths):
            if end > start and (end - start + 1) * max(widest, width) > self.budget:
                batches.append(order[start:end])
                start, widest = end, 0
            widest = max(widest, width)
        if start < len(order):
            batches.append(order[start:])
        return batches


def padding_share(batches: list[Lengths], lengths: Lengths) -> float:
    """Share of the padded tokens of one side that are padding."""
    real = sum(int(lengths[batch].sum()) for batch in batches)
    padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
    return 1 - real / max(padded, 1)
