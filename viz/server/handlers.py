"""Answers each kind of request, from a translation to the explanation of one cell.

Each is registered under its name in the protocol, the field `do` of a request. A request is about the record
on screen: it names the model, the sentence and the options of its translation, and says what else is wanted.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from model import Translation, Translator
from model.analysis.attribution import rollout
from model.decoding.search import PAGE_MAX_BEAM
from model.errors import UserError
from model.inputs import MAX_TOKENS
from model.results import KINDS, AblationResult, Head
from model.storage.probes import PROBES, Probes
from model.storage.training_log import METRICS, Row, TrainingLog
from viz.export import files
from viz.payload import encode, encode_hypothesis, encode_measures, encode_values
from viz.server.snippets import call_of, curl_call, python_call
from viz.server.validation import (
    CellRequest,
    ExportRequest,
    MuteRequest,
    OptionalTargetRequest,
    PrefixRequest,
    Request,
    ScoreRequest,
    TargetRequest,
    TrainingSentenceRequest,
    TrainingStepRequest,
    ValuesRequest,
)

NO_TRAINING = "This model came without a record of its training."
NOT_TRAINED_HERE = "This model was imported: this project did not train it and has no record of its training."
BROKEN_TRAINING = "The record of this model's training cannot be read; copy its probes.safetensors again."
CHEAPEST = 0.01  # seconds that reading and writing any request takes
TOKENS_PER_SECOND = 200
MAX_POINTS = 1000  # of a curve, which has fewer pixels
NO_CURVES = "The curves of this training are missing or cannot be read."

logger = logging.getLogger("headlight")

Work = Callable[[Translator, Any], dict[str, Any]]


@dataclass(frozen=True)
class Handler:
    """How requests of one kind are answered."""

    name: str  # in the protocol
    request: type[Request]
    work: Work
    cost: float  # the time that it takes, divided by that of a translation
    is_cached: bool  # not if the answer is large or reads files, which can change while the server runs


HANDLERS: dict[str, Handler] = {}


def handler(
    name: str, request: type[Request], *, cost: float, is_cached: bool = True
) -> Callable[[Work], Work]:
    """Register the decorated function for requests whose `do` is `name`."""

    def register(work: Work) -> Work:
        HANDLERS[name] = Handler(name, request, work, cost, is_cached)
        return work

    return register


def find_handler(request: object) -> Handler | None:
    """Return the handler that the `do` of an unchecked request names, None unless there is one."""
    name = request.get("do") if isinstance(request, dict) else None
    return HANDLERS.get(name) if isinstance(name, str) else None


def estimate_seconds(request: object, slowness: float = 1.0) -> float:
    """Estimate from an unchecked request how long its answer takes on one core, within a factor of three.

    The model de-en translates about 200 tokens a second; a token has four characters or more. `slowness` is
    how many times as long its model takes.
    """
    found = find_handler(request)
    if found is None or not isinstance(request, dict):
        return CHEAPEST
    target, beam = request.get("ids", request.get("prefix")), request.get("beam_size")
    texts = [request.get("text"), request.get("other")]
    for name in ("sentences", "sample"):
        texts += given if isinstance(given := request.get(name), list) else []
    tokens = sum(min(len(text) / 4, MAX_TOKENS) for text in texts if isinstance(text, str))
    tokens += len(target) / 2 if isinstance(target, list) else 0
    beams = min(beam, PAGE_MAX_BEAM) if isinstance(beam, int) else 1
    return max(CHEAPEST, slowness * found.cost * tokens * (3 + beams) / 4 / TOKENS_PER_SECOND)


def run_translation(translator: Translator, request: Request, **options: Any) -> Translation:
    """Translate the sentence of a request with its options."""
    return translator.translate(request.text, request.beam_size, request.length_penalty, **options)


def payload_of(translator: Translator, request: Request, translation: Translation) -> dict[str, Any]:
    """Return a translation as the viewer reads it."""
    return encode(translation, request.model, translator.title, request.beam_size, request.length_penalty)


@handler("translate", PrefixRequest, cost=1)
def translate(translator: Translator, request: PrefixRequest) -> dict[str, Any]:
    """The translation that begins with the ids of `prefix`."""
    return payload_of(translator, request, run_translation(translator, request, prefix=request.prefix))


@handler("target", TargetRequest, cost=0.4)
def target(translator: Translator, request: TargetRequest) -> dict[str, Any]:
    """The record of exactly these `ids`."""
    return payload_of(translator, request, translator.score(request.text, request.ids))


@handler("score", ScoreRequest, cost=0.3)
def score(translator: Translator, request: ScoreRequest) -> dict[str, Any]:
    """The record of a translation given as text, `target`."""
    return payload_of(translator, request, translator.score(request.text, request.target))


@handler("mute", MuteRequest, cost=1.5)
def mute(translator: Translator, request: MuteRequest) -> dict[str, Any]:
    """The translation with `heads` muted, and what muting them costs each token of `ids`."""
    result = translator.mute(
        request.text,
        request.heads,
        request.beam_size,
        request.length_penalty,
        request.target,
        prefix=request.prefix,
    )
    return ablation_values(translator, request, result)


def ablation_values(translator: Translator, request: Request, result: AblationResult) -> dict[str, Any]:
    """Return what an ablation changes, with the new translation as the viewer reads it."""
    return {
        "text": result.ablated.text,
        "words": result.ablated_words,
        "original_words": result.original_words,
        "differences": [round(value, 6) for value in result.differences],
        "payload": payload_of(translator, request, result.ablated),
    }


@handler("importance", OptionalTargetRequest, cost=6)
def importance(translator: Translator, request: OptionalTargetRequest) -> dict[str, Any]:
    """Change of the log-probability of `ids`, in nats, with each head alone muted."""
    values = translator.importance(request.text, request.target)
    return {kind: _rounded(getattr(values, kind)) for kind in KINDS}


@handler("values", ValuesRequest, cost=0.6)
def values(translator: Translator, request: ValuesRequest) -> dict[str, Any]:
    """The norm-based weights or the rollout of `ids`, for every cell."""
    if request.mode == "norm":
        found = translator.norm_weights(request.text, request.ids)._asdict()
    else:
        record = translator.score(request.text, request.ids).attention
        mixed = rollout(record.encoder, record.decoder, record.cross)
        found = {kind: layers[:, None] for kind, layers in mixed._asdict().items()}
    return {kind: encode_values(found[kind].detach().cpu().numpy()) for kind in KINDS}


@handler("cell", CellRequest, cost=0.2)
def cell(translator: Translator, request: CellRequest) -> dict[str, Any]:
    """How the weight at `row` and `column` of one head was computed."""
    head = Head(request.kind, request.layer, request.head)
    found = translator.cell(request.text, request.ids, head, request.row, request.column)
    scores = zip(_rounded(found.scores), found.allowed.tolist(), strict=True)
    return {
        "query": _rounded(found.query),
        "key": _rounded(found.key),
        "products": _rounded(found.products),
        "scale": found.scale,
        "score": found.score,
        "scores": [score if allowed else None for score, allowed in scores],
        "weights": _rounded(found.weights),
        "norm": float(found.norms[request.column]),
        "row_norms": _rounded(found.norms),
    }


@handler("beams", Request, cost=1.5)
def beams(translator: Translator, request: Request) -> dict[str, Any]:
    """Every hypothesis that the beam search considered, and all finished translations."""
    found = run_translation(translator, request, n_best=request.beam_size, tree=True)
    return {
        "beam_size": request.beam_size,
        "nodes": [asdict(node) for node in found.beam_tree],
        "hypotheses": [encode_hypothesis(one) for one in found.hypotheses],
    }


@handler("export", ExportRequest, cost=2, is_cached=False)
def export(translator: Translator, request: ExportRequest) -> dict[str, Any]:
    """The record as files by name, in base64, and the API call that gives it.

    The record is computed again from the request: `prefix`, the tokens that were given, and the model
    determine it.
    """
    translation = run_translation(translator, request, prefix=request.prefix)
    payload = payload_of(translator, request, translation)
    exported = files(translation, payload, request.view, request.address)
    call = call_of(request)
    return {
        "files": {name: b64encode(data).decode() for name, data in exported.items()},
        "python": python_call(request.address, *call),
        "curl": curl_call(request.address, *call),
    }


@handler("training", Request, cost=1, is_cached=False)
def training(translator: Translator, _: Request) -> dict[str, Any]:
    """The curves of the model's training, the saved steps and sentences; `notice` says what is missing."""
    try:
        directory, probes = _probes(translator)
    except UserError as error:  # not an error: after one the viewer offers to ask again, which would not help
        return {"curves": [], "steps": [], "sentences": [], "notice": str(error)}
    curves, notice = _curves(directory, _changed_at(directory / METRICS))
    return {
        "curves": curves,
        "steps": list(probes.steps),
        "sentences": [pair._asdict() for pair in probes.sentences],
        "notice": notice,
    }


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
    lines = "1 line" if found.skipped == 1 else f"{found.skipped:,} lines"
    return _thinned(found.rows), f"{lines} of this training's log cannot be read; the curves leave them out."


