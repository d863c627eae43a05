"""Attention of all heads over sentences that follow each other without padding; a block is a sentence.

Words from 2 on, forward and backward: heads, width of a head, whether activations are bfloat16, whether a
query sees no later key, the longest sentence of queries and of keys, the sentences' first rows of both, and
as address and row length queries, keys and values; then the output, and for each softmax its highest score
and the reciprocal of its sum.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from training.kernels.runtime import (
    LANES,
    ONE,
    WORDS,
    ZERO,
    combine_lanes,
    exp,
    floats,
    inner,
    kernel,
    load,
    place,
    pointer,
    store,
    take,
)

LOWEST_SCORE = np.float32(np.finfo(np.float32).min)


@inner
def padded(n):
    """Rounded up to whole vectors."""
    return (n + LANES - 1) // LANES * LANES


@inner
def matrix(rows, columns):
    """Memory for float32 rows with room for a vector that begins in the last column."""
    return np.zeros((rows, padded(columns) + LANES), np.float32)


@inner
def lanes(array, start):
    """The vector that begins there."""
    return carray(place(array, start), LANES)


@inner
def combine(factors, start, step, rows, column, count, out, target, n):
    """out[target + j] = the sum over r of factors[start + r * step] * rows[r, column + j], for j < n.

    It writes whole vectors, so up to the next multiple of LANES.
    """
    for j in range(0, n, LANES):
        combine_lanes(
            place(factors, start),
            step,
            place(rows, column + j),
            rows.shape[1],
            count,
            place(out, target + j),
        )


@inner
def load_rows(address, first, stride, count, width, narrow, rows):
    """Read the rows of a sentence."""
    for i in range(count):
        load(address, (first + i) * stride, narrow, rows[i, :width])


@inner
def store_rows(address, first, stride, count, width, narrow, rows):
    """Write the rows of a sentence."""
    for i in range(count):
        store(address, (first + i) * stride, narrow, rows[i, :width])


@inner
def turn(rows, count, width, turned):
    """Transpose."""
    for k in range(width):
        row = turned[k, :count]
        for i in range(count):
            row[i] = rows[i, k]


@inner
def scale_rows(rows, count, width, factor):
    """Multiply in place."""
    for i in range(count):
        row = rows[i, :width]
        for k in range(width):
            row[k] *= factor


@inner
def exponentials(array, start, n, highest, share):
    """exp(score - highest) * share in place for n scores, zero behind them; returns the sum."""
    total = ZERO
    for j in range(0, n, LANES):
        row = lanes(array, start + j)
        for lane in range(LANES):
            row[lane] = exp(row[lane] - highest) * share if j + lane < n else ZERO
            total += row[lane]
    return total


@inner
def largest(array, start, n):
    """The largest of n scores."""
    found = LOWEST_SCORE
    for j in range(0, n, LANES):
        row = lanes(array, start + j)
        for lane in range(LANES):
            found = max(found, row[lane] if j + lane < n else LOWEST_SCORE)
    return found


@kernel
def attention_forward(words):
    """Writes the outputs of the heads in one row, and what the backward pass needs of the softmax."""
    a = carray(words, WORDS)
    heads, width, narrow, causal = a[2], a[3], a[4], a[5]
    starts_q, starts_k = carray(pointer(a[8], np.int64), a[1] + 1), carray(pointer(a[9], np.int64), a[1] + 1)
    d = heads * width
    queries, out = matrix(a[6], d), matrix(a[6], d)
    keys, values, turned = matrix(a[7], d), matrix(a[7], d), matrix(d, a[7])
    weights = matrix(1, a[7])
    factor = ONE / np.sqrt(np.float32(width))
    block = take(words)
    while block < a[1]:
        first_q, first_k = starts_q[block], starts_k[block]
        n_q, n_k = starts_q[block + 1] - first_q, starts_k[block + 1] - first_k
        load_rows(a[10], first_q, a[11], n_q, d, narrow, queries)
        load_rows(a[12], first_k, a[13], n_k, d, narrow, keys)
        load_rows(a[14], first_k, a[13], n_k, d, narrow, values)
        scale_rows(queries, n_q, d, factor)
        turn(keys, n_k, d, turned)
        for h in range(heads):
            head = h * width
            for t in range(n_q):
                at, n = t * queries.shape[1] + head, t + 1 if causal else n_k
                combine(queries, at, 1, turned[head:], 0, width, weights, 0, n)
                highest = largest(weights, 0, n)
                total = exponentials(weights, 0, n, highest, ONE)
                combine(weights, 0, 1, values, head, n, out, at, width)
                row, share = out[t, head : head + width], ONE / total
                for k in range(width):
                    row[k] *= share
                kept = floats(a[16] + 8 * ((first_q + t) * heads + h), 2)
                kept[0], kept[1] = highest, share
        store_rows(a[15], first_q, d, n_q, d, narrow, out)
        block = take(words)


@inner
def score_gradients(array, start, weights, begin, n, delta):
    """Gradients of n scores from those of their weights, in place, zero behind them."""
    for j in range(0, n, LANES):
        row, weight = lanes(array, start + j), lanes(weights, begin + j)
        for lane in range(LANES):
            row[lane] = weight[lane] * (row[lane] - delta) if j + lane < n else ZERO


@inner
def clear(array, start, n):
    """Set n weights to zero, and those up to the next vector."""
    for j in range(0, n, LANES):
        row = lanes(array, start + j)
        for lane in range(LANES):
            row[lane] = ZERO


@kernel
def attention_backward(words):
    """Words 17 to 20: gradient of the output; where those of queries, keys and values go."""
    a = carray(words, WORDS)
    heads, width, narrow, causal = a[2], a[3], a[4], a[5]
    starts_q, starts_k = carray(pointer(a[8], np.int64), a[1] + 1), carray(pointer(a[9], np.int64), a[1] + 1)
    d = heads * width
    queries, out, d_out, d_queries = matrix(a[6], d), matrix(a[6], d), matrix(a[6], d), matrix(a[6], d)
    keys, values, d_keys, d_values = matrix(a[7], d), matrix(a[7], d), matrix(a[7], d), matrix(a[7], d)
    keys_turned, values_turned = matrix(d, a[7]), matrix(d, a[7])
    weights, d_scores = matrix(a[6], a[7]), matrix(a[6], a[7])
    factor = ONE / np.sqrt(np.float32(width))
    block = take(words)
    while block < a[1]:
        first_q, first_k = starts_q[block], starts_k[block]
        n_q, n_k = starts_q[block + 1] - first_q, starts_k[block + 1] - first_k
        load_rows(a[10], first_q, a[11], n_q, d, narrow, queries)
        load_rows(a[12], first_k, a[13], n_k, d, narrow, keys)
        load_rows(a[14], first_k, a[13], n_k, d, narrow, values)
        load_rows(a[15], first_q, d, n_q, d, narrow, out)
        load_rows(a[17], first_q, d, n_q, d, narrow, d_out)
        scale_rows(queries, n_q, d, factor)
        turn(keys, n_k, d, keys_turned)
        turn(values, n_k, d, values_turned)
        for h in range(heads):
            head = h * width
            for t in range(n_q):
                at, n, row = t * queries.shape[1] + head, t + 1 if causal else n_k, t * weights.shape[1]
                delta = ZERO
                one, other = out[t, head : head + width], d_out[t, head : head + width]
                for k in range(width):
                    delta += one[k] * other[k]
                if causal:
                    clear(weights, row, n_k)
                    clear(d_scores, row, n_k)
                combine(queries, at, 1, keys_turned[head:], 0, width, weights, row, n)
                kept = floats(a[16] + 8 * ((first_q + t) * heads + h), 2)
                exponentials(weights, row, n, kept[0], kept[1])
                combine(d_out, at, 1, values_turned[head:], 0, width, d_scores, row, n)
                score_gradients(d_scores, row, weights, row, n, delta)
                combine(d_scores, row, 1, keys, head, n, d_queries, at, width)
            for j in range(n_k):
                at = j * keys.shape[1] + head
                combine(d_scores, j, weights.shape[1], queries, head, n_q, d_keys, at, width)
                combine(weights, j, weights.shape[1], d_out, head, n_q, d_values, at, width)
        scale_rows(d_queries, n_q, d, factor)
        store_rows(a[18], first_q, a[11], n_q, d, narrow, d_queries)
        store_rows(a[19], first_k, a[13], n_k, d, narrow, d_keys)
        store_rows(a[20], first_k, a[13], n_k, d, narrow, d_values)
        block = take(words)
