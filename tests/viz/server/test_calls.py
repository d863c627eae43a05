"""Calls of the API: computed when they are read, bounded until then, and refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from viz.server import inbox, middleware
from viz.server.inbox import CALL_BYTES, TOO_MUCH, Inbox
from viz.server.lifecycle import Service

CALL, JOIN, DATA = "/gradio_api/call", "/gradio_api/queue/join", "/gradio_api/queue/data"
BASE = "http://127.0.0.1"
SCORE_NEEDS = "score needs “text” and “target”; its fields are: text, target, model."


@pytest.mark.parametrize(("path", "given"), [(f"{CALL}/score", {"data": ["Hund"]}), (f"{CALL}/v2/score", {})])
def test_missing_fields_are_one_sentence(path: str, given: object, client: TestClient, lines: Any):
    answered = client.post(path, json=given)
    assert (answered.status_code, answered.json()) == (400, {"detail": SCORE_NEEDS})
    assert "ERROR" not in {line["level"] for line in lines()}


def test_a_call_is_computed_when_it_is_read(service: Service, client: TestClient):
    started = [client.post(f"{CALL}/translate", json={"data": [f"Hund {n}", "tiny"]}) for n in range(3)]
    assert not service.scheduler.waiters
    assert not service.scheduler.cache.responses
    numbers = [each.json()["event_id"] for each in started]
    assert "hUND" in client.get(f"{CALL}/translate/{numbers[1]}").text
    assert len(service.scheduler.cache.responses) == 1
    assert client.get(f"{CALL}/translate/{numbers[1]}").status_code == 404  # it has been read


@pytest.fixture
def client_at(service: Service, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TestClient]:
    """A function that returns a client at an address, which has room for five small calls."""
    monkeypatch.setattr(service._calls, "inbox", Inbox())
    monkeypatch.setattr(inbox, "MAX_OF_ADDRESS", 6 * (CALL_BYTES + 100))
    monkeypatch.setattr(middleware, "REQUEST_BYTES", CALL_BYTES)
    page = service.app()
    return lambda address="192.0.2.1": TestClient(page, BASE, client=(address, 50_000))


def start(client: TestClient) -> httpx.Response:
    return client.post(f"{CALL}/translate", json={"data": ["Hund", "tiny"]})


def test_a_call_that_is_about_to_be_read_is_not_dropped_for_another(client_at: Callable[..., TestClient]):
    """Its client comes back for it in a moment. The others of its address are refused and can come again."""
    client = client_at()
    first = start(client).json()["event_id"]
    refused = [each for each in (start(client) for _ in range(20)) if each.status_code == 429]
    assert refused
    assert {each.headers["retry-after"] for each in refused} == {"2"}
    assert {each.json()["detail"] for each in refused} == {TOO_MUCH}
    other = start(client_at("192.0.2.2")).json()["event_id"]  # another address has its own room
    for call in (first, other):
        assert "hUND" in client.get(f"{CALL}/translate/{call}").text
    assert start(client).status_code == 200


def test_calls_that_nobody_reads_make_room_for_others(
    client_at: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inbox, "FRESH_SECONDS", 0)
    client = client_at()
    first, *_, last = (start(client).json()["event_id"] for _ in range(8))
    assert client.get(f"{CALL}/translate/{first}").status_code == 404
    assert "hUND" in client.get(f"{CALL}/translate/{last}").text


def join(client: TestClient, service: Service, session: str) -> httpx.Response:
    index = next(number for number, name in service._calls.functions.items() if name == "translate")
    return client.post(JOIN, json={"data": ["Hund", "tiny"], "fn_index": index, "session_hash": session})


def test_a_session_belongs_to_one_address(client_at: Callable[..., TestClient], service: Service):
    """The name of a session is no secret: an address cannot read the answers of another one."""
    owner, other = client_at("192.0.2.1"), client_at("192.0.2.2")
    join(owner, service, "class")
    assert other.get(f"{DATA}?session_hash=class").status_code == 404
    assert "hUND" in owner.get(f"{DATA}?session_hash=class").text


def test_calls_of_a_session_that_is_read_are_counted_like_all_others(
    client_at: Callable[..., TestClient], service: Service
):
    """They are kept as the bytes that were sent, and each counts for its address until it is worked off."""
    client = client_at()
    statuses = [join(client, service, "one").status_code for _ in range(20)]
    assert set(statuses) == {200, 429}
    assert {type(each.body) for each in service._calls.inbox.calls.values()} == {bytes}
    assert client.get(f"{DATA}?session_hash=one").text.count("hUND") >= statuses.count(200)
    assert not service._calls.inbox.sizes


def test_a_slash_at_the_end_changes_nothing(client: TestClient):
    """Gradio's page asks so; a redirect would lead out of the path of a proxy."""
    request = {"fn_name": "ask", "data": {"do": "nothing"}}
    for slash in ("", "/"):
        answered = client.post(f"/gradio_api/component_server{slash}", json=request, follow_redirects=False)
        assert answered.status_code == 200
