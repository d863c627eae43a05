"""Prints what Headlight claims beside published tables, or writes it into docs/findings.md (--write).

Most tables come from files that ship with the models. Others take minutes and are left as they are unless
asked for. Translations that people judged (--judged) are annotated_corpus.csv of Guerreiro, Voita and
Martins 2023 ("Looking for a Needle in a Haystack"): WMT18 German-English by another system. Thresholds were
chosen on its lines of even number, so both halves are printed. The error of each layer needs links by people
(--gold), and gates that are trained need the folder of the corpora (--gates).
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from model import Translator
from model.analysis.alignment import Link, best_links
from model.analysis.corpus import HEADS
from model.analysis.jacobian_lens import LENS, MAX_BYTES
from model.analysis.measures import measure_heads
from model.analysis.omissions import absence, surprise_of_end
from model.analysis.thresholds import THRESHOLDS
from model.analysis.trace import trace
from model.errors import UserError
from model.files import open_tensors, read_json
from model.results import KINDS, AttentionRecord
from model.storage.probes import Probes
from model.storage.training_log import TrainingLog
from model.text.tokenizer import BOS_ID
from tests.benchmarks.gates import gate_rows
from tests.benchmarks.published import PUBLISHED, Published
from training.evaluation.align import (
    AlignedWords,
    AlignmentHead,
    aligned_words,
    error_rate,
    read_gold,
    read_pair,
)
from training.evaluation.evaluate import read_pairs

ROOT = Path(__file__).parents[2]
PAGE, STUDY, MODEL_FILES = ROOT / "docs/findings.md", ROOT / "assets/study", ROOT / "assets/models"
MODELS = ("de-en", "en-fr", "en-it")
FROM_SCRATCH = ("de-en", "en-fr")  # the record of en-it begins with the record of en-fr
PER_LAYER, PER_KIND = 8, 32  # heads of these models
COSTS = (1.0, 0.1)  # nats of a sentence
SHOWN_STEPS = (0, 64, 256, 512, 1024, 2048, 4096, 8192)
STEP, BLEU = "step", "validation/bleu"
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
    parser.add_argument("--gold", type=Path, help="the folder of test.de, test.en and gold.talp")
    parser.add_argument("--gates", type=Path, help="the folder of the corpora")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/findings.md")
    given = parser.parse_args()
    tables = of_the_files()
    if given.judged:
        tables["judged"] = judged_table(given.judged)
    if given.gold:
        tables["layers"] = layers(Translator.load(MODEL_FILES / "de-en"), given.gold)
    if given.gates:
        rows = gate_rows(Translator.load(MODEL_FILES / "de-en"), given.gates)
        tables["gates"] = lines(["way", "steps", *KINDS, "in all", "BLEU"], rows)
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


def of_the_files() -> dict[str, str]:
    """The tables whose figures stand in files: published ones, and those that ship with the models."""
    studies = {name: read_json(STUDY / f"{name}.json") for name in MODELS}
    heads = {name: read_json(MODEL_FILES / name / HEADS) for name in MODELS}
    return {
        **{f"published {name}": published(rows) for name, rows in PUBLISHED.items()},
        "alignment": alignment(studies["de-en"]),
        "single": single(studies),
        "removal": removal({name: each["removal"] for name, each in heads.items()}),
        "training": training({name: Probes.load(MODEL_FILES / name) for name in FROM_SCRATCH}),
        "lens": lenses({name: lens_of(name) for name in MODELS}),
        "faithfulness": faithfulness({name: each["rankings"] for name, each in studies.items()}),
    }


def published(rows: Iterable[Published]) -> str:
    return lines(["paper", "place", "setting", "figure"], rows)


def lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def alignment(study: Mapping[str, Any]) -> str:
    """Alignment error on the 508 pairs of Vilar et al. 2006."""
    found = []
    for one in study["aligners"]:
        layer, head = divmod(one["head"] % PER_KIND, PER_LAYER)
        row = "reads" if one["shifted"] else "writes"
        taught = ", taught to align" if one["taught"] else ""
        name = f"cross head {layer + 1}.{head + 1}, the row that {row} the word{taught}"
        found.append([name, f"{one['each_target']:.1%}", f"{one['grown']:.1%}"])
    about = f"{study['gold_pairs']} pairs, the odd lines to choose a head and the even ones to report it."
    return f"{about}\n\n{lines(['aligner', 'each target word', 'both directions joined'], found)}"


@torch.inference_mode()
def layers(translator: Translator, gold: Path) -> str:
    """Alignment error of the mean of each layer's heads, by weights and by norms, in both rows."""
    texts = read_pairs(gold / "test.de", gold / "test.en")
    references = read_gold(gold / "gold.talp", *texts)
    ways: dict[str, list[AlignedWords | None]] = {"weights": [], "norms": []}
    for text in zip(*texts, strict=True):
        source, target = read_pair(translator.checkpoint, *text)
        read = torch.tensor([BOS_ID, *target.ids[:-1]])
        cross = trace(translator.checkpoint.model, torch.tensor(source.ids), read).attentions("cross")
        values = {"weights": [one.weights for one in cross], "norms": [one.norms() for one in cross]}
        for name, heads in values.items():
            ways[name].append(aligned_words(torch.stack(heads).mean(1, keepdim=True), source, target))
    rows = [
        [str(layer + 1)]
        + [
            f"{error_rate(AlignmentHead(layer, 0, shifted), aligned, references):.1%}"
            for aligned in ways.values()
            for shifted in (True, False)
        ]
        for layer in range(translator.checkpoint.model.config.n_decoder_layers)
    ]
    titles = [f"{name}, the row that {row} the word" for name in ways for row in ("reads", "writes")]
    return f"{len(references)} pairs, each target word.\n\n{lines(['layer of de-en', *titles], rows)}"


