"""What if: a head's output replaced by zero, by its mean, or by its output for another sentence.

All three close gates (`model.network.transformer.HeadGates`) and differ in the baseline, which the output
becomes. Axis letters: S source length, T target length, L encoder layers, M decoder layers, H heads, P
positions, K head width.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis.trace import trace
from model.errors import Sentence, UserError
from model.network.config import ModelConfig
from model.network.transformer import HeadBaseline, HeadGates, Transformer
from model.results import KINDS, Head


class HeadOutputs(NamedTuple):
    """The output of every head before W_O, [layer, head, position, K]."""

    encoder: Float[Tensor, "L H S K"]
    decoder: Float[Tensor, "M H T K"]
    cross: Float[Tensor, "M H T K"]


class Rows(NamedTuple):
    """The number of rows of each stack that an ablation must cover."""

    source: int
    target: int

    def of(self, kind: str) -> int:
        """The number of rows of this kind of attention."""
        return self.source if kind == "encoder" else self.target


@torch.inference_mode()
def head_outputs(model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"]) -> HeadOutputs:
    """What every head gives for one sentence pair: the baseline for activation patching.

    `source` ends with </s> and `read` begins with <s>, both without padding.
    """
    found = trace(model, source, read)
    return HeadOutputs(*(torch.stack([one.outputs for one in found.attentions(kind)]) for kind in KINDS))


def mean_outputs(outputs: Iterable[HeadOutputs]) -> HeadOutputs:
    """The mean of each head's output over all positions of all sentences; one position, P = 1.

    The sentences are read one after the other, so that the outputs of one alone are in memory.
    """
    sums: list[Tensor | float] = [0.0] * len(KINDS)
    positions = [0] * len(KINDS)
    for each in outputs:
        sums = [total + kind.sum(2, keepdim=True) for total, kind in zip(sums, each, strict=True)]
        positions = [number + kind.shape[2] for number, kind in zip(positions, each, strict=True)]
    return HeadOutputs(*(cast(Tensor, total) / number for total, number in zip(sums, positions, strict=True)))


def ablation_gates(
    config: ModelConfig,
    heads: Iterable[Head],
    rows: Rows,
    baseline: HeadOutputs | None = None,
    row: int | None = None,
) -> HeadGates:
    """Gates that replace the outputs of `heads` in all rows, or in one, by the outputs of the baseline.

    Without a baseline the outputs become zero; with all rows this is muting. A baseline of one position
    (the mean) stands at every position. Another baseline is aligned by position; where it is too short,
    heads keep their own output. Sources: mean ablation, Wang et al. 2022, "Interpretability in the Wild";
    activation patching, Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal
    Mediation Analysis".

    Limits: zero may be far from every input of the later layers in training, so part of the effect is theirs;
    the mean removes only what depends on the sentence. Raises UserError if the model does not
    have one of the heads, or if `row` is not a row of all of them or of the baseline.
    """
    heads = tuple(heads)
    gates = HeadGates.ablating(config, heads)
    if baseline is None and row is None:
        return gates
    baselines = {}
    for kind in {head.kind for head in heads}:
        n_rows = rows.of(kind)
        values = torch.zeros(*getattr(gates, kind).shape, 1, config.d_head)
        if baseline is not None:
            values = getattr(baseline, kind)
        if values.shape[2] == 1:
            values = values.expand(-1, -1, n_rows, -1)
        outputs = values.new_zeros(*values.shape[:2], n_rows, config.d_head)
        count = min(n_rows, values.shape[2])
        outputs[:, :, :count] = values[:, :, :count]
        changed = torch.arange(n_rows, device=outputs.device) < count
        if row is not None:
            if not 0 <= row < count:
                raise UserError(
                    Sentence(
                        "There is no row {row} to replace; rows go from 0 to {last}.", row=row, last=count - 1
                    )
                )
            changed &= torch.arange(n_rows, device=outputs.device) == row
        baselines[kind] = HeadBaseline(outputs, changed)
    if row is not None and len({kind == "encoder" for kind in baselines}) > 1:
        raise UserError(
            Sentence("A row belongs to the source or to the translation; choose heads of one of them.")
        )
    return HeadGates(*gates, baselines=baselines)
