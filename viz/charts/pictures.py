"""Charts as pictures (SVG) that an exported notebook shows without a network.

Altair's own renderer fetches its library from the internet, and a Plotly figure has no form in HTML. A
notebook that can draw them does; others, and exported ones, show the picture.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import altair as alt
import plotly.graph_objects as go

SVG, VEGA_LITE, PLOTLY = "image/svg+xml", "application/vnd.vegalite.v6+json", "application/vnd.plotly.v1+json"
LEFT, TOP, RIGHT, BOTTOM = 112, 120, 24, 24  # pixels around the matrices
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
SYMBOLS = {chr(code): chr(0x2400 + code) for code in range(0x20)}
EMPTY_CELL = "#f1efe9"


def draw_charts_offline() -> None:
    """Let notebooks keep a picture of each Altair chart, unless the person has chosen another renderer.

    The package vl-convert-python makes the picture; without it Altair's default stays.
    """
    if alt.renderers.active == "default" and find_spec("vl_convert"):
        alt.renderers.register("headlight", _bundle_of_chart)
        alt.renderers.enable("headlight")


def _bundle_of_chart(spec: dict[str, Any], **_: object) -> dict[str, object]:
    import vl_convert  # 84 MB that a page does not need

    picture = valid_xml(vl_convert.vegalite_to_svg(spec))
    return {VEGA_LITE: spec, SVG: picture, "text/plain": "an Altair chart"}


class Heatmaps(go.Figure):
    """A Plotly figure of heatmaps that also has a picture."""

    _ipython_display_ = _repr_html_ = None  # else a notebook calls Plotly's own, which know no picture

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, object]:
        return {PLOTLY: self.to_plotly_json(), SVG: heatmaps_svg(self), "text/plain": "a Plotly figure"}


def heatmaps_svg(figure: go.Figure) -> str:
    """Return a figure of `viz.head_figure` or `viz.layer_grid` as SVG, with its titles and tokens."""
    layout = figure.layout
    width, height = layout.width, layout.height
    plot = (width - LEFT - RIGHT, height - TOP - BOTTOM)
    parts = [_text(16, 28, layout.title.text or "", 16)]
    for note in layout.annotations:
        x, y = LEFT + note.x * plot[0], TOP + (1 - note.y) * plot[1] - 6
        parts.append(_text(x, y, note.text, 13, "middle"))
    for trace in figure.data:
        parts += _heatmap(layout, trace, plot)
    return valid_xml(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" fill="#1c1b19">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>'
    )


def valid_xml(text: str) -> str:
    """The text with each character that XML cannot hold as its symbol or, without one, as U+FFFD."""
    return NOT_XML.sub(lambda found: SYMBOLS.get(found.group(), "\N{REPLACEMENT CHARACTER}"), text)


def _heatmap(layout: go.Layout, trace: go.Heatmap, plot: tuple[int, int]) -> Iterator[str]:
    across, down = (layout[f"{name[0]}axis{name[1:]}"] for name in (trace.xaxis or "x", trace.yaxis or "y"))
    (x0, x1), (y0, y1) = across.domain or (0, 1), down.domain or (0, 1)
    left, top = LEFT + x0 * plot[0], TOP + (1 - y1) * plot[1]
    rows = trace.z
    step_x, step_y = (x1 - x0) * plot[0] / len(rows[0]), (y1 - y0) * plot[1] / len(rows)
    box = f'x="{left:.1f}" y="{top:.1f}" width="{step_x * len(rows[0]):.1f}"'
    yield f'<rect {box} height="{step_y * len(rows):.1f}" fill="{EMPTY_CELL}"/>'
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            box = f'x="{left + column * step_x:.1f}" y="{top + row * step_y:.1f}"'
            size = f'width="{max(0.5, step_x - 1):.1f}" height="{max(0.5, step_y - 1):.1f}"'
            colour = EMPTY_CELL if value is None else _colour(layout.coloraxis.colorscale, value)
            shown = "" if value is None else f"<title>{value:.4f}</title>"
            yield f'<rect class="cell" {box} {size} fill="{colour}">{shown}</rect>'
    for row, name in enumerate(down.ticktext or ()):
        yield _text(left - 6, top + (row + 0.5) * step_y + 4, name, 13, "end")
    for column, name in enumerate(across.ticktext or ()):
        yield _text(left + (column + 0.5) * step_x, top - 8, name, 13, turned=True)


def _text(x: float, y: float, text: str, size: int, anchor: str = "start", turned: bool = False) -> str:
    """A label. Plotly reads some HTML in it, so it is escaped already, and is not escaped twice."""
    turn = f' transform="rotate(-40 {x:.1f} {y:.1f})"' if turned else ""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    return f"<text {place}{turn}>{html.escape(html.unescape(text))}</text>"


def _colour(scale: Sequence[tuple[float, str]], value: float) -> str:
    """The colour of a value from 0 to 1 between the two nearest of the scale."""
    value = min(1.0, max(0.0, value))
    after = next(place for place, (at, _) in enumerate(scale) if at >= value)
    (low, first), (high, last) = scale[max(0, after - 1)], scale[after]
    share = 0.0 if high == low else (value - low) / (high - low)
    ends = ([int(colour[start : start + 2], 16) for start in (1, 3, 5)] for colour in (first, last))
    mixed = (round(a + share * (b - a)) for a, b in zip(*ends, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
