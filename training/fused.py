"""Forward pass of training on a CPU: the model's modules on rows without padding, and a compiled attention.

It computes what `Transformer.encode` and `Transformer.decode` compute in training mode; see docs/training.md.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function

from model.network.attention import MultiHeadAttention
from model.network.layers import DecoderLayer, Embedding, EncoderLayer
from model.network.transformer import Transformer
from model.text.tokenizer import PAD_ID
from training.corpus.batching import Batch
from training.kernels.attention import attention_backward, attention_forward

ROWS = 64  # their number is a multiple of it: oneDNN prepares its products anew for every new shape
IGNORED = -1  # label of the rows of padding


class Packed(NamedTuple):
    """Sentences that follow each other as the rows of a matrix."""

    tokens: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    starts: Int[Tensor, " B+1"]  # first row of each sentence, and N
    longest: int


class AttentionShape(NamedTuple):
    """Who attends to whom."""

    queries: Packed
    keys: Packed
    heads: int
    causal: bool

    def arguments(self, projected: Tensor, memory: Tensor | None) -> dict[str, Tensor | int]:
        """What both passes of the kernel read, by name."""
        d = projected.shape[1] // (3 if memory is None else 1)
        both = projected[:, d:] if memory is None else memory
        return {
            "blocks": len(self.queries.starts) - 1,
            "heads": self.heads,
            "width": d // self.heads,
            "causal": self.causal,
            "longest_query": self.queries.longest,
            "longest_key": self.keys.longest,
            "query_starts": self.queries.starts,
            "key_starts": self.keys.starts,
            "query_stride": projected.stride(0),
            "key_stride": both.stride(0),
            "queries": projected,
            "keys": both,
            "values": both[:, d:],
        }


class Attention(Function):
    """Scaled dot-product attention of all heads, equation 1 of Vaswani et al. 2017.

    `projected` holds queries, keys and values in one row [N, 3 D], or queries alone [N, D] if
    `memory` holds keys and values [M, 2 D]. No weight is kept: the backward pass computes them again.
    """

    @staticmethod
    def forward(ctx: Any, projected: Tensor, memory: Tensor | None, shape: AttentionShape) -> Tensor:
        """The outputs of all heads in one row, [N, D]."""
        rows, width = projected.shape
        out = projected.new_empty(rows, width // 3 if memory is None else width)
        statistics = torch.empty(rows, shape.heads, 2)
        ctx.shape = shape
        ctx.save_for_backward(projected, memory, out, statistics)
        attention_forward(**shape.arguments(projected, memory), out=out, statistics=statistics)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Of queries, keys and values, in the layout of the inputs."""
        projected, memory, out, statistics = ctx.saved_tensors
        d = out.shape[1]
        d_projected = torch.empty_like(projected)
        d_memory = None if memory is None else torch.empty_like(memory)
        d_keys = d_projected[:, d:] if d_memory is None else d_memory
        d_out = gradients[0].contiguous()
        deltas = (out * d_out).unflatten(1, (ctx.shape.heads, -1)).sum(-1)
        inputs = {"statistics": statistics, "d_out": d_out, "deltas": deltas}
        results = {"d_queries": d_projected, "d_keys": d_keys, "d_values": d_keys[:, d:]}
        attention_backward(**ctx.shape.arguments(projected, memory), **inputs, **results)
        return d_projected, d_memory, None


def pack(padded: Int[Tensor, "B S"]) -> Packed:
    """The sentences without padding, and a last one of padding that makes the rows a multiple of ROWS."""
    real = padded != PAD_ID
    lengths = real.sum(1)
    missing = ROWS - int(lengths.sum()) % ROWS
    lengths = torch.cat((lengths, lengths.new_tensor([missing])))
    starts = torch.cat((lengths.new_zeros(1), lengths.cumsum(0)))
    tokens = torch.cat((padded[real], padded.new_full((missing,), PAD_ID)))
    positions = torch.arange(len(tokens)) - starts[:-1].repeat_interleave(lengths)
    return Packed(tokens, positions, starts, int(lengths.max()))


