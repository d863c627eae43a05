"""Answers requests: checks each one, finds its model and handler, and turns errors into one sentence."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import viz.server.instruments  # noqa: F401 - registers its handlers
from model import Translator
from model.errors import UserError, quote_untrusted
from viz.export import files
from viz.server import validation
from viz.server.handlers import HANDLERS, find_handler, payload_of, run_translation
from viz.server.snippets import call_of, curl_call, python_call
from viz.server.validation import ExportRequest

UNEXPECTED = "This is an error of the server, and its log says more. The last result is kept; try again."

logger = logging.getLogger("headlight")

R = TypeVar("R", bound=validation.Request)


class Exported(NamedTuple):
    """A record outside the page."""

    files: dict[str, bytes]  # by name
    python: str  # the API call that gives the record
    curl: str


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

    def export(self, request: object) -> Exported:
        """Return a record as files, and the API call that gives it. Raises UserError.

        The record is computed again from the request: `prefix`, the tokens that were given, and the model
        determine it.
        """
        translator, asked = self._read(ExportRequest, request)
        translation = run_translation(translator, asked, prefix=asked.prefix)
        record, call = payload_of(translator, asked, translation), call_of(asked)
        return Exported(
            files(translation, record), python_call(asked.address, *call), curl_call(asked.address, *call)
        )

    def _read(self, kind: type[R], request: object) -> tuple[Translator, R]:
        checked = validation.read(kind, request)
        if checked.model not in self.translators:
            known = ", ".join(self.translators) or "none"
            raise UserError(f"There is no model {quote_untrusted(checked.model)}; choose one of: {known}.")
        return self.translators[checked.model], checked
