"""The page of a study of heads: Markdown, altair figures as SVG, and captions for the page's examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from model.analysis.measures import ALIGNED, POSITIONAL, RARE, ROLES, SINK, Role
from model.analysis.study import THRESHOLDS, HeadFindings, Study
from model.files import write_atomically, write_json
from viz.study.charts import KINDS, figures

# What is seen at the head, with the measure that says so.
SEEN: dict[Role, str] = {
    "previous token": "looks at the previous token in {evidence:.0%} of its rows",
    "next token": "looks at the next token in {evidence:.0%} of its rows",
    "same token": "looks at its own token in {evidence:.0%} of its rows",
    "separator sink": "leaves {evidence:.0%} of its weight on special tokens and the final mark",
    "rare word": "looks for the rarest word in {evidence:.0%} of its rows",
    "aligned": "gives each source token a step of its own, where it gets {evidence:.0%} of the weight",
}
# As `make bench-alignment` prints it for even lines: each target word's choice, and grow-diag.
EFLOMAL = "29.7 % (28.6 % by grow-diag)"
PAGE = "README.md"


class Finding(NamedTuple):
    """One sentence about a model, and the head that shows it."""

    text: str
    head: HeadFindings


def write_page(studies: Sequence[Study], directory: Path) -> None:
    """Write README.md and its figures into the directory."""
    for study in studies:
        for name, chart in figures(study).items():
            write_atomically(directory / f"{study.model}-{name}.svg", partial(chart.save, format="svg"))
    text = page(studies)
    write_atomically(directory / PAGE, lambda part: part.write_text(text, encoding="utf-8"))


def write_captions(studies: Sequence[Study], examples: Mapping[str, Sequence[str]], path: Path) -> None:
    """Write, by model and example sentence, a caption and the head that it is about, counted from 0."""
    captions = {
        study.model: {
            sentence: {
                "text": found.text,
                "kind": found.head.kind,
                "layer": found.head.layer,
                "head": found.head.head,
            }
            for sentence, found in zip(examples.get(study.model, ()), findings(study), strict=False)
        }
        for study in studies
    }
    write_json(path, captions)


# Findings -------------------------------------------------------------------------------------


def findings(study: Study) -> list[Finding]:
    """What a person should look at first, the most important first."""
    most = max(study.heads, key=lambda head: head.cost)
    least = min(study.heads, key=lambda head: head.cost)
    effect = f"gains {-least.cost:.2f} nats" if least.cost < -0.005 else "changes nothing"
    return [
        Finding(f"{_name(most)} matters most: without it a reference loses {most.cost:.2f} nats.", most),
        *_aligning(study),
        *_by_role(study),
        Finding(f"{_name(least)} matters least: without it a reference {effect}. {_spare(study)}", least),
    ]


def _aligning(study: Study) -> Iterator[Finding]:
    if study.aligners:
        best = min(study.aligners, key=lambda aligner: aligner.grown)
        head = study.heads[best.head]
        rows = "reads" if best.shifted else "predicts"
        text = (
            f"{_name(head)} aligns words best, by the row that {rows} a word: "
            f"{best.each_target:.1%} alignment error, {best.grown:.1%} by grow-diag."
        )
        yield Finding(text.replace("%", " %"), head)


def _by_role(study: Study) -> Iterator[Finding]:
    """The clearest head of each role that any head has; where none has one, the nearest to any."""
    roles = {head.role for head in study.heads} - {"mixed"}
    for role, seen in SEEN.items():
        heads = [head for head in study.heads if head.role == role]
        if heads:
            best = max(heads, key=lambda head: head.evidence)
            yield Finding(f"{_name(best)} {_see(seen, best)}.", best)
    selves = [head for head in study.heads if head.kind != "cross"]
    if roles <= {"aligned"} and selves:
        best = max(selves, key=_nearness)
        yield Finding(
            f"No head of self-attention has a plain role. Nearest to one: {_name(best).lower()} "
            f"{_see(SEEN[best.nearest_role], best)}.",
            best,
        )


def _see(seen: str, head: HeadFindings) -> str:
    return seen.format(evidence=head.evidence).replace("%", " %")


def _nearness(head: HeadFindings) -> float:
    return head.evidence / THRESHOLDS[head.nearest_role]


def _spare(study: Study) -> str:
    spare = study.ablation_curves[0].redundant_heads()
    return f"The {spare} least important of {len(study.heads)} heads can be silent before {_points(study)}."


def _points(study: Study) -> str:
    return f"{study.score} falls by 1"


def _name(head: HeadFindings) -> str:
    return f"Head {head.layer + 1}.{head.head + 1} of {_place(head)}"


def _place(head: HeadFindings) -> str:
    return "cross-attention" if head.kind == "cross" else f"the {head.kind}'s self-attention"


# The page -------------------------------------------------------------------------------------


def page(studies: Sequence[Study]) -> str:
    """The page as Markdown."""
    return INTRODUCTION + "".join(f"\n{part}\n" for study in studies for part in _parts(study))


INTRODUCTION = f"""# What the heads do

