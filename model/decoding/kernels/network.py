"""The encoder and one decoder step, compiled by numba, with every attention weight.

Every function releases the GIL. Only `model.decoding.kernels.model` imports it, and late, because numba
takes a second to import.

Further axis letters: N sentences, R rows (hypotheses of all sentences), C places in the cache.
"""

from __future__ import annotations

from model.decoding.kernels.jit import START, compiled, entry
from model.decoding.kernels.layers import (
    attend,
    embed,
    feed_forward,
    final_norm,
    norm_of,
    normalise,
    residual_post,
    residual_pre,
)
from model.decoding.kernels.packed import (
    DecoderWeights,
    EncoderWeights,
    Floats,
    Gates,
    Integers,
    Memory,
    Reading,
    Scratch,
)
from model.decoding.kernels.products import product


@entry
def encode(
    weights: EncoderWeights, tokens: Integers, gates: Floats, scratch: Scratch, memory: Memory, kept: Floats
) -> None:
    """Read sentences [N, S] into `memory`; `kept` takes the attention weights.

    It is [N, L, H, S, S], or [1, L, H, S, S] to keep only the last sentence's.
    """
    sentences = len(tokens)
    width = weights.positions.shape[1]
    heads = gates.shape[1]
    layers, head_width = len(gates), width // heads
    for n in range(sentences):
        rows, place = memory.lengths[n], min(n, len(kept) - 1)
        for s in range(rows):
            embed(weights.embedding, tokens[n, s], weights.positions[s], scratch.x[s])
        if len(weights.embedding_norm.weight) > 0:
            normalise(scratch.x, rows, weights.embedding_norm, scratch.x)
        for layer in range(layers):
            norm = norm_of(weights.norms, layer, 0)
            residual_pre(scratch.x, rows, norm, scratch.read)
            product(scratch.read, rows, weights.project, layer, scratch.projected)
            for h in range(heads):
                split(scratch.projected, rows, width, h, scratch.key[0, h], scratch.value[0, h])
                start = h * head_width
                for s in range(rows):
                    attend(
                        scratch.projected[s, start : start + head_width],
                        scratch.key[0, h],
                        scratch.value[0, h],
                        memory.places,
                        rows,
                        gates[layer, h],
                        kept[place, layer, h, s],
                        scratch.joined[s, start : start + head_width],
                    )
            product(scratch.joined, rows, weights.output, layer, scratch.read)
            residual_post(scratch.x, rows, scratch.read, norm)
            norm = norm_of(weights.norms, layer, 1)
            feed_forward(scratch, rows, weights.inner, weights.outer, weights.activation, norm, layer)
        residual_pre(scratch.x, rows, final_norm(weights.norms), scratch.x)
        for layer in range(len(memory.key)):
            product(scratch.x, rows, weights.cross_key_value, layer, scratch.projected)
            for h in range(heads):
                split(scratch.projected, rows, START, h, memory.key[layer, n, h], memory.value[layer, n, h])


@compiled
def split(projected: Floats, rows: int, start: int, head: int, key: Floats, value: Floats) -> None:
    """Copy one head's keys and values [S, K] from `projected`, where all heads' keys begin at `start`."""
    width = key.shape[1]
    first_key = start + head * width
    first_value = first_key + projected.shape[1] // 3
    for s in range(rows):
        for d in range(width):
            key[s, d] = projected[s, first_key + d]
            value[s, d] = projected[s, first_value + d]


@compiled
def decode(
    weights: DecoderWeights,
    memory: Memory,
    gates: Gates,
    scratch: Scratch,
    reading: Reading,
    rows: int,
    self_weights: Floats,
    cross_weights: Floats,
) -> None:
    """Each row reads a token; `scratch.logits` gets the logits of the next one.

    `self_weights` [R, M, H, T] and `cross_weights` [R, M, H, S] take the attention weights.
    """
    width = weights.positions.shape[1]
    layers, heads = gates.decoder.shape
    norms, first = weights.norms, reading.first_place
    for r in range(rows):
        position = reading.positions[r]
        embed(weights.embedding, reading.tokens[r], weights.positions[position], scratch.x[r])
        reading.places[r, position] = first + r
    if len(weights.embedding_norm.weight) > 0:
        normalise(scratch.x, rows, weights.embedding_norm, scratch.x)
    for layer in range(layers):
        norm = norm_of(norms, layer, 0)
        residual_pre(scratch.x, rows, norm, scratch.read)
        product(scratch.read, rows, weights.project, layer, scratch.projected)
        for h in range(heads):
            key, value = scratch.key[layer, h, first:], scratch.value[layer, h, first:]
            split(scratch.projected, rows, width, h, key, value)
        attend_to_past(scratch, reading, rows, layer, gates.decoder[layer], self_weights)
        product(scratch.joined, rows, weights.output, layer, scratch.read)
        residual_post(scratch.x, rows, scratch.read, norm)
        norm = norm_of(norms, layer, 1)
        residual_pre(scratch.x, rows, norm, scratch.read)
        product(scratch.read, rows, weights.cross_query, layer, scratch.projected)
        attend_to_memory(scratch, memory, reading, rows, layer, gates.cross[layer], cross_weights)
        product(scratch.joined, rows, weights.cross_output, layer, scratch.read)
        residual_post(scratch.x, rows, scratch.read, norm)
        norm = norm_of(norms, layer, 2)
        feed_forward(scratch, rows, weights.inner, weights.outer, weights.activation, norm, layer)
    residual_pre(scratch.x, rows, final_norm(norms), scratch.x)
    product(scratch.x, rows, weights.vocabulary, START, scratch.logits)


@compiled
def attend_to_past(
    scratch: Scratch, reading: Reading, rows: int, layer: int, gates: Floats, weights: Floats
) -> None:
    """Masked self-attention: the places of a row are the places of its past, so it needs no mask."""
    width = scratch.x.shape[1] // len(gates)
    for r in range(rows):
        for h in range(len(gates)):
            attend(
                scratch.projected[r, h * width : (h + 1) * width],
                scratch.key[layer, h],
                scratch.value[layer, h],
                reading.places[r],
                reading.positions[r] + 1,
                gates[h],
                weights[r, layer, h],
                scratch.joined[r, h * width : (h + 1) * width],
            )


@compiled
def attend_to_memory(
    scratch: Scratch,
    memory: Memory,
    reading: Reading,
    rows: int,
    layer: int,
    gates: Floats,
    weights: Floats,
) -> None:
    """Cross-attention of each row to the keys and values of its sentence."""
    width = scratch.x.shape[1] // len(gates)
    for r in range(rows):
        n = reading.sentences[r]
        for h in range(len(gates)):
            attend(
                scratch.projected[r, h * width : (h + 1) * width],
                memory.key[layer, n, h],
                memory.value[layer, n, h],
                memory.places,
                memory.lengths[n],
                gates[h],
                weights[r, layer, h],
                scratch.joined[r, h * width : (h + 1) * width],
            )