def single(studies: Mapping[str, Mapping[str, Any]]) -> str:
    """What removing one head alone costs a reference, in nats a sentence."""
    rows = []
    for name, study in studies.items():
        costs = [one["cost"] for one in study["heads"]]
        most = max(study["heads"], key=lambda one: one["cost"])
        head = f"{most['kind']} {most['layer'] + 1}.{most['head'] + 1}: {most['cost']:.2f}"
        counts = [sum(cost >= least for cost in costs) for least in COSTS]
        rows.append([name, str(len(costs)), head, *map(str, counts), str(sum(cost < 0 for cost in costs))])
    named = [f"{least} and more" for least in COSTS]
    return lines(["model", "heads", "the head that costs most", *named, "below 0"], rows)


def removal(found: Mapping[str, Mapping[str, Any]]) -> str:
    """BLEU on the reporting sentences after heads were removed."""

    def near(points: Sequence[Sequence[float]], share: float, heads: int) -> str:
        count, _, _, score = min(points, key=lambda point: abs(point[0] - share * heads))
        return f"{score:.1f} ({count})"

    rows = []
    for name, each in found.items():
        for kind, curve in each["curves"].items():
            heads = len(curve["heads"]) + 1
            cells = [near(curve["points"], share, heads) for share in (0, 0.2, 1 / 3, 0.5)]
            rows.append([name, kind, str(heads), *cells])
    sizes = {(each["choosing"], each["reporting"]) for each in found.values()}
    ((choosing, reporting),) = sizes
    about = (
        f"Chosen on {choosing} sentences, BLEU on {reporting} others; in brackets the heads that are gone."
    )
    head = ["model", "kind", "heads", "none", "a fifth", "a third", "half"]
    return f"{about}\n\n{lines(head, rows)}"


def training(records: Mapping[str, Probes]) -> str:
    """What the record of a training holds at some steps, over its pairs of sentences."""
    head = ["model", "step", "nats a token", "source focus", "links as at the end", "order", "BLEU"]
    return lines(head, chain.from_iterable(steps_of(name, probes) for name, probes in records.items()))


