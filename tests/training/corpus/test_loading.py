"""Batches are loaded ahead of their turn, in order."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import ClassVar

import pytest
import torch

from training.corpus.batching import EncodedPairs, IdRows
from training.corpus.loading import AHEAD, Loaded, Loader, Place


class Noted(Loader):
    """Notes which batches it loads, and fails at one of them."""

    begun: ClassVar[list[Place]] = []
    fails: int = -1

    def load(self, place: Place) -> Loaded:
        self.begun.append(place)
        if len(self.begun) - 1 == self.fails:
            raise OSError("the disk is gone")
        return super().load(place)


@pytest.fixture
def loader(monkeypatch) -> Noted:
    rows = IdRows.of([[4] * (1 + i % 5) for i in range(40)])
    monkeypatch.setattr(Noted, "begun", [])
    pairs = EncodedPairs(rows, rows)
    return Noted(pairs, pairs.batches(24, seed=1), torch.device("cpu"))


def test_batches_come_in_order_and_few_are_loaded_before_their_turn(loader):
    wanted = [place.rows.tolist() for place in islice(loader.places(0, 3), 20)]
    with closing(loader.stream(0, 3)) as batches:
        assert [loaded.place.rows.tolist() for loaded in islice(batches, 20)] == wanted
    assert 20 <= len(loader.begun) <= 20 + AHEAD


def test_an_error_of_the_thread_reaches_the_run_in_its_turn(loader, monkeypatch):
    monkeypatch.setattr(Noted, "fails", 6)
    batches = loader.stream(0, 0)
    assert len(list(islice(batches, 6))) == 6
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)
