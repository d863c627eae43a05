"""What every head does over a corpus: the numbers of its card, and sentences from all of its activity.

The activity of a row is the largest weight that it gives to a word. Rows of special tokens have none, nor
has a row that may read no word: the decoder's first. The range from 0 to the largest activity of a head is
cut into five intervals of the same width. Of the highest one, the card shows the ten strongest rows; of each
other one, three rows drawn with a seed, and in the lowest the weakest row is one of them. No two rows of an
interval are of the same sentence.

Axis letters: L layers, H heads, N heads of one kind by layer, Q queries, S keys, V words.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, NotRequired, TypedDict, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.analysis.definitions import ROLES, Role
from model.analysis.marks import word_mask
from model.analysis.measures import (
    HeadMeasures,
    entropy,
    explained,
    head_roles,
    measure_heads,
    measure_tables,
)
from model.analysis.pooling import MeasurePool, nearest_role
from model.errors import UserError
from model.files import read_json, write_text
from model.network.masks import causal_mask
from model.results import KINDS, AttentionRecord, Kind, Token, Translation

HEADS = "heads.json"  # in the directory of the model
MAX_BYTES = 8 * 2**20  # of that file; a shipped model has at most 150 kB of it
VERSION = 1
INTERVALS = 5
STRONGEST, DRAWN = 10, 3  # rows of the highest interval, and of each other one
SEED = 0
FARTHEST = 5  # distances from there on are counted together
BINS = 10
WORDS = 6  # that a head attends to, or from, most
DIGITS = 3

logger = logging.getLogger("headlight")


class Row(NamedTuple):
    """A row of a head, by its sentence; `column` is the word with its largest weight."""

    activity: float
    sentence: int
    row: int
    column: int


class Sides(NamedTuple):
    """The tokens of a record, which are kept when its weights are not."""

    source: Sequence[Token]
    read: Sequence[Token]
    predicted: Sequence[Token]


class CorpusHeads(TypedDict):
    """What the heads do over a corpus, by kind; `measures`, `roles` and `even` are as in a payload."""

    version: int
    seed: int
    count: int  # of the sentences
    rows: dict[Kind, int]
    measures: dict[Kind, dict[str, list[list[float]] | None]]
    roles: dict[Kind, list[list[Role]]]
    even: dict[Kind, dict[Role, float]]
    heads: dict[Kind, list[list[Mapping[str, object]]]]  # the cards, [layer][head]
    sentences: list[str]
    beam: NotRequired[int]  # of the translations
    removal: NotRequired[Mapping[str, Any]]  # see `training.evaluation.removal`


class KindCorpus:
    """The heads of one kind over all sentences so far."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.pool = MeasurePool(kind)
        self.explained: dict[Role, Tensor] = {}  # weight that a role explains, summed over rows
        self.histograms: dict[str, Tensor] = {}  # counts of rows that have a choice
        self.activity: list[Tensor] = []  # [N, rows] of each sentence, with their places
        self.columns: list[Tensor] = []
        self.places: list[tuple[int, int]] = []  # sentence and row
        self.rows_of: list[str] = []  # the word of each of these rows
        self.received: dict[str, Tensor] = defaultdict(lambda: torch.zeros(1))  # weight of each word
        self.expected: dict[str, float] = defaultdict(float)  # the same from even rows

    def add(self, record: AttentionRecord, measures: HeadMeasures, sentence: int) -> None:
        """Read one sentence."""
        weights: Tensor = getattr(record, self.kind)
        heads, (queries, keys) = weights.flatten(0, 1), sides(record, self.kind)
        n_queries, n_keys = heads.shape[1:]
        is_causal = self.kind == "decoder"
        allowed = causal_mask(n_queries, n_keys) if is_causal else torch.ones(n_queries, n_keys).bool()
        self.pool.add(record, measures)
        for role, mass in explained(self.kind, heads, keys).items():
            self.explained[role] = self.explained.get(role, torch.zeros(len(heads))) + mass
        for name, counts in histograms(heads, allowed).items():
            self.histograms[name] = self.histograms.get(name, torch.zeros_like(counts)) + counts
        self._add_rows(heads, allowed, queries, keys, sentence)
        self._add_words(heads, allowed, keys)

    def _add_rows(
        self,
        heads: Float[Tensor, "N Q S"],
        allowed: Bool[Tensor, "Q S"],
        queries: Sequence[Token],
        keys: Sequence[Token],
        sentence: int,
    ) -> None:
        words = word_mask(keys) & allowed
        rows = (word_mask(queries) & words.any(-1)).nonzero()[:, 0].tolist()
        largest = (heads * words)[:, rows].max(-1)
        self.activity.append(largest.values)
        self.columns.append(largest.indices)
        self.places += [(sentence, row) for row in rows]
        self.rows_of += [queries[row].text.strip() for row in rows]

    def _add_words(
        self, heads: Float[Tensor, "N Q S"], allowed: Bool[Tensor, "Q S"], keys: Sequence[Token]
    ) -> None:
        received, expected = heads.sum(1), (allowed / allowed.sum(-1, keepdim=True)).sum(0).tolist()
        for place, key in enumerate(keys):
            if key.word is not None:
                text = key.text.strip()
                self.received[text] = self.received[text] + received[:, place]
                self.expected[text] += expected[place]

    def heads(self, records: Sequence[Sides]) -> list[list[Mapping[str, object]]]:
        """The card of each head, [layer][head]; `records` are by sentence."""
        measures = self.pool.measures()
        roles = head_roles(measures)
        layers, width = roles.shape
        activity, columns = torch.cat(self.activity, 1), torch.cat(self.columns, 1)
        words = list(self.received)
        received = torch.stack([self.received[word] for word in words], 1)
        expected = torch.tensor([self.expected[word] for word in words])

        def card(layer: int, head: int) -> Mapping[str, object]:
            place = layer * width + head
            role, evidence = nearest_role(measures, layer, head, ROLES[roles[layer, head]])
            rows = [
                Row(value, *at, column)
                for value, at, column in zip(
                    activity[place].tolist(), self.places, columns[place].tolist(), strict=True
                )
            ]
            mass = self.explained.get(role)
            return {
                "nearest": [role, _rounded(evidence)],
                "explained": None if mass is None else _rounded(float(mass[place]) / measures.queries),
                **{name: counts[place].tolist() for name, counts in self.histograms.items()},
                "to": _attended(words, received[place], expected),
                "from": _attending(self.rows_of, activity[place]),
                "intervals": [
                    [count, [_cell(row, self.kind, records) for row in drawn]]
                    for count, drawn in draw(rows, f"{SEED} {self.kind} {layer} {head}")
                ],
            }

        return [[card(layer, head) for head in range(width)] for layer in range(layers)]


