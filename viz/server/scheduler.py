"""Schedules the work of all clients: a quick and a slow queue, shared computations, and a response cache.

Quick requests never wait for slow ones. Equal requests share one computation, and its response is cached: a
request contains everything that its response depends on, so a response says nothing about who asked for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from viz.payload import to_json
from viz.server.handlers import find_handler

Answer = Callable[[object], dict[str, Any]]  # {"answer": ...} or {"error": one sentence}
T = TypeVar("T")

QUICK_AT_ONCE, SLOW_AT_ONCE = 2, 1
# Torch's threads for one computation. All computations together use at most one thread for each core; with
# few cores, each computation uses one thread. With more, the threads that share a computation sleep while
# they wait for each other, and it takes four times as long.
QUICK_THREADS, SLOW_THREADS = 1, max(1, torch.get_num_threads() - QUICK_AT_ONCE)
MAX_WAITING = 256  # in one queue; further requests are refused
MAX_CACHED = 32 * 2**20  # bytes of responses: some hundred translations
BUSY = "Many people are asking at once; try again in a moment."


class ResponseCache:
    """The most recently used responses, up to `size` bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self.responses: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """Return the response, and mark it as the most recently used one."""
        if key in self.responses:
            self.responses.move_to_end(key)
        return self.responses.get(key)

    def put(self, key: str, response: bytes) -> None:
        """Add a response that is not in the cache; drop the least recently used ones that no longer fit."""
        self.responses[key] = response
        self.used += len(response)
        while self.used > self.size:
            self.used -= len(self.responses.popitem(last=False)[1])


class WorkQueue:
    """Worker threads, each with its number of torch threads, and the requests that wait for them."""

    def __init__(self, at_once: int, torch_threads: int) -> None:
        self.turns = asyncio.Semaphore(at_once)  # granted in the order of arrival
        self.workers = ThreadPoolExecutor(at_once, initializer=_use_threads, initargs=(torch_threads,))
        self.waiting: dict[str, None] = {}  # keys in the order of arrival

    async def run(self, work: Callable[[], T]) -> T:
        """Run the work in a thread; the caller holds one of the `turns`."""
        return await asyncio.get_running_loop().run_in_executor(self.workers, work)


class Scheduler:
    """Runs `answer` in threads, next to the event loop, and returns its results as JSON."""

    def __init__(self, answer: Answer, max_cached: int = MAX_CACHED) -> None:
        self.answer = answer
        self.quick_queue = WorkQueue(QUICK_AT_ONCE, QUICK_THREADS)
        self.slow_queue = WorkQueue(SLOW_AT_ONCE, SLOW_THREADS)
        self.running: dict[str, asyncio.Task[bytes]] = {}
        self.waiters: Counter[str] = Counter()
        self.cache = ResponseCache(max_cached)

    async def ask(self, request: object) -> bytes:
        """Return the answer as JSON.

        A disconnecting client does not cancel the work for others. Queued work without waiters is cancelled.
        """
        key, queue = key_of(request), self._queue_of(request)
        cached = self.cache.get(key)
        if cached is not None:
            return cached
        if key not in self.running:
            if len(queue.waiting) >= MAX_WAITING:
                return _encoded({"error": BUSY})
            queue.waiting[key] = None
            self.running[key] = asyncio.create_task(self._run(key, queue, request))
        self.waiters[key] += 1
        try:
            return await asyncio.shield(self.running[key])
        finally:
            self.waiters[key] -= 1
            if not self.waiters[key]:
                del self.waiters[key]
                if key in queue.waiting:
                    del queue.waiting[key]
                    self.running.pop(key).cancel()

    async def run_slow(self, work: Callable[[], T]) -> T:
        """Run other slow work, in its turn among the slow requests."""
        async with self.slow_queue.turns:
            return await self.slow_queue.run(work)

    def queue_position(self, request: object) -> int | None:
        """Return the position of a waiting request in its queue, from 1; None when it does not wait."""
        waiting = list(self._queue_of(request).waiting)
        key = key_of(request)
        return waiting.index(key) + 1 if key in waiting else None

    def _queue_of(self, request: object) -> WorkQueue:
        handler = find_handler(request)
        return self.slow_queue if handler and handler.slow else self.quick_queue

    async def _run(self, key: str, queue: WorkQueue, request: object) -> bytes:
        def work() -> tuple[bytes, bool]:
            answered = self.answer(request)
            return _encoded(answered), "answer" in answered

        try:
            async with queue.turns:
                del queue.waiting[key]  # from here on it runs to its end
                response, is_answer = await queue.run(work)
        finally:
            if self.running.get(key) is asyncio.current_task():  # else the same request was started again
                del self.running[key]
        handler = find_handler(request)
        if is_answer and not (handler and handler.from_files):
            self.cache.put(key, response)
        return response


def _use_threads(number: int) -> None:
    torch.get_num_threads()  # torch initialises a thread at its first use, which would undo the next line
    torch.set_num_threads(number)


def key_of(request: object) -> str:
    """Return the same short text for equal requests, whatever the order of their fields."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _encoded(answer: dict[str, Any]) -> bytes:
    return to_json(answer).encode(errors="backslashreplace")  # half a surrogate pair, as JSON writes it
