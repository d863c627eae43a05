"""What the kernels read and write: NumPy arrays. One array holds the same matrix of every layer.

Further axis letters: N sentences, R rows (hypotheses of all sentences), C places in the cache, O
and I the outputs and inputs of a matrix. They come in NamedTuples, which numba can pass to a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.network.layers import DecoderLayer, Embedding, EncoderLayer, Residual
from model.network.transformer import Transformer
from model.storage.checkpoint import SCALES, quantise_rows

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Integers = NDArray[np.int64]


FIRST_POSITIONS = 512  # more are packed when a sentence asks for them
RELU, SILU, GELU, GELU_NEW = range(4)
ACTIVATIONS = {"relu": RELU, "silu": SILU, "gelu": GELU, "gelu_new": GELU_NEW}


class Matrix(NamedTuple):
    """Weights [L, O, I] as 8-bit integers with a scale for each row, or as floats; the other is empty."""

    integers: NDArray[np.int8]
    floats: Floats
    scale: Floats  # [L, O]
    bias: Floats  # [L, O]


class Norms(NamedTuple):
    """LayerNorm of each sub-layer [L, sub-layer, D], and the one after the last layer [D]."""

    weight: Floats
    bias: Floats
    final_weight: Floats
    final_bias: Floats
    eps: np.float32
    pre_norm: bool
    has_final: bool  # whether one follows the last layer


class Norm(NamedTuple):
    """LayerNorm around one sub-layer, or after the embedding; without weights there is none."""

    weight: Floats  # [D]
    bias: Floats
    eps: np.float32
    pre_norm: bool  # before the sub-layer


class EncoderWeights(NamedTuple):
    """The encoder, and the decoder's projections of its output."""

    embedding: Matrix
    positions: Floats  # [P, D]
    embedding_norm: Norm
    project: Matrix  # queries, keys and values
    output: Matrix
    inner: Matrix
    outer: Matrix
    activation: int  # one of ACTIVATIONS
    norms: Norms
    cross_key_value: Matrix


class DecoderWeights(NamedTuple):
    """The decoder and the output layer."""

    embedding: Matrix
    positions: Floats  # [P, D]
    embedding_norm: Norm
    project: Matrix
    output: Matrix
    cross_query: Matrix
    cross_output: Matrix
    inner: Matrix
    outer: Matrix
    activation: int  # one of ACTIVATIONS
    norms: Norms
    vocabulary: Matrix


class Memory(NamedTuple):
    """The encoder's output as keys and values of the decoder; row s >= lengths[n] is padding."""

    key: Floats  # [M, N, H, S, K]
    value: Floats
    lengths: Integers  # [N]
    places: Integers  # [S]: 0, 1, 2 and so on


class Gates(NamedTuple):
    """A factor for each head's output."""

    decoder: Floats  # [M, H]
    cross: Floats


class Reading(NamedTuple):
    """What each row reads."""

    tokens: Integers  # [R]
    sentences: Integers  # [R]
    positions: Integers  # [R]
    places: Integers  # [R, T]: where in the cache the row finds each position of its past
    first_place: int  # place of the keys and values of row 0; the places of row r are r places later


class Scratch(NamedTuple):
    """Working memory of a step."""

    x: Floats  # [R, D]
    read: Floats  # [R, D]
    projected: Floats  # [R, 3D]
    joined: Floats  # [R, D]
    hidden: Floats  # [R, d_ff]
    key: Floats  # [M, H, C, K]
    value: Floats
    positions: Integers  # [R]
    places: Integers  # [2, R, T]: `Reading.places` of this step and of the next one
    logits: Floats  # [R, V]
    log_sum_exp: Floats  # [R]: the log of the sum of the exponentials of `logits`


@torch.no_grad()
def pack_encoder(model: Transformer) -> EncoderWeights:
    """A copy of the encoder's weights."""
    layers = [cast(EncoderLayer, layer) for layer in model.encoder]
    d = model.config.d_model
    return EncoderWeights(
        _pack([model.source_embedding.tokens.weight]),
        pack_positions(
            model.source_embedding, min(FIRST_POSITIONS, model.config.n_positions or FIRST_POSITIONS)
        ),
        _norm(model.source_embedding.norm),
        _linear([layer.self_attention.project for layer in layers]),
        _linear([layer.self_attention.output for layer in layers]),
        _linear([layer.feed_forward.inner for layer in layers]),
        _linear([layer.feed_forward.outer for layer in layers]),
        ACTIVATIONS[model.config.activation],
        _norms([(layer.self_residual, layer.feed_forward_residual) for layer in layers], model.encoder_norm),
        _linear(
            [cast(DecoderLayer, layer).cross_attention.project for layer in model.decoder], slice(d, None)
        ),
    )


