"""Reads and writes assets/study/NAME.json, the measures of each head over many sentences.

`python -m training study` measures and writes the file; `python -m viz study` draws it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from model.analysis.measures import ALIGNED, POSITIONAL, RARE, SINK, Kind, Role
from model.errors import UserError
from model.files import write_atomically

THRESHOLDS: dict[Role, float] = {  # the value that a measure must reach for the role
    "previous token": POSITIONAL,
    "next token": POSITIONAL,
    "same token": POSITIONAL,
    "separator sink": SINK,
    "rare word": RARE,
    "aligned": ALIGNED,
}
DECIMALS = 4  # of the numbers in the file


@dataclass(frozen=True)
class HeadFindings:
    """One head, counted from 0 as in the tensors."""

    kind: Kind
    layer: int
    head: int
    role: Role  # by its measures over all sentences
    leaning: Role  # the same, or for a mixed head the role nearest to its measures
    evidence: float  # the measure on which `leaning` is based, 0 to 1
    agreement: float  # share of the sentences that give the same role on their own
    entropy: float  # bits, mean over rows
    cost: float  # nats that a reference loses when the head is ablated, mean over sentences
    gradient: float  # |dL / d gate| in nats, mean over sentences (Michel et al. 2019)
    errors: tuple[float, float] | None = None  # alignment error rates, unshifted and shifted; only for cross

    @property
    def name(self) -> str:
        """The name on the page: "cross 1.2" is the second head of the decoder's first layer."""
        return f"{self.kind} {self.layer + 1}.{self.head + 1}"


@dataclass(frozen=True)
class AblationCurve:
    """Scores while more and more heads are ablated, the least important first."""

    measure: str  # by which the heads are ordered
    order: tuple[int, ...]  # indices in `Study.heads`
    scores: tuple[float, ...]  # 0 to 100, with the first 0, 1, 2, ... heads ablated; ends after a large fall

    def spare(self, points: float = 1.0) -> int:
        """How many heads can be ablated before the score first falls by this many points."""
        least = self.scores[0] - points
        return (
            next((count for count, score in enumerate(self.scores) if score <= least), len(self.scores)) - 1
        )


@dataclass(frozen=True)
class Aligner:
    """The head that aligns best on the odd gold lines, with its error rates, 0 to 1, on the even ones."""

    head: int  # index in `Study.heads`
    shifted: bool  # uses the row that reads a word, not the row that predicts it
    each_target: float  # each target word chooses its source word
    grown: float  # also each source word chooses a target word; joined by grow-diag


@dataclass(frozen=True)
class Study:
    """The study of one model."""

    model: str
    title: str
    score: str  # name of the score in `silencing`
    sets: tuple[str, ...]  # the development sets of the sample
    pairs: int  # of the sample
    heads: tuple[HeadFindings, ...]  # encoder, decoder, cross; by layer
    silencing: tuple[AblationCurve, ...]
    gold_pairs: int = 0
    aligners: tuple[Aligner, ...] = ()  # empty without gold links

    def save(self, path: Path) -> None:
        """Write JSON with rounded numbers."""
        exact = json.dumps(asdict(self))
        rounded = json.loads(exact, parse_float=lambda number: round(float(number), DECIMALS))
        text = json.dumps(rounded, ensure_ascii=False, separators=(",", ":")) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: Path) -> Study:
        """Read the file that `save` wrote. Raises UserError if it is not valid."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            raw["sets"] = tuple(raw["sets"])
            raw["heads"] = tuple(HeadFindings(**_tuples(head)) for head in raw["heads"])
            raw["silencing"] = tuple(AblationCurve(**_tuples(each)) for each in raw["silencing"])
            raw["aligners"] = tuple(Aligner(**each) for each in raw["aligners"])
            return cls(**raw)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{path} is not a valid study; write it again with python -m training study."
            ) from error


def load_studies(directory: Path) -> list[Study]:
    """Every study in a directory, sorted by name. Raises UserError if there is none."""
    studies = [Study.load(path) for path in sorted(directory.glob("*.json"))]
    if not studies:
        raise UserError(f"There is no study in {directory}; make one with python -m training study.")
    return studies


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    """The values of a JSON object, with tuples instead of lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
