"""Where one attention weight comes from: query, key, score, mask, softmax, and what it adds.

Axis letters: S source length, T target length, N columns of the cell's row, K head width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.analysis.attribution import head_vectors
from model.errors import UserError
from model.network.attention import KeyValue, MultiHeadAttention
from model.network.layers import DecoderLayer, EncoderLayer
from model.network.masks import causal_mask
from model.network.transformer import Transformer, check_head
from model.results import Head


@dataclass(frozen=True)
class Cell:
    """One weight of one head with every term of equation 1 of Vaswani et al. 2017."""

    query: Float[Tensor, " K"]  # of the cell's row
    key: Float[Tensor, " K"]  # of the cell's column
    products: Float[Tensor, " K"]  # element by element; their sum times `scale` is the score
    scale: float  # 1 / sqrt(K)
    score: float
    scores: Float[Tensor, " N"]  # of the whole row, before the mask
    allowed: Bool[Tensor, " N"]  # True = may attend
    weights: Float[Tensor, " N"]  # softmax of the allowed scores, 0 elsewhere
    norms: Float[Tensor, " N"]  # ||a_ij f(x_j)|| of the row (Kobayashi et al. 2020), in units of the residual


class _Inputs(NamedTuple):
    """The inputs of the attention in one sub-layer."""

    attention: MultiHeadAttention
    query: Float[Tensor, "1 H Q K"]
    key_value: KeyValue
    allowed: Bool[Tensor, "Q N"]


@torch.inference_mode()
def explain_cell(
    model: Transformer,
    source: Int[Tensor, " S"],
    read: Int[Tensor, " T"],
    head: Head,
    row: int,
    column: int,
) -> Cell:
    """Run the model, in eval mode, up to one head and show how one of its weights is computed.

    Takes the explicit path, as the record of a translation does, so that both agree to rounding.
    `source` ends with </s> and `read` begins with <s>, both without padding. Raises UserError if there
    is no such head or cell.
    """
    check_head(model.config, head)
    found = _encoder(model, source, head) if head.kind == "encoder" else _decoder(model, source, read, head)
    rows, columns = found.allowed.shape
    if not (0 <= row < rows and 0 <= column < columns):
        raise UserError(
            f"There is no cell in row {row}, column {column}; "
            f"rows go from 0 to {rows - 1} and columns from 0 to {columns - 1}."
        )
    query, keys = found.query[0, head.head, row], found.key_value.key[0, head.head]
    allowed = found.allowed[row]
    products, scale = query * keys[column], len(query) ** -0.5
    scores = keys @ query * scale
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    vectors = head_vectors(found.attention, found.key_value.value)[0, head.head]
    norms = weights * vectors.norm(dim=-1)
    score = float(products.sum()) * scale
    return Cell(query, keys[column], products, scale, score, scores, allowed, weights, norms)


def _encoder(model: Transformer, source: Int[Tensor, " S"], head: Head) -> _Inputs:
    x = model.source_embedding(source[None])
    for block in model.encoder[: head.layer]:
        x = block(x, None, explicit=True).x
    block = cast(EncoderLayer, model.encoder[head.layer])
    query, key_value = block.self_attention.queries_keys_values(block.self_residual.pre(x))
    return _Inputs(block.self_attention, query, key_value, _all(len(source), len(source), x))


def _decoder(model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"], head: Head) -> _Inputs:
    encoded = model.encode(source[None], explicit=True)
    causal = causal_mask(len(read), len(read), read.device)
    x = model.target_embedding(read[None])
    for layer in range(head.layer):
        x = model.decoder[layer](x, causal, encoded.cross_kv[layer], None, explicit=True).x
    block = cast(DecoderLayer, model.decoder[head.layer])
    query, key_value = block.self_attention.queries_keys_values(block.self_residual.pre(x))
    if head.kind == "decoder":
        return _Inputs(block.self_attention, query, key_value, causal)
    y, _ = block.self_attention(query, key_value, causal, explicit=True)
    x = block.self_residual.post(x, y)
    query = block.cross_attention.queries(block.cross_residual.pre(x))
    return _Inputs(
        block.cross_attention, query, encoded.cross_kv[head.layer], _all(len(read), len(source), x)
    )


def _all(queries: int, keys: int, like: Tensor) -> Bool[Tensor, "Q N"]:
    """A mask that allows every key."""
    return torch.ones(queries, keys, dtype=torch.bool, device=like.device)
