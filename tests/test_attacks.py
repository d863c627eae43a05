"""One client against the others: the attacks of `make attack`, smaller, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.benchmarks import attack
from tests.visitor import Server, serving


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with serving(after=[]) as server:
        yield server


def test_results_that_nobody_reads_are_not_kept(shared: Server):
    asyncio.run(attack.unread_results(shared, calls=5))  # what any work takes the first time
    found = asyncio.run(attack.unread_results(shared, calls=100))
    assert found["memory after, MB"] < found["memory before, MB"] + 60


def test_work_that_nobody_waits_for_is_not_done(shared: Server):
    found = asyncio.run(attack.unread_work(shared, calls=40))
    assert shared.log()[-1]["status"] == 200
    assert found["the next quick question, s"] < 10  # the calls alone would take 30 s on an idle machine


def test_a_short_question_does_not_wait_for_a_crowd_of_long_ones(shared: Server):
    found = asyncio.run(attack.crowd(shared, clients=100, persons=5, seconds=0.1))
    assert found["long questions still waiting"] > 20  # when all short ones had been answered
    assert found["long questions refused with a sentence"] > 0


@pytest.mark.slow
def test_a_short_question_takes_less_than_a_second_beside_a_crowd(shared: Server):
    assert asyncio.run(attack.crowd(shared))["short question, median s"] < 1


def test_a_stop_answers_every_question_and_exits(shared: Server):
    """The last test: it stops the server."""
    found = asyncio.run(attack.stop(shared))
    assert found["500 or closed connection"] == found["tracebacks"] == 0
    assert found["503 with a sentence"] >= 25
    assert found["seconds to exit"] < 20  # 7.5 s and what a busy machine adds


@pytest.mark.slow
def test_idle_sockets_lock_nobody_out():
    found = attack.idle_sockets()
    assert found["a question after that, s"] < 30
    assert found["log, kB"] < 100
