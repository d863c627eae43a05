"""Embedding, feed-forward network, encoder and decoder layers (Vaswani et al. 2017, sections 3.1 to 3.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.errors import UserError
from model.network.attention import AttentionOutput, Gate, KeyValue, MultiHeadAttention, RelativePositions
from model.network.config import ModelConfig
from model.network.recurrence import Recurrence

# ReLU works in place, which saves memory. The gradients of the others need their input.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
}


class FeedForward(nn.Module):
    """Position-wise feed-forward network, section 3.3, equation 2, with any of ACTIVATIONS.

    A gated one (Shazeer 2020, "GLU Variants Improve Transformer") scales each hidden number by another
    product.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu", gated: bool = False) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.inner = nn.Linear(d_model, d_ff)
        self.gate = nn.Linear(d_model, d_ff) if gated else None
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """Two projections with the activation between them."""
        # Flattened, because autograd copies the gradient of a view that relu_ changes in place.
        rows = x.flatten(0, -2)
        hidden = self.activation(self.inner(rows))
        if self.gate is not None:
            hidden = hidden * self.gate(rows)
        output: Tensor = self.outer(hidden)
        return output.view_as(x)


def sinusoids(length: int, d_model: int, layout: str = "sinusoidal") -> Float[Tensor, "length D"]:
    """Positional encoding, section 3.5: sine at even indices, cosine at odd ones.

    In the layout of fairseq (Ott et al. 2019) the first token is at position 2, and the last frequency is
    1 / 10000; in the paper's it is one step before that. Marian (Junczys-Dowmunt et al. 2018) has the
    frequencies of fairseq and begins at position 0. The layouts "none" and "relative" are zeros: no
    positions at all, or such that the attention adds.
    """
    if layout in ("none", "relative"):
        return torch.zeros(length, d_model)
    position = torch.arange(length, dtype=torch.float32)[:, None] + 2 * (layout == "fairseq")
    steps = d_model // 2 - (layout in ("fairseq", "marian"))
    frequency = torch.exp(torch.arange(d_model // 2) * (-math.log(10000.0) / steps))
    angle = position * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


class Dropout(nn.Module):
    """Dropout (section 5.4) that draws its random numbers in a third of nn.Dropout's time on a CPU.

    On a CPU one random 64-bit number decides four elements, so the rate is rounded to a multiple of 2^-16.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Set each element to zero with probability `rate`; scale the others so that the mean stays."""
        if not self.training or self.rate == 0 or x.device.type != "cpu":
            return F.dropout(x, self.rate, self.training)
        dropped = round(self.rate * 2**16)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
        draws.random_(-(2**63), None)  # without bounds the sign bit would stay 0
        keep = draws.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 2**15
        return x * keep.to(x.dtype).mul_(2**16 / (2**16 - dropped))


class Embedding(nn.Module):
    """Token embeddings times sqrt(d_model), plus positions, then dropout (sections 3.4, 3.5 and 5.4).

    BART (Lewis et al. 2020) learns its positions, and normalises the sum before the dropout.
    """

    positions: Tensor

    def __init__(
        self,
        tokens: nn.Embedding,
        dropout: float,
        layout: str = "sinusoidal",
        *,
        learned: int = 0,
        norm: bool = False,
    ) -> None:
        super().__init__()
        width = tokens.embedding_dim
        self.tokens = tokens
        self.layout = layout  # of the positions
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.dropout = Dropout(dropout)
        if learned:
            self.positions = nn.Parameter(torch.empty(learned, width))
        else:
            self.register_buffer("positions", sinusoids(256, width, self.layout), persistent=False)

    def forward(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Embed whole sentences, whose first token is at position 0."""
        length = tokens.shape[1]
        x: Tensor = self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim) + self.table(length)[:length]
        output: Tensor = self.dropout(self.norm(x))
        return output

    def table(self, length: int) -> Float[Tensor, "P D"]:
        """Positional encodings of at least the first `length` positions.

        The table of sinusoids grows when needed. Raises UserError if fewer positions were learned.
        """
        if length > len(self.positions):
            if self.layout == "learned":
                raise UserError(f"The model knows {len(self.positions)} positions; give a shorter text.")
            self.positions = sinusoids(2 * length, self.tokens.embedding_dim, self.layout).to(self.positions)
        return self.positions


def norm_of(config: ModelConfig) -> nn.Module:
    """A norm of the model's kind."""
    return nn.RMSNorm(config.d_model, eps=1e-6) if config.rms_norm else nn.LayerNorm(config.d_model)


class Residual(nn.Module):
    """The residual connection around a sub-layer, with a norm before it (pre) or after it (post)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = norm_of(config)
        self.dropout = Dropout(config.dropout)
        self.pre_norm = config.norm == "pre"

    def pre(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """The input of the sub-layer."""
        return self.norm(x) if self.pre_norm else x

    def post(self, x: Float[Tensor, "B Q D"], y: Float[Tensor, "B Q D"]) -> Float[Tensor, "B Q D"]:
        """Add the sub-layer's output y to its input x."""
        x = x + self.dropout(y)
        return x if self.pre_norm else self.norm(x)


class SubLayerPass(NamedTuple):
    """What one sub-layer read and added."""

    x: Float[Tensor, "B Q D"]  # the residual stream that it read
    y: Float[Tensor, "B Q D"]  # what it added
    attention: AttentionOutput | None = None  # None for a feed-forward network


class EncoderLayerOutput(NamedTuple):
    """The result of an encoder layer."""

    x: Float[Tensor, "B S D"]
    self_kv: KeyValue
    sublayers: tuple[SubLayerPass, ...]  # in the order of the computation; empty unless `explicit`


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward network, the left half of figure 1."""

    def __init__(self, config: ModelConfig, positions: RelativePositions | None = None) -> None:
        super().__init__()
        heads = config.d_model, config.n_heads, config.d_head
        self.self_attention = MultiHeadAttention(*heads, positions)
        self.self_residual = Residual(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation, config.gated)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B 1 1 S"] | None,
        gate: Gate | None = None,
        explicit: bool = False,
    ) -> EncoderLayerOutput:
        """Apply both sub-layers."""
        query, self_kv = self.self_attention.queries_keys_values(self.self_residual.pre(x))
        own = self.self_attention(query, self_kv, mask, gate, explicit)
        sublayers = [SubLayerPass(x, own.y, own)]
        x = self.self_residual.post(x, own.y)
        y = self.feed_forward(self.feed_forward_residual.pre(x))
        sublayers.append(SubLayerPass(x, y))
        x = self.feed_forward_residual.post(x, y)
        return EncoderLayerOutput(x, self_kv, tuple(sublayers) if explicit else ())


class DecoderLayerOutput(NamedTuple):
    """The result of a decoder layer."""

    x: Float[Tensor, "B T D"]
    self_kv: KeyValue
    cross_query: Float[Tensor, "B H T K"]
    sublayers: tuple[SubLayerPass, ...]  # in the order of the computation; empty unless `explicit`


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention and feed-forward network, the right half of figure 1.

    With `autoregression` "ssru" a running memory takes the place of the self-attention.
    """

    def __init__(self, config: ModelConfig, positions: RelativePositions | None = None) -> None:
        super().__init__()
        heads = config.d_model, config.n_heads, config.d_head
        self.self_attention = (
            Recurrence(*heads) if config.is_recurrent else MultiHeadAttention(*heads, positions)
        )
        self.self_residual = Residual(config)
        self.cross_attention = MultiHeadAttention(*heads)
        self.cross_residual = Residual(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation, config.gated)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        causal: Bool[Tensor, "T T"],
        cross_kv: KeyValue,
        cross_mask: Bool[Tensor, "B 1 1 S"] | None,
        self_gate: Gate | None = None,
        cross_gate: Gate | None = None,
        explicit: bool = False,
    ) -> DecoderLayerOutput:
        """Apply the three sub-layers; `cross_kv` are this layer's projections of the encoder's output."""
        query, self_kv = self.self_attention.queries_keys_values(self.self_residual.pre(x))
        own = self.self_attention(query, self_kv, causal, self_gate, explicit)
        sublayers = [SubLayerPass(x, own.y, own)]
        x = self.self_residual.post(x, own.y)
        query = self.cross_attention.queries(self.cross_residual.pre(x))
        cross = self.cross_attention(query, cross_kv, cross_mask, cross_gate, explicit)
        sublayers.append(SubLayerPass(x, cross.y, cross))
        x = self.cross_residual.post(x, cross.y)
        y = self.feed_forward(self.feed_forward_residual.pre(x))
        sublayers.append(SubLayerPass(x, y))
        x = self.feed_forward_residual.post(x, y)
        return DecoderLayerOutput(x, self_kv, query, tuple(sublayers) if explicit else ())
