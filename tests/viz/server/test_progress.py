"""Long work reports how far it is, and ends when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest

from model.decoding.progress import report
from tests.viz.server.test_scheduler import ask, slow, ticket_of, until
from viz.server.scheduler import CANCELLED, Scheduler
from viz.server.work_queue import Client, RefusedError, asking


class LongWork:
    """Reports its steps until it may end; counts how often it began and ended."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self.allowed = threading.Event()

    def __call__(self, request: Any) -> dict[str, Any]:
        self.begun += 1
        for step in itertools.count():
            report(f"{step} of many steps")
            if self.allowed.wait(0.001):
                break
        self.ended += 1
        return {"answer": request["text"]}


async def test_running_work_says_how_far_it_is_and_the_server_is_not_stuck(monkeypatch):
    monkeypatch.setattr("viz.server.work_queue.STUCK_SECONDS", 0.1)
    work = LongWork()

    def steps(scheduler: Scheduler) -> int:
        return int(str(scheduler.queue_position(ticket_of("a")) or "-1").split()[0])

    scheduler = Scheduler(work)
    asked = asyncio.create_task(ask(scheduler, slow("a")))
    seen: list[Any] = []
    for step in (1, 200):
        await until(lambda step=step: steps(scheduler) >= step)
        seen.append(scheduler.queue_position(ticket_of("a")))
    stuck = scheduler.is_stuck()
    work.allowed.set()
    answered = await asked
    assert scheduler.queue_position(ticket_of("a")) is None
    assert all(text.endswith("of many steps") for text in seen)
    assert not stuck
    assert answered == {"answer": "a"}


@pytest.mark.parametrize("leave", ["cancel", "disconnect"])
async def test_running_work_ends_when_its_last_waiter_leaves(leave: str):
    work = LongWork()
    scheduler = Scheduler(work)

    async def client(name: str) -> bytes:
        asking.set(Client(name, name))
        return await scheduler.ask(slow("a"), ticket_of("a"))

    async def cancel(name: str) -> None:
        asking.set(Client(name, name))
        scheduler.cancel(ticket_of("a"))

    async def go(name: str, task: asyncio.Task[bytes]) -> None:
        await asyncio.create_task(cancel(name)) if leave == "cancel" else task.cancel()
        with pytest.raises(RefusedError if leave == "cancel" else asyncio.CancelledError) as refusal:
            await task
        assert leave == "disconnect" or str(refusal.value) == CANCELLED

    one, other = (asyncio.create_task(client(name)) for name in ("one", "other"))
    await until(lambda: scheduler.progress)
    await asyncio.create_task(cancel("a third one"))
    await go("one", one)
    await asyncio.sleep(0.02)
    assert not other.done()
    await go("other", other)
    await until(lambda: not scheduler.running)
    assert (work.begun, work.ended) == (1, 0)
    assert not scheduler.waiters
    assert not scheduler.waits
    assert not scheduler.progress
    assert not scheduler.slow_queue.running
    work.allowed.set()
    assert await ask(scheduler, slow("a")) == {"answer": "a"}


async def test_a_request_that_comes_while_its_work_is_being_cancelled_is_answered():
    """Whichever comes first: the work goes on for it, or begins again."""
    work = LongWork()
    scheduler = Scheduler(work)
    for pause in (0, 0.0005, 0.001, 0.002, 0.005):
        work.allowed.clear()
        first = asyncio.create_task(ask(scheduler, slow(str(pause))))
        await until(lambda pause=pause: scheduler.queue_position(ticket_of(str(pause))))
        first.cancel()
        await asyncio.sleep(pause)
        again = asyncio.create_task(ask(scheduler, slow(str(pause))))
        await asyncio.sleep(0.01)
        work.allowed.set()
        assert await again == {"answer": str(pause)}
