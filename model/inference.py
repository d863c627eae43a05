"""The decoder one token at a time: the arithmetic of `Transformer.decode` in fewer, larger operations.

The modules of `model.layers` are the reference; what is computed here equals them to rounding. Three
things make it fast: keys and values are written into a preallocated cache, the hypotheses of one
sentence share its encoder memory as queries of one product, and no module is called.

Axis letters beside the project's: N sentences, k hypotheses of each, R = N k rows, C capacity of the cache.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.layers import DecoderLayer
from model.transformer import Encoded, HeadGates, Transformer

FIRST_CAPACITY = 32


class Product(NamedTuple):
    """A linear map ready for `addmm`: a transposed view of the weight of a Linear, not a copy."""

    weight: Float[Tensor, "I O"]
    bias: Float[Tensor, " O"]

    def __call__(self, x: Float[Tensor, "R I"]) -> Float[Tensor, "R O"]:
        """One product with the bias in it."""
        return torch.addmm(self.bias, x, self.weight)


class Norm(NamedTuple):
    """LayerNorm around a sub-layer, as `model.layers.Residual` places it."""

    weight: Float[Tensor, " D"]
    bias: Float[Tensor, " D"]
    eps: float
    pre: bool

    def enter(self, x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """What the sub-layer reads."""
        return self.normalise(x) if self.pre else x

    def leave(self, x: Float[Tensor, "R D"], y: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
        """Add the sub-layer's output y to its input x."""
        return x + y if self.pre else self.normalise(x + y)

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


class StepDecoder:
    """Reads one token for each hypothesis at a time. `gates` have no batch dimension here."""

    def __init__(
        self, model: Transformer, encoded: Encoded, beam_size: int = 1, gates: HeadGates | None = None
    ) -> None:
        config = model.config
        self.beam_size, self.heads, self.gates = beam_size, config.n_heads, gates
        self.scale = config.d_head**-0.5
        self.embedding = model.target_embedding
        self.layers = [_layer(cast(DecoderLayer, layer)) for layer in model.decoder]
        self.final = _norm(model.decoder_norm, True) if config.norm == "pre" else None
        self.vocabulary = model.output.weight.t()
        self.memory = [
            Memory(key.transpose(-2, -1).flatten(0, 1).contiguous(), value.flatten(0, 1).contiguous())
            for key, value in encoded.memory
        ]
        sentences, heads, _, width = encoded.memory[0].key.shape
        self.nothing = encoded.memory[0].key.new_zeros(1, 1, 1)
        self.forbidden: Float[Tensor, "NH 1 S"] | None = None
        if encoded.mask is not None:
            lowest = torch.finfo(self.nothing.dtype).min
            forbidden = torch.zeros_like(encoded.mask, dtype=self.nothing.dtype)
            forbidden.masked_fill_(~encoded.mask, lowest)
            self.forbidden = forbidden.expand(-1, heads, -1, -1).flatten(0, 1)
        rows = sentences * beam_size
        self.length = 0
        self.past = self.nothing.new_empty(len(self.layers), 2, rows, heads, FIRST_CAPACITY, width)

    def step(self, tokens: Int[Tensor, " R"]) -> Float[Tensor, "R V"]:
        """Logits of what follows each hypothesis after reading its next token."""
        if self.length == self.past.shape[4]:
            self.past = torch.cat((self.past, torch.empty_like(self.past)), dim=4)
        vectors = F.embedding(tokens, self.embedding.tokens.weight)
        position = self.embedding.table(self.length + 1)[self.length]
        x = torch.add(position, vectors, alpha=math.sqrt(vectors.shape[-1]))
        for place, layer in enumerate(self.layers):
            x = layer.self_norm.leave(x, self._attend_to_past(place, layer.self_norm.enter(x)))
            x = layer.cross_norm.leave(x, self._attend_to_memory(place, layer.cross_norm.enter(x)))
            hidden = layer.inner(layer.feed_forward_norm.enter(x)).relu_()
            x = layer.feed_forward_norm.leave(x, layer.outer(hidden))
        self.length += 1
        return (self.final.normalise(x) if self.final else x) @ self.vocabulary

    def select(self, rows: Int[Tensor, " r"], sentences: Int[Tensor, " n"] | None = None) -> None:
        """Make row i go on from what row `rows[i]` has read; `sentences` are those that stay."""
        used = self.past[..., : self.length, :]
        shape = list(self.past.shape)
        shape[2] = len(rows)
        self.past = self.past.new_empty(shape)
        torch.index_select(used, 2, rows, out=self.past[..., : self.length, :])
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
        past[:, :, :, self.length] = projected[:, 1:].transpose(0, 1)
        key, value = past.flatten(1, 2)[:, :, : self.length + 1]
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


def _layer(layer: DecoderLayer) -> Layer:
    cross, d = layer.cross_attention, layer.cross_attention.d_model
    residuals = (layer.self_residual, layer.cross_residual, layer.feed_forward_residual)
    self_norm, cross_norm, feed_forward_norm = (_norm(residual.norm, residual.pre) for residual in residuals)
    return Layer(
        self_norm,
        _product(layer.self_attention.project),
        _product(layer.self_attention.output),
        cross_norm,
        Product(cross.project.weight[:d].t(), cross.project.bias[:d]),
        _product(cross.output),
        feed_forward_norm,
        _product(layer.feed_forward.inner),
        _product(layer.feed_forward.outer),
    )


def _product(linear: nn.Linear) -> Product:
    return Product(linear.weight.t(), linear.bias)


def _norm(norm: nn.Module, pre: bool) -> Norm:
    norm = cast(nn.LayerNorm, norm)
    return Norm(norm.weight, norm.bias, norm.eps, pre)
