"""What every head does over some sentences, as plain values: answers about more sentences add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from model.analysis.examples import N_PAIRS, Survey
from model.decoding.options import LENGTH_PENALTY
from model.decoding.progress import report
from model.errors import Sentence, UserError, said
from model.instruments import survey_sentences
from model.results import AttentionRecord
from model.translator import Translator
from viz.instruments import rounded


class HeadSurvey(TypedDict):
    """What one head does."""

    hits: list[list[Any]]  # weight, sentence, row and column of its strongest cells
    pairs: list[list[Any]]  # row, column and count of the words that it links most often
    read_pairs: list[list[Any]]
    roles: dict[str, int]  # sentences in which it has each role


class KindSurvey(TypedDict):
    """What the heads of one kind do."""

    rows: int
    pool: Mapping[str, object]
    distances: list[Any]
    heads: list[list[HeadSurvey]]


class SurveyValues(TypedDict):
    """What every head does over some sentences, which are numbered."""

    sentences: dict[int, dict[str, list[str]]]  # the texts of both sides
    skipped: list[list[Any]]  # number, and why
    kinds: dict[str, KindSurvey]


def survey_values(
    translator: Translator,
    sentences: Sequence[str],
    beam_size: int = 1,
    length_penalty: float = LENGTH_PENALTY,
) -> SurveyValues:
    """What every head does over some sentences. Answers about further sentences can be added to it.

    `distances` are sums over `rows`; hits, pairs and roles of several answers are joined.
    """
    found = Survey()
    records: dict[int, AttentionRecord] = {}
    skipped: list[list[Any]] = []
    for done, (place, result) in enumerate(
        survey_sentences(translator, sentences, beam_size, length_penalty), start=1
    ):
        report(Sentence("{done} of {count} sentences", done=done, count=len(sentences)))
        if isinstance(result, UserError):
            skipped.append([place, said(result)])
        else:
            found.add(result.attention, place)
            records[place] = result.attention
    return {
        "sentences": {
            place: {side: [token.text for token in getattr(record, side)] for side in ("source", "predicted")}
            for place, record in sorted(records.items())
        },
        "skipped": sorted(skipped),
        "kinds": {kind: _survey_of_kind(found, kind) for kind in found.kinds},
    }


def _survey_of_kind(found: Survey, kind: str) -> KindSurvey:
    survey = found.kinds[kind]
    return {
        "rows": survey.rows,
        "pool": survey.pool.sums_of_rows(),
        "distances": rounded(survey.distances),
        "heads": [
            [
                {
                    "hits": [[round(hit.weight, 6), *hit[1:]] for hit in head.hits],
                    "pairs": _counted(head.pairs),
                    "read_pairs": _counted(head.read_pairs),
                    "roles": dict(head.roles),
                }
                for head in layer
            ]
            for layer in survey.heads
        ],
    }


def _counted(pairs: Counter[tuple[str, str]]) -> list[list[Any]]:
    counted = sorted(pairs.items(), key=lambda each: (-each[1], each[0]))
    return [[*pair, count] for pair, count in counted[:N_PAIRS]]
