"""Writes the log: one line of JSON for each record, without anything that a person wrote."""

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
    """Passes ten records of each kind in a minute, so that a flood of connections does not fill the disk.

    Requests that cause work are passed: each is one line.
    """

    def __init__(self) -> None:
        super().__init__()
        self.passed: Counter[str] = Counter()
        self.until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the record by its kind."""
        kind = _kind(record)
        if kind is None:
            return True
        if time.monotonic() > self.until:
            self.passed.clear()
            self.until = time.monotonic() + 60
        self.passed[kind] += 1
        return self.passed[kind] <= MAX_PER_MINUTE


def _kind(record: logging.LogRecord) -> str | None:
    """The logger and the text without arguments, or the status of a refused request; None for work."""
    if record.name == REQUESTS:
        status = getattr(record, "fields", {}).get("status")
        return f"{record.name} {status}" if status in REFUSED else None
    return record.name if record.name == ASYNCIO else f"{record.name} {record.msg}"


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
    logger.setLevel(logging.INFO)
