"""Schedules the work of all clients: fair queues for cheap and for costly work, and a response cache.

Cheap requests never wait for costly ones. Equal requests share one computation, and its response is cached: a
request contains everything that its response depends on, so a response says nothing about who asked for it.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import json
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from model.decoding.progress import WorkCancelled, listening
from model.errors import Sentence, said
from viz.payload import to_json
from viz.server.handlers import CHEAPEST, estimate_seconds, find_handler
from viz.server.work_queue import NOBODY, STOPPING, Client, RefusedError, WorkQueue, asking

Answer = Callable[[object], dict[str, Any]]  # {"answer": ...} or {"error": one sentence}

QUICK_AT_ONCE, SLOW_AT_ONCE = 2, 2
# Torch's threads for one computation. All computations together use at most one thread for each core; with
# few cores, each computation uses one thread. With more, the threads that share a computation sleep while
# they wait for each other, and it takes four times as long.
QUICK_THREADS, SLOW_THREADS = 1, max(1, (torch.get_num_threads() - QUICK_AT_ONCE) // SLOW_AT_ONCE)
SLOW_NICENESS = 10  # costly work gets what cheap work and the event loop leave of the cores
QUICK_SECONDS = 0.3  # estimated; what takes longer waits in the slow queue
MAX_CACHED = 32 * 2**20  # bytes of responses: some hundred translations
MAX_RESPONSE = 64 * 2**20  # bytes; the record of the largest model and the longest sentence has 58 MB
CANCELLED = Sentence("This request was cancelled.")
TOO_LARGE = Sentence("The answer is too large to send; shorten the sentence.")


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


class Scheduler:
    """Runs `answer` in threads, next to the event loop, and returns its results as JSON."""

    def __init__(
        self,
        answer: Answer,
        max_cached: int = MAX_CACHED,
        estimate: Callable[[object], float] = estimate_seconds,
    ) -> None:
        self.answer = answer
        self.estimate = estimate
        self.estimate_queue = WorkQueue(1, 1)  # reads the text with the tokenizer of an untrusted model
        self.quick_queue = WorkQueue(QUICK_AT_ONCE, QUICK_THREADS)
        self.slow_queue = WorkQueue(SLOW_AT_ONCE, SLOW_THREADS, SLOW_NICENESS)
        self.queues = self.estimate_queue, self.quick_queue, self.slow_queue
        self.running: dict[str, asyncio.Task[bytes | None]] = {}
        self.waiters: Counter[str] = Counter()
        self.waits: dict[tuple[Client, str], asyncio.Future[bytes | None]] = {}  # the latest of each client
        self.progress: dict[str, str] = {}  # of running work
        self.cache = ResponseCache(max_cached)
        self.is_stopping = self.is_closed = False

    async def ask(self, request: object) -> bytes:
        """Return the answer as JSON. Raises RefusedError if the server is too busy or stopping.

        A client that disconnects or calls `cancel` does not cancel the work for others. Work without waiters
        is cancelled: in the queue at once, else when it next reports its progress.
        """
        key = key_of(request)
        cached = self.cache.get(key)
        if cached is not None:
            return cached
        self.waiters[key] += 1
        mine = asking.get(NOBODY), key
        try:
            response = None
            while response is None:  # again for work that was cancelled just before this client came
                if key in self.running:
                    for queue in self.queues:
                        queue.join(key, mine[0])
                else:
                    self.running[key] = asyncio.create_task(self._run(key, request))
                wait = self.waits[mine] = asyncio.shield(self.running[key])
                response = await wait
            return response
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.is_closed or (task and not task.cancelling()):
                raise RefusedError(STOPPING if self.is_closed else CANCELLED) from None
            raise
        finally:
            self.waits.pop(mine, None)
            self.waiters[key] -= 1
            if not self.waiters[key]:
                del self.waiters[key]
                if any(queue.forget(key) for queue in self.queues):
                    self.running.pop(key).cancel()

    def cancel(self, request: object) -> None:
        """End the wait of this client for the answer to a request, if it waits."""
        wait = self.waits.get((asking.get(NOBODY), key_of(request)))
        if wait is not None:
            wait.cancel()

    def queue_position(self, request: object) -> int | str | None:
        """Return the position of a waiting request in its queue, from 1, or the progress of a running one.

        None if the request does not wait and has reported nothing.
        """
        key = key_of(request)
        for queue in (self.quick_queue, self.slow_queue):
            if turn := queue.waiting.get(key):
                return queue.order().index(turn) + 1
        return self.progress.get(key)

    def load(self) -> dict[str, int]:
        """Return how many pieces of work a worker has, and how many wait for one."""
        return {
            "running": sum(len(queue.running) for queue in self.queues),
            "waiting": sum(len(queue.waiting) for queue in self.queues),
        }

    def is_stuck(self) -> bool:
        """Whether a worker seems to hang."""
        return any(queue.is_stuck() for queue in self.queues)

    def stop(self) -> None:
        """Refuse all work that has not begun. Call this in the event loop."""
        self.is_stopping = True
        for queue in self.queues:
            queue.stop()

    def close(self) -> None:
        """Refuse all requests, also those whose work has begun; the threads cannot be stopped."""
        self.stop()
        self.is_closed = True
        for task in self.running.values():
            task.cancel()

    async def _run(self, key: str, request: object) -> bytes | None:
        """Return the response, None if the work was cancelled."""
        client = asking.get(NOBODY)
        try:
            seconds = await self.estimate_queue.run(key, client, CHEAPEST, lambda: self.estimate(request))
            queue = self.quick_queue if seconds <= QUICK_SECONDS else self.slow_queue
            work = self._work(key, queue, request)
            done = await queue.run(key, client, seconds, work) if self.waiters[key] else None
        finally:
            self.progress.pop(key, None)
            if self.running.get(key) is asyncio.current_task():  # else the same request was started again
                del self.running[key]
        if queue is self.slow_queue and not queue.running:
            queue.workers.submit(_return_memory)
        if done is None:
            return None
        response, is_answer = done
        if len(response) > MAX_RESPONSE:
            return _encoded({"error": TOO_LARGE, "said": said(TOO_LARGE)})
        handler = find_handler(request)
        if is_answer and handler and handler.is_cached:
            self.cache.put(key, response)
        return response

    def _work(self, key: str, queue: WorkQueue, request: object) -> Callable[[], tuple[bytes, bool] | None]:
        """What a worker does: it returns the response, and whether it is an answer; None if cancelled."""

        def note(progress: str) -> None:
            if not self.waiters[key]:
                raise WorkCancelled
            self.progress[key] = progress
            queue.running[key] = time.monotonic()

        def work() -> tuple[bytes, bool] | None:
            try:
                with listening(note):
                    answered = self.answer(request)
            except WorkCancelled:
                return None
            return _encoded(answered), "answer" in answered

        return work


def _return_memory() -> None:
    """Give the system the memory that costly work has freed. The C library of Linux keeps it otherwise."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def key_of(request: object) -> str:
    """Return the same short text for equal requests, whatever the order of their fields."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _encoded(answer: dict[str, Any]) -> bytes:
    return to_json(answer).encode(errors="backslashreplace")  # half a surrogate pair, as JSON writes it
