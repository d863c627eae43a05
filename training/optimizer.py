"""The optimizer of a run: AdamW alone, or Muon (Jordan et al. 2024) for the layers' matrices with AdamW."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from model.network.attention import MultiHeadAttention
from model.network.transformer import Transformer
from training.config import TrainConfig

ITERATIONS = 5
A, B, C = 3.4445, -4.7750, 2.0315  # of Jordan's polynomial ax + bx³ + cx⁵
MOMENTUM = 0.95
# Root mean square of an update at rate 1, about as of AdamW (Liu et al. 2025, section 2.2).
UPDATE_SIZE = 0.2


def orthogonalise(x: Float[Tensor, "N rows columns"]) -> Float[Tensor, "N rows columns"]:
    """Bring all singular values of each matrix near 1, by Newton-Schulz iterations (Jordan et al. 2024).

    The polynomial acts on the singular values, divided by the matrix's Frobenius norm. Those of at least
    0.002 times the norm come to between 0.68 and 1.21; smaller ones stay lower.
    """
    if x.shape[-2] > x.shape[-1]:  # the other Gram matrix is smaller
        return orthogonalise(x.mT).mT
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=B, alpha=C), x, beta=A)
    return x


class MuonAdamW(Optimizer):
    """Muon for the matrices of the layers, AdamW for all other parameters, with one state for both.

    A step of Muon has about the same size in every direction of a matrix. W_Q, W_K and W_V count as three
    matrices, although a layer stores them as one.
    """

    def __init__(self, model: Transformer, config: TrainConfig, dtype: torch.dtype) -> None:
        """Take the settings of both, and the type of Muon's products."""
        # The table of relative positions, which all layers share, is not a matrix that multiplies.
        parts = [module for layer in (*model.encoder, *model.decoder) for module in layer.modules()]
        matrices = [part.weight for part in parts if isinstance(part, nn.Linear)]
        attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
        self.packed = {attention.project.weight for attention in attentions}
        self.factor, self.dtype = config.muon_learning_rate / config.peak_learning_rate, dtype
        super().__init__(matrices, {"lr": 0.0, "weight_decay": config.weight_decay})
        chosen = set(matrices)
        self.adamw = _adamw([each for each in model.parameters() if each not in chosen], config)
        self.adamw.state = self.state
        self.add_param_group(self.adamw.param_groups[0])

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters by their gradients."""
        self.adamw.step()
        group = self.param_groups[0]
        weights, rate = group["params"], group["lr"] * self.factor
        torch._foreach_mul_(weights, 1 - rate * group["weight_decay"])
        same_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for weight, direction in zip(weights, self._with_momentum(weights), strict=True):
            parts = 3 if weight in self.packed else 1
            for pair in zip(weight.chunk(parts), direction.chunk(parts), strict=True):
                same_shape[pair[0].shape].append(pair)
        for shape, pairs in same_shape.items():
            size = rate * UPDATE_SIZE * max(shape) ** 0.5
            matrices, directions = zip(*pairs, strict=True)
            updates = orthogonalise(torch.stack(directions).to(self.dtype)).to(matrices[0])
            torch._foreach_sub_(matrices, updates.unbind(), alpha=size)

    def _with_momentum(self, weights: list[Tensor]) -> Sequence[Tensor]:
        """The gradients with Nesterov's momentum."""
        gradients = [cast(Tensor, weight.grad) for weight in weights]
        for weight in weights:
            if "momentum" not in self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        buffers = [self.state[weight]["momentum"] for weight in weights]
        torch._foreach_lerp_(buffers, gradients, 1 - MOMENTUM)
        return torch._foreach_lerp(gradients, buffers, MOMENTUM)


def make_optimizer(model: Transformer, config: TrainConfig, bfloat16: bool) -> Optimizer:
    """The optimizer of the configuration; each step sets its rate. `bfloat16` is for Muon's products."""
    if config.optimizer == "adamw":
        return _adamw(model.parameters(), config)
    return MuonAdamW(model, config, torch.bfloat16 if bfloat16 else torch.float32)


def _adamw(parameters: Iterable[nn.Parameter], config: TrainConfig) -> AdamW:
    decay = config.weight_decay
    return AdamW(parameters, betas=config.betas, eps=config.epsilon, weight_decay=decay, fused=True)
