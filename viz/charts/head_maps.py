"""Altair charts of one number for each head or for each step of a translation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt

from model.results import HeadValues, Translation
from viz.charts.pictures import draw_charts_offline

LAMP = ["#ffffff", "#fde8b8", "#f0a830", "#9a4a00", "#2b0f00"]
# A loss, no change, a gain. No change is transparent, so it looks the same on any background.
CHANGES = ["rgba(47, 110, 200, 1)", "rgba(140, 135, 125, 0)", "rgba(224, 140, 20, 1)"]
ACCENT = "#1d5fd1"
LINE = "rgba(140, 135, 125, 0.35)"
INK = {"light": "#1c1b19", "dark": "#f0ede6"}
FONT = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, sans-serif"
SERIES = [ACCENT, "#9a4a00", "#6d6962"]

draw_charts_offline()


def head_map(values: Sequence[Sequence[float]], title: str = "value") -> alt.Chart:
    """Return a map of one number for each layer and head: `values[layer][head]`."""
    rows = [
        {"layer": layer + 1, "head": head + 1, "value": float(value)}
        for layer, heads in enumerate(values)
        for head, value in enumerate(heads)
    ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(stroke=LINE)
        .encode(
            x=alt.X("head:O", title="head", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("layer:O", title="layer"),
            color=alt.Color("value:Q", title=title, scale=alt.Scale(range=LAMP, interpolate="lab")),
            tooltip=["layer:O", "head:O", alt.Tooltip("value:Q", title=title, format=".4f")],
        )
        .properties(width=alt.Step(32), height=alt.Step(24))
    )


def importance_map(
    importance: HeadValues, theme: str = "light", title: str = "nats without it"
) -> alt.HConcatChart:
    """Return a chart of `translator.importance(text)`: the change in log-probability without each head.

    One map for each kind, in nats, on one scale whose middle is no change. `theme` is the background of the
    chart, the page or notebook, light or dark. Other values of heads need another `title`.
    """
    most = max(float(values.abs().max()) for values in importance) or 1.0
    scale = alt.Scale(domain=[-most, 0, most], range=CHANGES, interpolate="rgb")
    colour = alt.Color("value:Q", title=title, scale=scale, legend=alt.Legend(format="+.2f"))
    tip = alt.Tooltip("value:Q", title=title, format="+.4f")
    maps = (
        head_map(values.tolist())
        .encode(color=colour, tooltip=["layer:O", "head:O", tip])
        .properties(title=kind.capitalize())
        for kind, values in importance._asdict().items()
    )
    ink = INK[theme]
    return alt.hconcat(*maps).configure(
        background="transparent",
        font=FONT,
        axis=alt.AxisConfig(domainColor=LINE, tickColor=LINE, labelColor=ink, titleColor=ink),
        legend=alt.LegendConfig(labelColor=ink, titleColor=ink),
        title=alt.TitleConfig(color=ink),
    )


def step_probabilities(translation: Translation) -> alt.Chart:
    """Return the probability of each predicted token, in the order of the sentence."""
    tokens = translation.attention.predicted
    rows = [
        {"step": step, "token": token.text, "probability": math.exp(log_probability)}
        for step, (token, log_probability) in enumerate(
            zip(tokens, translation.log_probabilities, strict=True), start=1
        )
    ]
    # The axis counts steps and shows tokens as labels, so that a token that occurs twice has two bars.
    names = alt.Axis(labelExpr="data('steps')[datum.value - 1].token", labelAngle=-40)
    return (
        alt.Chart(alt.Data(values=rows, name="steps"))
        .mark_bar(color=ACCENT)
        .encode(
            x=alt.X("step:O", title=None, axis=names),
            y=alt.Y("probability:Q", scale=alt.Scale(domain=[0, 1])),
            tooltip=["step:O", "token:N", alt.Tooltip("probability:Q", format=".4f")],
        )
        .properties(width=alt.Step(40), height=160)
    )
