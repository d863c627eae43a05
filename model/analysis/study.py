"""assets/study/NAME.json: what a study of many sentences found out about each head of a model.

`python -m training study` measures and writes it, `python -m viz study` draws it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from model.analysis.measures import ALIGNED, POSITIONAL, RARE, SINK, Kind, Role
from model.errors import UserError
from model.files import write_atomically

THRESHOLDS: dict[Role, float] = {  # what a measure has to reach for a head to have its role
    "previous token": POSITIONAL,
    "next token": POSITIONAL,
    "same token": POSITIONAL,
    "separator sink": SINK,
    "rare word": RARE,
    "aligned": ALIGNED,
}
DIGITS = 4  # behind the point, of what is written


@dataclass(frozen=True)
class HeadFindings:
    """One head, counted from 0 as in the tensors."""

    kind: Kind
    layer: int
    head: int
    role: Role  # by its measures over all sentences
    leaning: Role  # the same, but for a mixed head the role that its measures come nearest to
    evidence: float  # the measure that the leaning rests on, 0 to 1
    agreement: float  # share of the sentences each of which alone gives the same role
    entropy: float  # bits, mean over rows
    cost: float  # nats that a reference loses when the head is silent, mean over sentences
    gradient: float  # |dL / d gate| in nats, mean over sentences (Michel et al. 2019)
    errors: tuple[float, float] | None = None  # alignment error rate, unshifted and shifted; cross alone

    @property
    def name(self) -> str:
        """As the page counts: "cross 1.2" is the second head of the decoder's first layer."""
        return f"{self.kind} {self.layer + 1}.{self.head + 1}"


@dataclass(frozen=True)
class Silencing:
    """Scores while ever more heads are silent, the least important first."""

    measure: str  # that ordered the heads
    order: tuple[int, ...]  # places of heads in `Study.heads`
    scores: tuple[float, ...]  # 0 to 100, without the first 0, 1, 2, ... of them; ends once it has fallen far

    def spare(self, points: float = 1.0) -> int:
        """How many heads can be silent before the score has first fallen by so many points."""
        least = self.scores[0] - points
        return (
            next((count for count, score in enumerate(self.scores) if score <= least), len(self.scores)) - 1
        )


@dataclass(frozen=True)
class Aligner:
    """The head that aligns best, chosen on the odd gold lines; its error rates, 0 to 1, on the even ones."""

    head: int  # its place in `Study.heads`
    shifted: bool  # by the row that reads a word, not the one that predicts it
    each_target: float  # each target word chooses its source word
    grown: float  # and each source word its target word, both joined by grow-diag


@dataclass(frozen=True)
class Study:
    """Everything about one model."""

    model: str
    title: str
    score: str  # name of what `Silencing.scores` are
    sets: tuple[str, ...]  # the development sets of the sample
    pairs: int  # of the sample
    heads: tuple[HeadFindings, ...]  # encoder, decoder, cross; by layer
    silencing: tuple[Silencing, ...]
    gold_pairs: int = 0
    aligners: tuple[Aligner, ...] = ()  # empty without gold links

    def save(self, path: Path) -> None:
        """Write JSON, numbers rounded."""
        text = json.dumps(_rounded(asdict(self)), ensure_ascii=False, separators=(",", ":")) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: Path) -> Study:
        """Read what `save` wrote. Raises UserError when it is something else."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            raw["sets"] = tuple(raw["sets"])
            raw["heads"] = tuple(HeadFindings(**_tuples(head)) for head in raw["heads"])
            raw["silencing"] = tuple(Silencing(**_tuples(each)) for each in raw["silencing"])
            raw["aligners"] = tuple(Aligner(**each) for each in raw["aligners"])
            return cls(**raw)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is no study; write it again with python -m training study.") from error


def load_studies(directory: Path) -> list[Study]:
    """Every study of a directory, by name. Raises UserError when there is none."""
    studies = [Study.load(path) for path in sorted(directory.glob("*.json"))]
    if not studies:
        raise UserError(f"There is no study in {directory}; make one with python -m training study.")
    return studies


def _tuples(raw: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where we have tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(each) for each in value]
    return value
