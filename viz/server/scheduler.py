"""Schedules the work of all clients: fair queues for cheap and for costly work, and a response cache.

Cheap requests never wait for costly ones. Equal requests share one computation, and its response is cached: a
request contains everything that its response depends on. Neither a response nor its time says who else asked.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import json
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from model.decoding.progress import WorkCancelled, listening
from model.errors import NOT_FINITE, Sentence, said
from viz.payload import to_json
from viz.server.handlers import CHEAPEST, Answer, estimate_seconds, find_handler
from viz.server.work_queue import NOBODY, STOPPING, Client, RefusedError, WorkQueue, asking

AnswerFunction = Callable[[object], Answer]

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
MAX_READERS = 32  # clients that get a cached response at once; the others wait as for a new one
# Fields whose text a person types. The ids of a typed translation are not among them.
TYPED = frozenset(("target", "other", "sample", "sentences", "gold"))
TOO_LARGE = Sentence("The answer is too large to send; shorten the sentence.")


class Wait(NamedTuple):
    """What one client waits for."""

    key: str  # of the request
    response: asyncio.Future[Answered | None]


@dataclass(frozen=True)
class Answered:
    """A response, what it cost, and who has read it."""

    response: bytes
    is_answer: bool = True  # and not an error
    seconds: float = 0.0  # that it took to compute
    readers: deque[Client] = field(default_factory=lambda: deque(maxlen=MAX_READERS))


class ResponseCache:
    """The most recently used responses, up to `size` bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = 0
        self.responses: OrderedDict[str, Answered] = OrderedDict()

    def get(self, key: str) -> Answered | None:
        """Return the response, and mark it as the most recently used one."""
        if key in self.responses:
            self.responses.move_to_end(key)
        return self.responses.get(key)

    def put(self, key: str, answered: Answered) -> None:
        """Add a response that is not in the cache; drop the least recently used ones that no longer fit."""
        self.responses[key] = answered
        self.used += len(answered.response)
        while self.used > self.size:
            self.used -= len(self.responses.popitem(last=False)[1].response)


