"""The desk: the loaded translators, and what the page, its viewer and its API ask of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from altair import HConcatChart

from model import Translator
from model.errors import UserError
from viz.charts.head_maps import INK, importance_map
from viz.export import files
from viz.server import validation
from viz.server.handlers import Question, answer
from viz.server.snippets import call_of, curl_call, python_call

UNEXPECTED = "Something went wrong inside the page; the last result is kept. The log of the server says more."

logger = logging.getLogger("headlight")


class TakenAway(NamedTuple):
    """A record outside the page."""

    files: dict[str, bytes]  # by name
    python: str  # the API call that gives the record
    curl: str


class Desk:
    """The loaded translators by name. Whatever arrives here is untrusted, and read field by field."""

    def __init__(self, translators: Mapping[str, Translator]) -> None:
        self.translators = dict(translators)

    def ask(self, request: object) -> dict[str, Any]:
        """Answer a request of the viewer: {"answer": …}, or {"error": one sentence}; see handlers.py."""
        try:
            return {"answer": answer(request, self.translators)}
        except UserError as error:
            return {"error": str(error)}
        except Exception:
            logger.exception("ask")
            return {"error": UNEXPECTED}

    def take_away(self, request: object) -> TakenAway:
        """Return the record that a request describes as files, and the API call that gives it.

        A record is the same each time it is asked for: its `prefix`, the tokens that were given, and what
        the model adds. So none has to be kept. Raises UserError.
        """
        question = Question.read(request, self.translators)
        prefix, heads = (
            validation.ids(question.request, "prefix"),
            validation.heads(question.request, "heads"),
        )
        translation = question.translate(prefix=prefix)
        address, call = validation.text(question.request, "address"), call_of(question, prefix, heads)
        return TakenAway(
            files(translation, question.payload(translation)),
            python_call(address, *call),
            curl_call(address, *call),
        )

    def head_map(self, request: object) -> HConcatChart:
        """Return how much each head matters for the translation `ids`, in the `theme`. Raises UserError."""
        question = Question.read(request, self.translators)
        theme = validation.choice(question.request, "theme", INK)
        ids = validation.ids(question.request, "ids")
        return importance_map(question.translator.importance(question.text, ids), theme)
