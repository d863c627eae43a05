"""Schedules the work of all clients: fair queues for cheap and for costly work, and a response cache.

Cheap requests never wait for costly ones. Equal requests share one computation, and its response is cached: a
request contains everything that its response depends on, so a response says nothing about who asked for it.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import json
import os
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from model.decoding.progress import WorkCancelled, listening
from model.errors import Sentence, UserError, said
from viz.payload import to_json
from viz.server.handlers import estimate_seconds, find_handler

AnswerFunction = Callable[[object], dict[str, Any]]  # {"answer": ...} or {"error": one sentence}
Work = Callable[[], tuple[bytes, bool] | None]  # a response, and whether it is an answer; None if cancelled

QUICK_AT_ONCE, SLOW_AT_ONCE = 2, 1
# Torch's threads for one computation. All computations together use at most one thread for each core; with
# few cores, each computation uses one thread. With more, the threads that share a computation sleep while
# they wait for each other, and it takes four times as long.
QUICK_THREADS, SLOW_THREADS = 1, max(1, torch.get_num_threads() - QUICK_AT_ONCE)
SLOW_NICENESS = 10  # costly work gets what cheap work and the event loop leave of the cores
QUICK_SECONDS = 0.3  # estimated; what takes longer waits in the slow queue
MAX_WAITING = 60  # estimated seconds of work that wait for one worker; further requests are refused
STUCK_SECONDS = 60  # the longest request of the largest model takes less
MAX_CACHED = 32 * 2**20  # bytes of responses: some hundred translations
MAX_RESPONSE = 64 * 2**20  # bytes; the record of the largest model and the longest sentence has 58 MB
BUSY = Sentence("Many people are asking at once; try again in a moment.")
STOPPING = Sentence("The server is stopping; try again in a moment.")
CANCELLED = Sentence("This request was cancelled.")
TOO_LARGE = Sentence("The answer is too large to send; shorten the sentence.")


class RefusedError(UserError):
    """The request was not answered because the server is busy or stopping. It is not the request's fault."""


class Client(NamedTuple):
    """Who asks. Everyone behind one router or proxy has the same address, and anyone can make up sessions."""

    address: str = ""
    session: str = ""


NOBODY = Client()  # work that no HTTP request asks for
asking: ContextVar[Client] = ContextVar("asking")  # set for each HTTP request


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


@dataclass(eq=False)
class Turn:
    """A request that waits for a worker."""

    client: Client
    seconds: float  # that the work takes, estimated
    arrived: tuple[float, float]  # the clocks of the addresses and of the sessions
    granted: asyncio.Future[None] = field(default_factory=asyncio.Future)


class FairShares:
    """Equal shares for all owners: weighted fair queueing (Demers, Keshav and Shenker 1989).

    Work is done in the order in which it would be finished if all owners were served at once, each with the
    same share of a worker. So cheap work comes before costly work that arrived a little earlier, everything
    gets its turn, and an owner's second request waits for the first requests of the others.
    """

    def __init__(self) -> None:
        self.clock = 0.0  # seconds that each owner could have been served
        self.served: dict[Hashable, float] = {}  # the clock at the end of all work so far

    def order(
        self, turns: Iterable[Turn], owner: Callable[[Turn], Hashable], arrived: Callable[[Turn], float]
    ) -> list[Turn]:
        """Return the turns by their finishing time; those of one owner stay in the given order."""
        last: dict[Hashable, float] = {}
        finished: dict[Turn, float] = {}
        for turn in turns:
            before = last.get(owner(turn), self.served.get(owner(turn), 0.0))
            last[owner(turn)] = finished[turn] = max(arrived(turn), before) + turn.seconds
        return sorted(finished, key=finished.__getitem__)

    def serve(self, owner: Hashable, arrived: float, seconds: float, owners: int) -> None:
        """Charge seconds of work to one of `owners`."""
        self.served[owner] = max(arrived, self.served.get(owner, 0.0)) + seconds
        self.clock += seconds / owners
        if len(self.served) > 2 * owners + 100:
            self.served = {one: until for one, until in self.served.items() if until > self.clock}