def sides(record: AttentionRecord | Sides, kind: Kind) -> tuple[Sequence[Token], Sequence[Token]]:
    """The tokens that name the rows of a kind, and those that name its columns."""
    if kind == "encoder":
        return record.source, record.source
    return record.predicted, record.read if kind == "decoder" else record.source


def histograms(heads: Float[Tensor, "N Q S"], allowed: Bool[Tensor, "Q S"]) -> dict[str, Int[Tensor, "N B"]]:
    """Counts of the rows that have a choice, by three numbers.

    `distances`: of the strongest key from the row, -5 and less to 5 and more. `largest`: the largest weight,
    and `entropies`: the entropy as a share of the largest possible one, in ten bins from 0 to 1.
    """
    choosing = allowed.sum(-1) > 1
    rows, able = heads[:, choosing], allowed[choosing].sum(-1)
    strongest = rows.max(-1)
    distances = strongest.indices - torch.arange(heads.shape[1])[choosing]
    return {
        "distances": _counts(distances.clamp(-FARTHEST, FARTHEST) + FARTHEST, 2 * FARTHEST + 1),
        "largest": _counts(_bin(strongest.values), BINS),
        "entropies": _counts(_bin(entropy(rows) / able.log2()), BINS),
    }


def _bin(shares: Float[Tensor, "N Q"]) -> Int[Tensor, "N Q"]:
    return (shares * BINS).long().clamp(0, BINS - 1)


def _counts(bins: Int[Tensor, "N Q"], size: int) -> Int[Tensor, "N B"]:
    counts = torch.zeros(len(bins), size, dtype=torch.long)
    return counts.scatter_add_(1, bins, torch.ones_like(bins))


def draw(rows: Sequence[Row], seed: str) -> list[tuple[int, list[Row]]]:
    """How many rows each interval of activity has, and which of them are shown; the highest interval first.

    See the head of this module for the rule.
    """
    most = max((row.activity for row in rows), default=0.0)
    width = most / INTERVALS or 1.0
    inside: list[list[Row]] = [[] for _ in range(INTERVALS)]
    for row in rows:
        inside[min(INTERVALS - 1, int(row.activity / width))].append(row)
    found = []
    for place in reversed(range(INTERVALS)):
        here = sorted(inside[place], key=lambda row: (-row.activity, row.sentence, row.row))
        if place == INTERVALS - 1:
            chosen = _of_different_sentences(here, STRONGEST)
        else:
            others = here[:-1] if place == 0 else here
            shuffled = Random(f"{seed} {place}").sample(others, len(others))
            chosen = _of_different_sentences((here[-1:] if place == 0 else []) + shuffled, DRAWN)
        found.append((len(here), sorted(chosen, key=lambda row: -row.activity)))
    return found


def _of_different_sentences(rows: Sequence[Row], count: int) -> list[Row]:
    """The first rows, one of each sentence."""
    chosen: dict[int, Row] = {}
    for row in rows:
        if len(chosen) < count:
            chosen.setdefault(row.sentence, row)
    return list(chosen.values())


