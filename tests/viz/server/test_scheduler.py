"""Many ask at once: each gets the answer to its own request, in order, and nobody waits for long work."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.viz.loop import run
from viz.server.scheduler import (
    BUSY,
    MAX_WAITING,
    QUICK_AT_ONCE,
    QUICK_THREADS,
    SLOW_AT_ONCE,
    SLOW_THREADS,
    Kept,
    Lanes,
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


def slow(text: str) -> dict[str, str]:
    return {"do": "beams", "text": text}


def lanes_of(work: Work, **options: Any) -> Lanes:
    return Lanes(work, {"beams"}, **options)


async def ask(lanes: Lanes, request: object) -> Any:
    return json.loads(await lanes.ask(request))


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


def test_equal_requests_share_one_computation_and_others_do_not():
    work = Work()

    async def crowd() -> list[Any]:
        lanes = lanes_of(work)
        requests = [quick("a"), dict(reversed(quick("a").items())), quick("b"), quick("a")]
        return await asyncio.gather(*(ask(lanes, request) for request in requests))

    assert run(crowd()) == [{"answer": text} for text in "aaba"]
    assert sorted(work.asked) == ["a", "b"]


def test_an_answer_is_kept_and_an_error_is_not():
    work = Work()

    async def twice() -> None:
        lanes = lanes_of(work)
        for text in ("a", "bad", "a", "bad"):
            await ask(lanes, quick(text))

    run(twice())
    assert work.asked == ["a", "bad", "bad"]


def test_what_rests_on_files_is_read_again():
    work = Work()

    async def twice() -> None:
        lanes = Lanes(work, (), from_files={"training"})
        for _ in range(2):
            await lanes.ask({"do": "training", "text": "a"})

    run(twice())
    assert work.asked == ["a", "a"]


def test_other_long_work_takes_its_turn_among_the_slow():
    work = Work()

    async def both() -> None:
        lanes = lanes_of(work)
        work.allowed.clear()
        first = asyncio.create_task(lanes.ask(slow("a")))
        await until(lambda: work.asked == ["a"])
        second = asyncio.create_task(lanes.slowly(lambda: work({"text": "b"})))
        third = asyncio.create_task(lanes.ask(slow("c")))
        await until(lambda: lanes.place(slow("c")) == 1)
        assert work.asked == ["a"]
        work.allowed.set()
        await asyncio.gather(first, second, third)

    run(both())
    assert work.asked == ["a", "b", "c"]


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
def test_what_is_kept_stays_within_its_size_and_the_latest_stays_longest(asked):
    kept = Kept(20)
    order: list[str] = []
    for key, length in asked:
        if kept.get(key) is None:
            kept.put(key, b"x" * length)
        order = [*(other for other in order if other != key), key]
        assert kept.held == sum(map(len, kept.answers.values())) <= 20
        assert list(kept.answers) == order[len(order) - len(kept.answers) :]


def test_what_is_larger_than_all_room_is_answered_all_the_same():
    work = Work()
    assert run(ask(lanes_of(work, kept=3), quick("long"))) == {"answer": "long"}


def test_quick_ones_are_answered_while_every_slow_one_is_still_at_work():
    released = threading.Event()

    def work(request: Any) -> dict[str, Any]:
        if request["do"] == "beams":
            released.wait(60)
        return {"answer": request["text"]}

    async def both() -> list[Any]:
        lanes = Lanes(work, {"beams"})
        long = [asyncio.create_task(ask(lanes, slow(text))) for text in "123"]
        found = [await ask(lanes, quick(text)) for text in "abc"]
        assert not any(task.done() for task in long)
        released.set()
        return found + await asyncio.gather(*long)

    assert run(both()) == [{"answer": text} for text in "abc123"]


def test_who_waits_is_told_the_place_and_served_in_that_order():
    work = Work()

    async def queue() -> None:
        lanes = lanes_of(work)
        work.allowed.clear()
        tasks = [asyncio.create_task(ask(lanes, slow(text))) for text in "abcd"]
        await until(lambda: work.asked == ["a"] and len(lanes.slow_lane.waiting) == 3)
        assert [lanes.place(slow(text)) for text in "abcdx"] == [None, 1, 2, 3, None]
        work.allowed.set()
        await asyncio.gather(*tasks)

    run(queue())
    assert work.asked == list("abcd")


def test_a_full_queue_says_so_and_loses_nobody():
    work = Work()

    async def crowd() -> list[Any]:
        lanes = lanes_of(work)
        work.allowed.clear()
        first = asyncio.create_task(ask(lanes, slow("first")))
        await until(lambda: work.asked)
        tasks = [asyncio.create_task(ask(lanes, slow(str(n)))) for n in range(MAX_WAITING + 1)]
        await until(lambda: len(lanes.slow_lane.waiting) == MAX_WAITING)
        assert await ask(lanes, slow("one too many")) == {"error": BUSY}
        work.allowed.set()
        return await asyncio.gather(first, *tasks)

    answers = ["first", *map(str, range(MAX_WAITING))]
    assert run(crowd()) == [*({"answer": each} for each in answers), {"error": BUSY}]


def test_each_lane_computes_with_its_own_number_of_threads(monkeypatch):
    monkeypatch.setattr("viz.server.scheduler.SLOW_THREADS", 6)
    before, together, found = torch.get_num_threads(), threading.Barrier(3), []

    def work(request: Any) -> dict[str, Any]:
        together.wait(60)
        found.append(torch.get_num_threads())
        return {"answer": None}

    async def three() -> None:
        lanes = Lanes(work, {"beams"})
        await asyncio.gather(*(lanes.ask(one) for one in (quick("a"), quick("b"), slow("c"))))

    run(three())
    assert sorted(found) == [1, 1, 6]
    assert torch.get_num_threads() == before


def test_all_that_computes_at_once_has_no_more_threads_than_cores_or_one_each():
    at_once = QUICK_AT_ONCE * QUICK_THREADS + SLOW_AT_ONCE * SLOW_THREADS
    assert at_once <= max(torch.get_num_threads(), QUICK_AT_ONCE + SLOW_AT_ONCE)


def test_who_goes_away_takes_the_answer_from_nobody():
    work = Work()

    async def leave() -> Any:
        lanes = lanes_of(work)
        work.allowed.clear()
        first, second = (asyncio.create_task(ask(lanes, quick("a"))) for _ in range(2))
        await until(lambda: work.asked == ["a"])
        first.cancel()
        work.allowed.set()
        return await second

    assert run(leave()) == {"answer": "a"}
    assert work.asked == ["a"]


def test_what_nobody_waits_for_any_more_is_not_begun():
    work = Work()

    async def leave() -> None:
        lanes = lanes_of(work)
        work.allowed.clear()
        first, *others = (asyncio.create_task(ask(lanes, slow(text))) for text in "abbc")
        await until(lambda: work.asked == ["a"] and len(lanes.slow_lane.waiting) == 2)
        for task in others[:2]:
            task.cancel()
        await until(lambda: lanes.place(slow("c")) == 1)
        work.allowed.set()
        await asyncio.gather(first, others[2])
        assert not lanes.askers
        assert not lanes.running
        assert await ask(lanes, slow("b")) == {"answer": "b"}

    run(leave())
    assert work.asked == ["a", "c", "b"]


def test_who_asks_again_at_once_is_answered():
    work = Work()

    async def leave_and_come_back() -> Any:
        lanes = lanes_of(work)
        work.allowed.clear()
        first, second = (asyncio.create_task(ask(lanes, slow(text))) for text in "ab")
        await until(lambda: work.asked == ["a"] and lanes.place(slow("b")) == 1)
        second.cancel()
        await asyncio.sleep(0)  # its request is dropped in this moment
        again = asyncio.create_task(ask(lanes, slow("b")))
        await until(lambda: lanes.place(slow("b")) == 1)
        work.allowed.set()
        await first
        return await again

    assert run(leave_and_come_back()) == {"answer": "b"}
    assert work.asked == ["a", "b"]


def test_a_failure_of_the_work_is_raised_and_forgotten():
    failing = [True]

    def work(request: Any) -> dict[str, Any]:
        if failing.pop() if failing else False:
            raise RuntimeError("broken")
        return {"answer": request["text"]}

    async def again() -> Any:
        lanes = Lanes(work, ())
        try:
            await lanes.ask(quick("a"))
        except RuntimeError:
            return await ask(lanes, quick("a"))
        return None

    assert run(again()) == {"answer": "a"}


def test_half_a_surrogate_pair_comes_back_as_it_was():
    assert run(ask(lanes_of(Work()), quick("\ud800"))) == {"answer": "\ud800"}
