"""The parts of a layer, compiled by numba: embedding, norms, activations and attention.

The modules of `model.network` are the reference: the results equal theirs up to float32 rounding. Every
function releases the GIL.

A further axis letter: R rows (hypotheses of all sentences).
"""

from __future__ import annotations

import math

import numpy as np

from model.decoding.kernels.jit import LOWEST, ONE, ZERO, compiled
from model.decoding.kernels.packed import GELU, GELU_NEW, SILU, Floats, Integers, Matrix, Norm, Norms, Scratch
from model.decoding.kernels.products import product


@compiled
def exp(x: np.float32) -> np.float32:
    """The exponential of x <= 0, to 1e-7, in operations that run in vector registers."""
    x = max(x, np.float32(-87))
    whole = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - whole * np.float32(0.69314718)
    y = np.float32(1.9875691e-4) * r + np.float32(1.3981999e-3)
    y = y * r + np.float32(8.3334519e-3)
    y = y * r + np.float32(4.1665796e-2)
    y = y * r + np.float32(1.6666666e-1)
    y = y * r + np.float32(0.5)
    y = y * r * r + r + ONE
    power = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23))
    result: np.float32 = y * power.view(np.float32)
    return result


@compiled
def embed(matrix: Matrix, token: int, position: Floats, out: Floats) -> None:
    """Token times sqrt(d_model) plus position."""
    factor = np.float32(math.sqrt(len(out))) * matrix.scale[0, token]
    for d in range(len(out)):
        if len(matrix.integers) > 0:
            out[d] = np.float32(matrix.integers[0, token, d]) * factor + position[d]
        else:
            out[d] = matrix.floats[0, token, d] * factor + position[d]


@compiled
def normalise(x: Floats, rows: int, norm: Norm, out: Floats) -> None:
    """LayerNorm of each row; `out` may be x."""
    width = x.shape[1]
    for r in range(rows):
        total = ZERO
        for d in range(width):
            total += x[r, d]
        mean = total / np.float32(width)
        squares = ZERO
        for d in range(width):
            squares += (x[r, d] - mean) * (x[r, d] - mean)
        factor = ONE / np.sqrt(squares / np.float32(width) + norm.eps)
        for d in range(width):
            out[r, d] = (x[r, d] - mean) * factor * norm.weight[d] + norm.bias[d]


@compiled
def norm_of(norms: Norms, layer: int, sublayer: int) -> Norm:
    """The norm of one sub-layer."""
    return Norm(norms.weight[layer, sublayer], norms.bias[layer, sublayer], norms.eps, norms.pre_norm)


@compiled
def final_norm(norms: Norms) -> Norm:
    """The norm after the last layer, if there is one."""
    return Norm(norms.final_weight, norms.final_bias, norms.eps, norms.has_final)


@compiled
def residual_pre(x: Floats, rows: int, norm: Norm, out: Floats) -> None:
    """What a sub-layer reads: `Residual.pre`."""
    if norm.pre_norm:
        normalise(x, rows, norm, out)
    else:
        for r in range(rows):
            for d in range(x.shape[1]):
                out[r, d] = x[r, d]


@compiled
def residual_post(x: Floats, rows: int, y: Floats, norm: Norm) -> None:
    """Add a sub-layer's output y to x: `Residual.post`."""
    for r in range(rows):
        for d in range(x.shape[1]):
            x[r, d] += y[r, d]
    if not norm.pre_norm:
        normalise(x, rows, norm, x)


@compiled
def feed_forward(
    scratch: Scratch, rows: int, inner: Matrix, outer: Matrix, activation: int, norm: Norm, layer: int
) -> None:
    """Position-wise feed-forward network with its residual connection."""
    residual_pre(scratch.x, rows, norm, scratch.read)
    product(scratch.read, rows, inner, layer, scratch.hidden)
    activate(scratch.hidden, rows, activation)
    product(scratch.hidden, rows, outer, layer, scratch.read)
    residual_post(scratch.x, rows, scratch.read, norm)


@compiled
def activate(hidden: Floats, rows: int, activation: int) -> None:
    """One of ACTIVATIONS, in place."""
    for r in range(rows):
        row = hidden[r]
        if activation == SILU:
            for d in range(len(row)):
                row[d] = silu(row[d])
        elif activation == GELU:
            for d in range(len(row)):
                row[d] = gelu(row[d])
        elif activation == GELU_NEW:
            for d in range(len(row)):
                row[d] = gelu_new(row[d])
        else:
            for d in range(len(row)):
                row[d] = max(row[d], ZERO)


@compiled
def silu(x: np.float32) -> np.float32:
    """The product of x and its logistic function."""
    return x * logistic(x)


@compiled
def logistic(x: np.float32) -> np.float32:
    """1 / (1 + exp(-x)), without an exponential that overflows."""
    small = exp(-abs(x))
    result: np.float32 = (ONE if x >= ZERO else small) / (ONE + small)
    return result


@compiled
def gelu(x: np.float32) -> np.float32:
    """The product of x and the normal distribution at x, to 1e-7 of x.

    Abramowitz and Stegun 1964, formula 7.1.26.
    """
    z = abs(x) * np.float32(math.sqrt(0.5))
    t = ONE / (ONE + np.float32(0.3275911) * z)
    y = np.float32(1.061405429) * t - np.float32(1.453152027)
    y = y * t + np.float32(1.421413741)
    y = y * t - np.float32(0.284496736)
    y = y * t + np.float32(0.254829592)
    tail = np.float32(0.5) * y * t * exp(-z * z)
    result: np.float32 = x * (ONE - tail if x >= ZERO else tail)
    return result


@compiled
def gelu_new(x: np.float32) -> np.float32:
    """GELU with a hyperbolic tangent: x / 2 (1 + tanh(z / 2)) = x / (1 + exp(-z)).

    Hendrycks and Gimpel 2016, section 2.
    """
    z = np.float32(math.sqrt(8 / math.pi)) * x * (ONE + np.float32(0.044715) * x * x)
    return x * logistic(z)


@compiled
def attend(
    query: Floats,
    key: Floats,
    value: Floats,
    places: Integers,
    count: int,
    gate: np.float32,
    weights: Floats,
    out: Floats,
) -> None:
    """Equation 1 for one query of one head over `count` keys, which lie at `places` of the cache."""
    width = len(query)
    scale = ONE / np.sqrt(np.float32(width))
    largest = LOWEST
    for j in range(count):
        place, score = places[j], ZERO
        for d in range(width):
            score += query[d] * key[place, d]
        weights[j] = score * scale
        largest = max(largest, weights[j])
    total = ZERO
    for j in range(count):
        weights[j] = exp(weights[j] - largest)
        total += weights[j]
    for d in range(width):
        out[d] = ZERO
    factor = ONE / total
    for j in range(count):
        weights[j] *= factor
        place, weight = places[j], weights[j] * gate
        for d in range(width):
            out[d] += weight * value[place, d]