@torch.no_grad()
def pack_decoder(model: Transformer, source_embedding: Matrix | None = None) -> DecoderWeights:
    """A copy of the decoder's weights; a shared embedding is the encoder's, if that is given."""
    layers = [cast(DecoderLayer, layer) for layer in model.decoder]
    residuals = [(layer.self_residual, layer.cross_residual, layer.feed_forward_residual) for layer in layers]
    shared = source_embedding if model.config.tied else None
    embedding = shared or _pack([model.target_embedding.tokens.weight])
    tied = model.output.weight is model.target_embedding.tokens.weight
    vocabulary = embedding if tied else _pack([model.output.weight])
    if model.output.bias is not None:
        vocabulary = vocabulary._replace(bias=_array(model.output.bias[None]))
    return DecoderWeights(
        embedding,
        pack_positions(
            model.target_embedding, min(FIRST_POSITIONS, model.config.n_positions or FIRST_POSITIONS)
        ),
        _norm(model.target_embedding.norm),
        _linear([layer.self_attention.project for layer in layers]),
        _linear([layer.self_attention.output for layer in layers]),
        _linear([layer.cross_attention.project for layer in layers], slice(model.config.d_model)),
        _linear([layer.cross_attention.output for layer in layers]),
        _linear([layer.feed_forward.inner for layer in layers]),
        _linear([layer.feed_forward.outer for layer in layers]),
        ACTIVATIONS[model.config.activation],
        _norms(residuals, model.decoder_norm),
        vocabulary,
    )


def new_scratch(
    rows: int, width: int, inner: int, layers: int, heads: int, places: int, steps: int, vocabulary: int
) -> Scratch:
    """Working memory, not initialised."""
    head_width = width // heads
    return Scratch(
        np.empty((rows, width), np.float32),
        np.empty((rows, width), np.float32),
        np.empty((rows, 3 * width), np.float32),
        np.empty((rows, width), np.float32),
        np.empty((rows, inner), np.float32),
        np.empty((layers, heads, places, head_width), np.float32),
        np.empty((layers, heads, places, head_width), np.float32),
        np.empty(rows, np.int64),
        np.empty((2, rows, steps), np.int64),
        np.empty((rows, vocabulary), np.float32),
        np.empty(rows, np.float32),
    )


def _linear(modules: Sequence[nn.Linear], rows: slice = slice(None)) -> Matrix:
    return _pack([each.weight[rows] for each in modules], [each.bias[rows] for each in modules])


def _pack(weights: Sequence[Tensor], biases: Sequence[Tensor] | None = None) -> Matrix:
    """Weights in 8 bits if 8 bits represent them exactly, else as floats."""
    floats, shape = torch.stack(list(weights)).float(), (len(weights), len(weights[0]))
    bias = np.zeros(shape, np.float32) if biases is None else _array(torch.stack(list(biases)))
    stored = [quantise_rows({"": weight}) for weight in weights]  # as a model directory stores them
    integers, scales = (torch.stack([each[name] for each in stored]) for name in ("", SCALES))
    if torch.equal(integers * scales, floats):
        return Matrix(integers.numpy(), np.empty((0, 0, 0), np.float32), scales[..., 0].numpy(), bias)
    return Matrix(np.empty((0, 0, 0), np.int8), _array(floats), np.ones(shape, np.float32), bias)


def _norms(residuals: Sequence[Sequence[Residual]], final: nn.Module) -> Norms:
    first = residuals[0][0]
    weight, bias = (
        torch.stack([torch.stack([getattr(each.norm, name) for each in layer]) for layer in residuals])
        for name in ("weight", "bias")
    )
    has_final = not isinstance(final, nn.Identity)
    last = final if has_final else first.norm  # without one it is not read
    return Norms(
        _array(weight),
        _array(bias),
        _array(cast(Tensor, last.weight)),
        _array(cast(Tensor, last.bias)),
        np.float32(cast(nn.LayerNorm, first.norm).eps),
        first.pre_norm,
        has_final,
    )


def _norm(norm: nn.Module) -> Norm:
    """The norm after an embedding, which may be an nn.Identity."""
    if isinstance(norm, nn.LayerNorm):
        return Norm(_array(norm.weight), _array(norm.bias), np.float32(norm.eps), False)
    return Norm(np.empty(0, np.float32), np.empty(0, np.float32), np.float32(0), False)


def pack_positions(embedding: Embedding, end: int) -> Floats:
    """Positions 0 to at least `end`."""
    return _array(embedding.table(end))


def _array(tensor: Tensor) -> Floats:
    """A copy as contiguous float32."""
    return np.array(tensor.detach().numpy(), np.float32, order="C")