class WorkQueue:
    """Worker threads, each with its number of torch threads, and the requests that wait for them.

    The workers are shared fairly among addresses, and the share of an address among its sessions.
    """

    def __init__(self, at_once: int, torch_threads: int, niceness: int = 0) -> None:
        self.at_once = at_once
        settings = torch_threads, niceness
        self.workers = ThreadPoolExecutor(at_once, initializer=_prepare_worker, initargs=settings)
        self.waiting: dict[str, Turn] = {}  # by key, in the order of arrival
        self.running: dict[str, float] = {}  # the time at which each began or last reported its progress
        self.stopping = False
        self._addresses, self._sessions = FairShares(), FairShares()

    def order(self) -> list[Turn]:
        """Return the waiting turns, the next one first."""
        by_session = self._sessions.order(
            self.waiting.values(), lambda turn: turn.client, lambda turn: turn.arrived[1]
        )
        return self._addresses.order(
            by_session, lambda turn: turn.client.address, lambda turn: turn.arrived[0]
        )

    async def run(self, key: str, client: Client, seconds: float, work: Work) -> tuple[bytes, bool] | None:
        """Run the work in a thread in its turn. Raises RefusedError if the server is too busy or stopping."""
        if self.stopping:
            raise RefusedError(STOPPING)
        turn = self.waiting[key] = self._turn(client, seconds)
        self._refuse_excess()
        self._start_next()
        await turn.granted
        began = time.monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self.workers, work)
        finally:
            del self.running[key]
            longer = time.monotonic() - began - turn.seconds
            self._charge(turn, max(0.0, longer))  # so that a low estimate gains nothing
            self._start_next()

    def join(self, key: str, client: Client) -> None:
        """Let waiting work take the turn of another client who asks for it too, if that comes earlier."""
        first = self.waiting.get(key)
        if first is None or first.client == client:
            return
        other = self.waiting["joining"] = self._turn(client, first.seconds)
        order = self.order()
        del self.waiting["joining"]
        if order.index(other) < order.index(first):
            first.client, first.arrived = client, other.arrived
            self.waiting[key] = self.waiting.pop(key)  # after the other requests of that client

    def is_stuck(self) -> bool:
        """Whether a worker has not finished for so long that it never may."""
        return any(time.monotonic() - began > STUCK_SECONDS for began in self.running.values())

    def stop(self) -> None:
        """Refuse all work that has not begun."""
        self.stopping = True
        for turn in self.waiting.values():
            _refuse(turn, STOPPING)
        self.waiting.clear()

    def _refuse_excess(self) -> None:
        """Refuse those who would wait longest, until all others fit. The next one may take any time."""
        excess = sum(turn.seconds for turn in self.waiting.values()) - MAX_WAITING * self.at_once
        keys = {turn: key for key, turn in self.waiting.items()} if excess > 0 else {}
        for turn in reversed(self.order()[1:] if excess > 0 else []):
            if excess <= 0:
                return
            excess -= turn.seconds
            del self.waiting[keys[turn]]
            _refuse(turn, BUSY)

    def _start_next(self) -> None:
        while self.waiting and len(self.running) < self.at_once:
            turn = self.order()[0]
            key = next(key for key, other in self.waiting.items() if other is turn)
            self._charge(turn, turn.seconds)
            del self.waiting[key]
            self.running[key] = time.monotonic()
            turn.granted.set_result(None)

    def _turn(self, client: Client, seconds: float) -> Turn:
        return Turn(client, seconds, (self._addresses.clock, self._sessions.clock))

    def _charge(self, turn: Turn, seconds: float) -> None:
        clients = {turn.client, *(other.client for other in self.waiting.values())}
        here = sum(client.address == turn.client.address for client in clients)
        addresses = len({client.address for client in clients})
        self._addresses.serve(turn.client.address, turn.arrived[0], seconds, addresses)
        self._sessions.serve(turn.client, turn.arrived[1], seconds, here)


class Scheduler:
    """Runs `answer` in threads, next to the event loop, and returns its results as JSON."""

    def __init__(
        self,
        answer: AnswerFunction,
        max_cached: int = MAX_CACHED,
        estimate: Callable[[object], float] = estimate_seconds,
    ) -> None:
        self.answer = answer
        self.estimate = estimate
        self.quick_queue = WorkQueue(QUICK_AT_ONCE, QUICK_THREADS)
        self.slow_queue = WorkQueue(SLOW_AT_ONCE, SLOW_THREADS, SLOW_NICENESS)
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
        seconds = self.estimate(request)
        queue = self.quick_queue if seconds <= QUICK_SECONDS else self.slow_queue
        self.waiters[key] += 1
        mine = asking.get(NOBODY), key
        try:
            response = None
            while response is None:  # again for work that was cancelled just before this client came
                if key in self.running:
                    queue.join(key, mine[0])
                else:
                    self.running[key] = asyncio.create_task(self._run(key, queue, seconds, request))
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
                if key in queue.waiting:
                    del queue.waiting[key]
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
        queues = self.quick_queue, self.slow_queue
        return {
            "running": sum(len(queue.running) for queue in queues),
            "waiting": sum(len(queue.waiting) for queue in queues),
        }

    def is_stuck(self) -> bool:
        """Whether a worker seems to hang."""
        return self.quick_queue.is_stuck() or self.slow_queue.is_stuck()

    def stop(self) -> None:
        """Refuse all work that has not begun. Call this in the event loop."""
        self.is_stopping = True
        self.quick_queue.stop()
        self.slow_queue.stop()

    def close(self) -> None:
        """Refuse all requests, also those whose work has begun; the threads cannot be stopped."""
        self.stop()
        self.is_closed = True
        for task in self.running.values():
            task.cancel()

    async def _run(self, key: str, queue: WorkQueue, seconds: float, request: object) -> bytes | None:
        """Return the response, None if the work was cancelled."""

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

        try:
            done = await queue.run(key, asking.get(NOBODY), seconds, work)
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


def _refuse(turn: Turn, sentence: str) -> None:
    if not turn.granted.done():
        turn.granted.set_exception(RefusedError(sentence))


def _prepare_worker(torch_threads: int, niceness: int) -> None:
    torch.get_num_threads()  # torch initialises a thread at its first use, which would undo the next line
    torch.set_num_threads(torch_threads)
    if sys.platform == "linux":  # elsewhere a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


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
