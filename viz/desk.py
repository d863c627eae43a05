"""The desk: the loaded translators, and what the page, its viewer and its API ask of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from model import Translation, Translator
from model.errors import UserError
from viz import fields
from viz.answers import Question, answer, mute

UNEXPECTED = "Something went wrong inside the page; the last result is kept. The log of the server says more."

logger = logging.getLogger("headlight")


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

    def question(self, **request: Any) -> Question:
        """Return the fields that every request has, checked. Raises UserError."""
        return Question.read(request, self.translators)

    def record(self, request: fields.Request) -> tuple[Question, Translation]:
        """Translate again what a request describes: its `prefix` and what the model adds. Raises UserError.

        A record is the same each time, so that what is on screen can be had again without keeping it.
        """
        question = Question.read(request, self.translators)
        return question, question.translate(prefix=fields.ids(request, "prefix"))

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
        options = {"beam_size": beam_size, "length_penalty": length_penalty}
        question, translation = self.record({"text": text, "model": model, **options, "prefix": prefix or []})
        return question.payload(translation)

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
        question = self.question(text=text, model=model, beam_size=1, length_penalty=1.0, target=target)
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
        options = {"beam_size": beam_size, "length_penalty": length_penalty}
        found = mute(self.question(text=text, model=model, heads=heads, **options))
        record = found.pop("payload")
        return _summary(record) | found


def _summary(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "translation": record["text"],
        "source_tokens": [token["text"] for token in record["tokens"]["source"]],
        "target_tokens": [token["text"] for token in record["tokens"]["predicted"]],
        "log_probabilities": record["log_probabilities"],
        "hypotheses": record["hypotheses"],
        "notices": record["notices"],
    }
