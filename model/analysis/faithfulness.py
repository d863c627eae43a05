"""Faithfulness: removes the strongest cells of a row in five rankings and measures a word's probability.

Axis letters: S source length, T target length, N columns of the row, H heads of the layer, K head width,
C variants of the row, k cells that are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.analysis.attribution import rollout
from model.analysis.trace import Attending, SubLayer, Trace, check_attends, output_rows, trace
from model.errors import UserError
from model.network.attention import KeyValue
from model.network.transformer import Encoded, HeadBaseline, HeadGates, Transformer, check_head, eval_mode
from model.results import KINDS, Head

MAX_REMOVED = 10  # cells, so that a long sentence does not take minutes
N_RANDOM = 5  # random orders, whose mean is drawn
RANDOM = "random"
PASS_TOKENS = 2048  # tokens that are read together


@dataclass(frozen=True)
class Removal:
    """One way to rank the cells of a row, and the probability while they are removed."""

    name: str  # weight, norm, rollout, value zeroing or random
    order: tuple[int, ...]  # the columns in the order of their removal; empty for random, a mean of orders
    probabilities: tuple[float, ...]  # with the first 0, 1, ... columns removed


class RemovalTarget(NamedTuple):
    """The row that loses cells, and the word whose probability is watched."""

    source: Int[Tensor, " S"]  # a sentence pair without padding
    read: Int[Tensor, " T"]
    predicted: Int[Tensor, " T"]
    kind: str  # of attention
    layer: int
    head: int | None  # None: all heads of the layer
    row: int
    step: int  # of the word


@torch.inference_mode()
def removal_curves(model: Transformer, target: RemovalTarget) -> tuple[Removal, ...]:
    """Remove cells of one row of one head, or of all heads of a layer, the strongest first.

    A removed cell is masked, so the others share its weight; with all removed, the head gives zero. Each
    curve begins at the probability of `predicted[step]` in the model as it is. A ranking is faithful if
    its curve falls at once; a ranking no better than random says little. The rankings, each over the
    chosen heads: mean weight; norm of the sum of the weighted, transformed values (Kobayashi et al. 2020);
    rollout up to this layer (Abnar and Zuidema 2020); value zeroing, the cosine distance that the residual
    stream after the sub-layer moves when the cell's value is zero (Mohebbi et al. 2023, who take the
    stream after the whole layer); and the mean of five random orders, the same at each call. Curves by
    deletion: Jain and Wallace 2019; Samek et al. 2017.

    Limits: at most ten cells; other layers still read the removed token, so a flat curve need not mean
    that it is unimportant. Raises UserError if there is no such head, row or step.
    """
    source, read, predicted, kind, layer, head, row, step = target
    check_head(model.config, Head(kind, layer, head or 0))
    check_attends(model.config, kind)
    found = trace(model, source, read)
    stack, place, heads = found.attention(kind, layer)
    if not 0 <= row < len(heads.allowed) or not 0 <= step < len(read):
        raise UserError(
            f"There is no row {row} or step {step}; the last: {len(heads.allowed) - 1} and {len(read) - 1}."
        )
    chosen = list(range(model.config.n_heads)) if head is None else [head]
    scores = {
        "weight": heads.weights[chosen, row].mean(0),
        "norm": _norms(heads, chosen, row),
        "rollout": _rollout(found, kind, layer, row),
        "value zeroing": _value_zeroing(stack.sublayers[place], chosen, row),
    }
    orders = _orders(scores, heads.allowed[row])
    allowed = torch.cat([_without(heads.allowed[row], order) for _, order in orders])
    changed = _outputs_without(heads, row, allowed)
    gates = _row_gates(model, found, kind, layer, chosen, row, changed)
    curves = _probabilities(model, source, read[: step + 1], int(predicted[step]), gates).chunk(len(orders))
    ranked = [
        Removal(name, tuple(order.tolist()), tuple(curve.tolist()))
        for (name, order), curve in zip(orders, curves, strict=True)
        if name in scores
    ]
    return (*ranked, Removal(RANDOM, (), tuple(torch.stack(curves[len(ranked) :]).mean(0).tolist())))


def _orders(
    scores: Mapping[str, Float[Tensor, " N"]], allowed: Bool[Tensor, " N"]
) -> list[tuple[str, Int[Tensor, " k"]]]:
    """The columns that are removed, in their order: one for each score, then the random ones."""
    columns = allowed.nonzero()[:, 0]
    ranked = [(name, score[columns].argsort(descending=True, stable=True)) for name, score in scores.items()]
    generator = torch.Generator().manual_seed(0)
    random = [(RANDOM, torch.randperm(len(columns), generator=generator)) for _ in range(N_RANDOM)]
    return [(name, columns[order.to(columns.device)][:MAX_REMOVED]) for name, order in (*ranked, *random)]


def _norms(heads: Attending, chosen: list[int], row: int) -> Float[Tensor, " N"]:
    vectors = heads.value[chosen] @ output_rows(heads.module)[chosen]  # H N D
    norms: Tensor = (heads.weights[chosen, row, :, None] * vectors).sum(0).norm(dim=-1)
    return norms


def _rollout(found: Trace, kind: str, layer: int, row: int) -> Float[Tensor, " N"]:
    weights = (torch.stack([one.weights for one in found.attentions(each)]) for each in KINDS)
    rolled: Tensor = getattr(rollout(*weights), kind)
    return rolled[layer, row]


def _value_zeroing(one: SubLayer, chosen: list[int], row: int) -> Float[Tensor, " N"]:
    heads = cast(Attending, one.heads)
    vectors = heads.value[chosen] @ output_rows(heads.module)[chosen]
    lost = (heads.weights[chosen, row, :, None] * vectors).sum(0)  # N D
    x = one.x[row].expand_as(lost)
    after = one.residual.post(x[None], (one.y[row] - lost)[None])[0]
    # In float32, distances below 1e-7 would be rounding noise, and the order of the cells with it.
    return 1 - torch.cosine_similarity(after.double(), one.after[row][None].double(), dim=-1)


def _without(allowed: Bool[Tensor, " N"], order: Int[Tensor, " k"]) -> Bool[Tensor, "C N"]:
    """The allowed cells with the first 0, 1, ... of the order removed."""
    variants = allowed.repeat(len(order) + 1, 1)
    for count, column in enumerate(order.tolist(), start=1):
        variants[count:, column] = False
    return variants


def _outputs_without(heads: Attending, row: int, allowed: Bool[Tensor, "C N"]) -> Float[Tensor, "C H K"]:
    """The outputs of the heads in one row when only these cells are allowed."""
    scores = (heads.query[:, row, None] @ heads.key.transpose(1, 2))[:, 0] * heads.query.shape[-1] ** -0.5
    scores = scores + heads.bias[:, row]
    masked = scores.masked_fill(~allowed[:, None], torch.finfo(scores.dtype).min)  # C H N
    weights = masked.softmax(-1).masked_fill(~allowed[:, None], 0.0)
    return torch.einsum("chn,hnk->chk", weights, heads.value)


def _row_gates(
    model: Transformer,
    found: Trace,
    kind: str,
    layer: int,
    chosen: list[int],
    row: int,
    changed: Float[Tensor, "C H K"],
) -> HeadGates:
    """Gates for each variant that put `changed` in the place of the chosen heads' outputs in one row."""
    gates = HeadGates.ablating(model.config, [Head(kind, layer, head) for head in chosen])
    rows = len(found.attention(kind, layer)[2].allowed)
    # The same at every layer and position: the gates are closed in one layer and apply in one row.
    outputs = changed[:, None, :, None].expand(-1, len(getattr(gates, kind)), -1, rows, -1)
    only = torch.arange(rows, device=changed.device) == row
    batch = (gate.to(changed.device).expand(len(changed), -1, -1) for gate in gates)
    return HeadGates(*batch, baselines={kind: HeadBaseline(outputs, only)})


def _probabilities(
    model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"], word: int, gates: HeadGates
) -> Float[Tensor, " C"]:
    """The probability of the word after the last token that is read, for each variant."""
    size = max(1, PASS_TOKENS // (len(source) + len(read)))
    found = []
    with eval_mode(model):
        shared = None if "encoder" in gates.baselines else model.encode(source[None])
        for start in range(0, len(gates.encoder), size):
            part = _slice(gates, slice(start, start + size))
            rows = len(part.encoder)
            if shared is None:
                encoded = model.encode(source.expand(rows, -1), None, part)
            else:
                encoded = Encoded(
                    [KeyValue(*(x.expand(rows, -1, -1, -1) for x in kv)) for kv in shared.cross_kv]
                )
            hidden = model.decode(read.expand(rows, -1), encoded, part).hidden[:, -1]
            found.append(cast(Tensor, model.output(hidden)).softmax(-1)[:, word])
    return torch.cat(found)


def _slice(gates: HeadGates, part: slice) -> HeadGates:
    baselines = {kind: HeadBaseline(outputs[part], rows) for kind, (outputs, rows) in gates.baselines.items()}
    return HeadGates(*(gate[part] for gate in gates), baselines=baselines)
