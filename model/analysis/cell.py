"""Where one attention weight comes from: query, key, score, mask, softmax, and what it adds.

Axis letters: S source length, T target length, N columns of the cell's row, K head width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.analysis.trace import check_attends, output_rows, trace
from model.errors import UserError
from model.network.transformer import Transformer, check_head
from model.results import Head


@dataclass(frozen=True)
class Cell:
    """One weight of one head with every term of equation 1 of Vaswani et al. 2017."""

    query: Float[Tensor, " K"]  # of the cell's row
    key: Float[Tensor, " K"]  # of the cell's column
    products: Float[Tensor, " K"]  # element by element; their sum times `scale`, plus `bias`, is the score
    scale: float  # 1 / sqrt(K)
    score: float
    scores: Float[Tensor, " N"]  # of the whole row, before the mask
    allowed: Bool[Tensor, " N"]  # True = may attend
    weights: Float[Tensor, " N"]  # softmax of the allowed scores, 0 elsewhere
    norms: Float[Tensor, " N"]  # ||a_ij f(x_j)|| of the row (Kobayashi et al. 2020), in units of the residual
    bias: float = 0.0  # that relative positions add to the score; 0 if the model has none


@torch.inference_mode()
def explain_cell(
    model: Transformer,
    source: Int[Tensor, " S"],
    read: Int[Tensor, " T"],
    head: Head,
    row: int,
    column: int,
) -> Cell:
    """Show how one weight of one head is computed while the model, in eval mode, reads a sentence pair.

    `source` ends with </s> and `read` begins with <s>, both without padding. Raises UserError if there
    is no such head or cell.
    """
    check_head(model.config, head)
    check_attends(model.config, head.kind)
    _, _, heads = trace(model, source, read).attention(head.kind, head.layer)
    rows, columns = heads.allowed.shape
    if not (0 <= row < rows and 0 <= column < columns):
        raise UserError(
            f"There is no cell in row {row}, column {column}; "
            f"rows go from 0 to {rows - 1} and columns from 0 to {columns - 1}."
        )
    query, keys, allowed = heads.query[head.head, row], heads.key[head.head], heads.allowed[row]
    products, scale = query * keys[column], len(query) ** -0.5
    bias = heads.bias[head.head, row]
    scores = keys @ query * scale + bias
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    norms = weights * (heads.value[head.head] @ output_rows(heads.module)[head.head]).norm(dim=-1)
    added = float(bias[column])
    score = float(products.sum()) * scale + added
    return Cell(query, keys[column], products, scale, score, scores, allowed, weights, norms, added)
