"""Token-budget batches of sentences of like length; a position in them is one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from model.tokenizer import BOS_ID, EOS_ID, pad

Lengths = NDArray[np.int64]
Rows = NDArray[np.int64]

# Widths are even and batches have rows in sixteens: a third of the different shapes. For each new
# one the CPU's matrix products are prepared anew, which took a fifth of the time.
WIDTHS, ROWS = 2, 16


@dataclass(frozen=True)
class TokenBatches:
    """The batches of every epoch, a pure function of lengths, budget, seed and epoch.

    A batch holds at most `budget` tokens on either side, padding counted, except that a
    sentence longer than the budget makes a batch of its own; and at most `pairs` rows. Where more
    than ROWS would fit, it holds a multiple of ROWS; only the last one may hold another number.
    """

    source_lengths: Lengths
    target_lengths: Lengths
    budget: int
    seed: int
    pairs: int | None = None

    def epoch(self, epoch: int) -> list[Rows]:
        """Row numbers of each batch: every row exactly once, in an order fresh for each epoch."""
        random = np.random.default_rng((self.seed, epoch))
        order = random.permutation(len(self.source_lengths))
        source, target = self.source_lengths[order], self.target_lengths[order]
        # Sources rise with every other target length and fall with the rest, so that a batch
        # which spans two target lengths still has like sources. A stable sort of shuffled
        # rows: batches of one length differ from epoch to epoch.
        order = order[np.lexsort((np.where(target % 2, -source, source), target))]
        batches = self._cut(order)
        return [batches[i] for i in random.permutation(len(batches))]

    def _cut(self, order: Rows) -> list[Rows]:
        batches, start = [], 0
        most = self.pairs or len(order)
        widths = padded(np.maximum(self.source_lengths, self.target_lengths)[order]).tolist()
        while start < len(order):
            end, widest = start, 0
            while end < min(start + most, len(order)):
                widest = max(widest, widths[end])
                if end > start and (end + 1 - start) * widest > self.budget:
                    break
                end += 1
            rows = end - start
            if end < len(order) and rows < most and rows > ROWS:
                end = start + rows // ROWS * ROWS
            batches.append(order[start:end])
            start = end
        return batches


def padded(lengths: Lengths) -> Lengths:
    """The widths that sentences of these lengths are padded to when they are the longest."""
    return -(-lengths // WIDTHS) * WIDTHS


def padding_share(batches: Sequence[Rows], *sides: Lengths) -> float:
    """Share of the padded tokens that are padding, over all sides given."""
    real = sum(int(side[batch].sum()) for side in sides for batch in batches)
    total = sum(int(padded(side[batch]).max()) * len(batch) for side in sides for batch in batches)
    return 1 - real / max(total, 1)


class Batch(NamedTuple):
    """Padded ids. The decoder reads `read` and is asked for `labels`: the same, one step later."""

    source: Int[Tensor, "B S"]
    read: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]


def collate(sources: Sequence[list[int]], targets: Sequence[list[int]], device: torch.device) -> Batch:
    """Source ... </s>; read <s> ...; labels ... </s>."""
    return Batch(
        pad([[*ids, EOS_ID] for ids in sources], WIDTHS).to(device),
        pad([[BOS_ID, *ids] for ids in targets], WIDTHS).to(device),
        pad([[*ids, EOS_ID] for ids in targets], WIDTHS).to(device),
    )
