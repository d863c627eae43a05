"""Settings that Python passes to the engine in the browser: limits, definitions, sentences."""

from __future__ import annotations

from typing import Any

from model.decoding.kernels.model import N_LIKELIEST
from model.inputs import CHARACTERS_PER_TOKEN, MAX_TOKENS
from model.notices import UNSURE
from viz.about import NO_CURVES
from viz.payload import DEFINITIONS, MASKS, VERSION
from viz.short import LEAST_NEED, MAX_HEAD_WORK, MAX_WEIGHTS, N_HEADS


def settings() -> dict[str, Any]:
    """Return the settings as plain values; viz/viewer/engine reads them."""
    return {
        "version": VERSION,
        "masks": MASKS,
        "definitions": DEFINITIONS,
        "limits": {
            "tokens": MAX_TOKENS,
            "charactersPerToken": CHARACTERS_PER_TOKEN,
            "alternatives": N_LIKELIEST,
            "unsure": UNSURE,
            "neededHeads": N_HEADS,
            "leastNeed": LEAST_NEED,
            "headWork": MAX_HEAD_WORK,
            "weights": MAX_WEIGHTS,
        },
        "sentences": {"noCurves": NO_CURVES},
    }
