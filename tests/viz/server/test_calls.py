"""Calls of the API: computed when they are read, bounded until then, and refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from viz.server import api
from viz.server.api import CALL_BYTES, TOO_MANY_UNREAD, UnreadCalls
from viz.server.lifecycle import Service

CALL = "/gradio_api/call"
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
    """A function that returns a client at an address. Five small calls may wait to be read."""
    monkeypatch.setattr(service._calls, "unread", UnreadCalls())
    monkeypatch.setattr(api, "MAX_UNREAD", 5 * (CALL_BYTES + 100))
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
    assert {each.json()["detail"] for each in refused} == {TOO_MANY_UNREAD}
    assert "hUND" in client.get(f"{CALL}/translate/{first}").text
    assert start(client).status_code == 200


def test_calls_that_nobody_reads_make_room_for_others(
    client_at: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(api, "FRESH_SECONDS", 0)
    client = client_at()
    first, *others = (start(client).json()["event_id"] for _ in range(6))
    assert client.get(f"{CALL}/translate/{first}").status_code == 404
    assert "hUND" in client.get(f"{CALL}/translate/{others[0]}").text


def test_large_calls_take_more_room(client_at: Callable[..., TestClient]):
    client = client_at()
    large = {"data": ["H" * 3 * CALL_BYTES, "tiny"]}
    assert [client.post(f"{CALL}/translate", json=large).status_code for _ in range(2)] == [200, 429]
    assert start(client).status_code == 200


def test_a_call_that_nobody_reads_for_a_while_is_dropped(service: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("viz.server.api.UNREAD_SECONDS", 0)
    with TestClient(service.app()) as client:  # with one event loop for all requests
        call = client.post(f"{CALL}/translate", json={"data": ["Hund", "tiny"]}).json()["event_id"]
        assert client.get(f"{CALL}/translate/{call}").status_code == 404


def test_calls_of_one_address_do_not_drop_those_of_another(client_at: Callable[..., TestClient]):
    person, hostile = client_at("192.0.2.1"), client_at("192.0.2.2")
    early = start(person).json()["event_id"]
    for _ in range(20):
        start(hostile)
    late = start(person).json()["event_id"]
    for call in (early, late):
        assert "hUND" in person.get(f"{CALL}/translate/{call}").text
