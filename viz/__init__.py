"""Drawing: the payload, the linked viewer, the exported file, and figures for notebooks."""

from viz.charts import head_map, importance_map, step_probabilities
from viz.figures import head as head_figure
from viz.figures import layer_grid
from viz.notebook import show

__all__ = ["head_figure", "head_map", "importance_map", "layer_grid", "show", "step_probabilities"]
