"""Two lanes to the model: many people ask at once, and short work never waits behind long work.

Requests that ask for the same share one computation, also later: what was answered is kept, and says nothing
about who asked, as a request holds all that its answer depends on. Answers that depend on files are not kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from viz.payload import to_json

Answer = Callable[[object], dict[str, Any]]  # {"answer": …} or {"error": one sentence}
T = TypeVar("T")

QUICK_AT_ONCE, SLOW_AT_ONCE = 2, 1
# Torch's threads for one computation. Together no more than cores, or one each where cores are few: among
# more, those that share a computation sleep when they wait for each other, and it takes four times as long.
QUICK_THREADS, SLOW_THREADS = 1, max(1, torch.get_num_threads() - QUICK_AT_ONCE)
MAX_WAITING = 256  # in one lane; who comes later is told to come back
MAX_KEPT = 32 * 2**20  # bytes of answers: some hundred translations
BUSY = "Many people are asking at once; try again in a moment."


class Kept:
    """The latest answers, as many as fit into `size` bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held = 0
        self.answers: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """Return the answer, which thereby is the last to be forgotten."""
        if key in self.answers:
            self.answers.move_to_end(key)
        return self.answers.get(key)

    def put(self, key: str, answer: bytes) -> None:
        """Keep an answer that was not kept; forget those that nobody has asked for longest."""
        self.answers[key] = answer
        self.held += len(answer)
        while self.held > self.size:
            self.held -= len(self.answers.popitem(last=False)[1])


class Lane:
    """Workers that compute at once, each with so many of torch's threads, and who waits for them."""

    def __init__(self, at_once: int, torch_threads: int) -> None:
        self.turns = asyncio.Semaphore(at_once)  # in the order of arrival
        self.workers = ThreadPoolExecutor(at_once, initializer=_use_threads, initargs=(torch_threads,))
        self.waiting: dict[str, None] = {}  # keys in that order

    async def run(self, work: Callable[[], T]) -> T:
        """Work in a worker, which a turn makes free."""
        return await asyncio.get_running_loop().run_in_executor(self.workers, work)


class Lanes:
    """Runs `answer` beside the event loop.

    `slow` names the requests, by their field `do`, that take long; `from_files` those that are not kept.
    """

    def __init__(
        self, answer: Answer, slow: Container[str], from_files: Container[str] = (), kept: int = MAX_KEPT
    ) -> None:
        self.answer = answer
        self.slow = slow
        self.from_files = from_files
        self.quick_lane = Lane(QUICK_AT_ONCE, QUICK_THREADS)
        self.slow_lane = Lane(SLOW_AT_ONCE, SLOW_THREADS)
        self.running: dict[str, asyncio.Task[bytes]] = {}
        self.askers: Counter[str] = Counter()
        self.kept = Kept(kept)

    async def ask(self, request: object) -> bytes:
        """Return the answer as JSON. Who goes takes it from nobody else; what nobody awaits is not begun."""
        key, lane = key_of(request), self._lane(request)
        kept = self.kept.get(key)
        if kept is not None:
            return kept
        if key not in self.running:
            if len(lane.waiting) >= MAX_WAITING:
                return _encoded({"error": BUSY})
            lane.waiting[key] = None
            self.running[key] = asyncio.create_task(self._work(key, lane, request))
        self.askers[key] += 1
        try:
            return await asyncio.shield(self.running[key])
        finally:
            self.askers[key] -= 1
            if not self.askers[key]:
                del self.askers[key]
                if key in lane.waiting:
                    del lane.waiting[key]
                    self.running.pop(key).cancel()

    async def slowly(self, work: Callable[[], T]) -> T:
        """Run long work that is no request, when its turn comes among the slow ones."""
        async with self.slow_lane.turns:
            return await self.slow_lane.run(work)

    def place(self, request: object) -> int | None:
        """Return the place of a request among those that wait, from 1; None when it is not among them."""
        waiting = list(self._lane(request).waiting)
        key = key_of(request)
        return waiting.index(key) + 1 if key in waiting else None

    def _lane(self, request: object) -> Lane:
        return self.slow_lane if _kind(request) in self.slow else self.quick_lane

    async def _work(self, key: str, lane: Lane, request: object) -> bytes:
        def work() -> tuple[bytes, bool]:
            answered = self.answer(request)
            return _encoded(answered), "answer" in answered

        try:
            async with lane.turns:
                del lane.waiting[key]  # from here on nobody can call it off
                answer, is_answer = await lane.run(work)
        finally:
            if self.running.get(key) is asyncio.current_task():  # not another one that was asked for since
                del self.running[key]
        if is_answer and _kind(request) not in self.from_files:
            self.kept.put(key, answer)
        return answer


def _use_threads(number: int) -> None:
    torch.get_num_threads()  # a thread's first use of torch would take the number that any thread set last
    torch.set_num_threads(number)


def _kind(request: object) -> str:
    do = request.get("do") if isinstance(request, dict) else None
    return do if isinstance(do, str) else ""


def key_of(request: object) -> str:
    """Return the same short text for the same request, however its fields are ordered."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _encoded(answer: dict[str, Any]) -> bytes:
    return to_json(answer).encode(errors="backslashreplace")  # half a surrogate pair, as JSON writes it