def _cell(row: Row, kind: Kind, records: Sequence[Sides]) -> list[Any]:
    """The sentence, row, column and weight, and the texts of key, row and, in the decoder, what it reads."""
    record = records[row.sentence]
    queries, keys = sides(record, kind)
    texts = [keys[row.column].text.strip(), queries[row.row].text.strip()]
    reads = [] if kind == "encoder" else [record.read[row.row].text.strip()]
    return [row.sentence, row.row, row.column, round(row.activity, 2), *texts, *reads]


def _attended(
    words: Sequence[str], received: Float[Tensor, " V"], expected: Float[Tensor, " V"]
) -> list[list[Any]]:
    """The words that get most weight beyond even rows: share of the weight on words, times the even share."""
    more = (received - expected).tolist()
    best = sorted(range(len(words)), key=lambda place: (-more[place], words[place]))[:WORDS]
    total = float(received.sum()) or 1.0
    return [
        [
            words[place],
            _rounded(float(received[place]) / total),
            round(float(received[place] / expected[place]), 1),
        ]
        for place in best
        if more[place] > 0
    ]


def _attending(words: Sequence[str], activity: Float[Tensor, " R"]) -> list[list[Any]]:
    """The words whose rows are most active beyond the head's mean: their mean activity, and their rows."""
    of_word: dict[str, list[float]] = defaultdict(list)
    for word, value in zip(words, activity.tolist(), strict=True):
        of_word[word].append(value)
    mean = float(activity.mean()) if len(activity) else 0.0
    more = {word: sum(values) - mean * len(values) for word, values in of_word.items()}
    best = sorted(more, key=lambda word: (-more[word], word))[:WORDS]
    return [
        [word, _rounded(sum(of_word[word]) / len(of_word[word])), len(of_word[word])]
        for word in best
        if more[word] > 0
    ]


def heads_over(translations: Iterable[Translation]) -> CorpusHeads:
    """Every head over the model's own translations."""
    kinds = {kind: KindCorpus(kind) for kind in KINDS}
    records: list[Sides] = []
    sentences: list[str] = []
    for place, translation in enumerate(translations):
        record = translation.attention
        records.append(Sides(record.source, record.read, record.predicted))
        sentences.append(translation.source.sentence)
        measures = measure_heads(record)
        for kind in KINDS:
            kinds[kind].add(record, measures[kind], place)
    pooled = {kind: kinds[kind].pool.measures() for kind in KINDS}
    return {
        "version": VERSION,
        "seed": SEED,
        "count": len(sentences),
        "rows": {kind: one.queries for kind, one in pooled.items()},
        "measures": {kind: _tables(one) for kind, one in pooled.items()},
        "roles": {
            kind: [[ROLES[role] for role in row] for row in head_roles(one).tolist()]
            for kind, one in pooled.items()
        },
        "even": {
            kind: {role: _rounded(even) for role, even in one.even.items()} for kind, one in pooled.items()
        },
        "heads": {kind: kinds[kind].heads(records) for kind in KINDS},
        "sentences": sentences,
    }


def _tables(heads: HeadMeasures) -> dict[str, list[list[float]] | None]:
    return {
        name: None if values is None else [[_rounded(each) for each in row] for row in values.tolist()]
        for name, values in measure_tables(heads).items()
        if name != "offset_queries"
    }


def _rounded(value: float | int) -> float | int:
    return round(value, DIGITS)


def save_heads(found: CorpusHeads, directory: Path) -> Path:
    """Write the file that the page reads into the directory of the model."""
    path = directory / HEADS
    write_text(path, json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n")
    return path


def load_heads(directory: Path | None) -> CorpusHeads | None:
    """What `save_heads` wrote; None without such a file that this version can read.

    The file may come from a stranger with the model.
    """
    if directory is None or not (directory / HEADS).is_file():
        return None
    try:
        found = read_json(directory / HEADS, MAX_BYTES)
        if found["version"] != VERSION:
            return None
        _check(found)
    except (UserError, AttributeError, LookupError, TypeError, ValueError) as error:
        logger.warning("heads: %s", error)
        return None
    return cast(CorpusHeads, found)


def _check(found: Any) -> None:
    """Raise an error if the page could not draw what the file says."""
    n_sentences = len(found["sentences"])
    for kind in KINDS:
        roles, cards, measures = found["roles"][kind], found["heads"][kind], found["measures"][kind]
        shape = [len(row) for row in roles]
        tables = [table for table in measures.values() if table is not None]
        if any([len(row) for row in table] != shape for table in (cards, *tables)):
            raise ValueError("tables of different shapes")
        if not all(isinstance(value, int | float) for table in tables for row in table for value in row):
            raise ValueError("a measure that is no number")
        named = [role for row in roles for role in row]
        every = [card for row in cards for card in row]
        if not {*named, *(card["nearest"][0] for card in every), *found["even"][kind]} <= set(ROLES):
            raise ValueError("an unknown role")
        cells = [cell for card in every for _, drawn in card["intervals"] for cell in drawn]
        if not all(0 <= cell[0] < n_sentences for cell in cells):
            raise ValueError("a sentence that is not in the file")
