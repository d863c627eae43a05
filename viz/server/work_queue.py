"""Queues of work for worker threads, shared fairly among addresses and their sessions."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeVar

import torch

from model.errors import Sentence, UserError

MAX_WAITING = 60  # estimated seconds of work that wait for one worker; further requests are refused
STUCK_SECONDS = 60  # the longest request of the largest model takes less
RETRY_SECONDS = 10
RETRY_LATER = {"Retry-After": str(RETRY_SECONDS)}  # for whoever is refused
BUSY = Sentence("Many people are asking at once; try again in {seconds} seconds.", seconds=RETRY_SECONDS)
STOPPING = Sentence("The server is stopping; try again in a moment.")

R = TypeVar("R")


class RefusedError(UserError):
    """The request was not answered because the server is busy or stopping. It is not the request's fault."""


class Client(NamedTuple):
    """Who asks. Everyone behind one router or proxy has the same address, and anyone can make up sessions."""

    address: str = ""
    session: str = ""


NOBODY = Client()  # work that no HTTP request asks for
asking: ContextVar[Client] = ContextVar("asking")  # set for each HTTP request


@dataclass(eq=False)
class Work:
    """Work that waits for a worker. Each client who asks for it has a turn, and the earliest one counts."""

    key: str
    seconds: float  # that it takes, estimated
    turns: list[Turn] = field(default_factory=list)
    granted: asyncio.Future[Turn] = field(default_factory=asyncio.Future)

    def refuse(self, sentence: str) -> None:
        """Tell those who wait that it is not done."""
        if not self.granted.done():
            self.granted.set_exception(RefusedError(sentence))


@dataclass(eq=False)
class Turn:
    """The turn of one client who waits for work."""

    work: Work
    client: Client
    arrived: float  # the clock of the addresses
    end: float = 0.0  # in the lane of its address


class Lane:
    """The turns of one address in their order, which is fair to its sessions."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.clock = 0.0  # the end of the turn that was granted last: no later turn ends before

    def add(self, turn: Turn) -> None:
        """Let a turn wait: it ends after the turns of its session, and before longer turns of others."""
        last = max((other.end for other in self.turns if other.client == turn.client), default=0.0)
        turn.end = max(self.clock, last) + turn.work.seconds
        insort(self.turns, turn, key=attrgetter("end"))


class WorkQueue:
    """Worker threads, each with its number of torch threads, and the work that waits for them.

    Weighted fair queueing (Demers, Keshav and Shenker 1989), first of addresses and then of the sessions of
    each: work is done in the order in which it would end if all were served at once, each with the same share
    of a worker. So cheap work comes before costly work that arrived a little earlier, everything gets its
    turn, and a second request waits for the first requests of the others.

    Each address has a lane, and only the first turns of lanes are compared: who asks much pays for it alone.
    """

    def __init__(self, at_once: int, torch_threads: int, niceness: int = 0) -> None:
        self.at_once = at_once
        settings = torch_threads, niceness
        self.workers = ThreadPoolExecutor(at_once, initializer=_prepare_worker, initargs=settings)
        self.waiting: dict[str, Work] = {}  # by key
        self.running: dict[str, float] = {}  # the time at which each began or last reported its progress
        self.stopping = False
        self._lanes: dict[str, Lane] = {}  # by address, of those that wait
        self._served: dict[str, float] = {}  # by address: the clock at the end of all its work so far
        self._clock = 0.0  # seconds that each address could have been served

    async def run(self, key: str, clients: Sequence[Client], seconds: float, work: Callable[[], R]) -> R:
        """Run the work in a thread in its turn, which is the earliest turn of its clients.

        Raises RefusedError if the server is too busy or stopping.
        """
        if self.stopping:
            raise RefusedError(STOPPING)
        waiting = self.waiting[key] = Work(key, seconds)
        for client in clients:
            self.join(key, client)
        self._refuse_excess()
        self._start_next()
        turn = await waiting.granted
        began = time.monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self.workers, work)
        finally:
            del self.running[key]
            longer = time.monotonic() - began - seconds
            self._charge(turn, max(0.0, longer))  # so that a low estimate gains nothing
            self._start_next()

    def join(self, key: str, client: Client) -> None:
        """Let waiting work be done in the turn of another client who asks too, if that comes earlier."""
        work = self.waiting.get(key)
        if work is None or any(turn.client == client for turn in work.turns):
            return
        work.turns.append(Turn(work, client, self._clock))
        self._lanes.setdefault(client.address, Lane()).add(work.turns[-1])

    def forget(self, key: str) -> bool:
        """Drop work that waits; return whether it did."""
        if key not in self.waiting:
            return False
        for turn in self.waiting.pop(key).turns:
            lane = self._lanes[turn.client.address]
            lane.turns.remove(turn)
            if not lane.turns:
                del self._lanes[turn.client.address]
        return True

    def position(self, key: str) -> int | None:
        """The position of waiting work, from 1."""
        if key not in self.waiting:
            return None
        return 1 + list(dict.fromkeys(turn.work.key for turn in self._turns())).index(key)

    def is_stuck(self) -> bool:
        """Whether a worker has not finished for so long that it never may."""
        return any(time.monotonic() - began > STUCK_SECONDS for began in self.running.values())

    def stop(self) -> None:
        """Refuse all work that has not begun."""
        self.stopping = True
        for work in self.waiting.values():
            work.refuse(STOPPING)
        self.waiting.clear()
        self._lanes.clear()

    def _turns(self) -> Iterator[Turn]:
        """The turns, the next one first."""
        ends = merge(*map(self._ends, self._lanes), key=itemgetter(0))
        return (turn for _, turn in ends)

    def _ends(self, address: str) -> Iterator[tuple[float, Turn]]:
        """The turns of an address, and when each would end."""
        end = self._served.get(address, 0.0)
        for turn in self._lanes[address].turns:
            end = max(turn.arrived, end) + turn.work.seconds
            yield end, turn

    def _refuse_excess(self) -> None:
        """Refuse those who would wait longest, until all others fit. The next one may take any time."""
        excess = sum(work.seconds for work in self.waiting.values()) - MAX_WAITING * self.at_once
        if excess <= 0:
            return
        _, *others = dict.fromkeys(turn.work for turn in self._turns())
        for work in reversed(others):
            if excess <= 0:
                return
            excess -= work.seconds
            self.forget(work.key)
            work.refuse(BUSY)

    def _start_next(self) -> None:
        while self.waiting and len(self.running) < self.at_once:
            turn = next(self._turns())
            self._lanes[turn.client.address].clock = turn.end
            self._charge(turn, turn.work.seconds)
            self.forget(turn.work.key)
            self.running[turn.work.key] = time.monotonic()
            turn.work.granted.set_result(turn)

    def _charge(self, turn: Turn, seconds: float) -> None:
        """Charge seconds of work to the address of a turn, and let the clock go on."""
        address = turn.client.address
        addresses = len(self._lanes.keys() | {address})
        self._served[address] = max(turn.arrived, self._served.get(address, 0.0)) + seconds
        self._clock += seconds / addresses
        if len(self._served) > 2 * addresses + 100:
            self._served = {one: until for one, until in self._served.items() if until > self._clock}


def _prepare_worker(torch_threads: int, niceness: int) -> None:
    torch.get_num_threads()  # torch initialises a thread at its first use, which would undo the next line
    torch.set_num_threads(torch_threads)
    if sys.platform == "linux":  # elsewhere a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
