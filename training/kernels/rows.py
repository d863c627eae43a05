"""Kernels that work on each row: embeddings, dropout with LayerNorm, ReLU, sums and cross-entropy."""

from __future__ import annotations

import math

import numpy as np
from numba import carray

from training.kernels.runtime import (
    BLOCK,
    LANES,
    ONE,
    ZERO,
    drop,
    exp,
    floats,
    integers,
    kernel,
    largest,
    load,
    place,
    store,
    take,
)


@kernel(
    "rows width narrow post x y y_bias gain bias total stream normal statistics seed dropped", real="epsilon"
)
def add_norm_forward(arguments):
    """Write x + dropout(y + bias), the mean and scale of each row, and its LayerNorm."""
    a = carray(arguments, 1)[0]
    rows, width, narrow, post = a.rows, a.width, a.narrow, a.post
    gain, bias = floats(a.gain, width), floats(a.bias, width)
    epsilon = np.float32(a.epsilon)
    row = np.empty(width, np.float32)
    block = take(arguments)
    while block < a.blocks:
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            start = i * width
            if a.y:
                load(a.y, start, narrow, row)
                offset = floats(a.y_bias, width)
                for j in range(width):
                    row[j] += offset[j]
                drop(row, i, a.seed, a.dropped)
                x = floats(a.x + 4 * start, width)
                for j in range(width):
                    row[j] += x[j]
                store(a.total, start, False, row)
            else:
                load(a.x, start, False, row)
            mean = ZERO
            for j in range(width):
                mean += row[j]
            mean /= np.float32(width)
            variance = ZERO
            for j in range(width):
                row[j] -= mean
                variance += row[j] * row[j]
            scale = ONE / np.sqrt(variance / np.float32(width) + epsilon)
            stats = floats(a.statistics + 8 * i, 2)
            stats[0], stats[1] = mean, scale
            for j in range(width):
                row[j] = row[j] * scale * gain[j] + bias[j]
            store(a.normal, start, narrow, row)
            if post:
                store(a.stream, start, False, row)
        block = take(arguments)


@kernel("rows width narrow post d_normal d_stream gain total statistics d_x d_y sums seed dropped")
def add_norm_backward(arguments):
    """Write the gradients of x and y, and for each block those of gain, bias and y's bias."""
    a = carray(arguments, 1)[0]
    rows, width, narrow, post = a.rows, a.width, a.narrow, a.post
    gain = floats(a.gain, width)
    row, normal = np.empty(width, np.float32), np.empty(width, np.float32)
    block = take(arguments)
    while block < a.blocks:
        sums = floats(a.sums + 12 * width * block, 3 * width)
        for j in range(3 * width):
            sums[j] = ZERO
        d_gain, d_bias, d_offset = sums[:width], sums[width : 2 * width], sums[2 * width :]
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            start = i * width
            outer = floats(a.d_stream + 4 * start, width)
            load(a.d_normal, start, narrow, row)
            if a.d_stream and post:
                for j in range(width):
                    row[j] += outer[j]
            load(a.total, start, False, normal)
            stats = floats(a.statistics + 8 * i, 2)
            mean, scale = stats[0], stats[1]
            first, second = ZERO, ZERO
            for j in range(width):
                normal[j] = (normal[j] - mean) * scale
                d_gain[j] += row[j] * normal[j]
                d_bias[j] += row[j]
                row[j] *= gain[j]
                first += row[j]
                second += row[j] * normal[j]
            first /= np.float32(width)
            second /= np.float32(width)
            for j in range(width):
                row[j] = (row[j] - first - normal[j] * second) * scale
            if a.d_stream and not post:
                for j in range(width):
                    row[j] += outer[j]
            store(a.d_x, start, False, row)
            if a.d_y:
                drop(row, i, a.seed, a.dropped)
                store(a.d_y, start, narrow, row)
                for j in range(width):
                    d_offset[j] += row[j]
        block = take(arguments)


@kernel("rows width narrow tokens positions table encodings x seed dropped")
def embed_forward(arguments):
    """Rows of the table times a factor, plus positions, then dropout."""
    a = carray(arguments, 1)[0]
    rows, width = a.rows, a.width
    tokens, positions = integers(a.tokens, rows), integers(a.positions, rows)
    factor = np.sqrt(np.float32(width))
    row = np.empty(width, np.float32)
    block = take(arguments)
    while block < a.blocks:
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            position = floats(a.encodings + 4 * width * positions[i], width)
            load(a.table, width * tokens[i], False, row)
            for j in range(width):
                row[j] = row[j] * factor + position[j]
            drop(row, i, a.seed, a.dropped)
            store(a.x, i * width, False, row)
        block = take(arguments)


@kernel("rows width narrow d_x d_rows seed dropped")
def embed_backward(arguments):
    """The gradient of each row of the table that embed_forward read."""
    a = carray(arguments, 1)[0]
    rows, width = a.rows, a.width
    factor = np.sqrt(np.float32(width))
    row = np.empty(width, np.float32)
    block = take(arguments)
    while block < a.blocks:
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            load(a.d_x, i * width, False, row)
            drop(row, i, a.seed, a.dropped)
            for j in range(width):
                row[j] *= factor
            store(a.d_rows, i * width, False, row)
        block = take(arguments)


@kernel("rows width narrow gradient hidden sums")
def sum_rows(arguments):
    """Sums of the rows of each block; with `hidden`, first the gradient of its ReLU in place."""
    a = carray(arguments, 1)[0]
    rows, width, narrow = a.rows, a.width, a.narrow
    row, output = np.empty(width, np.float32), np.empty(width, np.float32)
    block = take(arguments)
    while block < a.blocks:
        sums = floats(a.sums + 4 * width * block, width)
        for j in range(width):
            sums[j] = ZERO
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            load(a.gradient, i * width, narrow, row)
            if a.hidden:
                load(a.hidden, i * width, narrow, output)
                for j in range(width):
                    row[j] = row[j] if output[j] > ZERO else ZERO
                store(a.gradient, i * width, narrow, row)
            for j in range(width):
                sums[j] += row[j]
        block = take(arguments)


@kernel("rows width narrow logits labels losses", real="smoothing")
def cross_entropy(arguments):
    """Loss of each row of logits, which its gradient replaces; a label below 0 counts nothing."""
    a = carray(arguments, 1)[0]
    rows, width, narrow = a.rows, a.width, a.narrow
    labels, losses = integers(a.labels, rows), floats(a.losses, rows)
    smoothing = np.float32(a.smoothing)
    uniform = smoothing / np.float32(width)
    row = np.empty(width + LANES, np.float32)[:width]
    block = take(arguments)
    while block < a.blocks:
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            load(a.logits, i * width, narrow, row)
            label = labels[i]
            if label < 0:
                losses[i] = ZERO
                for j in range(width):
                    row[j] = ZERO
                store(a.logits, i * width, narrow, row)
                continue
            highest, mean = largest(place(row, 0), width), ZERO
            for j in range(width):
                mean += row[j]
            wanted = (ONE - smoothing) * row[label] + uniform * mean
            total = ZERO
            for j in range(width):
                row[j] = exp(row[j] - highest)
                total += row[j]
            losses[i] = np.float32(math.log(total)) + highest - wanted
            share = ONE / total
            for j in range(width):
                row[j] = row[j] * share - uniform
            row[label] -= ONE - smoothing
            store(a.logits, i * width, narrow, row)
        block = take(arguments)
