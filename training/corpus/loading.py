"""The batches of a run, loaded on another thread while the network computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, islice
from typing import NamedTuple

import torch

from training.corpus.batching import Batch, EncodedPairs, Rows, TokenBatches

AHEAD = 4  # batches that are loaded before their turn


class Place(NamedTuple):
    """A batch and its place in the run."""

    epoch: int
    done: int  # batches of the epoch, this one included
    rows: Rows


class Loaded(NamedTuple):
    """A batch as the network reads it."""

    place: Place
    batch: Batch  # the share of this process
    tokens: int  # of the target, in all shares
    weight: float  # of this share


@dataclass(frozen=True)
class Loader:
    """Loads the share of one of several processes of every batch."""

    pairs: EncodedPairs
    batches: TokenBatches
    device: torch.device
    process: int = 0
    processes: int = 1

    def places(self, epoch: int, done: int) -> Iterator[Place]:
        """The batches after the first `done` of an epoch, epoch after epoch without end."""
        for number in count(epoch):
            for place, rows in enumerate(self.batches.epoch(number)[done:], start=done + 1):
                yield Place(number, place, rows)
            done = 0

    def load(self, place: Place) -> Loaded:
        """One batch. A process without a row takes one with weight 0."""
        share, weight = place.rows[self.process :: self.processes], 1.0
        if not len(share):
            share, weight = place.rows[:1], 0.0
        tokens = int(self.batches.target_lengths[place.rows].sum())
        return Loaded(place, self.pairs[share].collate(self.device), tokens, weight)

    def stream(self, epoch: int, done: int) -> Generator[Loaded, None, None]:
        """The batches from a place on; another thread loads the next AHEAD of them."""
        places = self.places(epoch, done)
        with ThreadPoolExecutor(1) as pool:
            coming = deque(pool.submit(self.load, place) for place in islice(places, AHEAD))
            try:
                while coming:
                    loaded = coming.popleft().result()
                    coming.append(pool.submit(self.load, next(places)))
                    yield loaded
            finally:
                for future in coming:
                    future.cancel()
