"""The two circuits of a head: why it looks at a token (QK), and what it writes when it does (OV).

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". Axis letters: S source length,
T target length, P parts of the query, R parts of the key, D d_model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis.trace import Part, Trace, check_attends, norms_after, output_rows, parts_read, trace
from model.errors import UserError
from model.network.transformer import Transformer, check_head
from model.results import Head

N_WORDS = 8  # words that a head pushes up, and as many that it pushes down


@dataclass(frozen=True)
class ScoreSplit:
    """The score of one cell, before mask and softmax, over what wrote its query and its key."""

    score: float  # query times key / sqrt(K) plus `bias`: the sum of `matrix` and `bias`
    bias: float  # that relative positions add; 0 if the model has none
    query_parts: tuple[Part, ...]  # P
    key_parts: tuple[Part, ...]  # R
    matrix: Float[Tensor, "P R"]


class Push(NamedTuple):
    """A word whose logit a head changes."""

    word: int  # token id
    change: float  # of its logit, relative to the mean over all words


@dataclass(frozen=True)
class Writing:
    """What a head writes when it reads one token with all its attention."""

    weight: float  # of the cell: the head writes this share of it
    norm: float  # of the written vector, in units of the residual stream, at weight 1
    up: tuple[Push, ...]  # the largest change first, at weight 1
    down: tuple[Push, ...]  # the most negative first


@torch.inference_mode()
def split_score(
    model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"], head: Head, row: int, column: int
) -> ScoreSplit:
    """Split the score of one cell over pairs of a part of the query and a part of the key.

    The parts of a row are its token, its position, every earlier head and feed-forward network, and all
    biases as one part; for the key of cross-attention, the biases of the whole encoder. Norms are frozen,
    so the matrix and the bias of relative positions sum to the score exactly. Limits: a part that earlier
    layers changed counts as those layers' part; a number that is the same for all keys of the row (such as a
    query part times the keys' bias) changes no weight. Raises UserError if there is no such head or cell.
    """
    found = _trace_cell(model, source, read, head, row, column)
    stack, place, heads = found.attention(head.kind, head.layer)
    query_names, query = parts_read(stack, place, row)
    if head.kind == "cross":
        key_names, key = parts_read(found.encoder, len(found.encoder.sublayers), column)
    else:
        key_names, key = parts_read(stack, place, column)
    width = heads.query.shape[-1]
    queries = slice(head.head * width, (head.head + 1) * width)
    keys = slice(heads.module.width + queries.start, heads.module.width + queries.stop)
    weight, bias = heads.module.project.weight, heads.module.project.bias
    query, key = query @ weight[queries].T, key @ weight[keys].T
    query[-1] += bias[queries]
    key[-1] += bias[keys]
    score = float(heads.query[head.head, row] @ heads.key[head.head, column]) * width**-0.5
    added = float(heads.bias[head.head, row, column])
    matrix = query @ key.T * width**-0.5
    return ScoreSplit(score + added, added, tuple(query_names), tuple(key_names), matrix)


@torch.inference_mode()
def writing(
    model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"], head: Head, row: int, column: int
) -> Writing:
    """The words that a head pushes up and down in `row` when it reads the token of `column`.

    The value of the token after W_O, through the norms on the way to the output, frozen as they are in this
    row, times the output matrix. A number that all logits share changes no probability, so their mean is
    taken off. Limit: this is the direct path; later layers may use the vector differently. A head of the
    encoder does not write to the output: its vector is compared with the embeddings of the source
    vocabulary (Dar et al. 2023, "Analyzing Transformers in Embedding Space"), which is a hint at best.
    Raises UserError if there is no such head or cell.
    """
    found = _trace_cell(model, source, read, head, row, column)
    stack, place, heads = found.attention(head.kind, head.layer)
    vector = heads.value[head.head, column] @ output_rows(heads.module)[head.head]
    norm = float(vector.norm())
    for frozen in norms_after(stack, place, row):
        vector = frozen.image(vector)
    words = model.source_embedding.tokens if head.kind == "encoder" else model.output
    changes: Tensor = words.weight @ vector
    changes = changes - changes.mean()
    count = min(N_WORDS, (len(changes) + 1) // 2)
    return Writing(
        float(heads.weights[head.head, row, column]),
        norm,
        _pushes(changes.topk(count)),
        _pushes(changes.topk(count, largest=False)),
    )


def _pushes(found: tuple[Tensor, Tensor]) -> tuple[Push, ...]:
    values, words = found
    return tuple(map(Push, words.tolist(), values.tolist()))


def _trace_cell(
    model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"], head: Head, row: int, column: int
) -> Trace:
    """Raises UserError if there is no such head or cell."""
    check_head(model.config, head)
    check_attends(model.config, head.kind)
    found = trace(model, source, read)
    allowed = found.attention(head.kind, head.layer)[2].allowed
    rows, columns = allowed.shape
    if not (0 <= row < rows and 0 <= column < columns) or not bool(allowed[row, column]):
        raise UserError(
            f"There is no cell in row {row}, column {column}; rows go from 0 to {rows - 1}, columns "
            f"from 0 to {columns - 1}, and a step cannot look at later tokens."
        )
    return found
