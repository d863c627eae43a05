"""Prints what Headlight claims beside published tables: translations that people judged.

The corpus is annotated_corpus.csv of Guerreiro, Voita and Martins 2023 ("Looking for a Needle in a
Haystack"): translations of WMT18 German-English by another system. Thresholds were chosen on its lines of
even number, so both halves are printed.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model import Translator
from model.analysis.omissions import absence
from model.analysis.thresholds import THRESHOLDS
from model.errors import UserError

ROOT = Path(__file__).parents[2]
FAULTS = ("repetitions", "named-entities", "omission", "strong-unsupport", "full-unsupport")
LEAST = -10.0  # nats, below every absence: of a sentence without words
DETACHED = ("strong-unsupport", "full-unsupport")


class Judged(NamedTuple):
    """One judged translation with what the model says of it."""

    is_even: bool  # the number of its line
    faults: frozenset[str]
    taught: float  # the absence of the word that is missed most, by the head that was taught to align
    free: float  # the same by two other heads
    surprise: float  # minus the mean log-probability of a token


class Rule(NamedTuple):
    title: str
    faults: tuple[str, ...]
    value: str  # a field of Judged
    threshold: float


RULES = (
    Rule("omission, taught head", ("omission",), "taught", THRESHOLDS["missing"]),
    Rule("omission, two free heads", ("omission",), "free", THRESHOLDS["missing_free"]),
    Rule("detached, log-probability", DETACHED, "surprise", -THRESHOLDS["unrelated"]),
    Rule("fully detached, log-probability", DETACHED[1:], "surprise", -THRESHOLDS["unrelated"]),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judged", type=Path, required=True, help="annotated_corpus.csv")
    judged = list(judge(Translator.load(ROOT / "assets/models/de-en"), parser.parse_args().judged))
    print(f"{len(judged)} translations\n")
    print("| rule | faulty | area, even / odd / all | found | false alarms, even / odd |")
    print("|---|---|---|---|---|")
    for rule in RULES:
        print(row(rule, judged))


def judge(translator: Translator, corpus: Path) -> Iterator[Judged]:
    """Score each translation; lines that are longer than the model reads are left out."""
    with corpus.open(encoding="utf-8", newline="") as file:
        for number, line in enumerate(csv.DictReader(file)):
            try:
                found = translator.score(line["src"], line["mt"])
            except UserError:
                continue
            taught = found.attention
            assert taught.taught is not None
            # Without its taught head the record is one of a model that has none.
            cross = taught.cross.clone()
            cross[taught.taught] = 0
            free = replace(taught, cross=cross, taught=None)
            with_taught, with_free = (max([LEAST, *absence(one).tolist()]) for one in (taught, free))
            faults = frozenset(fault for fault in FAULTS if line[fault] == "1")
            surprise = -float(np.mean(found.log_probabilities))
            yield Judged(number % 2 == 0, faults, with_taught, with_free, surprise)


def row(rule: Rule, judged: list[Judged]) -> str:
    bad = [one for one in judged if one.faults & set(rule.faults)]
    good = [one for one in judged if not one.faults]

    def values(some: list[Judged]) -> NDArray[np.float64]:
        return np.array([getattr(one, rule.value) for one in some])

    halves = [
        [[one for one in some if one.is_even == even] for some in (bad, good)] for even in (True, False)
    ]
    areas = [area(values(one), values(other)) for one, other in [*halves, (bad, good)]]
    alarms = [(values(some) >= rule.threshold).mean() for _, some in halves]
    found = (values(bad) >= rule.threshold).mean()
    cells = [rule.title, str(len(bad)), " / ".join(f"{one:.3f}" for one in areas), f"{found:.0%}"]
    return f"| {' | '.join([*cells, ' / '.join(f'{one:.1%}' for one in alarms)])} |"


def area(bad: NDArray[np.float64], good: NDArray[np.float64]) -> float:
    """The area under the curve: how often a faulty translation has a larger value than a good one."""
    return float((bad[:, None] > good).mean() + (bad[:, None] == good).mean() / 2)


if __name__ == "__main__":
    main()
