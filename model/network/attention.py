"""Multi-head attention, section 3.2 of "Attention Is All You Need" (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

REGISTER = 16  # numbers in the largest vector register


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

    An output z becomes share * z + (1 - share) * baseline: a share of 1 changes nothing, and 0
    replaces z. Only the outputs of the queries in `rows` can change.
    """

    share: Float[Tensor, "*B H"]
    baseline: Float[Tensor, "*B H P K"] | None = None  # of the first P positions; None for zeros everywhere
    rows: Bool[Tensor, " P"] | None = None  # given with `baseline`

    def apply(self, heads: Float[Tensor, "B H Q K"], first: int = 0) -> Float[Tensor, "B H Q K"]:
        """The heads' outputs after the gate; the first query is at the position `first`."""
        share = self.share[..., None, None]
        if self.baseline is None or self.rows is None:
            return heads * share
        queries = slice(first, first + heads.shape[-2])
        closed = (1 - share) * self.rows[queries, None]
        return heads * (1 - closed) + self.baseline[..., queries, :] * closed


def explicit_attention(
    query: Float[Tensor, "*B Q K"],
    key: Float[Tensor, "*B S K"],
    value: Float[Tensor, "*B S K"],
    mask: Bool[Tensor, "..."] | None,
    bias: Float[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*B Q K"], Float[Tensor, "*B Q S"]]:
    """Scaled dot-product attention, equation 1, with its weights.

    `mask` and `bias`, which is added to the scores, broadcast to [*B, Q, S]. The weight of a masked cell is
    exactly 0, and a row with all cells masked gives zeros.
    """
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    if bias is not None:
        scores = scores + bias
    if mask is None:
        weights = softmax(scores)
    else:
        # The lowest finite number instead of -inf, so that a fully masked row has no NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = softmax(scores).masked_fill(~mask, 0.0)
    return weights @ value, weights


def softmax(scores: Float[Tensor, "*B S"]) -> Float[Tensor, "*B S"]:
    """Over the keys. On rows shorter than a vector register, torch's own takes six times as long on a CPU."""
    keys = scores.shape[-1]
    if keys >= REGISTER:
        return scores.softmax(-1)
    return F.pad(scores, (0, REGISTER - keys), value=-torch.inf).softmax(-1)[..., :keys]


def fused_attention(
    query: Float[Tensor, "*B Q K"],
    key: Float[Tensor, "*B S K"],
    value: Float[Tensor, "*B S K"],
    mask: Bool[Tensor, "..."] | None,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*B Q K"]:
    """The same computation in one call, without the weights."""
    if query.dtype == torch.bfloat16 and query.device.type == "cpu":
        # Training on a CPU: the backward pass of the fused kernel is five times slower at 12 to 50 tokens.
        return explicit_attention(query, key, value, mask, bias)[0]
    added = bias if mask is None else mask if bias is None else torch.where(mask, bias, -torch.inf)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=added)
    if mask is None:
        return output
    return output.masked_fill(~mask.any(-1, keepdim=True), 0.0)


class RelativePositions(nn.Module):
    """A bias of each head's scores for each bucket of distances, shared by all layers (Raffel et al. 2020).

    The decoder's queries see no later keys; in the encoder half of the buckets are for later keys.
    """

    def __init__(self, n_buckets: int, max_distance: int, n_heads: int, is_encoder: bool) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.is_encoder = is_encoder
        self.biases = nn.Parameter(torch.zeros(n_buckets, n_heads))

    def bucket(self, distance: Int[Tensor, "Q S"]) -> Int[Tensor, "Q S"]:
        """The bucket of each distance key - query: one for each small distance, then wider and wider ones."""
        count = len(self.biases) // 2 if self.is_encoder else len(self.biases)
        first = (distance > 0) * count if self.is_encoder else 0
        steps = distance.abs() if self.is_encoder else (-distance).clamp(min=0)
        exact = count // 2
        growth = (steps.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        wide = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
        return first + torch.where(steps < exact, steps, wide)

    def forward(self, queries: int, keys: int) -> Float[Tensor, "H Q S"]:
        """The bias of each score; the queries are the last `queries` of the `keys` positions."""
        place = torch.arange(keys, device=self.biases.device)
        distance = place[None] - place[keys - queries :, None]
        return self.biases[self.bucket(distance)].permute(2, 0, 1)


class MultiHeadAttention(nn.Module):
    """Multi-head attention, section 3.2.2: `project` holds W_Q, W_K and W_V of all heads, `output` W_O."""

    def __init__(
        self, d_model: int, n_heads: int, d_head: int = 0, positions: RelativePositions | None = None
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.positions = positions  # of self-attention; all layers share one
        self.width = n_heads * d_head or d_model  # of all heads together
        self.project = nn.Linear(d_model, 3 * self.width)
        self.output = nn.Linear(self.width, d_model)

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
        width = self.width
        return self.split_heads(F.linear(x, self.project.weight[:width], self.project.bias[:width]))

    def keys_values(self, x: Float[Tensor, "B S D"]) -> KeyValue:
        """Keys and values only, for cross-attention: of the encoder's output, once for each sentence."""
        width = self.width
        both = F.linear(x, self.project.weight[width:], self.project.bias[width:])
        key, value = both.chunk(2, dim=-1)
        return KeyValue(self.split_heads(key), self.split_heads(value))

    def bias(self, queries: int, keys: int) -> Float[Tensor, "H Q S"] | None:
        """What relative positions add to the scores; the queries are the last of the keys' positions."""
        return None if self.positions is None else self.positions(queries, keys)

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
        bias = self.bias(query.shape[-2], key_value.key.shape[-2])
        if explicit:
            heads, weights = explicit_attention(query, *key_value, mask, bias)
        else:
            heads, weights = fused_attention(query, *key_value, mask, bias), None
        if gate is not None:
            heads = gate.apply(heads)
        y = self.output(heads.transpose(1, 2).flatten(-2))
        return AttentionOutput(y, query, key_value, weights, heads if explicit else None)
