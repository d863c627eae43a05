"""Calls of the API: computed when they are read, bounded until then, and refused in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from viz.server.api import MAX_UNREAD
from viz.server.lifecycle import Service

CALL = "/gradio_api/call"
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


def test_calls_that_nobody_reads_are_dropped(client: TestClient):
    def start(session: str | None = None) -> str:
        body = {"data": ["Hund", "tiny"], "session_hash": session}
        return client.post(f"{CALL}/translate", json=body).json()["event_id"]

    first, *others = (start("one session") for _ in range(MAX_UNREAD + 1))
    assert client.get(f"{CALL}/translate/{first}").status_code == 404
    assert "hUND" in client.get(f"{CALL}/translate/{others[0]}").text


def test_a_call_that_nobody_reads_for_a_while_is_dropped(service: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("viz.server.api.UNREAD_SECONDS", 0)
    with TestClient(service.app()) as client:  # with one event loop for all requests
        call = client.post(f"{CALL}/translate", json={"data": ["Hund", "tiny"]}).json()["event_id"]
        assert client.get(f"{CALL}/translate/{call}").status_code == 404


def test_calls_of_one_address_do_not_drop_those_of_another(service: Service):
    page = service.app()

    def start(address: str) -> tuple[TestClient, str]:
        client = TestClient(page, client=(address, 50_000))
        return client, client.post(f"{CALL}/translate", json={"data": ["Hund", "tiny"]}).json()["event_id"]

    person, call = start("192.0.2.1")
    for _ in range(MAX_UNREAD):
        start("192.0.2.2")
    assert "hUND" in person.get(f"{CALL}/translate/{call}").text
