"""Queues of work for worker threads, shared fairly among addresses and their sessions."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
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
        """Return the turns by their finishing time; the turns of one owner stay in the given order."""
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

    async def run(self, key: str, clients: Sequence[Client], seconds: float, work: Callable[[], R]) -> R:
        """Run the work in a thread in its turn, which is the earliest turn of its clients.

        Raises RefusedError if the server is too busy or stopping.
        """
        if self.stopping:
            raise RefusedError(STOPPING)
        turn = self.waiting[key] = self._turn(clients[0], seconds)
        for other in clients[1:]:
            self.join(key, other)
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

    def forget(self, key: str) -> bool:
        """Drop work that waits; return whether it did."""
        return self.waiting.pop(key, None) is not None

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


def _refuse(turn: Turn, sentence: str) -> None:
    if not turn.granted.done():
        turn.granted.set_exception(RefusedError(sentence))


def _prepare_worker(torch_threads: int, niceness: int) -> None:
    torch.get_num_threads()  # torch initialises a thread at its first use, which would undo the next line
    torch.set_num_threads(torch_threads)
    if sys.platform == "linux":  # elsewhere a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
