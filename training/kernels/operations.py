"""Attention as a differentiable operation on rows of tokens.

Activations are bfloat16 or float32 matrices [N, D].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torch.autograd import Function

from training.kernels.attention import attention_backward, attention_forward


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

    def arguments(self, projected: Tensor, memory: Tensor | None) -> dict[str, Any]:
        """What both passes of the kernel read, by name."""
        d = projected.shape[1] // (3 if memory is None else 1)
        both = projected[:, d:] if memory is None else memory
        shape = {"blocks": len(self.queries.starts) - 1, "heads": self.heads, "width": d // self.heads}
        flags = {"narrow": projected.dtype == torch.bfloat16, "causal": self.causal}
        longest = {"longest_query": self.queries.longest, "longest_key": self.keys.longest}
        starts = {"query_starts": self.queries.starts, "key_starts": self.keys.starts}
        strides = {"query_stride": projected.stride(0), "key_stride": both.stride(0)}
        inputs = {"queries": projected, "keys": both, "values": both[:, d:]}
        return shape | flags | longest | starts | strides | inputs


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
        inputs = {"out": out, "statistics": statistics, "d_out": gradients[0].contiguous()}
        results = {"d_queries": d_projected, "d_keys": d_keys, "d_values": d_keys[:, d:]}
        attention_backward(**ctx.shape.arguments(projected, memory), **inputs, **results)
        return d_projected, d_memory, None
