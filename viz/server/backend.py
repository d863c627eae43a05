"""Answers requests: checks each one, finds its model and handler, and turns errors into one sentence."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from model import Translator
from model.errors import UserError, quote_untrusted
from viz.server import validation
from viz.server.handlers import HANDLERS, find_handler

UNEXPECTED = "This is an error of the server, and its log says more. The last result is kept; try again."

logger = logging.getLogger("headlight")

R = TypeVar("R", bound=validation.Request)


class Backend:
    """The loaded translators by name. Requests are untrusted."""

    def __init__(self, translators: Mapping[str, Translator]) -> None:
        self.translators = dict(translators)

    def answer(self, request: object) -> dict[str, Any]:
        """Answer a request of the viewer: {"answer": ...}, or {"error": one sentence}."""
        try:
            handler = find_handler(request)
            if handler is None:
                raise UserError(f"“do” must be one of: {', '.join(HANDLERS)}.")
            return {"answer": handler.work(*self._read(handler.request, request))}
        except UserError as error:
            return {"error": str(error)}
        except Exception:
            logger.exception("answer")
            return {"error": UNEXPECTED}

    def _read(self, kind: type[R], request: object) -> tuple[Translator, R]:
        checked = validation.read(kind, request)
        if checked.model not in self.translators:
            known = ", ".join(self.translators) or "none"
            raise UserError(f"There is no model {quote_untrusted(checked.model)}; choose one of: {known}.")
        return self.translators[checked.model], checked
