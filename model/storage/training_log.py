"""Reads metrics.jsonl, the log of a model's training: one JSON object with its step per line."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from model.files import read_bytes

METRICS = "metrics.jsonl"
MAX_BYTES = 4 << 20  # a run of 100,000 steps writes half a MB

Row = dict[str, int | float | str]


@dataclass(frozen=True)
class TrainingLog:
    """The values that a run logged, in order, with names such as train/loss and validation/bleu."""

    rows: tuple[Row, ...]  # each with its `step`; all numbers are finite
    skipped: int = 0  # lines that are not valid

    @classmethod
    def load(cls, directory: Path) -> TrainingLog:
        """Read the log of a model or run directory. Raises UserError as `model.files.check_file` does."""
        rows = [_row(line) for line in read_bytes(directory / METRICS, MAX_BYTES).splitlines()]
        return cls(tuple(row for row in rows if row is not None), rows.count(None))


def _row(line: bytes) -> Row | None:
    """The values of a line; None if it is not valid."""
    try:
        row = json.loads(line)
        fits = (
            type(row["step"]) is int
            and row["step"] >= 0
            and all(
                type(each) is str or (type(each) in (int, float) and math.isfinite(each))
                for each in row.values()
            )
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return row if fits else None
