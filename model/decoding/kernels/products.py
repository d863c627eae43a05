"""Products of rows with a matrix of float32 or 8-bit weights, compiled by numba.

An 8-bit weight stays 8 bits in memory and becomes a float32 in a register, so that a step reads a quarter of
the bytes and no activation is rounded.

Further axis letters: R rows (hypotheses of all sentences), O and I the outputs and inputs of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from model.decoding.kernels.instructions import IS_WIDE, LANES, sums
from model.decoding.kernels.jit import ZERO, compiled
from model.decoding.kernels.packed import Floats, Matrix

FIRST_CACHE = 8192  # floats of the rows that a product reads again and again, so that they stay in 32 KiB
MOST_OUTPUTS = 8  # that are computed together


@compiled
def product(x: Floats, rows: int, matrix: Matrix, layer: int, out: Floats) -> None:
    """A linear map of one layer."""
    scale, bias = matrix.scale[layer], matrix.bias[layer]
    if len(matrix.integers) > 0:
        multiply(x, rows, matrix.integers[layer], scale, bias, out)
    else:
        multiply(x, rows, matrix.floats[layer], scale, bias, out)


def blocks(rows: int, outputs: int) -> Callable[[Floats, int, int, NDArray[np.generic], Floats], None]:
    """A function that computes so many rows and outputs together; there are at least so many outputs."""
    tile = sums(rows, outputs)

    @compiled
    def multiply_rows(x: Floats, first: int, last: int, weight: NDArray[np.generic], out: Floats) -> None:
        for next_outputs in range(0, len(weight), outputs):
            o = min(next_outputs, len(weight) - outputs)  # the last ones may be computed twice
            for r in range(first, last, rows):
                tile(x, r, weight, o, out)

    return multiply_rows


# As many sums as there are registers for them and for what they read: 32, or 16.
multiply_eights, multiply_fours = blocks(8, 2 if IS_WIDE else 1), blocks(4, 4 if IS_WIDE else 2)
multiply_twos, multiply_one = blocks(2, 4), blocks(1, MOST_OUTPUTS)


@compiled
def multiply(
    x: Floats, rows: int, weight: NDArray[np.generic], scale: Floats, bias: Floats, out: Floats
) -> None:
    """The first rows of x [R, I] times weight [O, I]."""
    outputs, inputs = weight.shape
    added = 0  # inputs that are in the sums
    if outputs >= MOST_OUTPUTS:
        added = inputs - inputs % LANES
        together = max(1, FIRST_CACHE // inputs // 8) * 8
        for first in range(0, rows, together):
            last = min(rows, first + together)
            in_eights = last - (last - first) % 8 if IS_WIDE else first
            in_fours, in_twos = last - (last - first) % 4, last - (last - first) % 2
            multiply_eights(x, first, in_eights, weight, out)
            multiply_fours(x, in_eights, in_fours, weight, out)
            multiply_twos(x, in_fours, in_twos, weight, out)
            multiply_one(x, in_twos, last, weight, out)
    for r in range(rows):
        for o in range(outputs):
            total = out[r, o] if added > 0 else ZERO
            for i in range(added, inputs):
                total += np.float32(weight[o, i]) * x[r, i]
            out[r, o] = total * scale[o] + bias[o]
