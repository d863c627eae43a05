"""Gradio's own server with the request filter in front of it, without a network, and its log."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

import app
from tests.viz.fakes import FakeTranslator
from viz.server.connections import Access
from viz.server.lifecycle import Service
from viz.server.logs import JsonFormatter

FRIEND = "https://school.example"  # the only other site that may read
NAME = "headlight.example"  # the only name of the server besides its address


@pytest.fixture(scope="module")
def service() -> Service:
    return app.create(
        {"tiny": FakeTranslator("tiny", "Tiny", layers=1, heads=1)}, access=Access([FRIEND], [NAME])
    )


@pytest.fixture(scope="module")
def client(service: Service) -> TestClient:
    """Gradio's own server with the request filter in front of it, without a network."""
    return TestClient(service.app())


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """A function that returns the lines of the log, parsed."""
    caplog.set_level(logging.INFO, "headlight")

    def read() -> list[dict[str, Any]]:
        ours = [record for record in caplog.records if record.name.startswith("headlight")]
        written = [JsonFormatter().format(record) for record in ours]
        assert not [line for line in written if "\n" in line or "Passwort" in line]
        return [json.loads(line) for line in written]

    return read
