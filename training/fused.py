"""Forward pass of training on a CPU, with compiled kernels between the matrix products.

It computes what `Transformer.encode` and `Transformer.decode` compute in training mode, on
sentences that follow each other without padding; see docs/training.md.
"""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.network.config import ModelConfig
from model.network.layers import DecoderLayer, Embedding, EncoderLayer, Residual
from model.network.transformer import Transformer
from model.text.tokenizer import PAD_ID
from training.corpus.batching import Batch
from training.kernels.operations import (
    AddNorm,
    Attention,
    AttentionShape,
    Embed,
    FeedForward,
    Linear,
    NormSettings,
    Packed,
    cross_entropy_,
)

__all__ = ["cross_entropy_", "forward_pass"]

ROWS = 64  # their number is a multiple of it: oneDNN prepares its products anew for every new shape
IGNORED = -1  # label of the rows of padding


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


def supports(config: ModelConfig) -> bool:
    """Whether the kernels can train such a network."""
    known = config.activation == "relu" and config.positions != "learned" and not config.embedding_norm
    return known and not config.has_parts_of_t5


def forward_pass(
    model: Transformer, batch: Batch
) -> tuple[Float[Tensor, "N D"], Int[Tensor, " N"], tuple[Tensor, Tensor] | None]:
    """The fields of a `training.loss.DecoderOutput`."""
    one = FusedPass(model, batch)
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


class FusedPass:
    """One pass over a batch. x is the residual stream in float32, h the input of the next sub-layer."""

    def __init__(self, model: Transformer, batch: Batch) -> None:
        self.model = model
        self.source, self.target = pack(batch.source), pack(batch.read)
        # Of each decoder layer the queries [N, D], and the keys and values [M, 2 D], of cross-attention.
        self.cross: list[tuple[Tensor, Tensor]] = []
        autocast = torch.is_autocast_enabled("cpu")
        self.dtype = torch.get_autocast_dtype("cpu") if autocast else torch.float32

    def encode(self) -> Float[Tensor, "M D"]:
        """The encoder's output."""
        layers = [cast(EncoderLayer, layer) for layer in self.model.encoder]
        norms = [*(layer.self_residual.norm for layer in layers[1:]), self.model.encoder_norm]
        x, h = self._embed(self.model.source_embedding, self.source, layers[0].self_residual)
        for layer, following in zip(layers, norms, strict=True):
            x, h = self._attend_to_self(layer, x, h, layer.feed_forward_residual.norm)
            x, h = self._feed_forward(layer, x, h, following)
        return h

    def decode(self, encoded: Float[Tensor, "M D"]) -> Float[Tensor, "N D"]:
        """The decoder's output."""
        layers = [cast(DecoderLayer, layer) for layer in self.model.decoder]
        norms = [*(layer.self_residual.norm for layer in layers[1:]), self.model.decoder_norm]
        x, h = self._embed(self.model.target_embedding, self.target, layers[0].self_residual)
        for layer, following in zip(layers, norms, strict=True):
            x, h = self._attend_to_self(layer, x, h, layer.cross_residual.norm)
            x, h = self._attend_to_source(layer, x, h, encoded)
            x, h = self._feed_forward(layer, x, h, following)
        return h

    def _embed(self, embedding: Embedding, packed: Packed, first: Residual) -> tuple[Tensor, Tensor]:
        positions, rate = embedding.table(packed.longest), embedding.dropout.rate
        x = Embed.apply(embedding.tokens.weight, positions, packed, rate)
        return self._norm(x, None, None, first.norm, first) if first.pre_norm else (x, x.to(self.dtype))

    def _attend_to_self(
        self, layer: EncoderLayer | DecoderLayer, x: Tensor, h: Tensor, following: nn.Module
    ) -> tuple[Tensor, Tensor]:
        attention, causal = layer.self_attention, isinstance(layer, DecoderLayer)
        packed = self.target if causal else self.source
        projected = Linear.apply(h, attention.project.weight, attention.project.bias)
        heads = Attention.apply(projected, None, AttentionShape(packed, packed, attention.n_heads, causal))
        y = Linear.apply(heads, attention.output.weight, None)
        return self._add(layer.self_residual, x, y, attention.output.bias, following)

    def _attend_to_source(
        self, layer: DecoderLayer, x: Tensor, h: Tensor, encoded: Tensor
    ) -> tuple[Tensor, Tensor]:
        attention, d = layer.cross_attention, self.model.config.d_model
        weight, bias = attention.project.weight, attention.project.bias
        memory = Linear.apply(encoded, weight[d:], bias[d:])
        query = Linear.apply(h, weight[:d], bias[:d])
        self.cross.append((query, memory))
        shape = AttentionShape(self.target, self.source, attention.n_heads, False)
        y = Linear.apply(Attention.apply(query, memory, shape), attention.output.weight, None)
        return self._add(layer.cross_residual, x, y, attention.output.bias, layer.feed_forward_residual.norm)

    def _feed_forward(
        self, layer: EncoderLayer | DecoderLayer, x: Tensor, h: Tensor, following: nn.Module
    ) -> tuple[Tensor, Tensor]:
        network = layer.feed_forward
        y = FeedForward.apply(h, network.inner.weight, network.inner.bias, network.outer.weight)
        return self._add(layer.feed_forward_residual, x, y, network.outer.bias, following)

    def _add(
        self, residual: Residual, x: Tensor, y: Tensor, bias: Tensor, following: nn.Module
    ) -> tuple[Tensor, Tensor]:
        """Add a sub-layer's output; pre-norm takes the norm of the sub-layer that follows."""
        return self._norm(x, y, bias, following if residual.pre_norm else residual.norm, residual)

    def _norm(
        self, x: Tensor, y: Tensor | None, bias: Tensor | None, following: nn.Module, residual: Residual
    ) -> tuple[Tensor, Tensor]:
        norm = cast(nn.LayerNorm, following)
        settings = NormSettings(self.dtype, norm.eps, residual.dropout.rate, not residual.pre_norm)
        results: tuple[Tensor, Tensor] = AddNorm.apply(x, y, bias, norm.weight, norm.bias, settings)
        return results
