"""Computes the parts of a batch in parallel, each on one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")

# Of the process: one for each core, or fewer by OMP_NUM_THREADS. A thread can have set fewer for itself.
ALL_THREADS = torch.get_num_threads()
_calls: list[None] = []  # those that run


def map_in_threads(
    function: Callable[[Part], Result], parts: Sequence[Part], threads: int | None = None
) -> list[Result]:
    """The result of each part, in order, in so many threads or as many as torch has; torch uses one in each.

    Two threads with half of a batch each take less time than two threads that share every product. Calls that
    run at the same time share the threads.
    """
    total = torch.get_num_threads()
    _calls.append(None)
    try:
        count = min((threads or total) // len(_calls), len(parts))
        if count < 2:
            return [function(part) for part in parts]
        return _map(function, parts, count, total)
    finally:
        _calls.pop()


def _map(function: Callable[[Part], Result], parts: Sequence[Part], count: int, total: int) -> list[Result]:
    """The results, computed in so many threads; the calling thread keeps its `total` of torch's threads."""
    started = Barrier(count + 1)

    def begin() -> None:
        torch.get_num_threads()  # torch sets up a thread at its first call, which would undo the next line
        torch.set_num_threads(1)
        started.wait()

    with ThreadPoolExecutor(count, initializer=begin) as pool:
        results = pool.map(function, parts)
        started.wait()
        torch.set_num_threads(total)  # otherwise threads that begin later would have one too
        return list(results)
