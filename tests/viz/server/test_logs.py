"""What is written to the log, and how often."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import subprocess
import sys

import pytest

from tests.visitor import ROOT
from viz.server.logs import MAX_PER_MINUTE, MAX_WORK_PER_MINUTE, JsonFormatter, RateLimit

SECRET = "Mein Passwort ist Erdbeere"


async def test_a_failed_task_is_one_kind_of_line_without_its_words(caplog: pytest.LogCaptureFixture):
    """asyncio puts the task and its exception into the text of the message."""

    async def fail(number: int) -> None:
        raise ValueError(SECRET + str(number))

    for number in range(20):
        task = asyncio.create_task(fail(number))
        await asyncio.wait([task])
        del task
    gc.collect()
    # The collection may also find tasks of earlier tests.
    records = [
        record for record in caplog.records if record.name == "asyncio" and SECRET in record.getMessage()
    ]
    assert len(records) == 20
    limit = RateLimit()
    written = [JsonFormatter().format(record) for record in records if limit.filter(record)]
    assert len(written) == MAX_PER_MINUTE
    assert {json.loads(line)["message"] for line in written} == {"Task exception was never retrieved"}
    assert SECRET not in "".join(written)


START, READ = ("POST", "/gradio_api/call/*"), ("GET", "/gradio_api/call/*/*")
ASK = ("POST", "/gradio_api/component_server")


@pytest.mark.parametrize(
    ("request_", "status", "passed"),
    [
        (ASK, 404, MAX_PER_MINUTE),
        (ASK, 429, MAX_PER_MINUTE),
        (START, 200, MAX_PER_MINUTE),
        (READ, 200, MAX_WORK_PER_MINUTE),
        (ASK, 200, MAX_WORK_PER_MINUTE),
    ],
)
def test_equal_lines_are_limited(request_: tuple[str, str], status: int, passed: int):
    """A call that is started causes no work before it is read."""
    limit = RateLimit()
    method, path = request_
    fields = {"method": method, "path": path, "status": status}
    record = logging.makeLogRecord({"name": "headlight.requests", "msg": "request", "fields": fields})
    assert sum(bool(limit.filter(record)) for _ in range(2 * MAX_WORK_PER_MINUTE)) == passed
    other = logging.makeLogRecord(
        {"name": "headlight.requests", "msg": "request", "fields": {"kind": "mute"}}
    )
    assert limit.filter(other)


def test_a_warning_of_python_is_one_line_of_json():
    code = "import warnings; from viz.server.logs import configure_logging; configure_logging(); "
    code += "warnings.warn('overflow', RuntimeWarning)"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = ended.stderr.splitlines()
    assert (json.loads(line)["logger"], json.loads(line)["level"]) == ("py.warnings", "WARNING")


def test_a_flood_of_closed_connections_is_ten_lines_a_minute():
    limit = RateLimit()
    record = logging.makeLogRecord({"name": "headlight.connections", "msg": "A connection was closed: %s."})
    assert sum(bool(limit.filter(record)) for _ in range(1000)) == MAX_PER_MINUTE
