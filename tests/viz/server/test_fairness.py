"""The order of waiting requests: the cheap first, equal shares for clients, and a turn for everyone."""

from __future__ import annotations

import asyncio
import contextvars
from types import SimpleNamespace
from typing import Any

import pytest

from model.translator import Translator
from tests.visitor import ROOT
from tests.viz.loop import run
from tests.viz.questions import BACKEND, COMMON, GOOD
from tests.viz.server.test_scheduler import Work, ask, quick, until
from viz.limits import MAX_BODY, MAX_LIST_CHARACTERS, MAX_SENTENCES
from viz.server import work_queue
from viz.server.backend import Backend
from viz.server.fields import MAX_CHARACTERS
from viz.server.handlers import HANDLERS, estimate_seconds
from viz.server.handlers.registry import COUNTED
from viz.server.scheduler import QUICK_SECONDS, Scheduler
from viz.server.work_queue import MAX_WAITING, Client, WorkQueue, asking


async def order_of(requests: list[tuple[str, str, dict[str, Any]]], joined: int = 0) -> list[str]:
    """The order in which one worker answers requests, each with its address and session, that wait for it.

    `joined` requests equal others before them.
    """
    work = Work()
    shared = Scheduler(work)
    shared.quick_queue.at_once = 1
    work.allowed.clear()
    tasks = [asyncio.create_task(ask(shared, quick("first")))]
    await until(lambda: work.asked)
    for address, session, request in requests:
        client = contextvars.copy_context()
        client.run(asking.set, Client(address, session))
        tasks.append(asyncio.create_task(ask(shared, request), context=client))
        await asyncio.sleep(0)
    waiting = shared.quick_queue.waiting
    await until(lambda: len(waiting) == len(requests) - joined)
    work.allowed.set()
    await asyncio.gather(*tasks)
    return work.asked[1:]


LONGER, SHORT = "l" * 150, "s" * 8
FLOOD = [("flood", "one", quick(f"f{n}")) for n in range(6)]


def test_a_short_request_comes_before_a_crowd_of_long_ones():
    crowd = [("a", f"session {n}", quick(LONGER + str(n))) for n in range(20)]
    asked = run(order_of([*crowd, ("a", "person", quick(SHORT))]))
    assert asked[0] == SHORT


def test_a_client_gets_one_turn_while_each_other_gets_one():
    """Neither many requests nor many sessions give an address more than its share."""
    many = [("a", f"session {n}", quick(f"a{n}")) for n in range(6)]
    flood = [("b", "one", quick(f"b{n}")) for n in range(6)]
    person = [("c", "person", quick("c0")), ("c", "person", quick("c1"))]
    asked = run(order_of([*many, *flood, *person]))
    assert set(asked[:3]) == {"a0", "b0", "c0"}
    assert set(asked[3:6]) == {"a1", "b1", "c1"}


def test_sessions_behind_one_address_share_it():
    flood = [("nat", "flood", quick(f"f{n}")) for n in range(6)]
    asked = run(order_of([*flood, ("nat", "pupil", quick("p0"))]))
    assert asked.index("p0") <= 1


async def test_a_long_request_gets_its_turn_among_short_ones_that_keep_coming():
    """Ageing: the clock of the shares goes on, so later requests finish later than an old one."""
    queue = WorkQueue(1, 1)

    queue.running["busy"] = 0.0  # so that all wait at first
    done: list[str] = []

    async def one(name: str, seconds: float) -> None:
        await queue.run(name, [Client("a", name)], seconds, lambda: (b"", True))
        done.append(name)

    tasks = [asyncio.create_task(one("long", 1.0))]
    tasks += [asyncio.create_task(one(f"{n}", 0.1)) for n in range(3)]
    await asyncio.sleep(0)
    del queue.running["busy"]
    queue._start_next()
    for number in range(3, 100):  # two others always wait
        await until(lambda number=number: len(done) >= number - 2)
        tasks.append(asyncio.create_task(one(f"{number}", 0.1)))
    await asyncio.gather(*tasks)
    assert 3 < done.index("long") < 50