def _thinned(rows: Sequence[Row]) -> list[Row]:
    """At most `MAX_POINTS` rows of each curve, evenly spread, the last one included."""
    curves: dict[frozenset[str], list[int]] = {}  # rows with the same names belong to the same curves
    for place, row in enumerate(rows):
        curves.setdefault(frozenset(row), []).append(place)
    kept: set[int] = set()
    for places in curves.values():
        step = -(-len(places) // MAX_POINTS)
        kept.update(places[::-step])
    return [rows[place] for place in sorted(kept)]


@handler("training_step", TrainingStepRequest, cost=1, is_cached=False)
def training_step(translator: Translator, request: TrainingStepRequest) -> dict[str, Any]:
    """The record of one saved sentence as the model read it at one saved step of its training."""
    _, probes = _probes(translator)
    record = probes.record(request.step, request.sentence)
    pair, info = probes.sentences[request.sentence], translator.checkpoint.info
    translation = Translation(
        source_text=pair.source,
        text=pair.target,
        source_language=info.source_language,
        target_language=info.target_language,
        attention=record,
        log_probabilities=probes.log_probabilities(request.step, request.sentence),
        alternatives=((),) * len(record.predicted),  # only the attention was saved
        hypotheses=(),
        n_prefix=len(record.predicted),
    )
    return payload_of(translator, request, translation)


@handler("training_heads", TrainingSentenceRequest, cost=2, is_cached=False)
def training_heads(translator: Translator, request: TrainingSentenceRequest) -> dict[str, Any]:
    """The measures and the role of every head for one saved sentence, at each saved step."""
    _, probes = _probes(translator)
    return {"steps": [encode_measures(probes.record(step, request.sentence)) for step in probes.steps]}


def _probes(translator: Translator) -> tuple[Path, Probes]:
    directory = translator.directory
    if directory is None:
        raise UserError(NO_TRAINING)
    try:
        return directory, _load_probes(directory, _changed_at(directory / PROBES))
    except UserError as error:  # only logged, because its message names a path of the server
        logger.info("training: %s", error)
        if (directory / PROBES).exists():
            raise UserError(BROKEN_TRAINING) from error
        raise UserError(NOT_TRAINED_HERE if translator.checkpoint.info.origin else NO_TRAINING) from error


@lru_cache(maxsize=4)
def _load_probes(directory: Path, changed_at: int) -> Probes:
    """Read a file of some megabytes once for all steps of the slider, and again when it has changed."""
    return Probes.load(directory)


def _changed_at(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _rounded(numbers: torch.Tensor) -> list[Any]:
    return numbers.cpu().double().round(decimals=6).tolist()
