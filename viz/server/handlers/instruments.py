"""Answers the instruments: lens, contributions, QK, OV, intervene, removal, links, examples."""

from __future__ import annotations

from typing import Any

from model import Translator
from model.instruments import Baseline, intervene, mean_baseline, sentence_baseline
from model.results import Head
from viz.instruments import (
    contribution_values,
    lens_values,
    link_values,
    removal_values,
    score_values,
    survey_values,
    writing_values,
)
from viz.server.handlers.records import ablation_values
from viz.server.handlers.registry import handler
from viz.server.validation import (
    CellRequest,
    ContributionRequest,
    ExamplesRequest,
    InterveneRequest,
    LinksRequest,
    RemovalRequest,
    TargetRequest,
)


@handler("lens", TargetRequest, cost=0.6)
def lens(translator: Translator, request: TargetRequest) -> dict[str, Any]:
    """What the model would say after each decoder layer, at every step."""
    return lens_values(translator, request.text, request.ids)


@handler("contributions", ContributionRequest, cost=0.8)
def contributions(translator: Translator, request: ContributionRequest) -> dict[str, Any]:
    """What wrote `word` at `step`, or why it leads over `other`."""
    asked = request.text, request.ids, request.step, request.word, request.other
    return contribution_values(translator, *asked)


@handler("score_split", CellRequest, cost=0.6)
def score_split(translator: Translator, request: CellRequest) -> dict[str, Any]:
    """Why a head looks there: the score over what wrote the query and the key."""
    return score_values(translator, request.text, request.ids, *_cell(request))


@handler("writing", CellRequest, cost=0.6)
def writing(translator: Translator, request: CellRequest) -> dict[str, Any]:
    """The words that a head pushes up and down when it reads the token of `column`."""
    return writing_values(translator, request.text, request.ids, *_cell(request))


@handler("intervene", InterveneRequest, cost=3.0)
def intervention(translator: Translator, request: InterveneRequest) -> dict[str, Any]:
    """As mute, with a baseline; `baseline` says which, and in how many rows."""
    baseline = _baseline(translator, request)
    result = intervene(
        translator,
        request.text,
        request.heads,
        baseline,
        request.row,
        beam_size=request.beam_size,
        length_penalty=request.length_penalty,
        target=request.target,
        prefix=request.prefix,
    )
    outputs = baseline.outputs
    rows = None if outputs is None else {kind: each.shape[2] for kind, each in outputs._asdict().items()}
    about = {
        "name": baseline.name,
        "sentences": baseline.sentences,
        "translation": baseline.translation,
        "rows": rows if baseline.name == "sentence" else None,
    }
    return ablation_values(translator, request, result) | {"baseline": about}


def _baseline(translator: Translator, request: InterveneRequest) -> Baseline:
    if request.baseline == "mean":
        return mean_baseline(translator, request.sample)
    if request.baseline == "sentence":
        return sentence_baseline(translator, request.other)
    return Baseline()


@handler("removal", RemovalRequest, cost=4.0)
def removal(translator: Translator, request: RemovalRequest) -> dict[str, Any]:
    """The probability of a word while the strongest cells of a row are removed."""
    row = request.kind, request.layer, request.head, request.row
    return removal_values(translator, request.text, request.ids, *row, request.step)


@handler("links", LinksRequest, cost=0.4)
def links(translator: Translator, request: LinksRequest) -> dict[str, Any]:
    """Word links of the sentence, coverage, and the error against a person's links."""
    return link_values(translator, request.text, request.ids, request.head, request.gold)


# Its cost is that of the sentences. Not cached, so that nothing is kept of what a visitor pastes.
@handler("examples", ExamplesRequest, cost=0.0, is_cached=False)
def examples(translator: Translator, request: ExamplesRequest) -> dict[str, Any]:
    """What every head does over some of the visitor's sentences; the page asks again for the next ones."""
    return survey_values(translator, request.sentences, request.beam_size, request.length_penalty)


def _cell(request: CellRequest) -> tuple[Head, int, int]:
    return Head(request.kind, request.layer, request.head), request.row, request.column
