"""Drawing: the payload, the linked viewer, the exported file, and figures for notebooks."""

from viz.charts.head_maps import head_map, importance_map, step_probabilities
from viz.charts.heatmaps import head as head_figure
from viz.charts.heatmaps import layer_grid
from viz.notebook import show

__all__ = ["head_figure", "head_map", "importance_map", "layer_grid", "show", "step_probabilities"]
