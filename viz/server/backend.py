"""Answers requests: checks each one, finds its model and handler, and turns errors into one sentence."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

from model import Translator
from model.errors import Sentence, UserError, quote_untrusted, said
from model.inputs import language_prefix
from viz.server import validation
from viz.server.handlers import CHEAPEST, HANDLERS, Answer, estimate_seconds, find_handler

UNEXPECTED = Sentence(
    "This is an error of the server, and its log says more. The last result is kept; try again."
)

# Of the model de-en, whose speed the estimates are about.
USUAL_WEIGHTS, USUAL_HEADS, USUAL_QUERIES = 9_400_000, 96, 3072

logger = logging.getLogger("headlight")

R = TypeVar("R", bound=validation.Request)


class Backend:
    """The loaded translators by name. Requests are untrusted."""

    def __init__(self, translators: Mapping[str, Translator]) -> None:
        self.translators = dict(translators)

    def estimate_seconds(self, request: object) -> float:
        """Estimate the seconds of an unchecked request, from the weights and the tokenizer of its model."""
        name = request.get("model") if isinstance(request, dict) else None
        translator = self.translators.get(name) if isinstance(name, str) else None
        if translator is None:
            return CHEAPEST  # it is refused
        checkpoint = translator.checkpoint
        config = checkpoint.model.config
        slowness = max(
            1.0,
            config.n_parameters / USUAL_WEIGHTS,
            config.total_heads / USUAL_HEADS,
            config.total_queries / USUAL_QUERIES,
        )

        def count_tokens(text: str) -> float:
            try:
                return len(checkpoint.source_tokenizer.encode(text))
            except UserError:  # too long for this tokenizer
                return len(text)

        return estimate_seconds(request, slowness, count_tokens)

    def answer(self, request: object) -> Answer:
        """Answer a request of the viewer."""
        try:
            handler = find_handler(request)
            if handler is None:
                raise UserError(Sentence("“do” must be one of: {names}.", names=", ".join(HANDLERS)))
            return {"answer": handler.work(*self._parse(handler.request, request))}
        except UserError as error:
            return {"error": str(error), "said": said(error)}
        except Exception:
            logger.exception("answer")
            return {"error": UNEXPECTED, "said": said(UNEXPECTED)}

    def _parse(self, kind: type[R], request: object) -> tuple[Translator, R]:
        checked = validation.parse(kind, request)
        if checked.model not in self.translators:
            known = ", ".join(self.translators) or "none"
            raise UserError(
                Sentence(
                    "There is no model {name}; choose one of: {known}.",
                    name=quote_untrusted(checked.model),
                    known=known,
                )
            )
        translator = self.translators[checked.model]
        if checked.language_prefix:
            _check_prefix(checked, translator)
            checked = validation.with_prefix_in_text(checked)
        return translator, checked


def _check_prefix(request: validation.Request, translator: Translator) -> None:
    if language_prefix(translator.checkpoint, request.language_prefix) == request.language_prefix:
        return
    names = {"model": quote_untrusted(request.model), "prefix": quote_untrusted(request.language_prefix)}
    info = translator.checkpoint.info
    if not (known := info.target_languages + info.prompts):
        raise UserError(
            Sentence(
                "{model} has no language or prompt {prefix}; leave out “language_prefix”.",
                **names,
            )
        )
    raise UserError(
        Sentence(
            "{model} has no language or prompt {prefix}; choose one that it has, such as {first}.",
            first=quote_untrusted(known[0]),
            **names,
        )
    )
