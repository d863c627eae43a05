"""What the viewer asks: one small function for each kind of question.

A question is about the record on screen: it names the model, the sentence and the options that it was
translated with, and says what is wanted beyond.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from model import Translation, Translator
from model.analysis.attribution import rollout
from model.decoding.search import PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY
from model.errors import UserError, quote_untrusted
from model.results import KINDS, Head, Word
from model.storage.probes import PROBES, Probes
from model.storage.training_log import Row, TrainingLog
from viz.payload import encode, encode_hypothesis, encode_values
from viz.server import validation

NO_TRAINING = "This model came without a record of its training."
BROKEN_TRAINING = "The record of this model's training cannot be read; copy its probes.safetensors again."
NO_CURVES = "The curves of this training are missing or cannot be read."

logger = logging.getLogger("headlight")


@dataclass(frozen=True)
class Question:
    """A request whose common fields have been read."""

    translator: Translator
    model: str
    text: str
    beam_size: int
    length_penalty: float
    request: validation.Request  # what is asked beyond, still unread

    @classmethod
    def read(cls, request: object, translators: Mapping[str, Translator]) -> Question:
        """Read the fields that every request has. Raises UserError."""
        if not isinstance(request, dict):
            raise UserError("A request must be an object that names the model and the sentence.")
        model = validation.text(request, "model")
        if model not in translators:
            known = ", ".join(translators) or "none"
            raise UserError(f"There is no model {quote_untrusted(model)}; choose one of: {known}.")
        return cls(
            translators[model],
            model,
            validation.text(request, "text"),
            validation.whole(request, "beam_size", 1, PAGE_MAX_BEAM),
            validation.number(request, "length_penalty", 0.0, PAGE_MAX_LENGTH_PENALTY),
            request,
        )

    def translate(self, **options: Any) -> Translation:
        """Translate the sentence with its options and these."""
        return self.translator.translate(self.text, self.beam_size, self.length_penalty, **options)

    def payload(self, translation: Translation) -> dict[str, Any]:
        """Return a record of the same model and options as the viewer reads it."""
        return encode(translation, self.model, self.translator.title, self.beam_size, self.length_penalty)


def translate(question: Question) -> dict[str, Any]:
    """The translation that begins with the ids of `prefix`."""
    return question.payload(question.translate(prefix=validation.ids(question.request, "prefix")))


def target(question: Question) -> dict[str, Any]:
    """The record of exactly these `ids`."""
    ids = validation.ids(question.request, "ids")
    return question.payload(question.translator.score(question.text, ids))


def score(question: Question) -> dict[str, Any]:
    """The record of a translation that a person gives as text, `target`."""
    given = validation.text(question.request, "target")
    return question.payload(question.translator.score(question.text, given))


def mute(question: Question) -> dict[str, Any]:
    """What `heads` being silent changes in the translation `ids` and in what the model would say instead."""
    muted = question.translator.mute(
        question.text,
        validation.heads(question.request, "heads"),
        question.beam_size,
        question.length_penalty,
        _ids_if_given(question),
    )
    return {
        "text": muted.ablated.text,
        "words": _words(muted.ablated_words),
        "original_words": _words(muted.original_words),
        "differences": [round(value, 6) for value in muted.differences],
        "payload": question.payload(muted.ablated),
    }


def importance(question: Question) -> dict[str, Any]:
    """Change of the log-probability of `ids`, in nats, with each head alone silent."""
    values = question.translator.importance(question.text, _ids_if_given(question))
    return {kind: _rounded(getattr(values, kind)) for kind in KINDS}


def values(question: Question) -> dict[str, Any]:
    """What is mixed beyond the raw weights of `ids`: `mode` is norm or rollout."""
    mode = validation.choice(question.request, "mode", ("norm", "rollout"))
    ids = validation.ids(question.request, "ids")
    if mode == "norm":
        found = question.translator.norm_weights(question.text, ids)._asdict()
    else:
        record = question.translator.score(question.text, ids).attention
        mixed = rollout(record.encoder, record.decoder, record.cross)
        found = {kind: layers[:, None] for kind, layers in mixed._asdict().items()}
    return {kind: encode_values(found[kind].detach().cpu().numpy()) for kind in KINDS}


def cell(question: Question) -> dict[str, Any]:
    """How the weight at `row` and `column` of one head came about."""
    request = question.request
    kind = validation.choice(request, "kind", KINDS)
    head = Head(kind, validation.index(request, "layer"), validation.index(request, "head"))
    row, column = validation.index(request, "row"), validation.index(request, "column")
    ids = validation.ids(request, "ids")
    found = question.translator.cell(question.text, ids, head, row, column)
    scores = zip(_rounded(found.scores), found.allowed.tolist(), strict=True)
    return {
        "query": _rounded(found.query),
        "key": _rounded(found.key),
        "products": _rounded(found.products),
        "scale": found.scale,
        "score": found.score,
        "scores": [score if allowed else None for score, allowed in scores],
        "weights": _rounded(found.weights),
        "norm": float(found.norms[column]),
        "row_norms": _rounded(found.norms),
    }


def beams(question: Question) -> dict[str, Any]:
    """Everything that the beam search considered, with every translation that it can finish."""
    found = question.translate(n_best=question.beam_size, tree=True)
    return {
        "beam_size": question.beam_size,
        "nodes": [asdict(node) for node in found.beam_tree],
        "hypotheses": [encode_hypothesis(one) for one in found.hypotheses],
    }


def training(question: Question) -> dict[str, Any]:
    """The curves of the model's training, the saved steps and sentences; `notice` says what is missing."""
    try:
        directory, probes = _probes(question)
    except UserError as error:  # known for good, unlike a failure, after which asking again makes sense
        return {"curves": [], "steps": [], "sentences": [], "notice": str(error)}
    curves, notice = _curves(directory)
    return {
        "curves": curves,
        "steps": list(probes.steps),
        "sentences": [pair._asdict() for pair in probes.sentences],
        "notice": notice,
    }


