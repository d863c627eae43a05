"""Many clients at once: each gets the answer to its own request, in order, and quick work is not held up."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import torch

from tests.viz.loop import run
from viz.server.handlers import estimate_seconds
from viz.server.scheduler import NOT_FINITE, QUICK_AT_ONCE, TOO_LARGE, Scheduler
from viz.server.work_queue import BUSY, MAX_WAITING, STOPPING, Client, asking


class Work:
    """Answers with the request's text, as soon as it is allowed to; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.allowed = threading.Event()
        self.allowed.set()

    def __call__(self, request: Any) -> dict[str, Any]:
        self.asked.append(request["text"])
        self.allowed.wait(60)
        return {"error": "no"} if request["text"] == "bad" else {"answer": request["text"]}


def quick(text: str) -> dict[str, str]:
    return {"do": "translate", "text": text}


def slow(text: str) -> dict[str, Any]:
    return {"do": "importance", "text": text, "ids": [4] * 100}


def with_one_slow_worker(work: Work) -> Scheduler:
    """A scheduler in which all slow work but one waits."""
    scheduler = Scheduler(work)
    scheduler.slow_queue.at_once = 1
    return scheduler


async def ask(scheduler: Scheduler, request: Any) -> Any:
    """Ask with a ticket that the text gives."""
    return json.loads(await scheduler.ask(request, ticket_of(request["text"])))


def ticket_of(text: str) -> int:
    return hash(text)


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


async def test_equal_requests_share_one_computation_and_others_do_not():
    work = Work()
    scheduler = Scheduler(work)
    requests = [quick("a"), dict(reversed(quick("a").items())), quick("b"), quick("a")]
    assert await asyncio.gather(*(ask(scheduler, request) for request in requests)) == [
        {"answer": text} for text in "aaba"
    ]
    assert sorted(work.asked) == ["a", "b"]


async def test_neither_estimates_nor_work_run_in_the_event_loop():
    """An estimate reads the text with the tokenizer of a model that may come from a stranger."""
    threads = []

    def estimate(_: object) -> float:
        threads.append(threading.get_ident())
        return 0.1

    def work(_: object) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return {"answer": ""}

    await Scheduler(work, estimate=estimate).ask(quick("a"))
    assert threading.get_ident() not in threads
    assert len(threads) == 2


async def test_work_is_not_begun_when_its_client_leaves_during_the_estimate():
    begun, allowed = threading.Event(), threading.Event()
    work = Work()

    def estimate(_: object) -> float:
        begun.set()
        allowed.wait(60)
        return 0.1

    scheduler = Scheduler(work, estimate=estimate)
    task = asyncio.create_task(ask(scheduler, quick("a")))
    await until(begun.is_set)
    task.cancel()
    await asyncio.wait([task])
    allowed.set()
    await until(lambda: not scheduler.running)
    assert await ask(scheduler, quick("b")) == {"answer": "b"}
    assert work.asked == ["b"]


async def test_an_answer_is_cached_and_an_error_is_not():
    work = Work()
    scheduler = Scheduler(work)
    for text in ("a", "bad", "a", "bad"):
        await ask(scheduler, quick(text))
    assert work.asked == ["a", "bad", "bad"]


async def test_what_is_read_from_files_is_not_cached():
    work = Work()
    scheduler = Scheduler(work)
    for _ in range(2):
        await scheduler.ask({"do": "training", "text": "a"})
    assert work.asked == ["a", "a"]


def test_a_response_larger_than_the_cache_is_returned():
    work = Work()
    assert run(ask(Scheduler(work, max_cached=3), quick("long"))) == {"answer": "long"}


async def test_quick_requests_are_answered_while_all_slow_ones_still_run():
    released = threading.Event()

    def work(request: Any) -> dict[str, Any]:
        if request["do"] == "importance":
            released.wait(60)
        return {"answer": request["text"]}

    scheduler = Scheduler(work)
    long = [asyncio.create_task(ask(scheduler, slow(text))) for text in "123"]
    found = [await ask(scheduler, quick(text)) for text in "abc"]
    assert not any(task.done() for task in long)
    released.set()
    assert found + await asyncio.gather(*long) == [{"answer": text} for text in "abc123"]


