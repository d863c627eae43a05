"""One client against the others: the attacks of `make attack`, smaller, on a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.benchmarks import attack, hostile, strangers
from tests.nginx import program
from tests.visitor import Server, serving
from tests.viz.loop import run

NEEDS_NGINX = pytest.mark.skipif(
    program() is None, reason="there is no nginx, which Debian's package installs"
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with serving(after=[]) as server:
        yield server


@pytest.mark.slow
def test_results_that_nobody_reads_are_not_kept(shared: Server):
    run(attack.unread_results(shared, calls=100))  # what any work takes the first time
    found = run(attack.unread_results(shared, calls=100))
    assert found["calls accepted"] == 100
    assert found["memory after, MB"] < found["memory before, MB"] + 60


@pytest.mark.slow
def test_work_that_nobody_waits_for_is_not_done(shared: Server):
    """Seconds of computing, because seconds of waiting depend on the machine."""
    before = attack.computed(shared)
    run(read_one(shared))
    one = attack.computed(shared) - before
    found = run(attack.unread_work(shared, calls=40))
    assert found["calls accepted"] == 40
    assert found["computed until then, s"] < 5 * one


async def read_one(server: Server) -> None:
    """Read the answer to one of the long questions."""
    async with attack.client_of(server) as client:
        viewer = await attack.viewer_of(client)
        assert "answer" in (await attack.ask(client, viewer, "person", attack.LONG, 8)).json()


@pytest.mark.slow
def test_calls_that_nobody_reads_lose_no_other_call_of_their_address(shared: Server):
    found = run(attack.unread_flood(shared))
    assert found["calls of gradio_client, of 16 answered"] == 16


@pytest.mark.slow
def test_a_short_question_does_not_wait_for_a_crowd_of_long_ones(shared: Server):
    # Two workers let 120 seconds of work wait. The long questions take 160 by the estimate.
    found = run(attack.crowd(shared, clients=200, persons=5, seconds=0.1))
    assert found["long questions answered before the last short one"] <= 5
    assert found["long questions still waiting"] > 20
    assert found["long questions refused with a sentence"] > 0


@pytest.mark.slow
def test_a_short_question_takes_less_than_a_second_beside_a_crowd(shared: Server):
    assert run(attack.crowd(shared))["short question, median s"] < 1


@pytest.mark.slow
def test_a_stop_answers_every_question_and_exits(shared: Server):
    """The last test with this server: it stops it."""
    found = run(attack.stop(shared, clients=60))
    assert found["500 or closed connection"] == found["tracebacks"] == 0
    assert found["503 with a sentence"] >= 25
    assert found["seconds to exit"] < 10


@pytest.mark.slow
def test_a_tokenizer_that_takes_minutes_stops_nobody():
    found = hostile.slow_tokenizer()
    assert found["5,000 letters: refused after, s"] < 5  # 11.6 s before there was a bound
    assert found["/healthz meanwhile, longest s"] < 5


@pytest.mark.slow
@pytest.mark.parametrize("through_nginx", [False, pytest.param(True, marks=NEEDS_NGINX)])
def test_a_neighbour_of_strangers_is_served_and_memory_is_bounded(through_nginx: bool):
    for name, figures in attack.strangers_attack(through_nginx):
        assert all(figures[what] <= most for what, most in strangers.LIMITS.items()), (name, figures)