def unpack(rows: Float[Tensor, "N K"], padded: Int[Tensor, "B S"]) -> Float[Tensor, "B S K"]:
    """The rows of packed sentences at the places of their tokens in `padded`; padding is 0."""
    real = padded != PAD_ID
    return rows.new_zeros(*padded.shape, rows.shape[1]).index_put((real,), rows[: int(real.sum())])


def forward_pass(
    model: Transformer, batch: Batch
) -> tuple[Float[Tensor, "N D"], Int[Tensor, " N"], tuple[Tensor, Tensor] | None]:
    """The fields of a `training.loss.DecoderOutput`."""
    one = PackedPass(model, batch)
    hidden = one.decode(one.encode())
    labels = batch.labels[batch.read != PAD_ID]
    labels = labels.masked_fill(labels == PAD_ID, IGNORED)
    labels = torch.cat((labels, labels.new_full((len(hidden) - len(labels),), IGNORED)))
    taught = None
    if model.config.taught_head is not None:
        layer, head = model.config.taught_head
        columns = slice(head * model.config.d_head, (head + 1) * model.config.d_head)
        query, memory = one.cross[layer]
        taught = unpack(query[:, columns], batch.read), unpack(memory[:, columns], batch.source)
    return hidden, labels, taught


class PackedPass:
    """One pass over a batch; x is the residual stream [N, D]."""

    def __init__(self, model: Transformer, batch: Batch) -> None:
        self.model = model
        self.source, self.target = pack(batch.source), pack(batch.read)
        # Of each decoder layer the queries [N, D], and the keys and values [M, 2 D], of cross-attention.
        self.cross: list[tuple[Tensor, Tensor]] = []

    def encode(self) -> Float[Tensor, "M D"]:
        """The encoder's output."""
        x = _embed(self.model.source_embedding, self.source)
        for block in self.model.encoder:
            layer = cast(EncoderLayer, block)
            x = _feed_forward(layer, _attend_to_self(layer, x, self.source))
        encoded: Tensor = self.model.encoder_norm(x)
        return encoded

    def decode(self, encoded: Float[Tensor, "M D"]) -> Float[Tensor, "N D"]:
        """The decoder's output."""
        x = _embed(self.model.target_embedding, self.target)
        for block in self.model.decoder:
            layer = cast(DecoderLayer, block)
            x = _attend_to_self(layer, x, self.target)
            x = self._attend_to_source(layer, x, encoded)
            x = _feed_forward(layer, x)
        hidden: Tensor = self.model.decoder_norm(x)
        return hidden

    def _attend_to_source(self, layer: DecoderLayer, x: Tensor, encoded: Tensor) -> Tensor:
        attention, residual = layer.cross_attention, layer.cross_residual
        query, memory = _project_apart(attention, residual.pre(x), encoded)
        self.cross.append((query, memory))
        shape = AttentionShape(self.target, self.source, attention.n_heads, causal=False)
        return residual.post(x, attention.output(Attention.apply(query.float(), memory.float(), shape)))


def _embed(embedding: Embedding, packed: Packed) -> Tensor:
    x = embedding.tokens(packed.tokens) * math.sqrt(embedding.tokens.embedding_dim)
    rows: Tensor = embedding.dropout(embedding.norm(x + embedding.table(packed.longest)[packed.positions]))
    return rows


def _project_apart(attention: MultiHeadAttention, x: Tensor, encoded: Tensor) -> tuple[Tensor, Tensor]:
    """The queries of x, and the keys and values of the encoder's output."""
    weight, bias, width = attention.project.weight, attention.project.bias, attention.width
    return F.linear(x, weight[:width], bias[:width]), F.linear(encoded, weight[width:], bias[width:])


def _attend_to_self(layer: EncoderLayer | DecoderLayer, x: Tensor, packed: Packed) -> Tensor:
    attention, residual = layer.self_attention, layer.self_residual
    shape = AttentionShape(packed, packed, attention.n_heads, isinstance(layer, DecoderLayer))
    heads = Attention.apply(attention.project(residual.pre(x)).float(), None, shape)
    return residual.post(x, attention.output(heads))


def _feed_forward(layer: EncoderLayer | DecoderLayer, x: Tensor) -> Tensor:
    residual = layer.feed_forward_residual
    return residual.post(x, layer.feed_forward(residual.pre(x)))
