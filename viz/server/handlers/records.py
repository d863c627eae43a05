"""Answers requests about one record, from a translation to one cell, and for the study of its model.

A request is about the record on screen: it names the model, the sentence and the options of its translation,
and says what else is wanted.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from model import Translation, Translator
from model.analysis.corpus import CorpusHeads, load_heads
from model.decoding.options import SearchOptions
from model.errors import UserError
from model.instruments import Baseline, ablate, mean_baseline, sentence_baseline
from model.results import KINDS, AblationResult
from viz.about import NO_STUDY
from viz.export import files
from viz.instruments import rounded
from viz.payload import PackedValues, Payload, encode, encode_hypothesis, encode_values
from viz.server.handlers.registry import handler
from viz.server.snippets import call_of, curl_call, python_call
from viz.server.validation import (
    BaselineRequest,
    ExportRequest,
    ForcedRequest,
    HiddenRequest,
    ImportanceRequest,
    MuteRequest,
    Request,
    ScoreRequest,
    TargetRequest,
)


def run_translation(translator: Translator, request: Request, **options: Any) -> Translation:
    """Translate the sentence of a request with its options."""
    return translator.translate(request.text, request.beam_size, request.length_penalty, **options)


def payload_of(
    translator: Translator, request: Request, translation: Translation, *, is_given: bool = False
) -> Payload:
    """Return a translation as the viewer reads it; a given one, not searched, gets the request's options."""
    options = SearchOptions(request.beam_size, request.length_penalty) if is_given else None
    return encode(translation, request.model, translator.title, options)


@handler("translate", ForcedRequest, cost=1.0)
def translate(translator: Translator, request: ForcedRequest) -> Payload:
    """The translation that begins with the ids of `forced`."""
    return payload_of(translator, request, run_translation(translator, request, forced=request.forced))


@handler("remove_word", HiddenRequest, cost=2.0)
def remove_word(translator: Translator, request: HiddenRequest) -> dict[str, str]:
    """What the translation becomes without the source tokens in `places`; see `leave_one_out`."""
    found = run_translation(translator, request, forced=request.forced, hidden=request.places)
    return {"text": found.text}


@handler("target", TargetRequest, cost=0.8)
def target(translator: Translator, request: TargetRequest) -> Payload:
    """The record of exactly these `ids`."""
    return payload_of(translator, request, translator.score(request.text, request.ids), is_given=True)


@handler("score", ScoreRequest, cost=0.6)
def score(translator: Translator, request: ScoreRequest) -> Payload:
    """The record of a translation given as text, `target`."""
    return payload_of(translator, request, translator.score(request.text, request.target), is_given=True)


@handler("mute", MuteRequest, cost=1.5)
def mute(translator: Translator, request: MuteRequest) -> Mapping[str, object]:
    """The translation with `heads` muted, and what muting them costs each token of `ids`.

    With a baseline other than zero, the answer also has the baseline and its number of rows by kind.
    """
    baseline = _baseline(translator, request)
    result = _without_heads(translator, request, baseline, request.target)
    return {
        "text": result.ablated.text,
        "words": result.ablated_words,
        "original_words": result.original_words,
        "differences": [round(value, 6) for value in result.differences],
        "payload": payload_of(translator, request, result.ablated),
        **_about_baseline(baseline),
    }


def _without_heads(
    translator: Translator,
    request: MuteRequest | ExportRequest,
    baseline: Baseline,
    target: list[int] | None = None,
) -> AblationResult:
    return ablate(
        translator,
        request.text,
        request.heads,
        baseline,
        request.row,
        beam_size=request.beam_size,
        length_penalty=request.length_penalty,
        target=target,
        forced=request.forced,
    )


def _baseline(translator: Translator, request: BaselineRequest) -> Baseline:
    if request.baseline == "mean":
        return mean_baseline(translator, request.sample)
    if request.baseline == "sentence":
        return sentence_baseline(translator, request.other)
    return Baseline()


def _about_baseline(baseline: Baseline) -> Mapping[str, object]:
    if baseline.outputs is None:
        return {}
    about = {"name": baseline.name, "sentences": baseline.sentences, "translation": baseline.translation}
    rows = {kind: each.shape[2] for kind, each in baseline.outputs._asdict().items()}
    return {"baseline": about | {"rows": rows}}


@handler("importance", ImportanceRequest, cost=4.0)
def importance(translator: Translator, request: ImportanceRequest) -> Mapping[str, object]:
    """Change of the log-probability of `ids`, in nats, with each head alone muted; see `mute`."""
    baseline = _baseline(translator, request)
    values = translator.importance(request.text, request.target, baseline.outputs)
    return {**{kind: rounded(getattr(values, kind)) for kind in KINDS}, **_about_baseline(baseline)}


@handler("transformed_norm", TargetRequest, cost=2.0)
def transformed_norm(translator: Translator, request: TargetRequest) -> dict[str, PackedValues]:
    """The norm-based weights of `ids`, for every cell."""
    found = translator.norm_weights(request.text, request.ids)
    return {kind: encode_values(getattr(found, kind).numpy()) for kind in KINDS}


@handler("corpus", Request, cost=0.2, is_cached=False)
def corpus(translator: Translator, _: Request) -> CorpusHeads:
    """What every head does over a corpus; see `model.analysis.corpus`."""
    found = load_heads(translator.directory)
    if found is None:
        raise UserError(NO_STUDY)
    return found


@handler("beams", Request, cost=1.5)
def beams(translator: Translator, request: Request) -> Mapping[str, object]:
    """Every hypothesis that the beam search considered, and all finished translations."""
    found = run_translation(translator, request, n_best=request.beam_size, tree=True)
    return {
        "beam_size": request.beam_size,
        "nodes": [asdict(node) for node in found.beam_tree],
        "hypotheses": [encode_hypothesis(one) for one in found.hypotheses],
    }


@handler("export", ExportRequest, cost=3.0, is_cached=False)
def export(translator: Translator, request: ExportRequest) -> Mapping[str, object]:
    """The record as files by name, in base64, and the API call that gives it.

    The record is computed again from the request: `forced`, the tokens that were given, and the model
    determine it, and the muted heads if the translation with them is on screen.
    """
    if request.shows_muted:
        translation = _without_heads(translator, request, _baseline(translator, request)).ablated
        payload = payload_of(translator, request, translation) | {"muted": request.muted}
    else:
        translation = run_translation(translator, request, forced=request.forced)
        payload = payload_of(translator, request, translation)
    exported = files(translation, payload, request.view, request.address, request.language)
    call = call_of(request)
    return {
        "files": {name: b64encode(data).decode() for name, data in exported.items()},
        "python": python_call(request.address, *call),
        "curl": curl_call(request.address, *call),
    }
