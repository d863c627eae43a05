"""Writes the log: one line of JSON for each record, without anything that a user wrote."""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
from collections import Counter
from datetime import UTC, datetime
from typing import Any

MAX_PER_MINUTE = 10
MAX_WORK_PER_MINUTE = 1000  # of equal lines about work: a class of a hundred causes fewer
# Calls whose work begins when they are read.
STARTED = ("/gradio_api/call/*", "/gradio_api/call/v2/*", "/gradio_api/queue/join")
REQUESTS, ASYNCIO = "headlight.requests", "asyncio"
REFUSED = (404, 429)  # statuses of requests that were not looked at any further

logger = logging.getLogger("headlight")


class JsonFormatter(logging.Formatter):
    """Formats a record of the log as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Leave out what may repeat a person's words: an exception's message, and the tasks asyncio names."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if record.exc_info and record.exc_info[0]:
            line |= {"error": record.exc_info[0].__name__, "at": traceback.format_tb(record.exc_info[2])}
        return json.dumps(line | getattr(record, "fields", {}), ensure_ascii=False)


class RateLimit(logging.Filter):
    """Passes ten records of each kind in a minute, so that a flood does not fill the disk.

    Of requests that cause work a thousand of each kind are passed: each is one line.
    """

    def __init__(self) -> None:
        super().__init__()
        self.passed: Counter[str] = Counter()
        self.until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the record by its kind."""
        kind, most = _kind(record)
        if time.monotonic() > self.until:
            self.passed.clear()
            self.until = time.monotonic() + 60
        self.passed[kind] += 1
        return self.passed[kind] <= most


def _kind(record: logging.LogRecord) -> tuple[str, int]:
    """The logger with what makes lines equal, and how many of these are written in a minute."""
    if record.name == ASYNCIO:
        return record.name, MAX_PER_MINUTE
    if record.name != REQUESTS:
        return f"{record.name} {record.msg}", MAX_PER_MINUTE
    fields = getattr(record, "fields", {})
    status, path = fields.get("status"), fields.get("path")
    if status in REFUSED:
        return f"{record.name} {status}", MAX_PER_MINUTE
    is_started = fields.get("method") == "POST" and path in STARTED
    return f"{record.name} {path} {status} {fields.get('kind')}", (
        MAX_PER_MINUTE if is_started else MAX_WORK_PER_MINUTE
    )


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    # asyncio's goes on with a call or, in the next line, with a task and its exception.
    return re.split(r"[\n(<]", text)[0].strip() if record.name == ASYNCIO else text


def configure_logging() -> None:
    """Send every log of this process to the standard error as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    handler.addFilter(RateLimit())
    logging.basicConfig(handlers=[handler], force=True)
    logging.captureWarnings(True)  # of Python and NumPy, such as an overflow
    logger.setLevel(logging.INFO)
