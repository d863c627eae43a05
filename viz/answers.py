"""What the answers of the instruments hold, as far as Python reads them; the charts draw these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from model.analysis.jacobian_lens import Measured
from model.results import Kind
from viz.payload import TokenValues

Written = dict[int, TokenValues]  # how the words of an answer are written, by id


class LensTables(TypedDict):
    """The likeliest words after each decoder layer, [layer][step][rank], with their log-probabilities."""

    words: list[list[list[int]]]
    log_probabilities: list[Any]
    chosen: list[Any]
    leads_from: list[int | None]


class LensValues(LensTables):
    """The same through both lenses."""

    jacobian: LensTables | None  # through the model's Jacobian lens, if it has one
    encoder: list[Any]  # how near its states, [layer][position], are to its last
    measured: Measured | None  # what both lenses are worth
    tokens: Written


class ShareValues(TypedDict):
    """What each part of a stack adds to a logit."""

    tokens: list[Any]
    positions: list[Any]
    heads: dict[str, list[Any]]
    feed_forward: list[Any]
    bias: float


class ContributionValues(TypedDict):
    """What each part adds to a logit."""

    logit: float
    decoder: ShareValues
    encoder: ShareValues
    gradient: dict[str, list[Any]]
    tokens: Written


class PartValues(TypedDict):
    """A part of a state; see `model.analysis.trace.Part`."""

    name: str
    kind: Kind | None
    layer: int | None
    head: int | None


class ScoreValues(TypedDict):
    """A score, [query part][key part]."""

    score: float
    bias: float
    query_parts: list[PartValues]
    key_parts: list[PartValues]
    matrix: list[list[float]]


class WritingValues(TypedDict):
    """Words that a head pushes: ids, each with the change of its logit."""

    weight: float
    norm: float
    up: list[tuple[int, float]]
    down: list[tuple[int, float]]
    tokens: Written


class CurveValues(TypedDict):
    """One way to rank cells; see `model.analysis.faithfulness.Removal`."""

    name: str
    order: Sequence[int]
    probabilities: list[float]


class RemovalValues(TypedDict):
    """The probability of a word while cells are removed."""

    curves: list[CurveValues]
    tokens: Written


class MethodLinks(TypedDict):
    """Word links by one method, both ways of joining them; errors against links that were given."""

    name: str
    head: list[Any] | None
    shifted: bool
    agreement: float
    links: list[list[int]]
    grown: list[list[int]]
    unlinked: list[int]
    errors: dict[str, float] | None


class LinkValues(TypedDict):
    """Word links by each method."""

    methods: list[MethodLinks]
    coverage: list[float]
    source_words: list[str]
    target_words: list[str]
    gold: list[list[int]] | None
