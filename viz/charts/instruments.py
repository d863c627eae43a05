"""One-line instruments for notebooks: each asks a translator and returns an Altair chart.

Without `target` the instruments look at the model's own greedy translation; it is text or token ids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import torch

from model import Head, Translator
from model.results import HeadValues, Translation
from viz.answers import PartValues
from viz.charts.head_maps import ACCENT, CHANGES, LAMP, LINE, head_map, importance_map
from viz.instruments import (
    contribution_values,
    lens_values,
    link_values,
    removal_values,
    score_values,
    writing_values,
)
from viz.survey import survey_values

Target = str | Sequence[int] | None


def lens(translator: Translator, text: str, target: Target = None, jacobian: bool = True) -> alt.LayerChart:
    """Return a table of what the model would say after each decoder layer.

    It is read through the Jacobian lens, if there is one for the model, or else by the output matrix alone.
    """
    result = _result(translator, text, target)
    found = lens_values(translator, text, result.ids)
    shown = found["jacobian"] if jacobian and found["jacobian"] else found
    rows = [
        {
            "step": step + 1,
            "layer": layer + 1,
            "word": found["tokens"][words[0]]["text"],
            "probability": math.exp(values[0]),
        }
        for layer, steps in enumerate(shown["words"])
        for step, (words, values) in enumerate(zip(steps, shown["log_probabilities"][layer], strict=True))
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x="step:O", y=alt.Y("layer:O", sort="descending"))
    colour = alt.Color("probability:Q", scale=alt.Scale(domain=[0, 1], range=LAMP, interpolate="lab"))
    tip = ["layer:O", "step:O", "word:N", alt.Tooltip("probability:Q", format=".4f")]
    cells = base.mark_rect(stroke=LINE).encode(color=colour, tooltip=tip)
    dark = "datum.probability > 0.6 ? 'white' : 'black'"
    words = base.mark_text().encode(text="word:N", color=alt.ColorValue({"expr": dark}))
    return (cells + words).properties(width=alt.Step(72), height=alt.Step(28))


def contributions(
    translator: Translator,
    text: str,
    step: int,
    word: int | None = None,
    other: int | None = None,
    target: Target = None,
) -> alt.HConcatChart:
    """Return what every head adds to the logit of a word, or to its lead over another: by default the step's.

    The encoder's heads act through the cross-attention, whose maps include them.
    """
    result = _result(translator, text, target)
    chosen = result.ids[step] if word is None else word
    found = contribution_values(translator, text, result.ids, step, chosen, other)
    heads = found["encoder"]["heads"] | found["decoder"]["heads"]
    return importance_map(
        HeadValues(**{kind: torch.tensor(values) for kind, values in heads.items()}), title="logit"
    )


def score_split(
    translator: Translator, text: str, head: Head, row: int, column: int, target: Target = None
) -> alt.Chart:
    """Return the score of one cell over what wrote the query and what wrote the key."""
    found = score_values(translator, text, _result(translator, text, target).ids, *head, row, column)
    queries, keys = (list(map(_part_name, found[side])) for side in ("query_parts", "key_parts"))
    rows = [
        {"query": query, "key": key, "score": value}
        for query, values in zip(queries, found["matrix"], strict=True)
        for key, value in zip(keys, values, strict=True)
    ]
    most = max(abs(value) for values in found["matrix"] for value in values) or 1.0
    scale = alt.Scale(domain=[-most, 0, most], range=CHANGES, interpolate="rgb")
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(stroke=LINE)
        .encode(
            x=alt.X("key:N", sort=keys),
            y=alt.Y("query:N", sort=queries),
            color=alt.Color("score:Q", scale=scale),
            tooltip=["query:N", "key:N", alt.Tooltip("score:Q", format="+.4f")],
        )
        .properties(width=alt.Step(14), height=alt.Step(14))
    )


def writing(
    translator: Translator, text: str, head: Head, row: int, column: int, target: Target = None
) -> alt.Chart:
    """Return the words that a head pushes up and down when it reads the token of a column."""
    found = writing_values(translator, text, _result(translator, text, target).ids, *head, row, column)
    pushes = [*found["up"], *reversed(found["down"])]
    # The axis counts words, because two tokens can be written alike.
    rows = [
        {"rank": rank, "word": found["tokens"][word]["text"], "change": value}
        for rank, (word, value) in enumerate(pushes)
    ]
    names = alt.Axis(labelExpr="data('words')[datum.value].word")
    return (
        alt.Chart(alt.Data(values=rows, name="words"))
        .mark_bar(color=ACCENT)
        .encode(
            x=alt.X("change:Q", title="change of the logit"),
            y=alt.Y("rank:O", title=None, axis=names),
            tooltip=["word:N", alt.Tooltip("change:Q", format="+.4f")],
        )
    )


def removal(
    translator: Translator,
    text: str,
    kind: str,
    layer: int,
    row: int,
    head: int | None = None,
    step: int | None = None,
    target: Target = None,
) -> alt.Chart:
    """Return the probability of a word while the strongest cells of one row are removed, ranked in five ways.

    The word belongs to `step`, by default the row.
    """
    ids = _result(translator, text, target).ids
    found = removal_values(translator, text, ids, kind, layer, row, row if step is None else step, head)
    rows = [
        {"removed": count, "probability": value, "by": curve["name"]}
        for curve in found["curves"]
        for count, value in enumerate(curve["probabilities"])
    ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("removed:Q", title="cells removed", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("probability:Q", scale=alt.Scale(zero=False)),
            color=alt.Color("by:N", sort=[curve["name"] for curve in found["curves"]]),
            tooltip=["by:N", "removed:Q", alt.Tooltip("probability:Q", format=".4f")],
        )
    )


def word_links(
    translator: Translator, text: str, target: Target = None, head: Head | None = None, gold: str = ""
) -> alt.FacetChart:
    """Return the words that are linked, by each method; `gold` has a person's links in Pharaoh form."""
    found = link_values(translator, text, _result(translator, text, target).ids, head, gold)
    by_name = {
        f"{one['name']}{', shifted' if one['shifted'] else ''}": one["grown"] for one in found["methods"]
    }
    if found["gold"] is not None:
        by_name["yours"] = found["gold"]
    sides = found["source_words"], found["target_words"]
    rows = [
        {"source": source, "target": target, "by": name}
        for name, links in by_name.items()
        for source, target in links
    ]
    places = [alt.Scale(domain=list(range(len(words)))) for words in sides]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_square(size=120)
        .encode(
            x=alt.X("source:O", scale=places[0], axis=_word_axis("source")),
            y=alt.Y("target:O", scale=places[1], axis=_word_axis("target")),
        )
        .facet("by:N")
    )
    chart.datasets = {"source": _word_rows(sides[0]), "target": _word_rows(sides[1])}
    return chart


