"""Answers requests about a model's training: its curves, and what its heads did at the saved steps."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from model import Translation, Translator
from model.errors import Sentence, UserError, said
from model.results import Source
from model.storage.probes import PROBES, Part, Probes
from model.storage.run import goes_on, history_directory
from model.storage.training_log import METRICS, Row, TrainingLog
from viz.about import NO_CURVES, no_training
from viz.payload import HeadTables, Payload, encode_measures
from viz.server.handlers.records import payload_of
from viz.server.handlers.registry import handler
from viz.server.validation import Request, TrainingSentenceRequest, TrainingStepRequest

BROKEN_TRAINING = Sentence(
    "The record of this model's training cannot be read; copy its probes.safetensors again."
)
MAX_POINTS = 1000  # of a curve, which has fewer pixels
MAX_CURVES = 50  # a training of this project writes 14
STEP = "step"

logger = logging.getLogger("headlight")


@handler("training", Request, cost=0.2, is_cached=False)
def training(translator: Translator, _: Request) -> Mapping[str, object]:
    """The curves of the model's training, the saved steps and sentences; `notice` says what is missing.

    `goes_on` says that a process trains now, `begins_trained` that the record begins with a trained model.
    `earlier` has its parts with another vocabulary, by their last step; one has a title if the next part has
    other languages.
    """
    try:
        directory, probes = _probes(translator)
    except UserError as error:  # not an error: after one the viewer offers to ask again, which would not help
        nothing: dict[str, object] = {"curves": [], "steps": [], "sentences": []}
        nothing |= {"goes_on": False, "begins_trained": False, "earlier": []}
        return nothing | {"notice": str(error), "said": said(error)}
    info = translator.checkpoint.info
    languages = info.source_language, info.target_language
    curves, notice = _curves(directory, _changed_at(directory / METRICS))
    return {
        "curves": curves,
        "steps": list(probes.steps),
        "sentences": [pair._asdict() for pair in probes.current.sentences],
        "goes_on": goes_on(directory),
        "begins_trained": probes.begin_trained,
        "earlier": [
            {"last": part.last, "title": _title(part, after.languages or languages)}
            for part, after in pairwise(probes.parts)
        ],
        "notice": notice,
        "said": said(notice),
    }


def _title(part: Part, following: tuple[str, str]) -> str:
    """The title of the model of this part, if the next part has other languages."""
    return "" if part.languages == following else part.title


@lru_cache(maxsize=4)
def _curves(directory: Path, changed_at: int) -> tuple[list[Row], str]:
    """The readable rows of the training log, thinned, and a notice about the others."""
    try:
        found = TrainingLog.load(directory)
    except UserError as error:  # only logged, because its message names a path of the server
        logger.info("training: %s", error)
        return [], NO_CURVES
    if not found.skipped:
        return _thinned(found.rows), ""
    return _thinned(found.rows), _skipped(found.skipped)


def _skipped(count: int) -> Sentence:
    if count == 1:
        return Sentence("1 line of this training's log cannot be read; the curves leave it out.")
    return Sentence(
        "{count:,} lines of this training's log cannot be read; the curves leave them out.", count=count
    )


def _thinned(rows: Sequence[Row]) -> list[Row]:
    """The first `MAX_CURVES` curves, with `MAX_POINTS` of each, evenly spread, the last one included."""
    curves: dict[str, list[int]] = {}  # the rows that have a value of each
    for place, row in enumerate(rows):
        for name in row:
            if name != STEP and (name in curves or len(curves) < MAX_CURVES):
                curves.setdefault(name, []).append(place)
    kept: set[int] = set()
    for places in curves.values():
        step = -(-len(places) // MAX_POINTS)
        kept.update(places[::-step])
    known = {STEP, *curves}
    chosen = (rows[place] for place in sorted(kept))
    return [{name: value for name, value in row.items() if name in known} for row in chosen]


@handler("training_step", TrainingStepRequest, cost=0.2, is_cached=False)
def training_step(translator: Translator, request: TrainingStepRequest) -> Payload:
    """The record of one saved sentence as the model read it at one saved step of its training."""
    _, probes = _probes(translator)
    part, info = probes.part(request.step), translator.checkpoint.info
    pair, record = part.pair(request.sentence), probes.record(request.step, request.sentence)
    source_language, target_language = part.languages or (info.source_language, info.target_language)
    translation = Translation(
        source=Source(pair.source, record.source),
        text=pair.target,
        source_language=source_language,
        target_language=target_language,
        attention=record,
        log_probabilities=probes.log_probabilities(request.step, request.sentence),
        alternatives=((),) * len(record.predicted),  # only the attention was saved
        hypotheses=(),
        n_forced=len(record.predicted),
    )
    return payload_of(translator, request, translation, is_given=True)


@handler("training_heads", TrainingSentenceRequest, cost=1.0, is_cached=False)
def training_heads(translator: Translator, request: TrainingSentenceRequest) -> dict[str, list[HeadTables]]:
    """The measures and the role of every head for one saved sentence, at each saved step."""
    _, probes = _probes(translator)
    return {"steps": [encode_measures(probes.record(step, request.sentence)) for step in probes.steps]}


def _probes(translator: Translator) -> tuple[Path, Probes]:
    if translator.directory is None:
        raise UserError(no_training(translator))
    directory = history_directory(translator.directory)
    try:
        return directory, _load_probes(directory, _changed_at(directory / PROBES))
    except UserError as error:  # only logged, because its message names a path of the server
        logger.info("training: %s", error)
        if (directory / PROBES).exists():
            raise UserError(BROKEN_TRAINING) from error
        raise UserError(no_training(translator)) from error


@lru_cache(maxsize=4)
def _load_probes(directory: Path, changed_at: int) -> Probes:
    """Read a file of some megabytes once for all steps of the slider, and again when it has changed."""
    return Probes.load(directory)


def _changed_at(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
