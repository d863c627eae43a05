"""Writes the page of a study of heads as Markdown with figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from model.analysis.definitions import MEMORY, ROLE_DEFINITIONS, ROLES
from model.analysis.study import HeadFindings, Study
from model.files import write_atomically, write_text
from model.results import KINDS
from viz.study.charts import figures

# As `make bench-alignment` prints it for even lines: each target word's choice, and grow-diag.
EFLOMAL = "25.0 % (24.2 % by grow-diag)"
PAGE = "README.md"
CONDITIONS = "\n".join(
    f"  - {role}: {one.evidence.format(share=f'at least {100 * one.least:.0f}') or one.definition}"
    for role, one in ROLE_DEFINITIONS.items()
    if role != MEMORY
)
INTRODUCTION = f"""# What the heads do

Written by `make study ARGS="--data CORPORA --gold GOLD"`; the JSON file of each model has all numbers.
`CORPORA` is a folder that holds the corpora, `GOLD` one with the links of Vilar et al. 2006.

- **Role**: what a head does over all rows of the sample, by the page's definitions; the first that applies.
{CONDITIONS}
- **Cost**: nats of log-probability that the reference loses when that head alone is muted, mean over
  sentences. **Gradient**: |dL / d gate| (Michel et al. 2019), mean over sentences.
- **Heads to spare**: how many heads can be muted in greedy translations of the sample, one after another,
  before the score falls by 1. The least important are muted first, in an order measured with no head muted.
- **Alignment error** (AER): each target word takes the source word with the largest weight, in the row that
  predicts it or in the row that reads it (Chen et al. 2020).

