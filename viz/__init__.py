"""The server, the linked viewer, exported files, and charts for notebooks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what the next table imports at its first use
    from viz.charts.head_maps import head_map, importance_map, step_probabilities
    from viz.charts.heatmaps import head_figure, layer_grid
    from viz.charts.instruments import (
        contributions,
        examples,
        lens,
        removal,
        score_split,
        word_links,
        writing,
    )
    from viz.notebook import compare, show

__all__ = [
    "compare",
    "contributions",
    "examples",
    "head_figure",
    "head_map",
    "importance_map",
    "layer_grid",
    "lens",
    "removal",
    "score_split",
    "show",
    "step_probabilities",
    "word_links",
    "writing",
]
# Altair and Plotly take a quarter of a second to import, and the page does not draw with them.
MODULES = ("notebook", "charts.head_maps", "charts.heatmaps", "charts.instruments")


def __getattr__(name: str) -> Any:
    for module in MODULES if name in __all__ else ():
        if hasattr(found := import_module(f"viz.{module}"), name):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
