"""Kernels that work on each row: embeddings, dropout with LayerNorm, ReLU, sums and cross-entropy."""

from __future__ import annotations

import math

import numpy as np
from numba import carray

from training.kernels.runtime import (
    BLOCK,
    ONE,
    WORDS,
    ZERO,
    drop,
    exp,
    floats,
    kernel,
    load,
    pointer,
    store,
    take,
    to_float,
)


@kernel
def add_norm_forward(words):
    """Write x + dropout(y + bias), the mean and scale of each row, and its LayerNorm."""
    a = carray(words, WORDS)
    rows, width, narrow, post = a[2], a[3], a[4], a[5]
    gain, bias = floats(a[9], width), floats(a[10], width)
    epsilon = to_float(np.uint32(a[17]))
    row = np.empty(width, np.float32)
    block = take(words)
    while block < a[1]:
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            start = i * width
            if a[7]:
                load(a[7], start, narrow, row)
                offset = floats(a[8], width)
                for j in range(width):
                    row[j] += offset[j]
                drop(row, i, a[15], a[16])
                x = floats(a[6] + 4 * start, width)
                for j in range(width):
                    row[j] += x[j]
                store(a[11], start, False, row)
            else:
                load(a[6], start, False, row)
            mean = ZERO
            for j in range(width):
                mean += row[j]
            mean /= np.float32(width)
            variance = ZERO
            for j in range(width):
                row[j] -= mean
                variance += row[j] * row[j]
            scale = ONE / np.sqrt(variance / np.float32(width) + epsilon)
            stats = floats(a[14] + 8 * i, 2)
            stats[0], stats[1] = mean, scale
            for j in range(width):
                row[j] = row[j] * scale * gain[j] + bias[j]
            store(a[13], start, narrow, row)
            if post:
                store(a[12], start, False, row)
        block = take(words)


@kernel
def add_norm_backward(words):
    """Write the gradients of x and y, and for each block those of gain, bias and y's bias."""
    a = carray(words, WORDS)
    rows, width, narrow, post = a[2], a[3], a[4], a[5]
    gain = floats(a[8], width)
    row, normal = np.empty(width, np.float32), np.empty(width, np.float32)
    block = take(words)
    while block < a[1]:
        sums = floats(a[13] + 12 * width * block, 3 * width)
        for j in range(3 * width):
            sums[j] = ZERO
        d_gain, d_bias, d_offset = sums[:width], sums[width : 2 * width], sums[2 * width :]
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            start = i * width
            outer = floats(a[7] + 4 * start, width)
            load(a[6], start, narrow, row)
            if a[7] and post:
                for j in range(width):
                    row[j] += outer[j]
            load(a[9], start, False, normal)
            stats = floats(a[10] + 8 * i, 2)
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
            if a[7] and not post:
                for j in range(width):
                    row[j] += outer[j]
            store(a[11], start, False, row)
            if a[12]:
                drop(row, i, a[14], a[15])
                store(a[12], start, narrow, row)
                for j in range(width):
                    d_offset[j] += row[j]
        block = take(words)


@kernel
def embed_forward(words):
    """Rows of the table times a factor, plus positions, then dropout."""
    a = carray(words, WORDS)
    rows, width = a[2], a[3]
    tokens, positions = carray(pointer(a[4], np.int64), rows), carray(pointer(a[5], np.int64), rows)
    factor = np.sqrt(np.float32(width))
    row = np.empty(width, np.float32)
    block = take(words)
    while block < a[1]:
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            position = floats(a[7] + 4 * width * positions[i], width)
            load(a[6], width * tokens[i], False, row)
            for j in range(width):
                row[j] = row[j] * factor + position[j]
            drop(row, i, a[9], a[10])
            store(a[8], i * width, False, row)
        block = take(words)


@kernel
def embed_backward(words):
    """The gradient of each row of the table that embed_forward read."""
    a = carray(words, WORDS)
    rows, width = a[2], a[3]
    factor = np.sqrt(np.float32(width))
    row = np.empty(width, np.float32)
    block = take(words)
    while block < a[1]:
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            load(a[4], i * width, False, row)
            drop(row, i, a[6], a[7])
            for j in range(width):
                row[j] *= factor
            store(a[5], i * width, False, row)
        block = take(words)


@kernel
def column_sums(words):
    """Sums of the rows of each block."""
    a = carray(words, WORDS)
    rows, width, narrow = a[2], a[3], a[4]
    row = np.empty(width, np.float32)
    block = take(words)
    while block < a[1]:
        sums = floats(a[6] + 4 * width * block, width)
        for j in range(width):
            sums[j] = ZERO
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            load(a[5], i * width, narrow, row)
            for j in range(width):
                sums[j] += row[j]
        block = take(words)


@kernel
def relu_backward(words):
    """Gradient of a ReLU in place, zero where its output is, and the sums of the rows of each block."""
    a = carray(words, WORDS)
    rows, width, narrow = a[2], a[3], a[4]
    row, output = np.empty(width, np.float32), np.empty(width, np.float32)
    block = take(words)
    while block < a[1]:
        sums = floats(a[7] + 4 * width * block, width)
        for j in range(width):
            sums[j] = ZERO
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            load(a[5], i * width, narrow, row)
            load(a[6], i * width, narrow, output)
            for j in range(width):
                row[j] = row[j] if output[j] > ZERO else ZERO
                sums[j] += row[j]
            store(a[5], i * width, narrow, row)
        block = take(words)


@kernel
def cross_entropy(words):
    """Loss of each row of logits, which its gradient replaces; a label below 0 counts nothing."""
    a = carray(words, WORDS)
    rows, width, narrow = a[2], a[3], a[4]
    labels, losses = carray(pointer(a[6], np.int64), rows), floats(a[7], rows)
    smoothing = to_float(np.uint32(a[8]))
    uniform = smoothing / np.float32(width)
    row = np.empty(width, np.float32)
    block = take(words)
    while block < a[1]:
        for i in range(block * BLOCK, min(rows, (block + 1) * BLOCK)):
            load(a[5], i * width, narrow, row)
            label = labels[i]
            if label < 0:
                losses[i] = ZERO
                for j in range(width):
                    row[j] = ZERO
                store(a[5], i * width, narrow, row)
                continue
            highest, mean = row[0], ZERO
            for j in range(width):
                highest = max(highest, row[j])
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
            store(a[5], i * width, narrow, row)
        block = take(words)
