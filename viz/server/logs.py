"""Writes the log: one line of JSON for each record, without anything that a person wrote."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any

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


def configure_logging() -> None:
    """Send every log of this process to the standard error as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], force=True)
    logger.setLevel(logging.INFO)
    uvicorn = logging.getLogger("uvicorn")  # it adds its own handlers when it starts
    uvicorn.handlers.clear()
    uvicorn.propagate = True
    traceback.print_exc = _log_exception


def _log_exception(*_: object, **__: object) -> None:
    """Replace the traceback that Gradio's queue prints, whose message repeats fields of the request."""
    logger.error("callback", exc_info=True)