async def test_the_head_maps_of_usual_sentences_are_computed_at_once_by_all_quick_workers():
    """The page asks for one with each translation."""
    work = Work()
    sentence = "Der kleine Hund läuft mit seinem Ball durch den tiefen Schnee."
    scheduler = Scheduler(work)
    work.allowed.clear()
    maps = [{"do": "importance", "text": f"{sentence} {n}", "ids": [4] * 16} for n in range(5)]
    tasks = [asyncio.create_task(ask(scheduler, one)) for one in maps]
    await until(lambda: len(work.asked) == QUICK_AT_ONCE and len(scheduler.quick_queue.waiting) == 3)
    assert not scheduler.slow_queue.running
    work.allowed.set()
    await asyncio.gather(*tasks)


async def test_waiting_requests_have_a_position_and_run_in_that_order():
    work = Work()
    scheduler = with_one_slow_worker(work)
    work.allowed.clear()
    tasks = [asyncio.create_task(ask(scheduler, slow(text))) for text in "abcd"]
    await until(lambda: work.asked == ["a"] and len(scheduler.slow_queue.waiting) == 3)
    assert [scheduler.queue_position(ticket_of(text)) for text in "abcdx"] == [None, 1, 2, 3, None]
    work.allowed.set()
    await asyncio.gather(*tasks)
    assert work.asked == list("abcd")


async def test_a_full_queue_refuses_who_would_wait_longest_and_answers_the_others():
    """Each session has asked for the same; a late first request displaces another's third."""
    work = Work()
    scheduler = with_one_slow_worker(work)
    work.allowed.clear()
    first = asyncio.create_task(ask(scheduler, slow("first")))
    await until(lambda: work.asked)
    fit = int(MAX_WAITING / estimate_seconds(slow("999")))
    many = [asyncio.create_task(ask_as("many", scheduler, slow(f"{n}"))) for n in range(100, 105 + fit)]
    await until(lambda: sum(task.done() for task in many) == 5)
    one = asyncio.create_task(ask_as("one", scheduler, slow("late")))
    await until(lambda: sum(task.done() for task in many) == 6)
    assert scheduler.queue_position(ticket_of("late")) <= 2
    work.allowed.set()
    assert await one == {"answer": "late"}
    assert await first == {"answer": "first"}
    found = await asyncio.gather(*many, return_exceptions=True)
    answered = [each for each in found if isinstance(each, dict)]
    assert found[: len(answered)] == answered  # the latest were refused
    assert len(answered) == fit - 1
    assert {str(each) for each in found[len(answered) :]} == {BUSY}


def ask_as(session: str, scheduler: Scheduler, request: object, address: str = "") -> Any:
    """`ask` as a client; the task that runs it keeps the client."""
    asking.set(Client(address, session))
    return ask(scheduler, request)


async def test_a_stopped_scheduler_refuses_what_waits_and_a_closed_one_what_runs():
    work = Work()
    scheduler = with_one_slow_worker(work)
    work.allowed.clear()
    running = asyncio.create_task(ask(scheduler, slow("a")))
    await until(lambda: work.asked)
    waiting = asyncio.create_task(ask(scheduler, slow("b")))
    await until(lambda: scheduler.queue_position(ticket_of("b")))
    scheduler.stop()
    refused = await asyncio.gather(waiting, ask(scheduler, slow("c")), return_exceptions=True)
    assert not running.done()
    scheduler.close()
    refused += await asyncio.gather(running, return_exceptions=True)
    work.allowed.set()
    assert [str(error) for error in refused] == [STOPPING] * 3


async def test_a_worker_that_never_finishes_is_noticed(monkeypatch):
    work = Work()
    scheduler = Scheduler(work)
    work.allowed.clear()
    task = asyncio.create_task(ask(scheduler, quick("a")))
    await until(lambda: work.asked)
    assert not scheduler.is_stuck()
    monkeypatch.setattr("viz.server.work_queue.STUCK_SECONDS", -1)
    assert scheduler.is_stuck()
    work.allowed.set()
    await task
    assert not scheduler.is_stuck()


