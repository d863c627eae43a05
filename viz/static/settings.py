"""Settings that Python passes to the engine in the browser: format, definitions, sentences."""

from __future__ import annotations

from typing import Any

from viz.about import NO_CURVES
from viz.export import PROGRAM
from viz.payload import DEFINITIONS, MASKS, VERSION


def settings() -> dict[str, Any]:
    """Return the settings as plain values; viz/viewer/engine reads them."""
    return {
        "version": VERSION,
        "masks": MASKS,
        "definitions": DEFINITIONS,
        "sentences": {"noCurves": NO_CURVES},
        "generator": PROGRAM,
    }
