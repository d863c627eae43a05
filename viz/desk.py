"""The desk: the loaded translators, and what the page, its viewer and its API ask of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from altair import HConcatChart

from model import Translator
from model.errors import UserError
from viz import fields
from viz.answers import Question, answer, mute
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

    def attention(
        self,
        text: str,
        model: str = "de-en",
        beam_size: int = 1,
        length_penalty: float = 1.0,
        prefix: list[int] | None = None,
    ) -> dict[str, Any]:
        """Translate a sentence and return the full record: tokens, probabilities, attention weights.

        The translation begins with the token ids of `prefix`; one that ends with </s> is the whole of it.
        """
        question = self._question(text, model, beam_size, length_penalty, prefix=prefix or [])
        return question.payload(question.translate(prefix=fields.ids(question.request, "prefix")))

    def summary(
        self,
        text: str,
        model: str = "de-en",
        beam_size: int = 1,
        length_penalty: float = 1.0,
        prefix: list[int] | None = None,
    ) -> dict[str, Any]:
        """Translate a sentence and return the translation, its tokens, log-probabilities and hypotheses."""
        return _summary(self.attention(text, model, beam_size, length_penalty, prefix))

    def score(self, text: str, target: str, model: str = "de-en") -> dict[str, Any]:
        """Return what the model makes of a given translation: the log-probability of each of its tokens."""
        question = self._question(text, model, target=target)
        given = question.translator.score(question.text, fields.text(question.request, "target"))
        return _summary(question.payload(given))

    def mute(
        self,
        text: str,
        heads: list[list[str | int]],
        model: str = "de-en",
        beam_size: int = 1,
        length_penalty: float = 1.0,
    ) -> dict[str, Any]:
        """Translate with these heads silent: the new words and what the former tokens lose or gain.

        A head is [kind, layer, head] with the kind encoder, decoder or cross, layers and heads counted
        from 0. `words` and `original_words` mark what the other translation lacks; `differences` are
        those of the original tokens' log-probabilities, in nats.
        """
        found = mute(self._question(text, model, beam_size, length_penalty, heads=heads))
        record = found.pop("payload")
        return _summary(record) | found

    def _question(
        self, text: str, model: str, beam_size: int = 1, length_penalty: float = 1.0, **more: Any
    ) -> Question:
        options = {"beam_size": beam_size, "length_penalty": length_penalty}
        return Question.read({"text": text, "model": model, **options, **more}, self.translators)


def _summary(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "translation": record["text"],
        "source_tokens": [token["text"] for token in record["tokens"]["source"]],
        "target_tokens": [token["text"] for token in record["tokens"]["predicted"]],
        "log_probabilities": record["log_probabilities"],
        "hypotheses": record["hypotheses"],
        "notices": record["notices"],
    }
