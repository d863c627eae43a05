"""Settings that Python passes to the engine in the browser: format, definitions, sentences."""

from __future__ import annotations

from collections.abc import Mapping

from viz.about import NO_CURVES
from viz.export import PROGRAM
from viz.payload import DEFINITIONS, MASKS, VERSION


def settings() -> Mapping[str, object]:
    """Return the settings as plain values; viz/viewer/engine reads them."""
    return {
        "version": VERSION,
        "masks": MASKS,
        "definitions": DEFINITIONS,
        "sentences": {"noCurves": NO_CURVES},
        "generator": PROGRAM,
    }
