"""The study of a model's heads on many sentences: its numbers, and the JSON file that holds them.

`python -m training study` measures and writes assets/study/NAME.json, `python -m viz study` draws it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from model.analysis.definitions import ROLES, Role
from model.errors import UserError
from model.files import read_json, write_text
from model.results import Kind

DECIMALS = 4  # decimals of the numbers in the file
Part = TypeVar("Part")


@dataclass(frozen=True)
class HeadFindings:
    """The numbers of one head; layer and head count from 0 as in the tensors."""

    kind: Kind
    layer: int
    head: int
    role: Role  # by its measures over all sentences
    nearest_role: Role  # the role; for a mixed head, the role that it almost has
    evidence: float  # the measure of the nearest role, 0 to 1
    agreement: float  # share of sentences in which the head has this role
    entropy: float  # bits, mean over rows
    cost: float  # nats that a reference loses when the head is ablated, mean over sentences
    gradient: float  # |dL / d gate| in nats, mean over sentences (Michel et al. 2019)
    errors: tuple[float, float] | None = None  # alignment error rates, unshifted and shifted; only for cross
    taught: bool = False  # to align words

    @property
    def name(self) -> str:
        """The name on the page: "cross 1.2" is the second head of the decoder's first layer."""
        return f"{self.kind} {self.layer + 1}.{self.head + 1}"


@dataclass(frozen=True)
class AblationCurve:
    """Scores with more and more heads ablated, the least important first."""

    measure: str  # the field of HeadFindings that orders the heads
    order: tuple[int, ...]  # places of heads in `Study.heads`
    scores: tuple[float, ...]  # 0 to 100, with the first 0, 1, 2, ... heads ablated; ends after a large drop

    def redundant_heads(self, points: float = 1.0) -> int:
        """The largest number of heads that can be ablated before the score is `points` lower."""
        least = self.scores[0] - points
        fallen = (count for count, score in enumerate(self.scores) if score <= least)
        return next(fallen, len(self.scores)) - 1


@dataclass(frozen=True)
class Aligner:
    """The head that aligns best on the odd gold lines, with its error rates, 0 to 1, on the even ones.

    Or the head that was taught to align, which was not chosen.
    """

    head: int  # index in `Study.heads`
    shifted: bool  # uses the row that reads a word, not the row that predicts it
    each_target: float  # each target word chooses its source word
    grown: float  # also each source word chooses a target word; joined by grow-diag
    taught: bool = False


@dataclass(frozen=True)
class SourceRanking:
    """How faithfully a measure ranks the source tokens of a word; see `training.evaluation.rankings`."""

    measure: str
    one: float  # nats that a word loses without the first token, mean over words
    three: float  # without the first three tokens


@dataclass(frozen=True)
class Study:
    """The study of one model."""

    model: str
    title: str
    score: str  # the metric of `AblationCurve.scores`
    sets: tuple[str, ...]  # the development sets of the sample
    pairs: int  # of the sample
    heads: tuple[HeadFindings, ...]  # encoder, decoder, cross; by layer
    ablation_curves: tuple[AblationCurve, ...]
    gold_pairs: int = 0
    aligners: tuple[Aligner, ...] = ()  # empty without gold links
    rankings: tuple[SourceRanking, ...] = ()  # the most faithful first; none in earlier releases

    def save(self, path: Path) -> None:
        """Write JSON with rounded numbers."""
        exact = json.dumps(asdict(self))
        rounded = json.loads(exact, parse_float=lambda number: round(float(number), DECIMALS))
        text = json.dumps(rounded, ensure_ascii=False, separators=(",", ":")) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)

    @classmethod
    def load(cls, path: Path) -> Study:
        """Read what `save` wrote. Raises UserError when the file is missing or not a study."""
        try:
            raw = read_json(path)
            raw["sets"] = tuple(raw["sets"])
            raw["heads"] = tuple(_with_tuples(HeadFindings, head) for head in raw["heads"])
            if any(head.nearest_role not in ROLES for head in raw["heads"]):
                raise ValueError("a role of an earlier release")
            curves = raw["ablation_curves"]
            raw["ablation_curves"] = tuple(_with_tuples(AblationCurve, each) for each in curves)
            raw["aligners"] = tuple(Aligner(**each) for each in raw["aligners"])
            raw["rankings"] = tuple(SourceRanking(**each) for each in raw.get("rankings", ()))
            return cls(**raw)
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} is not a valid study; write it again with python -m training study."
            ) from error


def load_studies(directory: Path) -> list[Study]:
    """Every study of a directory, sorted by name. Raises UserError when it has none."""
    studies = [Study.load(path) for path in sorted(directory.glob("*.json"))]
    if not studies:
        raise UserError(f"There is no study in {directory}; make one with python -m training study.")
    return studies


def _with_tuples(kind: type[Part], raw: Mapping[str, Any]) -> Part:
    """A part of a study from a JSON object, with tuples instead of lists."""
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()})
