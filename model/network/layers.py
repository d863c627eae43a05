"""The blocks of sections 3.1 and 3.3 to 3.5 of "Attention Is All You Need" (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.config import ModelConfig
from model.network.attention import KeyValue, MultiHeadAttention


class FeedForward(nn.Module):
    """Position-wise feed-forward network, section 3.3, equation 2."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """ReLU between two projections."""
        # Flat, so that the projection is no view: in place on one, autograd copies its gradient.
        hidden: Tensor = self.inner(x.flatten(0, -2)).relu_()
        output: Tensor = self.outer(hidden)
        return output.view_as(x)


def sinusoids(start: int, length: int, d_model: int) -> Float[Tensor, "length D"]:
    """Positional encoding, section 3.5: sine in the even, cosine in the odd places."""
    position = torch.arange(start, start + length, dtype=torch.float32)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    angle = position * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


class Dropout(nn.Module):
    """Dropout (section 5.4) whose random numbers take a third of nn.Dropout's time on a CPU.

    There one 64-bit draw decides four elements, so the rate is rounded to a multiple of 2^-16.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Zero each element with probability `rate` and scale the rest to keep the mean."""
        if not self.training or self.rate == 0 or x.device.type != "cpu":
            return F.dropout(x, self.rate, self.training)
        dropped = round(self.rate * 2**16)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
        draws.random_(-(2**63), None)  # without bounds the sign bit would stay 0
        keep = draws.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 2**15
        return x * keep.to(x.dtype).mul_(2**16 / (2**16 - dropped))


class Embedding(nn.Module):
    """Tokens times sqrt(d_model) plus positions, then dropout: sections 3.4, 3.5 and 5.4."""

    positions: Tensor

    def __init__(self, tokens: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.dropout = Dropout(dropout)
        table = sinusoids(0, 256, tokens.embedding_dim)
        self.register_buffer("positions", table, persistent=False)

    def forward(self, tokens: Int[Tensor, "B S"], start: int = 0) -> Float[Tensor, "B S D"]:
        """`start` is the position of the first token: the length of the cache before it."""
        end = start + tokens.shape[1]
        x: Tensor = self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim) + self.table(end)[start:end]
        output: Tensor = self.dropout(x)
        return output

    def table(self, end: int) -> Float[Tensor, "P D"]:
        """Positions 0 to at least `end`, made once."""
        if end > len(self.positions):
            self.positions = sinusoids(0, 2 * end, self.tokens.embedding_dim).to(self.positions)
        return self.positions


class Residual(nn.Module):
    """The residual connection around a sub-layer, with LayerNorm before (pre) or after it (post)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.pre_norm = config.norm == "pre"

    def pre(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """What the sub-layer reads."""
        return self.norm(x) if self.pre_norm else x

    def post(self, x: Float[Tensor, "B Q D"], y: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """Add the sub-layer's output y to its input x."""
        x = x + self.dropout(y)
        return x if self.pre_norm else self.norm(x)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward: the left half of figure 1."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B 1 1 S"] | None,
        gate: Float[Tensor, "*rows H"] | None = None,
        explicit: bool = False,
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B H S S"] | None]:
        """The layer's output and, on the explicit path, its weights."""
        query, memory = self.self_attention.queries_keys_values(self.self_residual.pre(x))
        y, weights = self.self_attention(query, memory, mask, gate, explicit)
        x = self.self_residual.post(x, y)
        y = self.feed_forward(self.feed_forward_residual.pre(x))
        return self.feed_forward_residual.post(x, y), weights


class DecoderStep(NamedTuple):
    """What a decoder layer hands on."""

    x: Float[Tensor, "B T D"]
    past: KeyValue  # of every position read so far: the cache for the next step
    self_weights: Float[Tensor, "B H T P"] | None  # P positions read so far
    cross_weights: Float[Tensor, "B H T S"] | None


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention and feed-forward: the right half of figure 1."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.self_residual = Residual(config)
        self.cross_attention = MultiHeadAttention(config.d_model, config.n_heads)
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        past: KeyValue | None,
        causal: Bool[Tensor, "T P"] | None,
        memory: KeyValue,
        memory_mask: Bool[Tensor, "B 1 1 S"] | None,
        self_gate: Float[Tensor, "*rows H"] | None = None,
        cross_gate: Float[Tensor, "*rows H"] | None = None,
        explicit: bool = False,
    ) -> DecoderStep:
        """Read T new positions behind the `past` ones; `memory` is the encoder's, projected."""
        query, present = self.self_attention.queries_keys_values(self.self_residual.pre(x))
        if past is not None:
            present = KeyValue(
                torch.cat((past.key, present.key), 2), torch.cat((past.value, present.value), 2)
            )
        y, self_weights = self.self_attention(query, present, causal, self_gate, explicit)
        x = self.self_residual.post(x, y)
        query = self.cross_attention.queries(self.cross_residual.pre(x))
        y, cross_weights = self.cross_attention(query, memory, memory_mask, cross_gate, explicit)
        x = self.cross_residual.post(x, y)
        y = self.feed_forward(self.feed_forward_residual.pre(x))
        x = self.feed_forward_residual.post(x, y)
        return DecoderStep(x, present, self_weights, cross_weights)
