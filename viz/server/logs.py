"""Writes the log: one line of JSON for each record, without anything that a user wrote."""

from __future__ import annotations

import json
import logging
import re
import traceback
from datetime import UTC, datetime

REQUESTS, ASYNCIO = "headlight.requests", "asyncio"

logger = logging.getLogger("headlight")


class JsonFormatter(logging.Formatter):
    """Formats a record of the log as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Leave out what may repeat a person's words: an exception's message, and the tasks asyncio names."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if record.exc_info and record.exc_info[0]:
            line |= {"error": record.exc_info[0].__name__, "at": traceback.format_tb(record.exc_info[2])}
        return json.dumps(line | getattr(record, "fields", {}), ensure_ascii=False)


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    # A message of asyncio goes on with a call, or in the next line with a task and its exception: not kept.
    return re.split(r"[\n(<]", text)[0].strip() if record.name == ASYNCIO else text


def configure_logging() -> None:
    """Send every log of this process to the standard error as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], force=True)
    logging.captureWarnings(True)  # of Python and NumPy, such as an overflow
    logger.setLevel(logging.INFO)