def examples(translator: Translator, sentences: Sequence[str], kind: str) -> alt.Chart:
    """Return the most frequent role of every head of one kind over sentences, and where it is strongest."""
    found = survey_values(translator, sentences)
    count = len(found["sentences"])
    rows = []
    for layer, heads in enumerate(found["kinds"][kind]["heads"] if count else []):
        for head, one in enumerate(heads):
            role, times = max(one["roles"].items(), key=lambda item: item[1])
            pairs = ", ".join(f"{query} → {key}" for query, key, _ in one["pairs"][:3])
            where = " · ".join(sentences[hit[1]] for hit in one["hits"][:2])
            about = {"role": role, "share": times / count, "pairs": pairs, "strongest in": where}
            rows.append({"layer": layer + 1, "head": head + 1, **about})
    tips: list[str | alt.Tooltip] = [
        "layer:O",
        "head:O",
        "role:N",
        alt.Tooltip("share:Q", format=".2f"),
        "pairs:N",
        "strongest in:N",
    ]
    return (
        head_map([[0.0]])
        .properties(data=alt.Data(values=rows))
        .encode(
            color=alt.Color("role:N", scale=alt.Scale(scheme="tableau10")), opacity="share:Q", tooltip=tips
        )
    )


def _result(translator: Translator, text: str, target: Target) -> Translation:
    return translator.translate(text) if target is None else translator.score(text, target)


def _part_name(part: PartValues) -> str:
    """Such as "cross 1.2", the second head of the decoder's first layer."""
    if part["layer"] is None:
        return str(part["name"])
    if part["head"] is None:
        return f"{part['name']} {part['layer'] + 1}"
    return f"{part['kind']} {part['layer'] + 1}.{part['head'] + 1}"


def _word_axis(side: str) -> alt.Axis:
    """Places with words as labels, so that a word that occurs twice has two places."""
    return alt.Axis(labelExpr=f"data('{side}')[datum.value].word", title=None, labelAngle=-40)


def _word_rows(words: Sequence[str]) -> list[dict[str, str]]:
    return [{"word": word} for word in words]
