"""The encoder and one decoder step for few rows, compiled by numba. Every attention weight is kept.

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

    It is [N, L, H, S, S], or [1, L, H, S, S] to keep only the last sentence's. As many sentences as `scratch`
    has rows for are read together.
    """
    first = START
    while first < len(tokens):
        last, rows = first, START
        while last < len(tokens) and rows + memory.lengths[last] <= len(scratch.x):
            for s in range(memory.lengths[last]):
                embed(weights.embedding, tokens[last, s], weights.positions[s], scratch.x[rows + s])
            rows += memory.lengths[last]
            last += 1
        encode_together(weights, gates, scratch, memory, kept, first, last, rows)
        first = last


@compiled
def encode_together(
    weights: EncoderWeights,
    gates: Floats,
    scratch: Scratch,
    memory: Memory,
    kept: Floats,
    first: int,
    last: int,
    rows: int,
) -> None:
    """Read the sentences from `first` to before `last`, whose embedded tokens are the rows of `scratch.x`."""
    heads = gates.shape[1]
    if len(weights.embedding_norm.weight) > 0:
        normalise(scratch.x, rows, weights.embedding_norm, scratch.x)
    for layer in range(len(gates)):
        norm = norm_of(weights.norms, layer, 0)
        residual_pre(scratch.x, rows, norm, scratch.read)
        product(scratch.read, rows, weights.project, layer, scratch.projected, scratch.gemm)
        begin = START
        for n in range(first, last):
            end = begin + memory.lengths[n]
            weights_of_heads = kept[min(n, len(kept) - 1), layer]
            attend_to_sentence(scratch, memory.places, begin, end, gates[layer], weights_of_heads)
            begin = end
        product(scratch.joined, rows, weights.output, layer, scratch.read, scratch.gemm)
        residual_post(scratch.x, rows, scratch.read, norm)
        norm = norm_of(weights.norms, layer, 1)
        feed_forward(scratch, rows, weights.inner, weights.outer, weights.activation, norm, layer)
    residual_pre(scratch.x, rows, final_norm(weights.norms), scratch.x)
    for layer in range(len(memory.key)):
        product(scratch.x, rows, weights.cross_key_value, layer, scratch.projected, scratch.gemm)
        begin = START
        for n in range(first, last):
            end = begin + memory.lengths[n]
            for h in range(heads):
                key, value = memory.key[layer, n, h], memory.value[layer, n, h]
                split(scratch.projected[begin:end], START, h, memory.places, key, value)
            begin = end


@compiled
def attend_to_sentence(
    scratch: Scratch, places: Integers, begin: int, end: int, gates: Floats, kept: Floats
) -> None:
    """Self-attention of one sentence, which is the rows from `begin` to before `end`."""
    width = scratch.x.shape[1]
    head_width = width // len(gates)
    for h in range(len(gates)):
        split(scratch.projected[begin:end], width, h, places, scratch.key[0, h], scratch.value[0, h])
        start = h * head_width
        for s in range(end - begin):
            attend(
                scratch.projected[begin + s, start : start + head_width],
                scratch.key[0, h],
                scratch.value[0, h],
                places,
                end - begin,
                gates[h],
                kept[h, s],
                scratch.joined[begin + s, start : start + head_width],
            )


@compiled
def split(projected: Floats, start: int, head: int, places: Integers, key: Floats, value: Floats) -> None:
    """Copy one head's keys and values to their places; the keys of all heads begin at `start` of a row."""
    width = key.shape[1]
    first_key = start + head * width
    first_value = first_key + projected.shape[1] // 3
    for r in range(len(projected)):
        for d in range(width):
            key[places[r], d] = projected[r, first_key + d]
            value[places[r], d] = projected[r, first_value + d]


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
    norms = weights.norms
    for r in range(rows):
        position = reading.positions[r]
        embed(weights.embedding, reading.tokens[r], weights.positions[position], scratch.x[r])
        reading.places[r, position] = reading.new_places[r]
    if len(weights.embedding_norm.weight) > 0:
        normalise(scratch.x, rows, weights.embedding_norm, scratch.x)
    for layer in range(layers):
        norm = norm_of(norms, layer, 0)
        residual_pre(scratch.x, rows, norm, scratch.read)
        product(scratch.read, rows, weights.project, layer, scratch.projected, scratch.gemm)
        for h in range(heads):
            key, value = scratch.key[layer, h], scratch.value[layer, h]
            split(scratch.projected[:rows], width, h, reading.new_places, key, value)
        attend_to_past(scratch, reading, rows, layer, gates.decoder[layer], self_weights)
        product(scratch.joined, rows, weights.output, layer, scratch.read, scratch.gemm)
        residual_post(scratch.x, rows, scratch.read, norm)
        norm = norm_of(norms, layer, 1)
        residual_pre(scratch.x, rows, norm, scratch.read)
        product(scratch.read, rows, weights.cross_query, layer, scratch.projected, scratch.gemm)
        attend_to_memory(scratch, memory, reading, rows, layer, gates.cross[layer], cross_weights)
        product(scratch.joined, rows, weights.cross_output, layer, scratch.read, scratch.gemm)
        residual_post(scratch.x, rows, scratch.read, norm)
        norm = norm_of(norms, layer, 2)
        feed_forward(scratch, rows, weights.inner, weights.outer, weights.activation, norm, layer)
    residual_pre(scratch.x, rows, final_norm(norms), scratch.x)
    product(scratch.x, rows, weights.vocabulary, START, scratch.logits, scratch.gemm)


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