async def test_work_that_takes_longer_than_estimated_is_charged_for_its_time(monkeypatch: pytest.MonkeyPatch):
    """Two clients whose work takes a second; one of them made it look like a tenth."""
    now = [0.0]
    monkeypatch.setattr(work_queue, "time", SimpleNamespace(monotonic=lambda: now[0]))
    queue, done = WorkQueue(1, 1), []

    async def one(address: str, estimated: float, number: int) -> None:
        def work() -> tuple[bytes, bool]:
            now[0] += 1
            return b"", True

        await queue.run(f"{address}{number}", [Client(address)], estimated, work)
        done.append(address)

    both = [("cheat", 0.1), ("honest", 1.0)]
    await asyncio.gather(*(one(*client, number) for client in both for number in range(6)))
    assert abs(done[:8].count("cheat") - done[:8].count("honest")) <= 2


def test_a_joining_client_does_not_wait_for_the_turn_of_the_first():
    """The flood has asked first for what the person asks too; the person's turn comes earlier."""
    other = ("other", "one", quick("o0"))
    asked = run(order_of([*FLOOD, other, ("person", "p", quick("f5"))], joined=1))
    assert asked.index("f5") <= 2


def test_a_joining_client_does_not_make_the_first_wait():
    asked = run(order_of([("person", "p", quick("p0")), *FLOOD, ("flood", "one", quick("p0"))], joined=1))
    assert asked.index("p0") <= 1


# What a request may cost


@pytest.mark.parametrize("characters", [MAX_LIST_CHARACTERS, MAX_CHARACTERS])
@pytest.mark.parametrize("do", sorted(HANDLERS))
def test_no_request_alone_costs_more_than_may_wait(do: str, characters: int):
    """Else it would be refused although nobody else asks. Each character is a token."""
    longest, numbers = "w" * characters, [1] * MAX_BODY
    texts = ["w" * (characters // MAX_SENTENCES)] * MAX_SENTENCES
    worst = dict.fromkeys(("text", "other"), longest) | dict.fromkeys(("ids", "forced"), numbers)
    worst |= dict.fromkeys(("sentences", "sample"), texts) | {"beam_size": 10**9}
    fields = {name: value for name, value in worst.items() if name in HANDLERS[do].request.model_fields}
    assert 0 < estimate_seconds({"do": do, **fields}) <= MAX_WAITING


def test_tokens_are_counted_as_the_model_reads_them():
    """A sentence of rare letters has many more than one that a person would write."""
    backend = Backend({"de-en": Translator.load(ROOT / "assets" / "models" / "de-en")})
    rare = {"do": "translate", "model": "de-en", "text": "qxzj" * 30, "beam_size": 8}
    usual = rare | {"text": "Der kleine Hund läuft mit seinem Ball durch den Schnee. " * 2}
    assert backend.estimate_seconds(rare) > QUICK_SECONDS > backend.estimate_seconds(usual)


def test_few_tokens_are_counted_however_long_a_text_is():
    """Counting is work too, and it is done before anything has been checked, next to the event loop."""
    counted: list[str] = []

    def count(text: str) -> float:
        counted.append(text)
        return len(text)

    texts = ["qxzj"] * (MAX_BODY // 8)
    seconds = estimate_seconds({"do": "examples", "text": "q" * MAX_BODY, "sentences": texts}, 1.0, count)
    assert sum(map(len, counted)) <= 2 * COUNTED
    assert seconds > QUICK_SECONDS


def test_work_of_a_slow_model_is_done_when_nobody_else_asks():
    found = run(WorkQueue(1, 1).run("key", [Client()], 10 * MAX_WAITING, lambda: (b"done", True)))
    assert found == (b"done", True)


@pytest.mark.parametrize(("do", "name"), [("examples", "sentences"), ("mute", "sample")])
def test_a_list_of_sentences_is_limited_in_all(do: str, name: str):
    request = {**COMMON, "do": do, **GOOD[do], "baseline": "mean"}
    fits, over = ["w" * (MAX_LIST_CHARACTERS // 20)] * 20, ["w" * (MAX_LIST_CHARACTERS // 20 + 1)] * 20
    assert estimate_seconds({**request, name: fits}) < 15  # seconds for which others would wait
    answered = BACKEND.answer({**request, name: over})
    assert "8,000 characters in all" in answered["error"]
    assert "characters in all" not in BACKEND.answer({**request, name: fits}).get("error", "")
