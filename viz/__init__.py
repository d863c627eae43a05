"""Drawing: the payload, the linked viewer, the exported file, and figures for notebooks."""

from viz.charts.head_maps import head_map, importance_map, step_probabilities
from viz.charts.heatmaps import head as head_figure
from viz.charts.heatmaps import layer_grid
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
