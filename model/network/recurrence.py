"""SSRU, a running memory in place of the decoder's self-attention (Kim et al. 2019)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from model.network.attention import AttentionOutput, Gate, KeyValue, MultiHeadAttention


class Recurrence(MultiHeadAttention):
    """The simpler simple recurrent unit of "From Research to Production and Back" (Kim et al. 2019).

    c_t = f_t c_(t-1) + (1 - f_t) W x_t, where f_t = sigmoid(W_f x_t + b_f) and c is 0 before the first token.
    It adds relu(c_t) W_O. `project` holds W_f and W, `output` W_O: in Marian, which has none, an order of the
    dimensions. Neighbouring dimensions are a memory, which takes the place of a head: what is called the
    query and the key of a position are its forget gates f_t, the value is W x_t, and the output relu(c_t).
    """

    def __init__(self, d_model: int, n_heads: int, d_head: int = 0) -> None:
        super().__init__(d_model, n_heads, d_head)
        self.project = nn.Linear(d_model, 2 * self.width)

    def queries_keys_values(self, x: Float[Tensor, "B Q D"]) -> tuple[Float[Tensor, "B H Q K"], KeyValue]:
        """The forget gates, twice, and the values."""
        forget, value = self.project(x).chunk(2, dim=-1)
        forget = self.split_heads(forget.sigmoid())
        return forget, KeyValue(forget, self.split_heads(value))

    def forward(
        self,
        query: Float[Tensor, "B H Q K"],
        key_value: KeyValue,
        mask: Bool[Tensor, "..."] | None = None,
        gate: Gate | None = None,
        explicit: bool = False,
    ) -> AttentionOutput:
        """Read the tokens one after the other; no mask is needed, because a memory knows no later token."""
        heads = memory(*key_value).relu()
        if gate is not None:
            heads = gate.apply(heads)
        y = self.output(heads.transpose(1, 2).flatten(-2))
        weights = shares(key_value.key).mean(-1) if explicit else None
        return AttentionOutput(y, query, key_value, weights, heads if explicit else None)


def memory(forget: Float[Tensor, "*B Q K"], value: Float[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q K"]:
    """The content c_t of the memory after each token."""
    added = (1 - forget) * value
    contents = [added[..., 0, :]]
    for place in range(1, value.shape[-2]):
        contents.append(forget[..., place, :] * contents[-1] + added[..., place, :])
    return torch.stack(contents, -2)


def shares(forget: Float[Tensor, "*B Q K"]) -> Float[Tensor, "*B Q Q K"]:
    """The share of each token's value in the memory after each token, for every dimension.

    A row sums to 1 without f_1 ... f_t, which is the share of nothing: of the zeros before the first token.
    """
    rows = [torch.zeros_like(forget)]
    rows[0][..., 0, :] = 1 - forget[..., 0, :]
    for place in range(1, forget.shape[-2]):
        row = rows[-1] * forget[..., place, None, :]
        row[..., place, :] = 1 - forget[..., place, :]
        rows.append(row)
    return torch.stack(rows, -3)
