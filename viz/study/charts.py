"""Draws the figures of a study of heads with Altair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from model.analysis.definitions import ROLE_DEFINITIONS
from model.analysis.study import HeadFindings, Study
from model.results import KINDS
from viz.charts.head_maps import LAMP, SERIES

Cell = dict[str, int | float | str]


def figures(study: Study) -> dict[str, alt.TopLevelMixin]:
    """The figures of a study by name."""
    charts = {"heads": head_chart(study), "ablation": ablation_chart(study)}
    return charts | ({"alignment": alignment_chart(study)} if study.aligners else {})


def head_chart(study: Study) -> alt.TopLevelMixin:
    """Cost of muting each head, with its role written in its cell unless that is mixed."""
    panels: dict[str, list[Cell]] = {
        kind: [
            _cell(head, max(head.cost, 0.0), ROLE_DEFINITIONS[head.role].short)
            for head in study.heads
            if head.kind == kind
        ]
        for kind in KINDS
    }
    return _maps(panels, "nats lost", LAMP)


def alignment_chart(study: Study) -> alt.TopLevelMixin:
    """Alignment error of each cross-attention head in %, from either row of a word; dark is good."""
    aligned = [(head, head.errors) for head in study.heads if head.errors]
    panels = {
        name: [_cell(head, 100 * errors[row], f"{100 * errors[row]:.0f}") for head, errors in aligned]
        for row, name in enumerate(("row that predicts the word", "row that reads the word"))
    }
    return _maps(panels, "AER, %", LAMP[::-1])


def _cell(head: HeadFindings, value: float, label: str) -> Cell:
    return {"layer": head.layer + 1, "head": head.head + 1, "value": value, "label": label}


def _maps(panels: Mapping[str, Sequence[Cell]], title: str, colours: list[str]) -> alt.TopLevelMixin:
    """Maps of layers and heads side by side, on one colour scale."""
    values = [float(cell["value"]) for cells in panels.values() for cell in cells]
    low, high = min(values), max(values)
    steps = [low + (high - low) * place / (len(colours) - 1) for place in range(len(colours))]
    scale = alt.Scale(domain=steps, range=colours, interpolate="lab")
    dark = f"datum.value {'>' if colours is LAMP else '<'} {(low + high) / 2}"
    charts = []
    for name, cells in panels.items():
        base = alt.Chart(alt.Data(values=list(cells)), title=name).encode(
            x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)), y=alt.Y("layer:O", title="layer")
        )
        colour = alt.Color("value:Q", title=title, scale=scale, legend=alt.Legend(format="~r"))
        label = alt.condition(dark, alt.value("#ffffff"), alt.value("#1c1b19"))
        charts.append(
            alt.layer(
                base.mark_rect(stroke="#e6e2db").encode(color=colour),
                base.mark_text(fontSize=10).encode(text="label:N", color=label),
            ).properties(width=alt.Step(32), height=alt.Step(26))
        )
    return _plain(alt.hconcat(*charts))


def ablation_chart(study: Study) -> alt.TopLevelMixin:
    """The score with more and more heads muted, and a line one point below the score of all heads."""
    rows = [
        {"heads": count, "order": f"by {each.measure}", "score": score}
        for each in study.ablation_curves
        for count, score in enumerate(each.scores)
    ]
    limit = alt.Chart(alt.Data(values=[{"score": study.ablation_curves[0].scores[0] - 1}]))
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line()
        .encode(
            x=alt.X("heads:Q", title="muted heads, the least important first"),
            y=alt.Y("score:Q", title=study.score, scale=alt.Scale(zero=False)),
            color=alt.Color(
                "order:N", title=None, scale=alt.Scale(range=SERIES), legend=alt.Legend(orient="top")
            ),
        )
    )
    rule = limit.mark_rule(strokeDash=[4, 4], color="#6d6962").encode(y="score:Q")
    return _plain(alt.layer(rule, lines).properties(width=520, height=180))


def _plain(chart: alt.LayerChart | alt.FacetChart | alt.HConcatChart) -> alt.TopLevelMixin:
    """Leave out the grid, the ticks and a description of each mark, which halves the file."""
    axis = alt.AxisConfig(grid=False, ticks=False)
    return chart.configure(background="#ffffff", aria=False, axis=axis)