class Scheduler:
    """Runs `answer` in threads, next to the event loop, and returns its results as JSON."""

    def __init__(
        self,
        answer: AnswerFunction,
        max_cached: int = MAX_CACHED,
        estimate: Callable[[object], float] = estimate_seconds,
        examples: Collection[str] = (),
    ) -> None:
        self.answer = answer
        self.estimate = estimate
        self.examples = frozenset(examples)
        self.estimate_queue = WorkQueue(1, 1)  # reads the text with the tokenizer of an untrusted model
        self.quick_queue = WorkQueue(QUICK_AT_ONCE, QUICK_THREADS)
        self.slow_queue = WorkQueue(SLOW_AT_ONCE, SLOW_THREADS, SLOW_NICENESS)
        self.queues = self.estimate_queue, self.quick_queue, self.slow_queue
        self.running: dict[str, asyncio.Task[Answered | None]] = {}
        self.waiters: Counter[str] = Counter()
        self.waits: dict[tuple[Client, object], Wait] = {}  # by client and ticket
        self.progress: dict[str, str] = {}  # of running work
        self.cache = ResponseCache(max_cached)
        self.is_stopping = self.is_closed = False

    async def ask(self, request: object, ticket: int | None = None) -> bytes:
        """Return the answer as JSON. Raises RefusedError if the server is too busy or stopping.

        The ticket is a number that the client chooses for `cancel` and `queue_position`. A client that
        disconnects or calls `cancel` does not cancel the work for others. Work without waiters is cancelled:
        in the queue at once, else when it next reports its progress.

        A response that others have asked for comes no sooner than a new one would, so that nobody can find
        out what others have typed. It comes at once if it is about an example of the project.
        """
        key, client, began = key_of(request), asking.get(NOBODY), time.monotonic()
        cached = self.cache.get(key)
        if cached and (client in cached.readers or self._is_example(request)):
            return cached.response
        answered = await self._wait(request, key, client, ticket)
        await asyncio.sleep(max(0.0, began + answered.seconds - time.monotonic()))  # it was begun earlier
        if client.session:
            answered.readers.append(client)
        return answered.response

    async def _wait(self, request: object, key: str, client: Client, ticket: int | None) -> Answered:
        """Return the response to a request, which is new or shared, when its turn has come."""
        self.waiters[key] += 1
        mine = client, object() if ticket is None else ticket
        try:
            answered = None
            while answered is None:  # again for work that was cancelled just before this client came
                if key in self.running:
                    for queue in self.queues:
                        queue.join(key, client)
                else:
                    self.running[key] = asyncio.create_task(self._run(key, request))
                wait = self.waits[mine] = Wait(key, asyncio.shield(self.running[key]))
                answered = await wait.response
            return answered
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

    def cancel(self, ticket: object) -> None:
        """End the wait of this client with this ticket, if it waits."""
        if wait := self._wait_of(ticket):
            wait.response.cancel()

    def queue_position(self, ticket: object) -> int | str | None:
        """Return the position of this client's request in its queue, from 1, or its progress if it runs.

        None if this client does not wait with this ticket, or if the work has reported nothing.
        """
        wait = self._wait_of(ticket)
        if wait is None:
            return None
        for queue in (self.quick_queue, self.slow_queue):
            if position := queue.position(wait.key):
                return position
        return self.progress.get(wait.key)

    def _wait_of(self, ticket: object) -> Wait | None:
        return self.waits.get((asking.get(NOBODY), ticket)) if isinstance(ticket, int) else None

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

    def _is_example(self, request: object) -> bool:
        """Whether all that a person could have typed is an example."""
        text = request.get("text") if isinstance(request, dict) else None
        return isinstance(text, str) and text in self.examples and TYPED.isdisjoint(request)  # type: ignore[arg-type]

    async def _run(self, key: str, request: object) -> Answered | None:
        """Return the response, None if the work was cancelled.

        A cached response waits for its turn as a new one does, and then as long as computing it took.
        """
        client = asking.get(NOBODY)
        try:
            seconds = await self.estimate_queue.run(key, [client], CHEAPEST, lambda: self.estimate(request))
            queue = self.quick_queue if seconds <= QUICK_SECONDS else self.slow_queue
            cached = self.cache.get(key)
            work = (lambda: cached) if cached else self._work(key, queue, request)
            others = [each for (each, _), wait in self.waits.items() if wait.key == key and each != client]
            answered = await queue.run(key, [client, *others], seconds, work) if self.waiters[key] else None
            if cached:
                await asyncio.sleep(cached.seconds)
        finally:
            self.progress.pop(key, None)
            if self.running.get(key) is asyncio.current_task():  # else the same request was started again
                del self.running[key]
        if queue is self.slow_queue and not queue.running:
            queue.workers.submit(_return_memory)
        handler = find_handler(request)
        if answered and not cached and answered.is_answer and handler and handler.is_cached:
            self.cache.put(key, answered)
        return answered

    def _work(self, key: str, queue: WorkQueue, request: object) -> Callable[[], Answered | None]:
        """What a worker does; it returns None if the work was cancelled."""

        def note(progress: str) -> None:
            if not self.waiters[key]:
                raise WorkCancelled
            self.progress[key] = progress
            queue.running[key] = time.monotonic()

        def work() -> Answered | None:
            began = time.monotonic()
            try:
                with listening(note):
                    found = self.answer(request)
            except WorkCancelled:
                return None
            try:
                response = _encoded(found)
            except ValueError:  # JSON has no number for infinity
                found = {"error": NOT_FINITE, "said": said(NOT_FINITE)}
                response = _encoded(found)
            if len(response) > MAX_RESPONSE:
                return Answered(_encoded({"error": TOO_LARGE, "said": said(TOO_LARGE)}), is_answer=False)
            return Answered(response, "answer" in found, time.monotonic() - began)

        return work


def _return_memory() -> None:
    """Give the system the memory that costly work has freed. The C library of Linux keeps it otherwise."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def key_of(request: object) -> str:
    """Return the same short text for equal requests, whatever the order of their fields."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _encoded(answer: Answer) -> bytes:
    return to_json(answer).encode(errors="backslashreplace")  # half a surrogate pair, as JSON writes it
