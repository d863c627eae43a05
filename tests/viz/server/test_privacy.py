"""How soon an answer comes says nothing about what others have asked."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from tests.viz.server.test_scheduler import Work, quick, ticket_of, until
from viz.server.scheduler import Scheduler
from viz.server.work_queue import Client, asking

SECONDS = 0.05
EXAMPLE = "Ein Beispiel."


def slowly(request: Any) -> dict[str, Any]:
    time.sleep(SECONDS)
    return {"answer": request["text"]}


async def seconds_of(scheduler: Scheduler, request: object, client: Client) -> float:
    """How long a client waits for its answer, which must be right."""

    async def ask() -> bytes:
        asking.set(client)
        return await scheduler.ask(request, ticket_of(request["text"]))  # type: ignore[index]

    began = time.monotonic()
    assert json.loads(await asyncio.create_task(ask())) == {"answer": request["text"]}  # type: ignore[index]
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("second", "at_once"),
    [
        (Client("a", "one"), True),  # the same page
        (Client("a", "two"), False),
        (Client("b", "one"), False),
        (Client("a", ""), False),  # calls without a session share it
    ],
)
async def test_an_answer_for_another_client_comes_no_sooner_than_a_new_one(second: Client, at_once: bool):
    work = Work()
    scheduler = Scheduler(lambda request: work(request) and slowly(request))
    first = Client(second.address, "") if not second.session else Client("a", "one")
    await seconds_of(scheduler, quick("secret"), first)
    waited = await seconds_of(scheduler, quick("secret"), second)
    assert work.asked == ["secret"]  # it is computed once
    assert at_once or waited >= SECONDS


async def test_who_comes_during_the_computation_waits_as_long_as_for_a_new_one():
    scheduler = Scheduler(slowly)
    first = asyncio.create_task(seconds_of(scheduler, quick("secret"), Client("a", "one")))
    await until(lambda: scheduler.quick_queue.running)
    await asyncio.sleep(SECONDS / 2)
    waited = await seconds_of(scheduler, quick("secret"), Client("b", "two"))
    await first
    assert waited >= SECONDS


async def test_a_cached_answer_waits_for_its_turn_as_a_new_one():
    """Else a crowd of one's own would show the difference."""
    work = Work()
    scheduler = Scheduler(work)
    scheduler.quick_queue.at_once = 1
    await seconds_of(scheduler, quick("secret"), Client("a", "one"))
    work.allowed.clear()
    own = asyncio.create_task(seconds_of(scheduler, quick("own"), Client("b", "two")))
    await until(lambda: work.asked == ["secret", "own"])
    probe = asyncio.create_task(seconds_of(scheduler, quick("secret"), Client("b", "two")))
    await until(lambda: scheduler.quick_queue.waiting)
    work.allowed.set()
    await asyncio.gather(own, probe)
    assert work.asked == ["secret", "own"]


async def test_a_client_learns_the_place_and_the_progress_of_its_own_requests_alone():
    work = Work()

    async def look_for(client: Client) -> int | str | None:
        asking.set(client)
        return scheduler.queue_position(ticket_of("secret"))

    scheduler = Scheduler(work)
    scheduler.quick_queue.at_once = 1
    work.allowed.clear()
    texts = "running", "secret"
    tasks = [asyncio.create_task(seconds_of(scheduler, quick(text), Client("a", "one"))) for text in texts]
    await until(lambda: work.asked == ["running"] and scheduler.quick_queue.waiting)
    clients = Client("a", "one"), Client("a", "two"), Client("b", "one")
    seen = [await asyncio.create_task(look_for(client)) for client in clients]
    work.allowed.set()
    await asyncio.gather(*tasks)
    assert seen == [1, None, None]


@pytest.mark.parametrize(
    ("more", "waits"),
    [({}, False), ({"ids": [5]}, False), ({"target": "typed"}, True), ({"text": "x"}, True)],
)
async def test_only_what_is_about_an_example_comes_at_once(
    more: dict[str, Any], waits: bool, monkeypatch: pytest.MonkeyPatch
):
    request = quick(EXAMPLE) | more
    scheduler = Scheduler(slowly, examples=[EXAMPLE])
    await seconds_of(scheduler, request, Client("a", "one"))
    turns: list[object] = []
    monkeypatch.setattr(scheduler, "_run", lambda *each: turns.append(each) or run_again(*each))
    run_again = Scheduler._run.__get__(scheduler)
    await seconds_of(scheduler, request, Client("b", "two"))
    assert bool(turns) == waits