Written by `make study ARGS="--data CORPORA --gold GOLD"`; every number stands in the JSON file of its model.
`CORPORA` is a folder that holds the corpora, `GOLD` one with the links of Vilar et al. 2006.

- **Role**: what a head does over all rows of the sample, by the page's definitions. Previous, next or same
  token: in at least {POSITIONAL:.0%} of the rows. Separator sink: at least {SINK:.0%} of the weight on
  special tokens and the final mark. Rare word: in at least {RARE:.0%} of the rows. Aligned: a source
  focus of at least {ALIGNED:.0%}. Mixed: all others.
- **Cost**: nats of log-probability that the reference loses when that head alone is silent, mean over
  sentences. **Gradient**: |dL / d gate| (Michel et al. 2019), mean over sentences.
- **Alignment error** (AER): each target word takes the source word with the largest weight, in the row that
  predicts it or in the row that reads it (Chen et al. 2020).

Layers and heads count from 1: 2.5 is the fifth head of the second layer.
""".replace("%", " %")


def _parts(study: Study) -> Iterator[str]:
    agreement = sum(head.agreement for head in study.heads) / len(study.heads)
    yield f"## {study.model}: {study.title}"
    yield (
        f"{len(study.heads)} heads on {study.pairs:,} pairs spread evenly over {' and '.join(study.sets)}, "
        "the references given. One sentence alone gives a head the role that it has here "
        f"{100 * agreement:.0f} times in 100."
    )
    yield "\n".join(f"- {found.text}" for found in findings(study))
    yield _picture(study, "heads", "Cost of each head when it is silent, with its role unless that is mixed")
    yield _roles(study)
    yield f"### How many heads {study.model} can spare"
    yield _silencing(study)
    yield _picture(study, "silence", f"{study.score} as ever more heads are silent")
    if study.aligners:
        yield f"### How well the heads of {study.model} align words"
        yield _alignment(study)
        yield _picture(study, "alignment", "Alignment error of each cross-attention head")
    yield _every_head(study)


def _picture(study: Study, name: str, text: str) -> str:
    return f"![{text}]({study.model}-{name}.svg)"


def _roles(study: Study) -> str:
    rows = ["| role | encoder | decoder | cross |", "|---|---|---|---|"]
    for role in ROLES:
        counts = [[head for head in study.heads if (head.kind, head.role) == (kind, role)] for kind in KINDS]
        if any(counts):
            rows.append(f"| {role} | " + " | ".join(map(_listed, counts)) + " |")
    return "\n".join(rows)


def _listed(heads: Sequence[HeadFindings]) -> str:
    """Names of a few heads, the number of many."""
    names = [f"{head.layer + 1}.{head.head + 1}" for head in heads]
    return ", ".join(names) if len(names) <= 8 else f"{len(names)} heads"


def _silencing(study: Study) -> str:
    curves = study.ablation_curves
    spares = [f"{each.redundant_heads()} in the order of their {each.measure}" for each in curves]
    return (
        f"Greedy translations of the same {study.pairs:,} sources; {study.score} with every head: "
        f"{curves[0].scores[0]:.1f}. Heads fall silent one after another, the least important "
        f"first, in an order measured once with every head present. Before {_points(study)}, so many can "
        f"be silent: {' and '.join(spares)}."
    )


def _alignment(study: Study) -> str:
    rows = [
        f"On {study.gold_pairs} pairs with links by people; each head is chosen by grow-diag on lines 1, 3, "
        "... and reported on lines 2, 4, ...\n",
        "| aligner | each target word | grow-diag |",
        "|---|---|---|",
    ]
    for each in study.aligners:
        rows_of = "reads" if each.shifted else "predicts"
        head = study.heads[each.head]
        rows.append(
            f"| head {head.layer + 1}.{head.head + 1}, row that {rows_of} the word | "
            f"{100 * each.each_target:.1f} % | {100 * each.grown:.1f} % |"
        )
    rows.append(
        f"\neflomal, trained on the same pairs and on these, has {EFLOMAL} there: `make bench-alignment`."
    )
    return "\n".join(rows)


def _every_head(study: Study) -> str:
    columns = ["head", "role", "nearest role", "its measure", "entropy, bits", "cost", "gradient"]
    columns += ["AER predicts, reads"] if study.aligners else []
    rows = [
        "<details>",
        f"<summary>Every head of {study.model}</summary>\n",
        f"| {' | '.join(columns)} |",
        "|" + "---|" * len(columns),
    ]
    for head in study.heads:
        cells = [head.name, head.role, head.nearest_role, f"{head.evidence:.2f}", f"{head.entropy:.2f}"]
        cells += [f"{head.cost:.3f}", f"{head.gradient:.3f}"]
        if study.aligners:
            cells.append(" ".join(f"{100 * error:.0f} %" for error in head.errors or ()))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, "\n</details>"])
