"""Batches of sentences of similar length within a token budget, and their padded tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from model.text.tokenizer import BOS_ID, EOS_ID, PAD_ID

Lengths = NDArray[np.int64]
Rows = NDArray[np.int64]

# With even widths and multiples of sixteen rows there are only a third as many shapes. The CPU prepares its
# matrix products anew for each new shape, which took a fifth of the time.
WIDTHS, ROWS = 2, 16


@dataclass(frozen=True)
class TokenBatches:
    """The batches of every epoch, a pure function of lengths, budget, seed and epoch.

    A batch has at most `budget` tokens on either side, with padding, and at most `pairs` rows. A
    sentence longer than the budget is a batch of its own. If more than ROWS rows fit, their number is a
    multiple of ROWS, except in the last batch.
    """

    source_lengths: Lengths
    target_lengths: Lengths
    budget: int
    seed: int
    pairs: int | None = None
    choose: Callable[[Generator], Rows] | None = None  # the rows of one epoch; None: every row once

    def epoch(self, epoch: int) -> list[Rows]:
        """Row numbers of each batch, in a new order in each epoch."""
        random = np.random.default_rng((self.seed, epoch))
        rows = np.arange(len(self.source_lengths)) if self.choose is None else self.choose(random)
        order = random.permutation(rows)
        source, target = self.source_lengths[order], self.target_lengths[order]
        # Source lengths rise within every other target length and fall within the rest, so a batch
        # that spans two target lengths still has similar sources. The sort is stable and the rows
        # are shuffled, so batches of one length differ between epochs.
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
    """The width of a batch, for each of these lengths of its longest sentence."""
    return -(-lengths // WIDTHS) * WIDTHS


def padding_share(batches: Sequence[Rows], *sides: Lengths) -> float:
    """The share of padding among all tokens of the given sides."""
    real = sum(int(side[batch].sum()) for side in sides for batch in batches)
    total = sum(int(padded(side[batch]).max()) * len(batch) for side in sides for batch in batches)
    return 1 - real / max(total, 1)


class Batch(NamedTuple):
    """Padded ids. The decoder reads `read` and learns to predict `labels`, the same one step later.

    Row t of `links` is about the token that the decoder reads at t: its linked source tokens have equal
    weights with the sum 1.
    """

    source: Int[Tensor, "B S"]
    read: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]
    links: Float[Tensor, "B T S"] | None = None


@dataclass(frozen=True)
class IdRows:
    """Rows of integers in one flat array: rows are gathered quickly; a GPU would wait for lists."""

    values: NDArray[np.integer[Any]]
    starts: NDArray[np.int64]
    lengths: Lengths

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> IdRows:
        """Rows that are given as lists."""
        rows = list(rows)
        lengths = np.array(list(map(len, rows)), dtype=np.int64)
        return cls(np.fromiter(chain.from_iterable(rows), np.int64), lengths.cumsum() - lengths, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, rows: Rows) -> IdRows:
        return IdRows(self.values, self.starts[rows], self.lengths[rows])

    @property
    def flat(self) -> NDArray[np.int64]:
        """The integers of all rows, one row after the other."""
        firsts = self.lengths.cumsum() - self.lengths
        places = np.repeat(self.starts - firsts, self.lengths) + np.arange(self.lengths.sum())
        found: NDArray[np.int64] = self.values[places].astype(np.int64)
        return found

    def padded(self) -> NDArray[np.int64]:
        """The rows with a column for </s>, padded on the right to a multiple of WIDTHS columns."""
        width = int(padded(self.lengths + 1).max())
        found = np.full((len(self), width), PAD_ID)
        found[np.arange(width) < self.lengths[:, None]] = self.flat
        return found


@dataclass(frozen=True)
class EncodedPairs:
    """Sentence pairs as ids without <s> and </s>.

    A row of `links` has the linked tokens of its pair: target and source token in turn.
    """

    source: IdRows
    target: IdRows
    links: IdRows | None = None

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, rows: Rows) -> EncodedPairs:
        return EncodedPairs(self.source[rows], self.target[rows], self.links and self.links[rows])

    def batches(
        self,
        budget: int,
        seed: int,
        pairs: int | None = None,
        choose: Callable[[Generator], Rows] | None = None,
    ) -> TokenBatches:
        """Batches of these pairs; </s> or <s> makes each sentence one token longer."""
        return TokenBatches(self.source.lengths + 1, self.target.lengths + 1, budget, seed, pairs, choose)

    def collate(self, device: torch.device) -> Batch:
        """All pairs as one batch: source and labels end with </s>, read begins with <s>."""
        source, read = self.source.padded(), self.target.padded()
        source[np.arange(len(self)), self.source.lengths] = EOS_ID
        labels = read.copy()
        labels[np.arange(len(self)), self.target.lengths] = EOS_ID
        read[:, 1:], read[:, 0] = read[:, :-1].copy(), BOS_ID
        links = None if self.links is None else _link_weights(self.links, (*read.shape, source.shape[1]))
        ids = [torch.from_numpy(side).to(device) for side in (source, read, labels)]
        return Batch(ids[0], ids[1], ids[2], None if links is None else links.to(device))


def _link_weights(links: IdRows, shape: tuple[int, int, int]) -> Float[Tensor, "B T S"]:
    """The shares of the linked source tokens; target token t is read in row t + 1, after <s>."""
    pairs = np.repeat(np.arange(len(links)), links.lengths // 2)
    targets, sources = links.flat.reshape(-1, 2).T
    weights = torch.zeros(shape)
    weights[pairs, targets + 1, sources] = 1
    return weights / weights.sum(-1, keepdim=True).clamp(min=1)
