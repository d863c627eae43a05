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
    column_sums,
    cross_entropy,
    embed_backward,
    embed_forward,
    relu_backward,
)
from training.kernels.runtime import BLOCK, run


class Packed(NamedTuple):
    """Sentences that follow each other as the rows of a matrix."""

    tokens: Int[Tensor, " N"]
    positions: Int[Tensor, " N"]
    starts: Int[Tensor, " B+1"]  # first row of each sentence, and N
    longest: int


def _blocks(rows: int) -> int:
    return -(-rows // BLOCK)


def _narrow(x: Tensor) -> bool:
    return x.dtype == torch.bfloat16


def _dropped(rate: float) -> int:
    """How many of 2^16 draws are dropped."""
    return min(round(rate * 2**16), 2**16 - 1)


def _seed(rate: float) -> int:
    """From torch's generator, which the trainer seeds for every step; the kernels hash it."""
    return int(torch.empty((), dtype=torch.int64).random_()) if rate else 0


class Embed(Function):
    """Token embeddings times sqrt(D) plus positions, then dropout."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, positions: Tensor, packed: Packed, rate: float) -> Tensor:
        """One row for each token."""
        rows, width = len(packed.tokens), table.shape[1]
        x = torch.empty(rows, width)
        ctx.tokens, ctx.entries = packed.tokens, len(table)
        ctx.dropout = _seed(rate), _dropped(rate)
        places = packed.tokens, packed.positions, table, positions
        run(embed_forward, _blocks(rows), rows, width, *places, x, *ctx.dropout)
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """The gradient of the table."""
        d_x = gradients[0].contiguous()
        d_rows = torch.empty_like(d_x)
        run(embed_backward, _blocks(len(d_x)), *d_x.shape, d_x, d_rows, *ctx.dropout)
        d_table = torch.ops.aten.embedding_dense_backward(d_rows, ctx.tokens, ctx.entries, -1, False)
        return d_table, None, None, None


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
        d_bias = None
        if ctx.biased:
            sums = torch.empty(_blocks(len(d_y)), d_y.shape[1])
            run(column_sums, len(sums), *d_y.shape, _narrow(d_y), d_y, sums)
            d_bias = sums.sum(0)
        return d_y @ weight, (d_y.T @ x).float(), d_bias


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
        sums = torch.empty(_blocks(len(x)), hidden.shape[1])
        run(relu_backward, len(sums), *hidden.shape, _narrow(x), d_hidden, hidden, sums)
        return d_hidden @ inner, (d_hidden.T @ x).float(), sums.sum(0), (d_y.T @ hidden).float()


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
        ctx.dropout = (0, 0) if y is None else (_seed(rate), _dropped(rate))
        ctx.post, ctx.adds = post, y is not None
        inputs, results = (x, y, y_bias, gain, bias), (total, stream, normal, statistics)
        flags = _narrow(normal), post
        run(add_norm_forward, _blocks(len(x)), *x.shape, *flags, *inputs, *results, *ctx.dropout, epsilon)
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
        sums = torch.empty(_blocks(len(total)), 3, total.shape[1])
        flags, inputs = (_narrow(d_normal), ctx.post), (d_normal, d_stream, gain, total, statistics)
        run(add_norm_backward, len(sums), *total.shape, *flags, *inputs, d_x, d_y, sums, *ctx.dropout)
        d_gain, d_bias, d_y_bias = sums.sum(0)
        return d_x, d_y, d_y_bias if ctx.adds else None, d_gain, d_bias, None


class AttentionShape(NamedTuple):
    """Who attends to whom."""

    queries: Packed
    keys: Packed
    heads: int
    causal: bool

    def words(self, projected: Tensor, memory: Tensor | None) -> tuple[Any, ...]:
        """The arguments that both passes of the kernel share."""
        queries, keys, heads, causal = self
        d = projected.shape[1] // (3 if memory is None else 1)
        both = projected[:, d:] if memory is None else memory
        lengths = queries.longest, keys.longest, queries.starts, keys.starts
        places = projected, projected.stride(0), both, both.stride(0), both[:, d:]
        return len(queries.starts) - 1, heads, d // heads, _narrow(projected), causal, *lengths, *places


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
        run(attention_forward, *shape.words(projected, memory), out, statistics)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Of queries, keys and values, in the layout of the inputs."""
        projected, memory, out, statistics = ctx.saved_tensors
        d = out.shape[1]
        d_projected = torch.empty_like(projected)
        d_memory = None if memory is None else torch.empty_like(memory)
        d_keys = d_projected[:, d:] if d_memory is None else d_memory
        results = d_projected, d_keys, d_keys[:, d:]
        words = ctx.shape.words(projected, memory)
        run(attention_backward, *words, out, statistics, gradients[0].contiguous(), *results)
        return d_projected, d_memory, None


def cross_entropy_(
    logits: Float[Tensor, "N V"], labels: Int[Tensor, " N"], smoothing: float
) -> Float[Tensor, ""]:
    """The summed label-smoothed loss in nats; its gradient replaces the logits. Labels below 0 add 0."""
    losses = torch.empty(len(logits))
    arguments = *logits.shape, _narrow(logits), logits, labels, losses, float(smoothing)
    run(cross_entropy, _blocks(len(logits)), *arguments)
    return losses.sum()
