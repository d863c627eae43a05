"""How one attention weight came about: query and key, their score, the mask, the softmax, what it adds.

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
    """One weight of one head with everything that made it: equation 1 of Vaswani et al. 2017, spelt out."""

    query: Float[Tensor, " K"]  # of the cell's row
    key: Float[Tensor, " K"]  # of the cell's column
    products: Float[Tensor, " K"]  # element by element; their sum times `scale` is the score
    scale: float  # 1 / sqrt(K)
    score: float
    scores: Float[Tensor, " N"]  # of the whole row, before the mask
    allowed: Bool[Tensor, " N"]  # True = may attend
    weights: Float[Tensor, " N"]  # softmax of the allowed scores, 0 elsewhere
    norms: Float[Tensor, " N"]  # ||a_ij f(x_j)|| of the row (Kobayashi et al. 2020), in units of the residual


class _Reading(NamedTuple):
    """What one sub-layer attends with."""

    attention: MultiHeadAttention
    query: Float[Tensor, "1 H Q K"]
    memory: KeyValue
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
    """Follow the model, in eval mode, up to one head and take one of its weights apart.

    On the explicit path, whose weights the record holds, so that both agree to rounding.

    `source` ends with </s> and `read` begins with <s>; nothing is padding. Raises UserError when there is
    no such head or cell.
    """
    check_head(model.config, head)
    reading = _encoder(model, source, head) if head.kind == "encoder" else _decoder(model, source, read, head)
    rows, columns = reading.allowed.shape
    if not (0 <= row < rows and 0 <= column < columns):
        raise UserError(
            f"There is no cell in row {row}, column {column}; "
            f"rows go from 0 to {rows - 1} and columns from 0 to {columns - 1}."
        )
    query, keys = reading.query[0, head.head, row], reading.memory.key[0, head.head]
    allowed = reading.allowed[row]
    products, scale = query * keys[column], len(query) ** -0.5
    scores = keys @ query * scale
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    vectors = head_vectors(reading.attention, reading.memory.value)[0, head.head]
    norms = weights * vectors.norm(dim=-1)
    score = float(products.sum()) * scale
    return Cell(query, keys[column], products, scale, score, scores, allowed, weights, norms)


def _encoder(model: Transformer, source: Int[Tensor, " S"], head: Head) -> _Reading:
    x = model.source_embedding(source[None])
    for block in model.encoder[: head.layer]:
        x, _ = block(x, None, explicit=True)
    block = cast(EncoderLayer, model.encoder[head.layer])
    query, memory = block.self_attention.queries_keys_values(block.self_residual.pre(x))
    return _Reading(block.self_attention, query, memory, _all(len(source), len(source), x))


def _decoder(model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"], head: Head) -> _Reading:
    encoded = model.encode(source[None], explicit=True)
    causal = causal_mask(len(read), len(read), read.device)
    x = model.target_embedding(read[None])
    for layer in range(head.layer):
        x = model.decoder[layer](x, None, causal, encoded.cross_kv[layer], None, explicit=True).x
    block = cast(DecoderLayer, model.decoder[head.layer])
    query, memory = block.self_attention.queries_keys_values(block.self_residual.pre(x))
    if head.kind == "decoder":
        return _Reading(block.self_attention, query, memory, causal)
    y, _ = block.self_attention(query, memory, causal, explicit=True)
    x = block.self_residual.post(x, y)
    query = block.cross_attention.queries(block.cross_residual.pre(x))
    return _Reading(
        block.cross_attention, query, encoded.cross_kv[head.layer], _all(len(read), len(source), x)
    )


def _all(queries: int, keys: int, like: Tensor) -> Bool[Tensor, "Q N"]:
    """No key is forbidden."""
    return torch.ones(queries, keys, dtype=torch.bool, device=like.device)
