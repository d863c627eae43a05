"""What is written to the log, and how often."""

from __future__ import annotations

import asyncio
import gc
import json
import logging

import pytest

from tests.viz.loop import run
from viz.server.logs import MAX_PER_MINUTE, JsonFormatter, RateLimit

SECRET = "Mein Passwort ist Erdbeere"


def test_a_failed_task_is_one_kind_of_line_without_its_words(caplog: pytest.LogCaptureFixture):
    """asyncio puts the task and its exception into the text of the message."""

    async def fail(number: int) -> None:
        raise ValueError(SECRET + str(number))

    async def forget() -> None:
        for number in range(20):
            task = asyncio.create_task(fail(number))
            await asyncio.wait([task])
            del task
        gc.collect()

    run(forget())
    records = [record for record in caplog.records if record.name == "asyncio"]
    assert len(records) == 20
    limit = RateLimit()
    written = [JsonFormatter().format(record) for record in records if limit.filter(record)]
    assert len(written) == MAX_PER_MINUTE
    assert {json.loads(line)["message"] for line in written} == {"Task exception was never retrieved"}
    assert SECRET not in "".join(written)


@pytest.mark.parametrize(("status", "passed"), [(404, MAX_PER_MINUTE), (429, MAX_PER_MINUTE), (200, 100)])
def test_requests_that_are_refused_are_ten_lines_a_minute(status: int, passed: int):
    """Each request that causes work is one line."""
    limit = RateLimit()
    fields = {"path": "other", "status": status}
    record = logging.makeLogRecord({"name": "headlight.requests", "msg": "request", "fields": fields})
    assert sum(bool(limit.filter(record)) for _ in range(100)) == passed


def test_a_flood_of_closed_connections_is_ten_lines_a_minute():
    limit = RateLimit()
    record = logging.makeLogRecord({"name": "headlight.connections", "msg": "A connection was closed: %s."})
    assert sum(bool(limit.filter(record)) for _ in range(1000)) == MAX_PER_MINUTE