Layers and heads count from 1: 2.5 is the fifth head of the second layer.
"""


class Finding(NamedTuple):
    """What one head does, and the number that shows it."""

    head: HeadFindings
    what: str
    value: str


def write_page(studies: Sequence[Study], directory: Path) -> None:
    """Write README.md and its figures into the directory."""
    for study in studies:
        for name, chart in figures(study).items():
            write_atomically(directory / f"{study.model}-{name}.svg", partial(chart.save, format="svg"))
    text = page(studies)
    write_text(directory / PAGE, text)


def findings(study: Study) -> list[Finding]:
    """The heads to look at first, the most important first."""
    most = max(study.heads, key=lambda head: head.cost)
    least = min(study.heads, key=lambda head: head.cost)
    return [
        Finding(most, "matters most", _effect(most.cost)),
        *_best_aligner(study),
        *_clearest_by_role(study),
        Finding(least, "matters least", _effect(least.cost)),
    ]


def _effect(cost: float) -> str:
    nats = round(abs(cost), 2)
    return f"without it, a reference {'gains' if cost < 0 < nats else 'loses'} {nats:.2f} nats"


def _best_aligner(study: Study) -> Iterator[Finding]:
    if study.aligners:
        best = min(study.aligners, key=lambda aligner: aligner.grown)
        errors = f"{100 * best.each_target:.1f} % alignment error, {100 * best.grown:.1f} % by grow-diag"
        how = "was taught to align and aligns words best" if best.taught else "aligns words best"
        row = "reads" if best.shifted else "predicts"
        yield Finding(study.heads[best.head], how, f"the row that {row} a word has {errors}")


def _clearest_by_role(study: Study) -> Iterator[Finding]:
    """The clearest head of each role. If self-attention has none, its head that comes nearest to one."""
    for role in (role for role, one in ROLE_DEFINITIONS.items() if one.measure):
        heads = [head for head in study.heads if head.role == role]
        if heads:
            best = max(heads, key=lambda head: head.evidence)
            yield Finding(best, f"has the role “{best.role}”", _evidence(best))
    selves = [head for head in study.heads if head.kind != "cross" and head.role != MEMORY]
    if selves and all(head.role == "mixed" for head in selves):
        best = max(selves, key=lambda head: head.evidence / ROLE_DEFINITIONS[head.nearest_role].least)
        what = f"comes nearest in self-attention to the role “{best.nearest_role}”"
        yield Finding(best, what, _evidence(best))


def _evidence(head: HeadFindings) -> str:
    return ROLE_DEFINITIONS[head.nearest_role].evidence.format(share=round(100 * head.evidence))


def page(studies: Sequence[Study]) -> str:
    """Return the page as Markdown."""
    return INTRODUCTION + "".join(f"\n{part}\n" for study in studies for part in _parts(study))


def _parts(study: Study) -> Iterator[str]:
    yield f"## {study.model}: {study.title}"
    yield _summary(study)
    yield _picture(study, "heads", "Cost of each head when it is muted, with its role unless that is mixed")
    found = [[f"{each.head.name} {each.what}", each.value] for each in findings(study)]
    yield _table(["head to look at", "measure"], found)
    yield _roles(study)
    yield _picture(study, "ablation", f"{study.score} with more and more heads muted")
    if study.aligners:
        yield _alignment(study)
        yield _picture(study, "alignment", "Alignment error of each cross-attention head")
    if study.rankings:
        yield _rankings(study)
    yield _every_head(study)


def _picture(study: Study, name: str, text: str) -> str:
    return f"![{text}]({study.model}-{name}.svg)"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (columns, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _summary(study: Study) -> str:
    agreement = sum(head.agreement for head in study.heads) / len(study.heads)
    rows = [
        ["heads", str(len(study.heads))],
        ["sentence pairs, the references given", f"{study.pairs:,} of {', '.join(study.sets)}"],
        ["a single sentence gives a head this role", f"{_percent(agreement, 0)} of the time"],
        [f"{study.score} with all heads", f"{study.ablation_curves[0].scores[0]:.1f}"],
        *(
            [f"heads to spare, by {each.measure}", str(each.redundant_heads())]
            for each in study.ablation_curves
        ),
    ]
    return _table(["sample and result", study.model], rows)


def _roles(study: Study) -> str:
    rows = []
    for role in ROLES:
        counts = [[head for head in study.heads if (head.kind, head.role) == (kind, role)] for kind in KINDS]
        if any(counts):
            rows.append([role, *map(_listed, counts)])
    return _table(["role", *KINDS], rows)


def _listed(heads: Sequence[HeadFindings]) -> str:
    """Names of a few heads, the number of many."""
    names = [f"{head.layer + 1}.{head.head + 1}" for head in heads]
    return ", ".join(names) if len(names) <= 8 else f"{len(names)} heads"


def _alignment(study: Study) -> str:
    rows = [["eflomal, trained on the same pairs and on these: `make bench-alignment`", EFLOMAL]]
    for each in study.aligners:
        head, row = study.heads[each.head], "reads" if each.shifted else "predicts"
        score = f"{_percent(each.each_target)} ({_percent(each.grown)} by grow-diag)"
        taught = ", taught to align" if each.taught else ""
        rows.append([f"{head.name}{taught}, row that {row} the word", score])
    return (
        f"On {study.gold_pairs} pairs with links by people; each head is chosen by grow-diag on lines 1, 3, "
        f"5 and so on, and reported on the other lines.\n\n{_table(['aligner', 'alignment error'], rows)}"
    )


def _rankings(study: Study) -> str:
    rows = [[each.measure, f"{each.one:.2f}", f"{each.three:.2f}"] for each in study.rankings]
    return (
        "What a word loses, in nats, when the source tokens are hidden that a measure ranks first: the "
        "more, the more the measure is to be trusted. The head is chosen on lines 1, 3, 5 and so on; the "
        f"numbers come from the other lines.\n\n{_table(['measure', 'one token', 'three tokens'], rows)}"
    )


def _every_head(study: Study) -> str:
    columns = ["head", "role", "nearest role", "its measure", "entropy, bits", "cost", "gradient"]
    columns += ["AER predicts, reads"] if study.aligners else []
    rows = []
    for head in study.heads:
        name = f"{head.name}, taught to align" if head.taught else head.name
        cells = [name, head.role, head.nearest_role, f"{head.evidence:.2f}", f"{head.entropy:.2f}"]
        cells += [f"{head.cost:.3f}", f"{head.gradient:.3f}"]
        if study.aligners:
            cells.append(" ".join(_percent(error, 0) for error in head.errors or ()))
        rows.append(cells)
    summary = f"<summary>Every head of {study.model}</summary>"
    return f"<details>\n{summary}\n\n{_table(columns, rows)}\n\n</details>"
