"""Many clients at once: each gets the answer to its own request, in order, and quick work is not held up."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.viz.loop import run
from viz.server.handlers import estimate_seconds
from viz.server.scheduler import (
    BUSY,
    MAX_WAITING,
    STOPPING,
    TOO_LARGE,
    Client,
    ResponseCache,
    Scheduler,
    asking,
    key_of,
)


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
    return {"do": "importance", "text": text, "ids": [4] * 30}


async def ask(scheduler: Scheduler, request: object) -> Any:
    return json.loads(await scheduler.ask(request))


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


def test_equal_requests_share_one_computation_and_others_do_not():
    work = Work()

    async def crowd() -> list[Any]:
        scheduler = Scheduler(work)
        requests = [quick("a"), dict(reversed(quick("a").items())), quick("b"), quick("a")]
        return await asyncio.gather(*(ask(scheduler, request) for request in requests))

    assert run(crowd()) == [{"answer": text} for text in "aaba"]
    assert sorted(work.asked) == ["a", "b"]


def test_an_answer_is_cached_and_an_error_is_not():
    work = Work()

    async def twice() -> None:
        scheduler = Scheduler(work)
        for text in ("a", "bad", "a", "bad"):
            await ask(scheduler, quick(text))

    run(twice())
    assert work.asked == ["a", "bad", "bad"]


def test_what_is_read_from_files_is_not_cached():
    work = Work()

    async def twice() -> None:
        scheduler = Scheduler(work)
        for _ in range(2):
            await scheduler.ask({"do": "training", "text": "a"})

    run(twice())
    assert work.asked == ["a", "a"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["text", "model", "beam_size", "prefix"]),
            st.one_of(st.text(max_size=3), st.integers(0, 3), st.lists(st.integers(0, 3), max_size=2)),
        ),
        max_size=4,
    ).map(dict),
    st.data(),
)
def test_only_equal_requests_share_a_key(request, data):
    other = data.draw(st.just(request) | st.dictionaries(st.sampled_from(list("ab")), st.integers(0, 1)))
    assert (key_of(request) == key_of(other)) == (request == other)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12)), max_size=30))
def test_the_cache_stays_within_its_size_and_keeps_the_most_recently_used(asked):
    cache = ResponseCache(20)
    order: list[str] = []
    for key, length in asked:
        if cache.get(key) is None:
            cache.put(key, b"x" * length)
        order = [*(other for other in order if other != key), key]
        assert cache.used == sum(map(len, cache.responses.values())) <= 20
        assert list(cache.responses) == order[len(order) - len(cache.responses) :]


def test_a_response_larger_than_the_cache_is_returned():
    work = Work()
    assert run(ask(Scheduler(work, max_cached=3), quick("long"))) == {"answer": "long"}


def test_quick_requests_are_answered_while_all_slow_ones_still_run():
    released = threading.Event()

    def work(request: Any) -> dict[str, Any]:
        if request["do"] == "importance":
            released.wait(60)
        return {"answer": request["text"]}

    async def both() -> list[Any]:
        scheduler = Scheduler(work)
        long = [asyncio.create_task(ask(scheduler, slow(text))) for text in "123"]
        found = [await ask(scheduler, quick(text)) for text in "abc"]
        assert not any(task.done() for task in long)
        released.set()
        return found + await asyncio.gather(*long)

    assert run(both()) == [{"answer": text} for text in "abc123"]


def test_waiting_requests_have_a_position_and_run_in_that_order():
    work = Work()

    async def queue() -> None:
        scheduler = Scheduler(work)
        work.allowed.clear()
        tasks = [asyncio.create_task(ask(scheduler, slow(text))) for text in "abcd"]
        await until(lambda: work.asked == ["a"] and len(scheduler.slow_queue.waiting) == 3)
        assert [scheduler.queue_position(slow(text)) for text in "abcdx"] == [None, 1, 2, 3, None]
        work.allowed.set()
        await asyncio.gather(*tasks)

    run(queue())
    assert work.asked == list("abcd")


def test_a_full_queue_refuses_who_would_wait_longest_and_answers_the_others():
    """Each session has asked for the same; a late first request displaces another's third."""
    work = Work()

    async def crowd() -> None:
        scheduler = Scheduler(work)
        work.allowed.clear()
        first = asyncio.create_task(ask(scheduler, slow("first")))
        await until(lambda: work.asked)
        fit = int(MAX_WAITING / estimate_seconds(slow("999")))
        many = [asyncio.create_task(ask_as("many", scheduler, slow(f"{n}"))) for n in range(100, 105 + fit)]
        await until(lambda: sum(task.done() for task in many) == 5)
        one = asyncio.create_task(ask_as("one", scheduler, slow("late")))
        await until(lambda: sum(task.done() for task in many) == 6)
        assert scheduler.queue_position(slow("late")) <= 2
        work.allowed.set()
        assert await one == {"answer": "late"}
        assert await first == {"answer": "first"}
        found = await asyncio.gather(*many, return_exceptions=True)
        answered = [each for each in found if isinstance(each, dict)]
        assert found[: len(answered)] == answered  # the latest were refused
        assert len(answered) == fit - 1
        assert {str(each) for each in found[len(answered) :]} == {BUSY}

    run(crowd())


