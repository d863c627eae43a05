"""The decoder one token at a time: the arithmetic of `Transformer.decode` in fewer, larger operations.

The modules of `model.network.layers` are the reference; what is computed here equals them to rounding. Three
things make it fast: keys and values are written into a preallocated cache, the hypotheses of one
sentence share its encoder memory as queries of one product, and no module is called.

Products may run in bfloat16, several times as fast for many rows where the processor has instructions for
it; everything else stays in float32.

Axis letters beside the project's: N sentences, k hypotheses of each, R = N k rows, C capacity of the cache.
"""

from __future__ import annotations

import math
import time
from functools import cache
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.network.layers import DecoderLayer
from model.network.transformer import Encoded, HeadGates, Transformer

FIRST_CAPACITY = 32
BFLOAT16_ROWS = 16  # below, bfloat16 products are no faster


class Product(NamedTuple):
    """A linear map ready for `addmm`, in the type of its weight whatever the type of x."""

    weight: Float[Tensor, "I O"]
    bias: Float[Tensor, " O"]

    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        """One product with the bias in it."""
        return torch.addmm(self.bias, x.to(self.weight.dtype), self.weight).to(x.dtype)


class Norm(NamedTuple):
    """LayerNorm around a sub-layer, as `model.network.layers.Residual` places it."""

    weight: Float[Tensor, " D"]
    bias: Float[Tensor, " D"]
    eps: float
    pre_norm: bool

    def pre(self, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """What the sub-layer reads."""
        return self.normalise(x) if self.pre_norm else x

    def post(self, x: Float[Tensor, "R D"], y: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """Add the sub-layer's output y to its input x."""
        return x + y if self.pre_norm else self.normalise(x + y)

    def normalise(self, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """LayerNorm itself."""
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class Layer(NamedTuple):
    """The weights of one decoder layer in the order of their use."""

    self_norm: Norm
    project: Product  # queries, keys and values
    self_output: Product
    cross_norm: Norm
    query: Product
    cross_output: Product
    feed_forward_norm: Norm
    inner: Product
    outer: Product


class Memory(NamedTuple):
    """Keys and values of the encoder's output in the layout of `bmm`, heads inside the batch."""

    key: Float[Tensor, "NH K S"]
    value: Float[Tensor, "NH S K"]


class IncrementalDecoder:
    """Reads one token for each hypothesis at a time. `gates` have no batch dimension here."""

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
        self.embedding = model.target_embedding
        self.layers = [_layer(cast(DecoderLayer, layer), dtype) for layer in model.decoder]
        self.final = _norm(model.decoder_norm, True) if config.norm == "pre" else None
        rows = len(encoded.cross_kv[0].key) * beam_size
        vocabulary = model.output.weight.t().to(dtype)
        # From two rows on the product gains more by this layout than the copy of one search costs.
        self.vocabulary = vocabulary.contiguous() if rows > 1 else vocabulary
        self.nothing = model.output.weight.new_zeros(1, 1, 1)
        self.memory = [
            Memory(
                key.to(self.nothing).transpose(-2, -1).flatten(0, 1).contiguous(),
                value.to(self.nothing).flatten(0, 1).contiguous(),
            )
            for key, value in encoded.cross_kv
        ]
        heads = config.n_heads
        self.forbidden: Float[Tensor, "NH 1 S"] | None = None
        if encoded.mask is not None:
            lowest = torch.finfo(self.nothing.dtype).min
            forbidden = torch.zeros_like(encoded.mask, dtype=self.nothing.dtype)
            forbidden.masked_fill_(~encoded.mask, lowest)
            self.forbidden = forbidden.expand(-1, heads, -1, -1).flatten(0, 1)
        self.length = 0
        # Keys and values of each layer, the steps outermost, so that a step is written in one run.
        self.past = self.nothing.new_empty(len(self.layers), 2, FIRST_CAPACITY, rows, heads, config.d_head)

    def step(self, tokens: Int[Tensor, " R"]) -> Float[Tensor, "R V"]:
        """Logits of what follows each hypothesis after reading its next token."""
        if self.length == self.past.shape[2]:
            self.past = torch.cat((self.past, torch.empty_like(self.past)), dim=2)
        vectors = F.embedding(tokens, self.embedding.tokens.weight)
        position = self.embedding.table(self.length + 1)[self.length]
        x = torch.add(position, vectors, alpha=math.sqrt(vectors.shape[-1]))
        for place, layer in enumerate(self.layers):
            x = layer.self_norm.post(x, self._attend_to_past(place, layer.self_norm.pre(x)))
            x = layer.cross_norm.post(x, self._attend_to_memory(place, layer.cross_norm.pre(x)))
            hidden = layer.inner(layer.feed_forward_norm.pre(x)).relu_()
            x = layer.feed_forward_norm.post(x, layer.outer(hidden))
        self.length += 1
        hidden = self.final.normalise(x) if self.final else x
        return (hidden.to(self.vocabulary.dtype) @ self.vocabulary).to(x.dtype)

    def select(self, rows: Int[Tensor, " r"], sentences: Int[Tensor, " n"] | None = None) -> None:
        """Make row i go on from what row `rows[i]` has read; `sentences` are those that stay."""
        shape = list(self.past.shape)
        shape[3] = len(rows)
        used, self.past = self.past[:, :, : self.length], self.past.new_empty(shape)
        torch.index_select(used, 3, rows, out=self.past[:, :, : self.length])
        if sentences is None:
            return
        heads = (sentences[:, None] * self.heads + torch.arange(self.heads, device=rows.device)).view(-1)
        self.memory = [Memory(key[heads], value[heads]) for key, value in self.memory]
        if self.forbidden is not None:
            self.forbidden = self.forbidden[heads]

    def _attend_to_past(self, place: int, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """Masked self-attention: the cache holds nothing of the future, so there is no mask."""
        layer, rows = self.layers[place], len(x)
        projected = layer.project(x).view(rows, 3, self.heads, -1)
        past = self.past[place]
        past[:, self.length] = projected[:, 1:].transpose(0, 1)
        key, value = past[:, : self.length + 1].flatten(2, 3).transpose(1, 2)
        query = projected[:, 0].reshape(rows * self.heads, 1, -1)
        scores = torch.baddbmm(self.nothing, query, key.transpose(1, 2), beta=0, alpha=self.scale)
        joined = torch.bmm(scores.softmax(-1), value).view(rows, self.heads, -1)
        if self.gates is not None:
            joined = joined * self.gates.decoder[place, :, None]
        return layer.self_output(joined.view(rows, -1))

    def _attend_to_memory(self, place: int, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """Cross-attention: the k hypotheses of a sentence are k queries to one memory."""
        layer, memory, k = self.layers[place], self.memory[place], self.beam_size
        shape = (len(x) // k, k, self.heads, -1)
        query = layer.query(x).view(shape).transpose(1, 2).reshape(-1, k, memory.key.shape[1])
        if self.forbidden is None:
            scores = torch.baddbmm(self.nothing, query, memory.key, beta=0, alpha=self.scale)
        else:
            scores = torch.baddbmm(self.forbidden, query, memory.key, alpha=self.scale)
        joined = torch.bmm(scores.softmax(-1), memory.value).view(shape[0], self.heads, k, -1)
        if self.gates is not None:
            joined = joined * self.gates.cross[place, :, None, None]
        return layer.cross_output(joined.transpose(1, 2).reshape(len(x), -1))


def _layer(layer: DecoderLayer, dtype: torch.dtype) -> Layer:
    cross, d = layer.cross_attention, layer.cross_attention.d_model
    residuals = (layer.self_residual, layer.cross_residual, layer.feed_forward_residual)
    self_norm, cross_norm, feed_forward_norm = (
        _norm(residual.norm, residual.pre_norm) for residual in residuals
    )
    return Layer(
        self_norm,
        _product(layer.self_attention.project.weight, layer.self_attention.project.bias, dtype),
        _product(layer.self_attention.output.weight, layer.self_attention.output.bias, dtype),
        cross_norm,
        _product(cross.project.weight[:d], cross.project.bias[:d], dtype),
        _product(cross.output.weight, cross.output.bias, dtype),
        feed_forward_norm,
        _product(layer.feed_forward.inner.weight, layer.feed_forward.inner.bias, dtype),
        _product(layer.feed_forward.outer.weight, layer.feed_forward.outer.bias, dtype),
    )


def _product(weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"], dtype: torch.dtype) -> Product:
    return Product(weight.t().to(dtype), bias.to(dtype))


def _norm(norm: nn.Module, pre_norm: bool) -> Norm:
    norm = cast(nn.LayerNorm, norm)
    return Norm(norm.weight, norm.bias, norm.eps, pre_norm)


def lay_out_for_few_rows(model: Transformer) -> None:
    """Let each weight lie in memory as its product reads it, input by output; its shape stays.

    Products of a few rows, as in one sentence, take two thirds of the time. Weights that are also
    embeddings stay as they are, since their rows are read one by one.
    """
    embeddings = {id(model.source_embedding.tokens.weight), id(model.target_embedding.tokens.weight)}
    for module in model.modules():
        if isinstance(module, nn.Linear) and id(module.weight) not in embeddings:
            module.weight.data = module.weight.data.t().contiguous().t()


def product_dtype(rows: int, device: torch.device) -> torch.dtype:
    """The type in which products of this many rows are fastest."""
    pays = rows >= BFLOAT16_ROWS and device.type == "cpu" and _bfloat16_pays()
    return torch.bfloat16 if pays else torch.float32


@cache
def _bfloat16_pays() -> bool:
    """Whether this processor multiplies bfloat16 at least half as fast again as float32, by trial."""
    x, weight = torch.ones(64, 256), torch.ones(1024, 256)
    products = [
        Product(weight.t().to(dtype), torch.ones(1024, dtype=dtype))
        for dtype in (torch.float32, torch.bfloat16)
    ]

    def seconds(product: Product) -> float:
        started = time.perf_counter()
        product(x)
        return time.perf_counter() - started

    float32, bfloat16 = (min(seconds(product) for _ in range(20)) for product in products)
    return bfloat16 * 1.5 < float32
