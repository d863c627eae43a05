"""Answers the instruments: the request of each, and the function of `viz.instruments` that answers it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from model import Translator
from model.results import Head
from viz import instruments
from viz.server.handlers.registry import Work, handler
from viz.server.validation import (
    CellRequest,
    ExamplesRequest,
    Index,
    KindName,
    Request,
    ShortRequest,
    TargetRequest,
    Text,
    WordId,
)
from viz.short import short_values


class StepRequest(TargetRequest):
    """Asks about the word of a step."""

    step: Index


class ContributionRequest(StepRequest):
    """Asks what wrote a word at a step, or that word and not another."""

    word: WordId
    other: WordId | None = Field(None, description="the id of a word")


class RemovalRequest(StepRequest):
    """Asks how the word of a step fares while cells of one row are removed; no head means the whole layer."""

    kind: KindName
    layer: Index
    head: Index | None = Field(None, description="the index of a head")
    row: Index


class LinksRequest(TargetRequest):
    """Asks for the word links of this pair, and for their error if there are links in Pharaoh form."""

    head: Head | None = Field(None, description='a head of cross-attention such as ["cross", 0, 3]')
    gold: Text = ""


def _instrument(values: Any, request: type[Request]) -> Work:
    """Answer with the fields that this request has besides those of every request."""
    own = request.model_fields.keys() - Request.model_fields.keys()
    return lambda translator, asked: values(
        translator, asked.text, **{name: getattr(asked, name) for name in own}
    )


for _name, _values, _request, _cost in (
    ("lens", instruments.lens_values, TargetRequest, 0.6),
    ("contributions", instruments.contribution_values, ContributionRequest, 0.8),
    ("score_split", instruments.score_values, CellRequest, 0.6),
    ("writing", instruments.writing_values, CellRequest, 0.6),
    ("removal", instruments.removal_values, RemovalRequest, 4.0),
    ("without", instruments.without_values, TargetRequest, 1.5),
    ("routes", instruments.route_values, StepRequest, 0.6),
    ("links", instruments.link_values, LinksRequest, 0.4),
):
    handler(_name, _request, cost=_cost)(_instrument(_values, _request))


@handler("short", ShortRequest, cost=6.0)
def short(translator: Translator, request: ShortRequest) -> dict[str, Any]:
    """What the page says about the translation `ids` in short."""
    options = request.beam_size, request.length_penalty, request.prefix
    return short_values(translator, request.text, request.ids, *options)


# Its cost is that of the sentences. Not cached, so that nothing is kept of what a visitor pastes.
@handler("examples", ExamplesRequest, cost=0.0, is_cached=False)
def examples(translator: Translator, request: ExamplesRequest) -> dict[str, Any]:
    """What every head does over some of the visitor's sentences; the page asks again for the next ones."""
    return instruments.survey_values(translator, request.sentences, request.beam_size, request.length_penalty)
