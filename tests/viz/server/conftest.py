"""Gradio's own server with the request filter in front of it, without a network, and its log."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

import app
from tests.viz.fakes import FakeTranslator
from tests.viz.loop import run
from viz.server.connections import Access
from viz.server.lifecycle import Service
from viz.server.logs import JsonFormatter

FRIEND = "https://school.example"  # the only other site that may read
NAME = "headlight.example"  # the only name of the server besides its address


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


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
