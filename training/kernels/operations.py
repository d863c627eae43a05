"""The kernels as differentiable operations on rows of tokens, with the matrix products between them.

Activations are bfloat16 or float32 matrices [N, D], parameters and the residual stream float32. Products
run in the type of their input.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function

from training.kernels.attention import attention_backward, attention_forward
from training.kernels.rows import (
    add_norm_backward,
    add_norm_forward,
    cross_entropy,
    embed_backward,
    embed_forward,
    sum_rows,
)
from training.kernels.runtime import BLOCK


class Packed(NamedTuple):
    """Sentences that follow each other as the rows of a matrix."""

    tokens: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    starts: Int[Tensor, " B+1"]  # first row of each sentence, and N
    longest: int


def _rows(x: Tensor) -> dict[str, int]:
    """The arguments that describe a matrix: its blocks of rows, its shape, and whether it is bfloat16."""
    rows, width = x.shape
    blocks, narrow = -(-rows // BLOCK), x.dtype == torch.bfloat16
    return {"blocks": blocks, "rows": rows, "width": width, "narrow": narrow}


def _dropout(rate: float) -> dict[str, int]:
    """The arguments of dropout; its seed is drawn from torch's generator, as a resumed run needs."""
    seed = int(torch.empty((), dtype=torch.int64).random_()) if rate else 0
    return {"seed": seed, "dropped": min(round(rate * 2**16), 2**16 - 1)}


def _sum_rows(gradient: Tensor, hidden: Tensor | None = None) -> Tensor:
    """The sum of all rows; with `hidden`, the output of a ReLU, first its gradient in place."""
    shape = _rows(gradient)
    sums = torch.empty(shape["blocks"], shape["width"])
    sum_rows(**shape, gradient=gradient, hidden=hidden, sums=sums)
    return sums.sum(0)


class Embed(Function):
    """Token embeddings times sqrt(D) plus positions, then dropout."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, positions: Tensor, packed: Packed, rate: float) -> Tensor:
        """One row for each token."""
        x = torch.empty(len(packed.tokens), table.shape[1])
        ctx.tokens, ctx.entries, ctx.dropout = packed.tokens, len(table), _dropout(rate)
        places = {"tokens": packed.tokens, "positions": packed.positions}
        embed_forward(**_rows(x), **places, table=table, encodings=positions, x=x, **ctx.dropout)
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """The gradient of the table."""
        d_x = gradients[0].contiguous()
        d_rows = torch.empty_like(d_x)
        embed_backward(**_rows(d_x), d_x=d_x, d_rows=d_rows, **ctx.dropout)
        return d_x.new_zeros(ctx.entries, d_x.shape[1]).index_add_(0, ctx.tokens, d_rows), None, None, None


class Linear(Function):
    """A product with a weight, and a bias added if there is one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """[N, D] times the transpose of [E, D]."""
        weight = weight.to(x.dtype)
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        return x @ weight.T if bias is None else torch.addmm(bias.to(x.dtype), x, weight.T)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Two products, and the sum of all rows."""
        x, weight = ctx.saved_tensors
        d_y = gradients[0].contiguous()
        return d_y @ weight, (d_y.T @ x).float(), _sum_rows(d_y) if ctx.biased else None


class FeedForward(Function):
    """Both products of a feed-forward network with the ReLU between them; AddNorm adds the second bias."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, inner: Tensor, bias: Tensor, outer: Tensor) -> Tensor:
        """[N, D] to [N, D]."""
        inner, outer = inner.to(x.dtype), outer.to(x.dtype)
        hidden = torch.addmm(bias.to(x.dtype), x, inner.T).relu_()
        ctx.save_for_backward(x, hidden, inner, outer)
        return hidden @ outer.T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Four products; the gradient of the ReLU and the sum of its rows are one pass."""
        x, hidden, inner, outer = ctx.saved_tensors
        d_y = gradients[0].contiguous()
        d_hidden = d_y @ outer
        d_bias = _sum_rows(d_hidden, hidden)
        return d_hidden @ inner, (d_hidden.T @ x).float(), d_bias, (d_y.T @ hidden).float()


class NormSettings(NamedTuple):
    """How AddNorm works."""

    dtype: torch.dtype  # of the norm
    epsilon: float
    rate: float  # of dropout
    post: bool  # the residual stream goes on from the norm


class AddNorm(Function):
    """The residual stream x + dropout(y + bias) in float32, and its LayerNorm; without y only the norm."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor | None,
        y_bias: Tensor | None,
        gain: Tensor,
        bias: Tensor,
        settings: NormSettings,
    ) -> tuple[Tensor, Tensor]:
        """The stream that goes on, and the norm."""
        dtype, epsilon, rate, post = settings
        total = x if y is None else torch.empty_like(x)
        stream = torch.empty_like(x) if post else total
        normal, statistics = torch.empty_like(x, dtype=dtype), torch.empty(len(x), 2)
        ctx.dropout, ctx.post, ctx.adds = _dropout(0.0 if y is None else rate), post, y is not None
        inputs = {"x": x, "y": y, "y_bias": y_bias, "gain": gain, "bias": bias, "epsilon": epsilon}
        results = {"total": total, "stream": stream, "normal": normal, "statistics": statistics}
        add_norm_forward(**_rows(normal), post=post, **inputs, **results, **ctx.dropout)
        ctx.save_for_backward(total, statistics, gain)
        ctx.set_materialize_grads(False)
        return stream, normal

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Of the stream, which nothing may read after the last layer, and of the norm."""
        total, statistics, gain = ctx.saved_tensors
        d_stream, d_normal = (None if each is None else each.contiguous() for each in gradients)
        if d_normal is None:
            raise ValueError("nothing reads the norm")
        d_x = torch.empty_like(total)
        d_y = torch.empty_like(d_normal) if ctx.adds else None
        shape = _rows(d_normal)
        sums = torch.empty(shape["blocks"], 3, shape["width"])
        inputs = {"d_normal": d_normal, "d_stream": d_stream, "total": total, "statistics": statistics}
        results = {"d_x": d_x, "d_y": d_y, "sums": sums}
        add_norm_backward(**shape, post=ctx.post, gain=gain, **inputs, **results, **ctx.dropout)
        d_gain, d_bias, d_y_bias = sums.sum(0)
        return d_x, d_y, d_y_bias if ctx.adds else None, d_gain, d_bias, None


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


def cross_entropy_(
    logits: Float[Tensor, "N V"], labels: Int[Tensor, " N"], smoothing: float
) -> Float[Tensor, ""]:
    """The summed label-smoothed loss in nats; its gradient replaces the logits. Labels below 0 add 0."""
    losses = torch.empty(len(logits))
    cross_entropy(**_rows(logits), logits=logits, labels=labels, losses=losses, smoothing=smoothing)
    return losses.sum()