def test_an_answer_that_is_too_large_is_one_sentence(monkeypatch):
    monkeypatch.setattr("viz.server.scheduler.MAX_RESPONSE", 10)
    assert run(ask(Scheduler(Work()), quick("long enough"))) == {"error": TOO_LARGE, "said": [TOO_LARGE, {}]}


def test_numbers_that_are_not_finite_are_one_sentence():
    """As a model with weights of 3e38 gives them."""
    found = run(ask(Scheduler(lambda _: {"answer": float("inf")}), quick("a")))
    assert found == {"error": NOT_FINITE, "said": [NOT_FINITE, {}]}


async def test_each_queue_computes_with_its_own_number_of_threads(monkeypatch):
    monkeypatch.setattr("viz.server.scheduler.SLOW_THREADS", 6)
    before, together, found = torch.get_num_threads(), threading.Barrier(3), []

    def work(request: Any) -> dict[str, Any]:
        together.wait(60)
        found.append(torch.get_num_threads())
        return {"answer": None}

    scheduler = Scheduler(work)
    await asyncio.gather(*(scheduler.ask(one) for one in (quick("a"), quick("b"), slow("c"))))
    assert sorted(found) == [1, 1, 6]
    assert torch.get_num_threads() == before


async def test_a_disconnecting_client_does_not_cancel_the_work_for_others():
    work = Work()
    scheduler = Scheduler(work)
    work.allowed.clear()
    first, second = (asyncio.create_task(ask(scheduler, quick("a"))) for _ in range(2))
    await until(lambda: work.asked == ["a"])
    first.cancel()
    work.allowed.set()
    assert await second == {"answer": "a"}
    assert work.asked == ["a"]


async def test_queued_work_without_waiters_is_cancelled():
    work = Work()
    scheduler = with_one_slow_worker(work)
    work.allowed.clear()
    first, *others = (asyncio.create_task(ask(scheduler, slow(text))) for text in "abbc")
    await until(lambda: work.asked == ["a"] and len(scheduler.slow_queue.waiting) == 2)
    for task in others[:2]:
        task.cancel()
    await until(lambda: scheduler.queue_position(ticket_of("c")) == 1)
    work.allowed.set()
    await asyncio.gather(first, others[2])
    assert not scheduler.waiters
    assert not scheduler.running
    assert await ask(scheduler, slow("b")) == {"answer": "b"}
    assert work.asked == ["a", "c", "b"]


async def test_a_request_repeated_right_after_its_cancellation_is_answered():
    work = Work()
    scheduler = with_one_slow_worker(work)
    work.allowed.clear()
    first, second = (asyncio.create_task(ask(scheduler, slow(text))) for text in "ab")
    await until(lambda: work.asked == ["a"] and scheduler.queue_position(ticket_of("b")) == 1)
    second.cancel()
    await asyncio.sleep(0)  # its request is dropped in this moment
    again = asyncio.create_task(ask(scheduler, slow("b")))
    await until(lambda: scheduler.queue_position(ticket_of("b")) == 1)
    work.allowed.set()
    await first
    assert await again == {"answer": "b"}
    assert work.asked == ["a", "b"]


def test_a_failure_of_the_work_is_raised_and_not_cached():
    failing = [True]

    def work(request: Any) -> dict[str, Any]:
        if failing.pop() if failing else False:
            raise RuntimeError("broken")
        return {"answer": request["text"]}

    async def again() -> Any:
        scheduler = Scheduler(work)
        try:
            await scheduler.ask(quick("a"))
        except RuntimeError:
            return await ask(scheduler, quick("a"))
        return None

    assert run(again()) == {"answer": "a"}


def test_half_a_surrogate_pair_comes_back_as_it_was():
    assert run(ask(Scheduler(Work()), quick("\ud800"))) == {"answer": "\ud800"}
