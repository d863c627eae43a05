"""Products of a few rows with a matrix, compiled by numba, and of many rows, by BLAS.

A product of few rows takes as long as reading the matrix. So an 8-bit weight stays 8 bits in memory and
becomes a float32 in a register: a step reads a quarter of the bytes and no activation is rounded. For many
rows the sums take longest. There BLAS multiplies with the float32 weights of the model.

Further axis letters: R rows (hypotheses of all sentences), O and I the outputs and inputs of a matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numpy.typing import NDArray

from model.decoding.kernels.jit import ZERO, compiled, instructions
from model.decoding.kernels.packed import GEMM_ROWS, Floats, Matrix

FIRST_CACHE = 8192  # floats of the rows that a product reads again and again, so that they stay in 32 KiB


@compiled
def product(x: Floats, rows: int, matrix: Matrix, layer: int, out: Floats, gemm: int) -> None:
    """A linear map of one layer; `gemm` is `Scratch.gemm`."""
    scale, bias = matrix.scale[layer], matrix.bias[layer]
    if gemm != 0 and rows >= GEMM_ROWS and matrix.addresses[layer] != 0:
        for r in range(rows):
            for o in range(len(bias)):
                out[r, o] = bias[o]
        address = matrix.addresses[layer]
        sizes = rows, len(bias), x.shape[1], out.shape[1]
        add_product(gemm, sizes, x.ctypes.data, address, out.ctypes.data)
    elif len(matrix.integers) > 0:
        multiply(x, rows, matrix.integers[layer], scale, bias, out)
    else:
        multiply(x, rows, matrix.floats[layer], scale, bias, out)


@instructions
def add_product(typing: Any, gemm: Any, sizes: Any, x: Any, weight: Any, out: Any) -> Any:
    """Add x [R, I] times the transpose of `weight` [O, I] to the first O columns of `out` [R, C].

    All three are addresses, and so is `gemm`: of BLAS's sgemm, which has arrays in the order of Fortran. For
    it they are [I, R], [I, O] and [C, R]. `sizes` are R, O, I and C.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        gemm, sizes, *arrays = arguments
        integer, single, letter = ir.IntType(32), ir.FloatType(), ir.IntType(8)

        def stored(value: Any) -> Any:
            return cgutils.alloca_once_value(builder, value)

        r, o, i, c = (stored(builder.trunc(each, integer)) for each in cgutils.unpack_tuple(builder, sizes))
        transposed, plain, one = stored(letter(ord("T"))), stored(letter(ord("N"))), stored(single(1))
        x, weight, out = (builder.inttoptr(each, single.as_pointer()) for each in arrays)
        given = [transposed, plain, o, r, i, one, weight, i, x, i, one, out, c]
        called = ir.FunctionType(ir.VoidType(), [each.type for each in given])
        builder.call(builder.inttoptr(gemm, called.as_pointer()), given)
        return context.get_dummy_value()

    addresses = [types.int64] * 3
    return types.void(types.int64, types.UniTuple(types.int64, 4), *addresses), generate


@compiled
def multiply(
    x: Floats, rows: int, weight: NDArray[np.generic], scale: Floats, bias: Floats, out: Floats
) -> None:
    """The first rows of x [R, I] times weight [O, I]."""
    together = max(4, FIRST_CACHE // x.shape[1])
    for first in range(0, rows, together):
        last = min(rows, first + together)
        rest = last - (last - first) % 4
        if rest > first:
            multiply_fours(x, first, rest, weight, scale, bias, out)
        if last > rest:
            multiply_few(x, rest, last, weight, scale, bias, out)


@compiled
def multiply_fours(
    x: Floats,
    first: int,
    last: int,
    weight: NDArray[np.generic],
    scale: Floats,
    bias: Floats,
    out: Floats,
) -> None:
    """A multiple of four rows; four rows and two outputs share what they load."""
    outputs, inputs = weight.shape
    for even in range(0, outputs, 2):
        o = min(even, outputs - 2)  # the last of an odd number has two pairs; -1 is 0 where there is one
        w0, w1 = weight[o], weight[o + 1]
        for r in range(first, last, 4):
            x0, x1, x2, x3 = x[r], x[r + 1], x[r + 2], x[r + 3]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = ZERO
            for i in range(inputs):
                a, b = np.float32(w0[i]), np.float32(w1[i])
                y0, y1, y2, y3 = x0[i], x1[i], x2[i], x3[i]
                a0 += a * y0
                a1 += a * y1
                a2 += a * y2
                a3 += a * y3
                b0 += b * y0
                b1 += b * y1
                b2 += b * y2
                b3 += b * y3
            for j, (p0, p1, p2, p3) in enumerate(((a0, a1, a2, a3), (b0, b1, b2, b3))):
                out[r, o + j] = p0 * scale[o + j] + bias[o + j]
                out[r + 1, o + j] = p1 * scale[o + j] + bias[o + j]
                out[r + 2, o + j] = p2 * scale[o + j] + bias[o + j]
                out[r + 3, o + j] = p3 * scale[o + j] + bias[o + j]


@compiled
def multiply_few(
    x: Floats,
    first: int,
    last: int,
    weight: NDArray[np.generic],
    scale: Floats,
    bias: Floats,
    out: Floats,
) -> None:
    """One to three rows; two rows and four outputs share what they load."""
    outputs, inputs = weight.shape
    paired, whole = last - (last - first) % 2, outputs - outputs % 4
    for o in range(0, whole, 4):
        w0, w1, w2, w3 = weight[o], weight[o + 1], weight[o + 2], weight[o + 3]
        for r in range(first, paired, 2):
            x0, x1 = x[r], x[r + 1]
            a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = ZERO
            for i in range(inputs):
                y0, y1 = x0[i], x1[i]
                a, b = np.float32(w0[i]), np.float32(w1[i])
                c, d = np.float32(w2[i]), np.float32(w3[i])
                a0 += a * y0
                a1 += a * y1
                b0 += b * y0
                b1 += b * y1
                c0 += c * y0
                c1 += c * y1
                d0 += d * y0
                d1 += d * y1
            for j, (p, q) in enumerate(((a0, a1), (b0, b1), (c0, c1), (d0, d1))):
                out[r, o + j] = p * scale[o + j] + bias[o + j]
                out[r + 1, o + j] = q * scale[o + j] + bias[o + j]
        for r in range(paired, last):
            x0 = x[r]
            a0 = b0 = c0 = d0 = ZERO
            for i in range(inputs):
                y0 = x0[i]
                a0 += np.float32(w0[i]) * y0
                b0 += np.float32(w1[i]) * y0
                c0 += np.float32(w2[i]) * y0
                d0 += np.float32(w3[i]) * y0
            for j, p in enumerate((a0, b0, c0, d0)):
                out[r, o + j] = p * scale[o + j] + bias[o + j]
    for o in range(whole, outputs):
        for r in range(first, last):
            a0 = ZERO
            for i in range(inputs):
                a0 += np.float32(weight[o, i]) * x[r, i]
            out[r, o] = a0 * scale[o] + bias[o]
