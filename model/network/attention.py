"""Multi-head attention, section 3.2 of "Attention Is All You Need" (Vaswani et al. 2017)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


class KeyValue(NamedTuple):
    """Keys and values of all heads."""

    key: Float[Tensor, "B H S K"]
    value: Float[Tensor, "B H S K"]


class AttentionOutput(NamedTuple):
    """What an attention computed, and from what."""

    y: Float[Tensor, "B Q D"]
    query: Float[Tensor, "B H Q K"]
    key_value: KeyValue
    weights: Float[Tensor, "B H Q S"] | None  # None unless `explicit`, as is `heads`
    heads: Float[Tensor, "B H Q K"] | None  # weights times values, after the gate and before W_O


class Gate(NamedTuple):
    """What becomes of the outputs of one layer's heads before W_O.

    An output z becomes share * z + (1 - share) * replacement: a share of 1 changes nothing, and 0
    replaces z. Only the outputs of the queries in `rows` can change.
    """

    share: Float[Tensor, "*B H"]
    replacement: Float[Tensor, "*B H P K"] | None = (
        None  # of the first P positions; None for zeros everywhere
    )
    rows: Bool[Tensor, " P"] | None = None  # given with `replacement`

    def apply(self, heads: Float[Tensor, "B H Q K"], first: int = 0) -> Float[Tensor, "B H Q K"]:
        """The heads' outputs after the gate; the first query is at the position `first`."""
        share = self.share[..., None, None]
        if self.replacement is None or self.rows is None:
            return heads * share
        queries = slice(first, first + heads.shape[-2])
        closed = (1 - share) * self.rows[queries, None]
        return heads * (1 - closed) + self.replacement[..., queries, :] * closed


def explicit_attention(
    query: Float[Tensor, "*B Q K"],
    key: Float[Tensor, "*B S K"],
    value: Float[Tensor, "*B S K"],
    mask: Bool[Tensor, "..."] | None,
) -> tuple[Float[Tensor, "*B Q K"], Float[Tensor, "*B Q S"]]:
    """Scaled dot-product attention, equation 1, with its weights.

    `mask` broadcasts to [*B, Q, S]. The weight of a masked cell is exactly 0, and a row with all cells
    masked gives zeros.
    """
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    if mask is None:
        weights = scores.softmax(-1)
    else:
        # The lowest finite number instead of -inf, so that a fully masked row has no NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


def fused_attention(
    query: Float[Tensor, "*B Q K"],
    key: Float[Tensor, "*B S K"],
    value: Float[Tensor, "*B S K"],
    mask: Bool[Tensor, "..."] | None,
) -> Float[Tensor, "*B Q K"]:
    """The same computation in one call, without the weights."""
    if query.dtype == torch.bfloat16 and query.device.type == "cpu":
        # Training on a CPU: the backward pass of the fused kernel is five times slower at 12 to 50 tokens.
        return explicit_attention(query, key, value, mask)[0]
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    if mask is None:
        return output
    return output.masked_fill(~mask.any(-1, keepdim=True), 0.0)


class MultiHeadAttention(nn.Module):
    """Multi-head attention, section 3.2.2: `project` holds W_Q, W_K and W_V of all heads, `output` W_O."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.d_model = d_model
        self.project = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)

    def split_heads(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q K"]:
        """Split the width into one slice for each head."""
        batch, length, _ = x.shape
        return x.view(batch, length, self.n_heads, -1).transpose(1, 2)

    def queries_keys_values(self, x: Float[Tensor, "B Q D"]) -> tuple[Float[Tensor, "B H Q K"], KeyValue]:
        """All three projections of one input in one product, for self-attention."""
        query, key, value = self.project(x).chunk(3, dim=-1)
        return self.split_heads(query), KeyValue(self.split_heads(key), self.split_heads(value))

    def queries(self, x: Float[Tensor, "B Q D"]) -> Float[Tensor, "B H Q K"]:
        """Queries only, for cross-attention."""
        d = self.d_model
        return self.split_heads(F.linear(x, self.project.weight[:d], self.project.bias[:d]))

    def keys_values(self, x: Float[Tensor, "B S D"]) -> KeyValue:
        """Keys and values only, for cross-attention: of the encoder's output, once for each sentence."""
        d = self.d_model
        both = F.linear(x, self.project.weight[d:], self.project.bias[d:])
        key, value = both.chunk(2, dim=-1)
        return KeyValue(self.split_heads(key), self.split_heads(value))

    def forward(
        self,
        query: Float[Tensor, "B H Q K"],
        key_value: KeyValue,
        mask: Bool[Tensor, "..."] | None = None,
        gate: Gate | None = None,
        explicit: bool = False,
    ) -> AttentionOutput:
        """Attend, pass each head's output through its gate, join the heads and apply W_O.

        `gate` is shared by the batch or has one row for each of its sentences.
        """
        if explicit:
            heads, weights = explicit_attention(query, *key_value, mask)
        else:
            heads, weights = fused_attention(query, *key_value, mask), None
        if gate is not None:
            heads = gate.apply(heads)
        y = self.output(heads.transpose(1, 2).flatten(-2))
        return AttentionOutput(y, query, key_value, weights, heads if explicit else None)