def _curves(directory: Path) -> tuple[list[Row], str]:
    """The rows that can be read, and what is wrong with the others; the steps do without them."""
    try:
        found = TrainingLog.load(directory)
    except UserError as error:  # its sentence names a path of the server, which is for the log
        logger.info("training: %s", error)
        return [], NO_CURVES
    if not found.skipped:
        return list(found.rows), ""
    lines = "1 line" if found.skipped == 1 else f"{found.skipped:,} lines"
    return list(found.rows), f"{lines} of this training's log cannot be read; the curves go without."


def training_step(question: Question) -> dict[str, Any]:
    """The record of one of those sentences as the model read it at one of those steps."""
    _, probes = _probes(question)
    step = validation.whole(question.request, "step", 0, probes.steps[-1])
    sentence = validation.whole(question.request, "sentence", 0, len(probes.sentences) - 1)
    record, pair = probes.record(step, sentence), probes.sentences[sentence]
    info = question.translator.checkpoint.info
    return question.payload(
        Translation(
            source_text=pair.source,
            text=pair.target,
            source_language=info.source_language,
            target_language=info.target_language,
            attention=record,
            log_probabilities=probes.log_probabilities(step, sentence),
            alternatives=((),) * len(record.predicted),  # only the attention was saved
            hypotheses=(),
            n_prefix=len(record.predicted),
        )
    )


def _probes(question: Question) -> tuple[Path, Probes]:
    directory = question.translator.directory
    if directory is None:
        raise UserError(NO_TRAINING)
    try:
        return directory, _load_probes(directory)
    except UserError as error:  # its sentence names a path of the server, which is for the log
        logger.info("training: %s", error)
        raise UserError(BROKEN_TRAINING if (directory / PROBES).exists() else NO_TRAINING) from error


@lru_cache(maxsize=4)
def _load_probes(directory: Path) -> Probes:
    """Read a file of some megabytes once for all steps of the slider; as a model, it is not read again."""
    return Probes.load(directory)


Answer = Callable[[Question], dict[str, Any]]

ANSWERS: dict[str, Answer] = {
    answer.__name__: answer
    for answer in (translate, target, score, mute, importance, values, cell, beams, training, training_step)
}
# These may take as long as many translations: they wait for each other, and nobody else for them.
SLOW = frozenset({"importance", "values", "cell", "beams"})
# These read the record of a training, which somebody may mend or replace meanwhile.
FROM_FILES = frozenset({"training", "training_step"})


def answer(request: object, translators: Mapping[str, Translator]) -> dict[str, Any]:
    """Answer one request. Raises UserError for whatever is wrong with it."""
    question = Question.read(request, translators)
    return ANSWERS[validation.choice(question.request, "do", ANSWERS)](question)


def _ids_if_given(question: Question) -> list[int] | None:
    return validation.ids(question.request, "ids") if "ids" in question.request else None


def _words(words: Sequence[Word]) -> list[list[Any]]:
    return [list(word) for word in words]


def _rounded(numbers: torch.Tensor) -> list[Any]:
    return numbers.cpu().double().round(decimals=6).tolist()