def ask_as(session: str, scheduler: Scheduler, request: object, address: str = "") -> Any:
    """`ask` as a client; the task that runs it keeps the client."""
    asking.set(Client(address, session))
    return ask(scheduler, request)


def test_a_stopped_scheduler_refuses_what_waits_and_a_closed_one_what_runs():
    work = Work()

    async def stop() -> list[Any]:
        scheduler = Scheduler(work)
        work.allowed.clear()
        running = asyncio.create_task(ask(scheduler, slow("a")))
        await until(lambda: work.asked)
        waiting = asyncio.create_task(ask(scheduler, slow("b")))
        await until(lambda: scheduler.queue_position(slow("b")))
        scheduler.stop()
        refused = await asyncio.gather(waiting, ask(scheduler, slow("c")), return_exceptions=True)
        assert not running.done()
        scheduler.close()
        refused += await asyncio.gather(running, return_exceptions=True)
        work.allowed.set()
        return refused

    refused = run(stop())
    assert [str(error) for error in refused] == [STOPPING] * 3


def test_a_worker_that_never_finishes_is_noticed(monkeypatch):
    work = Work()

    async def wait() -> None:
        scheduler = Scheduler(work)
        work.allowed.clear()
        task = asyncio.create_task(ask(scheduler, quick("a")))
        await until(lambda: work.asked)
        assert not scheduler.is_stuck()
        monkeypatch.setattr("viz.server.scheduler.STUCK_SECONDS", -1)
        assert scheduler.is_stuck()
        work.allowed.set()
        await task
        assert not scheduler.is_stuck()

    run(wait())


def test_an_answer_that_is_too_large_is_one_sentence(monkeypatch):
    monkeypatch.setattr("viz.server.scheduler.MAX_RESPONSE", 10)
    assert run(ask(Scheduler(Work()), quick("long enough"))) == {"error": TOO_LARGE, "said": [TOO_LARGE, {}]}


def test_each_queue_computes_with_its_own_number_of_threads(monkeypatch):
    monkeypatch.setattr("viz.server.scheduler.SLOW_THREADS", 6)
    before, together, found = torch.get_num_threads(), threading.Barrier(3), []

    def work(request: Any) -> dict[str, Any]:
        together.wait(60)
        found.append(torch.get_num_threads())
        return {"answer": None}

    async def three() -> None:
        scheduler = Scheduler(work)
        await asyncio.gather(*(scheduler.ask(one) for one in (quick("a"), quick("b"), slow("c"))))

    run(three())
    assert sorted(found) == [1, 1, 6]
    assert torch.get_num_threads() == before


def test_a_disconnecting_client_does_not_cancel_the_work_for_others():
    work = Work()

    async def leave() -> Any:
        scheduler = Scheduler(work)
        work.allowed.clear()
        first, second = (asyncio.create_task(ask(scheduler, quick("a"))) for _ in range(2))
        await until(lambda: work.asked == ["a"])
        first.cancel()
        work.allowed.set()
        return await second

    assert run(leave()) == {"answer": "a"}
    assert work.asked == ["a"]


def test_queued_work_without_waiters_is_cancelled():
    work = Work()

    async def leave() -> None:
        scheduler = Scheduler(work)
        work.allowed.clear()
        first, *others = (asyncio.create_task(ask(scheduler, slow(text))) for text in "abbc")
        await until(lambda: work.asked == ["a"] and len(scheduler.slow_queue.waiting) == 2)
        for task in others[:2]:
            task.cancel()
        await until(lambda: scheduler.queue_position(slow("c")) == 1)
        work.allowed.set()
        await asyncio.gather(first, others[2])
        assert not scheduler.waiters
        assert not scheduler.running
        assert await ask(scheduler, slow("b")) == {"answer": "b"}

    run(leave())
    assert work.asked == ["a", "c", "b"]


def test_a_request_repeated_right_after_its_cancellation_is_answered():
    work = Work()

    async def leave_and_come_back() -> Any:
        scheduler = Scheduler(work)
        work.allowed.clear()
        first, second = (asyncio.create_task(ask(scheduler, slow(text))) for text in "ab")
        await until(lambda: work.asked == ["a"] and scheduler.queue_position(slow("b")) == 1)
        second.cancel()
        await asyncio.sleep(0)  # its request is dropped in this moment
        again = asyncio.create_task(ask(scheduler, slow("b")))
        await until(lambda: scheduler.queue_position(slow("b")) == 1)
        work.allowed.set()
        await first
        return await again

    assert run(leave_and_come_back()) == {"answer": "b"}
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
