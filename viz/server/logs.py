"""Writes the log: one line of JSON for each record, without anything that a person wrote."""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections import Counter
from datetime import UTC, datetime
from typing import Any

MAX_PER_MINUTE = 10

logger = logging.getLogger("headlight")


class JsonFormatter(logging.Formatter):
    """Formats a record of the log as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Leave out an exception's message, which may repeat a person's words."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0]:
            line |= {"error": record.exc_info[0].__name__, "at": traceback.format_tb(record.exc_info[2])}
        return json.dumps(line | getattr(record, "fields", {}), ensure_ascii=False)


class RateLimit(logging.Filter):
    """Passes ten records of each kind in a minute, so that a flood of connections does not fill the disk.

    Requests are passed: each is one line.
    """

    def __init__(self) -> None:
        super().__init__()
        self.passed: Counter[str] = Counter()
        self.until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the record; its kind is its logger and its text without arguments."""
        if record.name == "headlight.requests":
            return True
        if time.monotonic() > self.until:
            self.passed.clear()
            self.until = time.monotonic() + 60
        kind = f"{record.name} {record.msg}"
        self.passed[kind] += 1
        return self.passed[kind] <= MAX_PER_MINUTE


def configure_logging() -> None:
    """Send every log of this process to the standard error as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    handler.addFilter(RateLimit())
    logging.basicConfig(handlers=[handler], force=True)
    logger.setLevel(logging.INFO)
    traceback.print_exc = _log_exception


def _log_exception(*_: object, **__: object) -> None:
    """Replace the traceback that Gradio's queue prints, whose message repeats fields of the request."""
    logger.error("callback", exc_info=True)