def steps_of(name: str, probes: Probes) -> Iterator[list[str]]:
    pairs = range(len(probes.current.sentences))
    last = [best_links(probes.record(probes.steps[-1], pair)).grown for pair in pairs]
    rows = TrainingLog.load(MODEL_FILES / name).rows
    scores = [(int(row[STEP]), float(row[BLEU])) for row in rows if BLEU in row]
    for step in (*SHOWN_STEPS, probes.steps[-1]):
        records = [probes.record(step, pair) for pair in pairs]
        nats = -np.mean(list(chain(*(probes.log_probabilities(step, pair) for pair in pairs))))
        focus = np.mean([best_focus(record) for record in records])
        found = [best_links(record).grown for record in records]
        same = sum(len(one & other) for one, other in zip(found, last, strict=True))
        size = sum(map(len, found)) + sum(map(len, last))
        known = [score for at, score in scores if at <= step]
        yield [
            name,
            f"{step:,}",
            f"{nats:.2f}",
            f"{focus:.2f}",
            f"{2 * same / size:.0%}",
            f"{np.mean([order(links) for links in found]):.2f}",
            f"{known[-1]:.1f}" if known else "",
        ]


def best_focus(record: AttentionRecord) -> float:
    focus = measure_heads(record)["cross"].source_focus
    assert focus is not None
    return float(focus.max())


def order(links: Iterable[Link]) -> float:
    """Kendall's tau of source and target words: 1 for the source's order, -1 for the reverse."""
    turns = [np.sign((a - c) * (b - d)) for (a, b), (c, d) in combinations(sorted(links), 2)]
    counted = [turn for turn in turns if turn]
    return float(np.mean(counted)) if counted else 0.0


def lens_of(name: str) -> dict[str, Any]:
    """What was measured with both lenses of a model."""
    with open_tensors(MODEL_FILES / name / LENS, MAX_BYTES) as file:
        measured: dict[str, Any] = json.loads(file.metadata()["lens"])
    return measured


def lenses(found: Mapping[str, Mapping[str, Any]]) -> str:
    """What both lenses are worth after each layer."""
    rows = []
    for name, measured in found.items():
        for stack, write in (("decoder", "{:.0%}"), ("encoder", "{:.2f}")):
            for way, title in (("direct", "logit lens"), ("jacobian", "Jacobian lens")):
                rows.append([name, stack, title, *map(write.format, measured[stack][way])])
    head = ["model", "stack", "lens", *(f"layer {layer + 1}" for layer in range(len(rows[0]) - 3))]
    ((sentences, fitted),) = {(measured["sentences"], measured["fitted"]) for measured in found.values()}
    return f"Over {sentences} sentences; the mean Jacobian is of {fitted} of them.\n\n{lines(head, rows)}"


def faithfulness(rankings: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Nats that a word loses without the source token that a measure ranks first."""
    names = [one["measure"] for one in rankings[MODELS[0]]]
    loss = {name: {one["measure"]: one["one"] for one in found} for name, found in rankings.items()}
    return lines(
        ["measure", *MODELS], [[name, *(f"{loss[each][name]:.2f}" for each in MODELS)] for name in names]
    )


def judged_table(corpus: Path) -> str:
    judged = list(judge(Translator.load(MODEL_FILES / "de-en"), corpus))
    with corpus.open(encoding="utf-8", newline="") as file:
        total = sum(1 for _ in csv.DictReader(file))
    good = sum(not one.faults for one in judged)
    about = f"Of {total:,} judged translations de-en reads {len(judged):,}, and {good:,} of these are good."
    head = ["warning", "faulty", "area, even / odd / all", "found", "false alarms, even / odd"]
    return f"{about}\n\n{lines(head, [cells(rule, judged) for rule in RULES])}"


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
