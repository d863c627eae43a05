"""Attention of all heads over sentences that follow each other without padding; a block is a sentence."""

from __future__ import annotations

import numpy as np
from numba import carray

from training.kernels.runtime import (
    LANES,
    ONE,
    ZERO,
    combine_lanes,
    exp,
    floats,
    inner,
    integers,
    kernel,
    largest,
    load,
    place,
    store,
    take,
)

# Of both passes. `narrow`: bfloat16; `causal`: a query sees no later key. `keys` and `values` share a stride.
# `statistics` holds the highest score of each softmax and the reciprocal of its sum.
ARGUMENTS = """
    heads width narrow causal longest_query longest_key query_starts key_starts
    queries query_stride keys values key_stride out statistics
"""


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
def exponentials(array, start, n, highest, share):
    """exp(score - highest) * share in place for n scores, then zeros up to a vector's end; the sum."""
    total = ZERO
    for j in range(0, n, LANES):
        row = lanes(array, start + j)
        for lane in range(LANES):
            row[lane] = exp(row[lane] - highest) * share if j + lane < n else ZERO
            total += row[lane]
    return total


@kernel(ARGUMENTS)
def attention_forward(arguments):
    """Writes the outputs of the heads in one row, and what the backward pass needs of the softmax."""
    a = carray(arguments, 1)[0]
    heads, width, narrow, causal = a.heads, a.width, a.narrow, a.causal
    starts_q, starts_k = integers(a.query_starts, a.blocks + 1), integers(a.key_starts, a.blocks + 1)
    d = heads * width
    most_q, most_k = a.longest_query, a.longest_key
    queries, out = matrix(most_q, d), matrix(most_q, d)
    keys, values, turned = matrix(most_k, d), matrix(most_k, d), matrix(d, most_k)
    weights = matrix(1, most_k)
    factor = ONE / np.sqrt(np.float32(width))
    block = take(arguments)
    while block < a.blocks:
        first_q, first_k = starts_q[block], starts_k[block]
        n_q, n_k = starts_q[block + 1] - first_q, starts_k[block + 1] - first_k
        load_rows(a.queries, first_q, a.query_stride, n_q, d, narrow, queries)
        load_rows(a.keys, first_k, a.key_stride, n_k, d, narrow, keys)
        load_rows(a.values, first_k, a.key_stride, n_k, d, narrow, values)
        queries[:n_q] *= factor
        turned[:, :n_k] = keys[:n_k, :d].T
        for h in range(heads):
            head = h * width
            for t in range(n_q):
                at, n = t * queries.shape[1] + head, t + 1 if causal else n_k
                combine(queries, at, 1, turned[head:], 0, width, weights, 0, n)
                highest = largest(weights[0, :n])
                total = exponentials(weights, 0, n, highest, ONE)
                combine(weights, 0, 1, values, head, n, out, at, width)
                row, share = out[t, head : head + width], ONE / total
                for k in range(width):
                    row[k] *= share
                kept = floats(a.statistics + 8 * ((first_q + t) * heads + h), 2)
                kept[0], kept[1] = highest, share
        store_rows(a.out, first_q, d, n_q, d, narrow, out)
        block = take(arguments)


@inner
def score_gradients(array, start, weights, begin, n, delta):
    """Gradients of n scores from their weights' gradients, in place, then zeros up to a vector's end."""
    for j in range(0, n, LANES):
        row, weight = lanes(array, start + j), lanes(weights, begin + j)
        for lane in range(LANES):
            row[lane] = weight[lane] * (row[lane] - delta) if j + lane < n else ZERO


@inner
def dot(one, other):
    """The sum of the products of two rows."""
    total = ZERO
    for k in range(len(one)):
        total += one[k] * other[k]
    return total


@kernel(ARGUMENTS + "d_out d_queries d_keys d_values")
def attention_backward(arguments):
    """Writes the gradients of queries, keys and values in the layout of the inputs."""
    a = carray(arguments, 1)[0]
    heads, width, narrow, causal = a.heads, a.width, a.narrow, a.causal
    starts_q, starts_k = integers(a.query_starts, a.blocks + 1), integers(a.key_starts, a.blocks + 1)
    d = heads * width
    most_q, most_k = a.longest_query, a.longest_key
    queries, d_queries = matrix(most_q, d), matrix(most_q, d)
    out, d_out = matrix(most_q, d), matrix(most_q, d)
    keys, d_keys = matrix(most_k, d), matrix(most_k, d)
    values, d_values = matrix(most_k, d), matrix(most_k, d)
    keys_turned, values_turned = matrix(d, most_k), matrix(d, most_k)
    weights, d_scores = matrix(most_q, most_k), matrix(most_q, most_k)
    factor = ONE / np.sqrt(np.float32(width))
    block = take(arguments)
    while block < a.blocks:
        first_q, first_k = starts_q[block], starts_k[block]
        n_q, n_k = starts_q[block + 1] - first_q, starts_k[block + 1] - first_k
        load_rows(a.queries, first_q, a.query_stride, n_q, d, narrow, queries)
        load_rows(a.keys, first_k, a.key_stride, n_k, d, narrow, keys)
        load_rows(a.values, first_k, a.key_stride, n_k, d, narrow, values)
        load_rows(a.out, first_q, d, n_q, d, narrow, out)
        load_rows(a.d_out, first_q, d, n_q, d, narrow, d_out)
        queries[:n_q] *= factor
        keys_turned[:, :n_k] = keys[:n_k, :d].T
        values_turned[:, :n_k] = values[:n_k, :d].T
        for h in range(heads):
            head = h * width
            for t in range(n_q):
                at, n, row = t * queries.shape[1] + head, t + 1 if causal else n_k, t * weights.shape[1]
                delta = dot(out[t, head : head + width], d_out[t, head : head + width])
                if causal:
                    weights[t, : padded(n_k)] = ZERO
                    d_scores[t, : padded(n_k)] = ZERO
                combine(queries, at, 1, keys_turned[head:], 0, width, weights, row, n)
                kept = floats(a.statistics + 8 * ((first_q + t) * heads + h), 2)
                exponentials(weights, row, n, kept[0], kept[1])
                combine(d_out, at, 1, values_turned[head:], 0, width, d_scores, row, n)
                score_gradients(d_scores, row, weights, row, n, delta)
                combine(d_scores, row, 1, keys, head, n, d_queries, at, width)
            for j in range(n_k):
                at = j * keys.shape[1] + head
                combine(d_scores, j, weights.shape[1], queries, head, n_q, d_keys, at, width)
                combine(weights, j, weights.shape[1], d_out, head, n_q, d_values, at, width)
        d_queries[:n_q] *= factor
        store_rows(a.d_queries, first_q, a.query_stride, n_q, d, narrow, d_queries)
        store_rows(a.d_keys, first_k, a.key_stride, n_k, d, narrow, d_keys)
        store_rows(a.d_values, first_k, a.key_stride, n_k, d, narrow, d_values)
        block = take(arguments)
