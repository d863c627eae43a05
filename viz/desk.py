"""The desk: the loaded translators, and what the page, its viewer and its API ask of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from altair import HConcatChart

from model import Translator
from model.errors import UserError
from viz import fields
from viz.answers import Question, answer
from viz.calls import call_of, curl_call, python_call
from viz.charts import INK, importance_map
from viz.export import files

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
        """Answer a request of the viewer: {"answer": …}, or {"error": one sentence}; see `viz.answers`."""
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
        prefix, heads = fields.ids(question.request, "prefix"), fields.heads(question.request, "heads")
        translation = question.translate(prefix=prefix)
        address, call = fields.text(question.request, "address"), call_of(question, prefix, heads)
        return TakenAway(
            files(translation, question.payload(translation)),
            python_call(address, *call),
            curl_call(address, *call),
        )

    def head_map(self, request: object) -> HConcatChart:
        """Return how much each head matters for the translation `ids`, in the `theme`. Raises UserError."""
        question = Question.read(request, self.translators)
        theme = fields.choice(question.request, "theme", INK)
        ids = fields.ids(question.request, "ids")
        return importance_map(question.translator.importance(question.text, ids), theme)
