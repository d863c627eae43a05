"""Plotly heatmaps of attention weights, for notebooks and papers.

`viz.head_figure(result.attention, "cross", layer=3, head=6)` is one head with its tokens. Layers and heads
count from 0, as in the tensors.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from model.results import AttentionRecord, Token
from viz.charts.head_maps import FONT, INK, LAMP
from viz.charts.pictures import Heatmaps


def head_figure(record: AttentionRecord, kind: str, layer: int, head: int) -> Heatmaps:
    """Return one head's matrix with its tokens on both axes."""
    rows, columns = labels(record, kind)
    figure = go.Figure(_heatmap(record, kind, layer, head))
    figure.update_xaxes(title="to", side="top", tickangle=-40, **_ticks(columns))
    figure.update_yaxes(title="from", autorange="reversed", **_ticks(rows))
    title = f"{kind.capitalize()} · layer {layer + 1} · head {head + 1}"
    return _finish(figure, title, width=160 + 34 * len(columns), height=180 + 28 * len(rows))


def layer_grid(record: AttentionRecord, kind: str, layer: int) -> Heatmaps:
    """Return all heads of one layer side by side, on one colour scale."""
    heads = getattr(record, kind).shape[1]
    across = min(4, heads)
    down = math.ceil(heads / across)
    names = [f"head {number + 1}" for number in range(heads)]
    figure = make_subplots(rows=down, cols=across, subplot_titles=names, horizontal_spacing=0.03)
    for number in range(heads):
        trace = _heatmap(record, kind, layer, number)
        figure.add_trace(trace, row=number // across + 1, col=number % across + 1)
    figure.update_xaxes(showticklabels=False)
    figure.update_yaxes(showticklabels=False, autorange="reversed")
    title = f"{kind.capitalize()} · layer {layer + 1}"
    return _finish(figure, title, width=120 + 220 * across, height=120 + 220 * down)


def labels(record: AttentionRecord, kind: str) -> tuple[list[str], list[str]]:
    """Return the labels of rows and columns, escaped because Plotly interprets some HTML."""
    source, read = _texts(record.source), _texts(record.read)
    if kind == "encoder":
        return source, source
    steps = [f"{reads} → {predicts}" for reads, predicts in zip(read, _texts(record.predicted), strict=True)]
    return steps, source if kind == "cross" else read


def _texts(tokens: Sequence[Token]) -> list[str]:
    return [html.escape(token.text) for token in tokens]


def _heatmap(record: AttentionRecord, kind: str, layer: int, head: int) -> go.Heatmap:
    rows, columns = labels(record, kind)
    weights = getattr(record, kind)[layer, head].detach().cpu().numpy()
    if kind == "decoder":  # cells that the mask forbids are empty, not 0
        weights = weights.astype(object)
        for row in range(len(rows)):
            weights[row, row + 1 :] = None
    return go.Heatmap(
        z=weights.tolist(),
        customdata=[[[row, column] for column in columns] for row in rows],
        hovertemplate="%{customdata[0]} ← %{customdata[1]}<br>%{z:.4f}<extra></extra>",
        hoverongaps=False,
        xgap=1,
        ygap=1,
        coloraxis="coloraxis",
    )


def _ticks(names: Sequence[str]) -> dict[str, object]:
    """Place labels by number, so that a word that occurs twice has two places."""
    return {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": list(names)}


def _finish(figure: go.Figure, title: str, width: int, height: int) -> Heatmaps:
    figure = Heatmaps(figure)
    figure.update_layout(
        title={"text": title, "font": {"size": 16}},
        coloraxis={"colorscale": LAMP, "cmin": 0, "cmax": 1, "colorbar": {"title": "weight"}},
        font={"family": FONT, "size": 13, "color": INK["light"]},
        plot_bgcolor="#f1efe9",
        width=width,
        height=height,
    )
    figure.update_xaxes(showgrid=False, zeroline=False)
    figure.update_yaxes(showgrid=False, zeroline=False)
    return figure
