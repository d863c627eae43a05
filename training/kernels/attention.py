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
    inner,
    integers,
    kernel,
    largest,
    place,
    rows_at,
    take,
)

# Of both passes. `causal`: a query sees no later key. `keys` and `values` share a stride.
# `statistics` holds the highest score of each softmax and the reciprocal of its sum, for each row and head.
ARGUMENTS = """
    heads width causal longest_query longest_key query_starts key_starts
    queries query_stride keys values key_stride statistics
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
def sentence(a, block):
    """First row and number of rows of a sentence, of its queries and of its keys."""
    queries, keys = integers(a.query_starts, a.blocks + 1), integers(a.key_starts, a.blocks + 1)
    first_q, first_k = queries[block], keys[block]
    return first_q, queries[block + 1] - first_q, first_k, keys[block + 1] - first_k


@inner
def exponentials(array, start, n, factor, highest, share):
    """exp(product * factor - highest) * share in place of n products, then zeros; the sum."""
    total = ZERO
    for j in range(0, n, LANES):
        row = carray(place(array, start + j), LANES)
        for lane in range(LANES):
            row[lane] = exp(row[lane] * factor - highest) * share if j + lane < n else ZERO
            total += row[lane]
    return total


@inner
def put(row, factor, out, i, column, width):
    """Write a head's row times a factor."""
    for k in range(width):
        out[i, column + k] = row[0, k] * factor


@kernel(ARGUMENTS + "out")
def attention_forward(arguments):
    """Writes the outputs of the heads in one row, and what the backward pass needs of the softmax."""
    a = carray(arguments, 1)[0]
    heads, width, d = a.heads, a.width, a.heads * a.width
    values, turned = matrix(a.longest_key, d), matrix(d, a.longest_key)
    weights, row = matrix(1, a.longest_key), matrix(1, width)
    factor = ONE / np.sqrt(np.float32(width))
    block = take(arguments)
    while block < a.blocks:
        first_q, n_q, first_k, n_k = sentence(a, block)
        queries = rows_at(a.queries, first_q, n_q, a.query_stride)
        values[:n_k, :d] = rows_at(a.values, first_k, n_k, a.key_stride)[:, :d]
        turned[:, :n_k] = rows_at(a.keys, first_k, n_k, a.key_stride)[:, :d].T
        out, statistics = rows_at(a.out, first_q, n_q, d), rows_at(a.statistics, first_q, n_q, 2 * heads)
        for h in range(heads):
            head = h * width
            for t in range(n_q):
                n = t + 1 if a.causal else n_k
                combine(queries, t * a.query_stride + head, 1, turned[head:], 0, width, weights, 0, n)
                highest = largest(weights[0, :n]) * factor
                share = ONE / exponentials(weights, 0, n, factor, highest, ONE)
                combine(weights, 0, 1, values, head, n, row, 0, width)
                put(row, share, out, t, head, width)
                statistics[t, 2 * h], statistics[t, 2 * h + 1] = highest, share
        block = take(arguments)


@kernel(ARGUMENTS + "d_out deltas d_queries d_keys d_values")
def attention_backward(arguments):
    """Writes the gradients of queries, keys and values in the layout of the inputs."""
    a = carray(arguments, 1)[0]
    heads, width, d = a.heads, a.width, a.heads * a.width
    most_q, most_k = a.longest_query, a.longest_key
    queries, d_out, keys = matrix(most_q, d), matrix(most_q, d), matrix(most_k, d)
    keys_turned, values_turned = matrix(d, most_k), matrix(d, most_k)
    weights, d_scores, gradient = matrix(most_q, most_k), matrix(most_q, most_k), matrix(1, width)
    stride, factor = weights.shape[1], ONE / np.sqrt(np.float32(width))
    block = take(arguments)
    while block < a.blocks:
        first_q, n_q, first_k, n_k = sentence(a, block)
        queries[:n_q, :d] = rows_at(a.queries, first_q, n_q, a.query_stride)[:, :d]
        d_out[:n_q, :d] = rows_at(a.d_out, first_q, n_q, d)
        keys[:n_k, :d] = rows_at(a.keys, first_k, n_k, a.key_stride)[:, :d]
        keys_turned[:, :n_k] = keys[:n_k, :d].T
        values_turned[:, :n_k] = rows_at(a.values, first_k, n_k, a.key_stride)[:, :d].T
        statistics, deltas = (
            rows_at(a.statistics, first_q, n_q, 2 * heads),
            rows_at(a.deltas, first_q, n_q, heads),
        )
        d_queries = rows_at(a.d_queries, first_q, n_q, a.query_stride)
        d_keys = rows_at(a.d_keys, first_k, n_k, a.key_stride)
        d_values = rows_at(a.d_values, first_k, n_k, a.key_stride)
        for h in range(heads):
            head = h * width
            for t in range(n_q):
                at, n, begin = t * queries.shape[1] + head, t + 1 if a.causal else n_k, t * stride
                if a.causal:
                    weights[t, : padded(n_k)] = ZERO
                    d_scores[t, : padded(n_k)] = ZERO
                combine(queries, at, 1, keys_turned[head:], 0, width, weights, begin, n)
                exponentials(weights, begin, n, factor, statistics[t, 2 * h], statistics[t, 2 * h + 1])
                combine(d_out, at, 1, values_turned[head:], 0, width, d_scores, begin, n)
                for j in range(padded(n)):  # of the scores, from the gradients of their weights
                    d_scores[t, j] = weights[t, j] * (d_scores[t, j] - deltas[t, h])
                combine(d_scores, begin, 1, keys, head, n, gradient, 0, width)
                put(gradient, factor, d_queries, t, head, width)
            for j in range(n_k):
                combine(d_scores, j, stride, queries, head, n_q, gradient, 0, width)
                put(gradient, factor, d_keys, j, head, width)
                combine(weights, j, stride, d_out, head, n_q, gradient, 0, width)
                put(gradient, ONE, d_values, j, head, width)
        block = take(arguments)
