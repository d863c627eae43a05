"""Direct logit attribution: splits a logit, or the difference of two, into the contributions of all parts.

Axis letters: S source length, T target length, Q rows of a stack, L encoder layers, M decoder layers,
H heads, K head width, D d_model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.analysis.ablation import gate_gradients
from model.analysis.trace import Attending, FrozenNorm, Stack, check_step, output_rows, trace
from model.network.transformer import Transformer
from model.results import HeadValues


class StackShares(NamedTuple):
    """What each part of one stack adds to a number that is linear in the stack's output."""

    tokens: Float[Tensor, " Q"]  # the embedding of the token in each row
    positions: Float[Tensor, " Q"]
    heads: dict[str, Float[Tensor, "L H"]]  # of each kind of attention in the stack
    feed_forward: Float[Tensor, " L"]
    bias: float  # of W_O, of the norms, and what else is the same for every input

    @property
    def total(self) -> float:
        """The number itself."""
        parts = (self.tokens, self.positions, *self.heads.values(), self.feed_forward)
        return sum(float(part.sum()) for part in parts) + self.bias


@dataclass(frozen=True)
class Contributions:
    """A logit as a sum. `decoder` sums to it; `encoder` sums to what all cross-attention heads add."""

    logit: float  # of the word, or its difference from the other word's logit
    decoder: StackShares
    encoder: StackShares  # through the cross-attention, its weights frozen
    gradient: HeadValues  # d logit / d gate of each head: also what acts through other heads and layers


@torch.inference_mode()
def contributions(
    model: Transformer,
    source: Int[Tensor, " S"],
    read: Int[Tensor, " T"],
    step: int,
    word: int,
    other: int | None = None,
) -> Contributions:
    """Split the logit of `word` at `step`, or its lead over `other`, over what wrote the residual stream.

    Direct logit attribution: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"; the
    difference of two words as in Yin and Neubig 2022, "Interpreting Language Models with Contrastive
    Explanations". The scale of every norm on the way is frozen, so the sum is exact. Units are the units of
    logits: a lead of log 2 makes the word twice as likely as the other. Limits: only the direct path of
    each part counts, not what later layers make of it; `gradient` counts both, to first order (Michel et
    al. 2019). A single logit has a part that all words share; the difference of two words does not.
    `word` and `other` are token ids. Raises UserError if there is no such step.
    """
    check_step(step, read)
    direction = _direction(model.output, word, other)
    encoder, decoder = trace(model, source, read[: step + 1])
    rows = torch.zeros_like(decoder.tokens)
    rows[step] = direction
    memory = torch.zeros_like(encoder.tokens)
    shares, memory_bias = _shares(decoder, rows, memory)
    bias = 0.0
    if model.output.bias is not None:
        bias = float(model.output.bias[word]) - (0.0 if other is None else float(model.output.bias[other]))
    shares = shares._replace(bias=shares.bias + bias)
    through, _ = _shares(encoder, memory, None)
    through = through._replace(bias=through.bias + memory_bias)
    logit = float(decoder.hidden[step] @ direction) + bias
    gradient = gate_gradients(
        model, source, read[: step + 1], lambda hidden: hidden[step] @ _direction(model.output, word, other)
    )
    return Contributions(logit, shares, through, HeadValues(*(kind.cpu() for kind in gradient)))


def _direction(output: nn.Linear, word: int, other: int | None) -> Float[Tensor, " D"]:
    return output.weight[word] if other is None else output.weight[word] - output.weight[other]


def _shares(
    stack: Stack, direction: Float[Tensor, "Q D"], memory: Float[Tensor, "S D"] | None
) -> tuple[StackShares, float]:
    """Walk back from the stack's output, whose product with `direction` is the number to split.

    Adds to `memory` the direction of each row of the encoder's output whose product with it, plus the second
    result (the values' biases), is what the cross-attention heads add.
    """
    bias = memory_bias = 0.0

    def through(norm: nn.Module, x: Float[Tensor, "Q D"]) -> Float[Tensor, "Q D"]:
        nonlocal bias
        frozen = FrozenNorm.at(norm, x)
        bias += float((direction @ frozen.bias).sum())
        return frozen.pulled_back(direction)

    if not isinstance(stack.norm, nn.Identity):
        direction = through(stack.norm, stack.x)
    heads: dict[str, list[Tensor]] = {}
    feed_forward: list[Tensor] = []
    for one in reversed(stack.sublayers):
        if not one.residual.pre_norm:
            direction = through(one.residual.norm, one.x + one.y)
        if one.heads is None:
            feed_forward.insert(0, (direction * one.y).sum())
            continue
        asked = direction @ output_rows(one.heads.module).transpose(1, 2)  # H Q K
        heads.setdefault(one.kind, []).insert(0, (asked * one.heads.outputs).sum((1, 2)))
        bias += float((direction @ one.heads.module.output.bias).sum())
        if one.kind == "cross" and memory is not None:
            memory_bias += _pass_to_memory(one.heads, asked, memory)
    bias += float((direction @ stack.bias).sum())
    shares = StackShares(
        (direction * stack.tokens).sum(-1),
        (direction * stack.positions).sum(-1),
        {kind: torch.stack(layers) for kind, layers in heads.items()},
        torch.stack(feed_forward),
        bias,
    )
    return shares, memory_bias


def _pass_to_memory(heads: Attending, asked: Float[Tensor, "H Q K"], memory: Float[Tensor, "S D"]) -> float:
    """Add what the heads ask of each row of the encoder's output; returns what the values' biases add."""
    module = heads.module
    n_heads, values = module.n_heads, slice(2 * module.width, None)
    w_v = module.project.weight[values].view(n_heads, module.width // n_heads, -1)  # H K D
    b_v = module.project.bias[values].view(n_heads, 1, -1)
    memory += (heads.weights.transpose(1, 2) @ (asked @ w_v)).sum(0)
    return float((heads.weights.sum(-1) * (asked * b_v).sum(-1)).sum())
