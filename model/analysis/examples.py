"""What every head does over many sentences, and its clearest examples.

Axis letters: L any leading axes (layer, head), N heads of one kind, Q queries, S keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.definitions import ROLES, Role
from model.analysis.marks import word_mask
from model.analysis.measures import head_roles, measure_heads
from model.analysis.pooling import MeasurePool
from model.results import AttentionRecord, Kind, Token

N_HITS = 10  # strongest cells of a head that are kept
HITS_OF_ONE = 2  # of them from the same sentence
N_PAIRS = 10


class Hit(NamedTuple):
    """A cell in which a head has a large weight."""

    weight: float
    sentence: int  # index among all sentences
    row: int
    column: int


@dataclass
class HeadSurvey:
    """What one head does over all sentences so far."""

    hits: list[Hit] = field(default_factory=list)  # the largest weights first
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)  # texts of query and strongest key
    read_pairs: Counter[tuple[str, str]] = field(default_factory=Counter)  # cross: by what a row reads
    roles: Counter[Role] = field(default_factory=Counter)  # sentences in which it has the role


@dataclass
class KindSurvey:
    """What the heads of one kind do over all sentences so far."""

    heads: list[list[HeadSurvey]]  # [layer][head]
    rows: int  # rows read
    pool: MeasurePool
    distances: Float[Tensor, "N N"]  # of the heads' rows, summed over `rows`: Jensen-Shannon, in bits


class Survey:
    """Every head over many sentences; `add` reads one more.

    Hits and pairs leave out special tokens on either side: most heads give them their largest weights. The
    text of a decoder's row is the text of the token that it predicts; in `read_pairs` the text of the token
    that it reads.
    """

    def __init__(self) -> None:
        self.sentences = 0
        self.kinds: dict[str, KindSurvey] = {}

    def add(self, record: AttentionRecord, sentence: int) -> None:
        """Read one sentence; `sentence` is the index by which its hits name it."""
        self.sentences += 1
        measures = measure_heads(record)
        sides: dict[Kind, tuple[Sequence[Token], Sequence[Token]]] = {
            "encoder": (record.source, record.source),
            "decoder": (record.predicted, record.read),
            "cross": (record.predicted, record.source),
        }
        for kind, (queries, keys) in sides.items():
            weights: Tensor = getattr(record, kind)
            layers, heads, n_rows, _ = weights.shape
            if kind not in self.kinds:
                empty = [[HeadSurvey() for _ in range(heads)] for _ in range(layers)]
                self.kinds[kind] = KindSurvey(
                    empty, 0, MeasurePool(kind), torch.zeros(layers * heads, layers * heads)
                )
            found = self.kinds[kind]
            found.rows += n_rows
            found.pool.add(record, measures[kind])
            found.distances += head_distances(weights.flatten(0, 1)) * n_rows
            surveys = [head for layer in found.heads for head in layer]
            roles = head_roles(measures[kind]).flatten().tolist()
            for head, role in zip(surveys, roles, strict=True):
                head.roles[ROLES[role]] += 1
            words = weights.flatten(0, 1) * (word_mask(queries)[:, None] & word_mask(keys))
            _add_hits(surveys, words, sentence)
            strongest = weights.flatten(0, 1).argmax(-1).tolist()
            for head, columns in zip(surveys, strongest, strict=True):
                head.pairs.update(_pairs(columns, queries, keys))
                if kind == "cross":
                    head.read_pairs.update(_pairs(columns, record.read, keys))


def survey(records: Iterable[AttentionRecord]) -> Survey:
    """Read every record; hits name them by their place."""
    found = Survey()
    for place, record in enumerate(records):
        found.add(record, place)
    return found


def head_distances(weights: Float[Tensor, "N Q S"]) -> Float[Tensor, "N N"]:
    """Jensen-Shannon divergence of every two heads in bits, 0 (equal rows) to 1; the mean over rows.

    Clark et al. 2019, "What Does BERT Look At?", section 6, who sum over all rows.
    """
    entropies = _entropy(weights)  # N Q
    # One head with all others at a time, which needs N times less memory than all pairs at once.
    mixed = torch.stack([_entropy((weights + one) / 2).mean(-1) for one in weights])
    mean = entropies.mean(-1)
    return (mixed - (mean + mean[:, None]) / 2).clamp(0, 1)


def _entropy(weights: Float[Tensor, "*L Q S"]) -> Float[Tensor, "*L Q"]:
    return -(weights * weights.clamp(min=1e-30).log2()).sum(-1)


def _add_hits(surveys: Sequence[HeadSurvey], weights: Float[Tensor, "N Q S"], sentence: int) -> None:
    n_columns = weights.shape[-1]
    best = weights.flatten(1).topk(min(HITS_OF_ONE, weights[0].numel()))
    for head, values, places in zip(surveys, best.values.tolist(), best.indices.tolist(), strict=True):
        new = (
            Hit(value, sentence, *divmod(place, n_columns))
            for value, place in zip(values, places, strict=True)
            if value > 0
        )
        head.hits = sorted((*head.hits, *new), key=lambda hit: (-hit.weight, hit.sentence))[:N_HITS]


def _pairs(
    columns: Sequence[int], queries: Sequence[Token], keys: Sequence[Token]
) -> Iterator[tuple[str, str]]:
    """The texts of each query and of the key in its column, special tokens left out."""
    for query, column in zip(queries, columns, strict=True):
        if query.word is not None and keys[column].word is not None:
            yield query.text, keys[column].text
