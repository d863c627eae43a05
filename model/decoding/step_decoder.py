"""Decodes one token at a time with torch: on GPUs, in bfloat16, and until the kernels are ready.

Its results equal the results of `Transformer.decode` up to rounding. It is faster for three reasons: keys and
values are written into a preallocated cache, one matrix product serves all hypotheses of a sentence in
cross-attention, and weights are used without calling modules.

Matrix products may run in bfloat16, which is several times faster for many rows on a processor with
bfloat16 instructions; everything else stays in float32.

Further axis letters: N sentences, k hypotheses of each, R = N k rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.network.attention import KeyValue
from model.network.layers import ACTIVATIONS, DecoderLayer
from model.network.recurrence import memory
from model.network.transformer import Encoded, HeadGates, Transformer

FIRST_CAPACITY = 32
BFLOAT16_ROWS = 16  # with fewer rows bfloat16 products are not faster
# Below this the kernels are as fast. A Xeon with AVX-512 bfloat16 and no AMX measures 0.5, one with AMX 10.
BFLOAT16_GAIN = 1.2
TURNS = 20


class Product(NamedTuple):
    """The weights of an nn.Linear, transposed for `addmm`; x is converted to their type."""

    weight: Float[Tensor, "I O"]
    bias: Float[Tensor, " O"]

    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        """Apply the linear map in one call."""
        return torch.addmm(self.bias, x.to(self.weight.dtype), self.weight).to(x.dtype)


class Norm(NamedTuple):
    """The norm around a sub-layer, as `model.network.layers.Residual` places it."""

    weight: Float[Tensor, " D"]
    bias: Float[Tensor, " D"] | None  # None: RMSNorm
    eps: float
    pre_norm: bool

    def pre(self, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        return self.normalise(x) if self.pre_norm else x

    def post(self, x: Float[Tensor, "R D"], y: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """Add the sub-layer's output y to its input x."""
        return x + y if self.pre_norm else self.normalise(x + y)

    def normalise(self, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        if self.bias is None:
            return torch.rms_norm(x, self.weight.shape, self.weight, self.eps)
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class Layer(NamedTuple):
    """The weights of one decoder layer, in the order of their use."""

    self_norm: Norm
    project: Product  # queries, keys and values; of a running memory, forget gates and values
    self_output: Product
    cross_norm: Norm
    query: Product
    cross_output: Product
    feed_forward_norm: Norm
    inner: Product
    gate: Product | None
    outer: Product


class CrossKeyValue(NamedTuple):
    """Keys and values of one layer's cross-attention in the layout of `bmm`, heads in the batch axis."""

    key: Float[Tensor, "NH K S"]
    value: Float[Tensor, "NH S K"]


class IncrementalDecoder:
    """Reads one token of each hypothesis at a time. `gates` have no batch dimension."""

    def __init__(
        self,
        model: Transformer,
        encoded: Encoded,
        beam_size: int = 1,
        gates: HeadGates | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        config = model.config
        self.beam_size, self.heads, self.gates = beam_size, config.n_heads, gates
        self.scale = config.d_head**-0.5
        self.positions = cast(DecoderLayer, model.decoder[0]).self_attention.positions  # of every layer
        self.bias: Float[Tensor, "H 1 T"] | None = None
        self.embedding = model.target_embedding
        self.layers = [_layer(cast(DecoderLayer, layer), dtype) for layer in model.decoder]
        self.final = _norm(model.decoder_norm, True) if config.of_decoder.has_final_norm else None
        rows = len(encoded.cross_kv[0].key) * beam_size
        vocabulary = model.output.weight.t().to(dtype)
        # From two rows on, this layout saves more time than the copy takes.
        self.vocabulary = vocabulary.contiguous() if rows > 1 else vocabulary
        self.vocabulary_bias = model.output.bias
        self.activation = ACTIVATIONS[config.activation]
        self.zero = model.output.weight.new_zeros(1, 1, 1)
        self.cross_kv = [
            CrossKeyValue(
                key.to(self.zero).transpose(-2, -1).flatten(0, 1).contiguous(),
                value.to(self.zero).flatten(0, 1).contiguous(),
            )
            for key, value in encoded.cross_kv
        ]
        heads = config.n_heads
        self.mask_bias: Float[Tensor, "NH 1 S"] | None = None
        if encoded.mask is not None:
            bias = torch.where(encoded.mask, self.zero, torch.finfo(self.zero.dtype).min)
            self.mask_bias = bias.expand(-1, heads, -1, -1).flatten(0, 1)
        self.length = 0
        self.is_recurrent = config.is_recurrent
        # Keys and values of each layer. A step is written to one contiguous block, because steps come first.
        # A running memory needs only its newest content, which is zeros before the first step.
        parts, capacity = (1, 1) if self.is_recurrent else (2, FIRST_CAPACITY)
        self.cache = self.zero.new_zeros(len(self.layers), parts, capacity, rows, heads, config.d_head)

    def resume(self, read: Sequence[KeyValue]) -> None:
        """Continue after the positions whose keys and values `Transformer.decode` has returned."""
        self.length = read[0].key.shape[2]
        if self.is_recurrent:
            contents = torch.stack([memory(*layer)[:, :, -1] for layer in read])
            self.cache[:, 0, 0] = contents.repeat_interleave(self.beam_size, dim=1)
            return
        shape = list(self.cache.shape)
        shape[2] = self.length + FIRST_CAPACITY
        self.cache = self.cache.new_empty(shape)
        for place, layer in enumerate(read):
            for part, cached in enumerate(layer):
                rows = cached.permute(2, 0, 1, 3).repeat_interleave(self.beam_size, dim=1)
                self.cache[place, part, : self.length] = rows

    def step(self, tokens: Int[Tensor, " R"]) -> Float[Tensor, "R V"]:
        """Read the next token of each hypothesis and return the logits of the token that follows."""
        if self.length == self.cache.shape[2] and not self.is_recurrent:
            self.cache = torch.cat((self.cache, torch.empty_like(self.cache)), dim=2)
        vectors = F.embedding(tokens, self.embedding.tokens.weight)
        position = self.embedding.table(self.length + 1)[self.length]
        x = self.embedding.norm(torch.add(position, vectors, alpha=math.sqrt(vectors.shape[-1])))
        # The same for every layer: the biases of the newest query.
        self.bias = None if self.positions is None else self.positions(1, self.length + 1)
        look_back = self._remember if self.is_recurrent else self._self_attend
        for place, layer in enumerate(self.layers):
            x = layer.self_norm.post(x, look_back(place, layer.self_norm.pre(x)))
            x = layer.cross_norm.post(x, self._cross_attend(place, layer.cross_norm.pre(x)))
            read = layer.feed_forward_norm.pre(x)
            hidden = self.activation(layer.inner(read))
            if layer.gate is not None:
                hidden = hidden * layer.gate(read)
            x = layer.feed_forward_norm.post(x, layer.outer(hidden))
        self.length += 1
        hidden = self.final.normalise(x) if self.final else x
        logits = (hidden.to(self.vocabulary.dtype) @ self.vocabulary).to(x.dtype)
        return logits if self.vocabulary_bias is None else logits.add_(self.vocabulary_bias)

    def select(self, rows: Int[Tensor, " r"], sentences: Int[Tensor, " n"] | None = None) -> None:
        """Let row i continue what row `rows[i]` has read; keep only these `sentences`, or all if None."""
        shape = list(self.cache.shape)
        shape[3] = len(rows)
        filled = 1 if self.is_recurrent else self.length
        used, self.cache = self.cache[:, :, :filled], self.cache.new_empty(shape)
        torch.index_select(used, 3, rows, out=self.cache[:, :, :filled])
        if sentences is None:
            return
        heads = (sentences[:, None] * self.heads + torch.arange(self.heads, device=rows.device)).view(-1)
        self.cross_kv = [CrossKeyValue(key[heads], value[heads]) for key, value in self.cross_kv]
        if self.mask_bias is not None:
            self.mask_bias = self.mask_bias[heads]

    def _self_attend(self, place: int, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """Masked self-attention; needs no mask, because the cache has no later positions."""
        layer, rows = self.layers[place], len(x)
        projected = layer.project(x).view(rows, 3, self.heads, -1)
        cache = self.cache[place]
        cache[:, self.length] = projected[:, 1:].transpose(0, 1)
        key, value = cache[:, : self.length + 1].flatten(2, 3).transpose(1, 2)
        query = projected[:, 0].reshape(rows * self.heads, 1, -1)
        bias = self.zero if self.bias is None else self.bias.repeat(rows, 1, 1)
        scores = torch.baddbmm(bias, query, key.transpose(1, 2), alpha=self.scale)
        joined = torch.bmm(scores.softmax(-1), value).view(rows, self.heads, -1)
        return layer.self_output(self._gated("decoder", place, joined).flatten(1))

    def _remember(self, place: int, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """The running memory of a layer, as `model.network.recurrence.Recurrence` has it."""
        layer = self.layers[place]
        forget, value = layer.project(x).view(len(x), 2, self.heads, -1).unbind(1)
        content = torch.lerp(value, self.cache[place, 0, 0], forget.sigmoid())
        self.cache[place, 0, 0] = content
        return layer.self_output(self._gated("decoder", place, content.relu()).flatten(1))

    def _cross_attend(self, place: int, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """Cross-attention: the k hypotheses of a sentence are k queries to the same keys."""
        layer, (key, value), k = self.layers[place], self.cross_kv[place], self.beam_size
        shape = (len(x) // k, k, self.heads, -1)
        query = layer.query(x).view(shape).transpose(1, 2).reshape(-1, k, key.shape[1])
        if self.mask_bias is None:
            scores = torch.baddbmm(self.zero, query, key, beta=0, alpha=self.scale)
        else:
            scores = torch.baddbmm(self.mask_bias, query, key, alpha=self.scale)
        joined = torch.bmm(scores.softmax(-1), value).view(shape[0], self.heads, k, -1)
        joined = joined.transpose(1, 2).reshape(len(x), self.heads, -1)
        return layer.cross_output(self._gated("cross", place, joined).flatten(1))

    def _gated(self, kind: str, place: int, joined: Float[Tensor, "R H K"]) -> Float[Tensor, "R H K"]:
        """The outputs of the heads of one layer after their gates; every row is at the same position."""
        if self.gates is None:
            return joined
        return self.gates.of_layer(kind, place).apply(joined[:, :, None], self.length)[:, :, 0]


def _layer(layer: DecoderLayer, dtype: torch.dtype) -> Layer:
    cross = layer.cross_attention
    residuals = (layer.self_residual, layer.cross_residual, layer.feed_forward_residual)
    self_norm, cross_norm, feed_forward_norm = (
        _norm(residual.norm, residual.pre_norm) for residual in residuals
    )
    return Layer(
        self_norm,
        _product(layer.self_attention.project, dtype),
        _product(layer.self_attention.output, dtype),
        cross_norm,
        _product(cross.project, dtype, cross.width),  # its other outputs are keys and values
        _product(cross.output, dtype),
        feed_forward_norm,
        _product(layer.feed_forward.inner, dtype),
        None if layer.feed_forward.gate is None else _product(layer.feed_forward.gate, dtype),
        _product(layer.feed_forward.outer, dtype),
    )


def _product(linear: nn.Linear, dtype: torch.dtype, outputs: int | None = None) -> Product:
    return Product(linear.weight[:outputs].t().to(dtype), linear.bias[:outputs].to(dtype))


def _norm(norm: nn.Module, pre_norm: bool) -> Norm:
    norm = cast(nn.LayerNorm | nn.RMSNorm, norm)
    bias = norm.bias if isinstance(norm, nn.LayerNorm) else None
    return Norm(norm.weight, bias, cast(float, norm.eps), pre_norm)


def product_dtype(rows: int, device: torch.device) -> torch.dtype:
    """The type in which products with this many rows are fastest."""
    pays = rows >= BFLOAT16_ROWS and device.type == "cpu" and _bfloat16_pays()
    return torch.bfloat16 if pays else torch.float32


@cache
def _bfloat16_pays() -> bool:
    """Measure whether bfloat16 products are BFLOAT16_GAIN times as fast as float32 on this processor.

    They take turns, so that a cold start or a busy moment meets both, and the first turn does not count. One
    thread multiplies, as in each part of a batch: several wait for one that has lost its core.
    """
    x, weight, bias = torch.ones(128, 256), torch.ones(1024, 256), torch.ones(1024)
    dtypes = torch.float32, torch.bfloat16
    products = {dtype: Product(weight.t().to(dtype), bias.to(dtype)) for dtype in dtypes}
    taken: dict[torch.dtype, list[float]] = {dtype: [] for dtype in dtypes}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for dtype, product in [*products.items()] * TURNS:
            started = time.perf_counter()
            product(x)
            taken[dtype].append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(threads)
    return min(taken[torch.bfloat16][1:]) * BFLOAT16_GAIN < min(taken[torch.float32][1:])
