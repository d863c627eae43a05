"""What is written to the log."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys

import pytest

from tests.visitor import ROOT
from viz.server.logs import JsonFormatter

SECRET = "Mein Passwort ist Erdbeere"


async def test_a_failed_task_is_a_line_without_its_words(caplog: pytest.LogCaptureFixture):
    """asyncio puts the task and its exception into the text of the message."""

    async def fail() -> None:
        raise ValueError(SECRET)

    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    del task
    gc.collect()
    # The collection may also find tasks of earlier tests.
    records = [
        record for record in caplog.records if record.name == "asyncio" and SECRET in record.getMessage()
    ]
    written = list(map(JsonFormatter().format, records))
    assert {json.loads(line)["message"] for line in written} == {"Task exception was never retrieved"}
    assert SECRET not in "".join(written)


def test_a_warning_of_python_is_one_line_of_json():
    code = "import warnings; from viz.server.logs import configure_logging; configure_logging(); "
    code += "warnings.warn('overflow', RuntimeWarning)"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = ended.stderr.splitlines()
    assert (json.loads(line)["logger"], json.loads(line)["level"]) == ("py.warnings", "WARNING")
