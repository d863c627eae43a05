"""Prints what Headlight claims beside published tables, or writes it into docs/findings.md (--write).

Most tables come from the files of the study. Translations that people judged (--judged) are
annotated_corpus.csv of Guerreiro, Voita and Martins 2023 ("Looking for a Needle in a Haystack"): WMT18
German-English by another system. Thresholds were chosen on its lines of even number, so both halves are
printed.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model import Translator
from model.analysis.omissions import absence, surprise_of_end
from model.analysis.thresholds import THRESHOLDS
from model.errors import UserError
from model.files import read_json

ROOT = Path(__file__).parents[2]
PAGE, STUDY = ROOT / "docs/findings.md", ROOT / "assets/study"
MODELS = ("de-en", "en-fr", "en-it")
PER_LAYER, PER_KIND = 8, 32  # heads of these models
# On the pairs of Vilar et al. 2006: alignment-scripts of Lilt, and the repository of ALTI+ (Ferrando et al.
# 2022), whose model has 6 layers.
ALIGNERS = [
    ["fast_align (alignment-scripts)", "", "27.0%"],
    ["MGIZA (alignment-scripts)", "", "20.6%"],
    ["mean of a layer's heads, weights, the row that reads the word (ALTI+)", "28.2%", ""],
    ["mean of a layer's heads, norms, the row that reads the word (ALTI+)", "26.0%", ""],
    ["mean of a layer's heads, norms, the row that writes the word (ALTI+)", "38.9%", ""],
]
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
    Rule("omission, log-probability", ("omission",), "surprise", -THRESHOLDS["unrelated"]),
    Rule("detached, log-probability", DETACHED, "surprise", -THRESHOLDS["unrelated"]),
    Rule("fully detached, log-probability", DETACHED[1:], "surprise", -THRESHOLDS["unrelated"]),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judged", type=Path, help="annotated_corpus.csv")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/findings.md")
    given = parser.parse_args()
    tables = of_the_study()
    if given.judged:
        tables["judged"] = judged_table(given.judged)
    if given.write:
        PAGE.write_text(with_tables(PAGE.read_text("utf-8"), tables), "utf-8")
    else:
        print("\n\n".join(tables.values()))


def with_tables(page: str, tables: Mapping[str, str]) -> str:
    """The page with each table between its two marks."""
    for name, table in tables.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
    return page


def of_the_study() -> dict[str, str]:
    """The tables whose figures stand in the files that ship with the models."""
    studies = {name: read_json(STUDY / f"{name}.json") for name in MODELS}
    heads = {name: read_json(ROOT / "assets/models" / name / "heads.json") for name in MODELS}
    return {
        "alignment": alignment(studies["de-en"]),
        "removal": removal({name: each["removal"]["curves"] for name, each in heads.items()}),
        "faithfulness": faithfulness({name: each["rankings"] for name, each in studies.items()}),
    }


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def alignment(study: Mapping[str, Any]) -> str:
    """Alignment error on the 508 pairs of Vilar et al. 2006, beside published ones on the same pairs."""
    found = []
    for one in study["aligners"]:
        layer, head = divmod(one["head"] % PER_KIND, PER_LAYER)
        row = "reads" if one["shifted"] else "writes"
        taught = ", taught to align" if one["taught"] else ""
        name = f"ours: cross head {layer + 1}.{head + 1}, the row that {row} the word{taught}"
        found.append([name, f"{one['each_target']:.1%}", f"{one['grown']:.1%}"])
    return lines(["aligner", "each target word", "both directions joined"], [*ALIGNERS, *found])


def removal(curves: Mapping[str, Mapping[str, Any]]) -> str:
    """BLEU on the reporting half after heads were removed, in steps near a quarter and a half of a kind."""

    def near(points: Sequence[Sequence[float]], share: float, heads: int) -> str:
        count, _, _, score = min(points, key=lambda point: abs(point[0] - share * heads))
        return f"{score:.1f} ({count})"

    rows = []
    for name, kinds in curves.items():
        for kind, curve in kinds.items():
            heads = len(curve["heads"]) + 1
            cells = [near(curve["points"], share, heads) for share in (0, 0.2, 1 / 3, 0.5)]
            rows.append([name, kind, str(heads), *cells])
    return lines(["model", "kind", "heads", "none", "a fifth", "a third", "half"], rows)


def faithfulness(rankings: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Nats that a word loses without the source token that a measure ranks first."""
    names = [one["measure"] for one in rankings[MODELS[0]]]
    loss = {name: {one["measure"]: one["one"] for one in found} for name, found in rankings.items()}
    return lines(
        ["measure", *MODELS], [[name, *(f"{loss[each][name]:.2f}" for each in MODELS)] for name in names]
    )


def judged_table(corpus: Path) -> str:
    judged = list(judge(Translator.load(ROOT / "assets/models/de-en"), corpus))
    head = ["warning", "faulty", "area, even / odd / all", "found", "false alarms, even / odd"]
    return lines(head, [cells(rule, judged) for rule in RULES])


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
            end = surprise_of_end(found)
            with_taught, with_free = (max([LEAST, *absence(one, end).tolist()]) for one in (taught, free))
            faults = frozenset(fault for fault in FAULTS if line[fault] == "1")
            surprise = -float(np.mean(found.log_probabilities))
            yield Judged(number % 2 == 0, faults, with_taught, with_free, surprise)


def cells(rule: Rule, judged: list[Judged]) -> list[str]:
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
    areas_in_words, alarms_in_words = (
        " / ".join(f"{one:.3f}" for one in areas),
        [f"{one:.1%}" for one in alarms],
    )
    return [rule.title, str(len(bad)), areas_in_words, f"{found:.0%}", " / ".join(alarms_in_words)]


def area(bad: NDArray[np.float64], good: NDArray[np.float64]) -> float:
    """The area under the curve: how often a faulty translation has a larger value than a good one."""
    return float((bad[:, None] > good).mean() + (bad[:, None] == good).mean() / 2)


if __name__ == "__main__":
    main()
