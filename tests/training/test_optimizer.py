"""Muon: what its updates are, and that everything else is AdamW's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from model.network.transformer import Transformer
from tests.numerics import assert_exact
from tests.training.tiny import REVERSE, SHAPE
from training.optimizer import ITERATIONS, UPDATE_SIZE, A, B, C, make_optimizer, orthogonalise

RATE = 1e-2
MUON = replace(
    REVERSE, optimizer="muon", peak_learning_rate=RATE, muon_learning_rate=4 * RATE, weight_decay=0.0
)


def polynomial(x: torch.Tensor) -> torch.Tensor:
    """What the iterations make of a singular value, by their definition, in float64."""
    for _ in range(ITERATIONS):
        x = A * x + B * x**3 + C * x**5
    return x


def test_the_polynomial_brings_singular_values_near_1():
    found = polynomial(torch.linspace(0.002, 1, 100_001, dtype=torch.float64))
    assert found.min() > 0.68
    assert found.max() < 1.21


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 6, 20), (2, 20, 6)])
def test_orthogonalising_keeps_the_singular_vectors_and_maps_the_values_by_the_polynomial(shape):
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u, values, v = torch.linalg.svd(x, full_matrices=False)
    wanted = polynomial(values / values.norm(dim=-1, keepdim=True))
    torch.testing.assert_close(orthogonalise(x), u @ wanted.diag_embed() @ v)


# Two layers share the table of relative positions.
SHARED = {"n_encoder_layers": 2, "positions": "relative", "n_buckets": 8, "max_distance": 16}


@pytest.fixture(params=[{}, SHARED], ids=["paper", "relative"])
def model(request) -> Transformer:
    """A model whose parameters all have a gradient."""
    torch.manual_seed(0)
    net = Transformer(replace(SHAPE, source_vocabulary=9, target_vocabulary=9, **request.param))
    for parameter in net.parameters():
        parameter.grad = torch.randn_like(parameter)
    return net


def changes(model: Transformer, config) -> dict[str, torch.Tensor]:
    """What the first step of the optimizer adds to each parameter."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = make_optimizer(model, config, bfloat16=False)
    optimizer.dtype = next(model.parameters()).dtype  # of Muon's products
    for group in optimizer.param_groups:
        group["lr"] = RATE
    optimizer.step()
    return {name: parameter.detach() - before[name] for name, parameter in model.named_parameters()}


def test_queries_keys_and_values_are_matrices_of_their_own(model):
    weight = model.double().decoder[0].cross_attention.project.weight
    weight.grad[: SHAPE.d_model] *= 1000  # as one matrix, the queries would take the whole step
    parts = weight.grad.chunk(3)
    found = changes(model, MUON)["decoder.0.cross_attention.project.weight"]
    size = 4 * RATE * UPDATE_SIZE * SHAPE.d_model**0.5
    for change, part in zip(found.chunk(3), parts, strict=True):
        assert_exact(change, -size * orthogonalise(part[None])[0])


def test_all_but_the_matrices_of_the_layers_take_the_step_of_adamw(model):
    initial = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    found = changes(model, MUON)
    model.load_state_dict(initial, strict=False)
    wanted = changes(model, replace(MUON, optimizer="adamw"))
    same = {name for name in found if found[name].equal(wanted[name])}
    matrices = {
        f"{name}.weight"
        for name, module in model.named_modules()
        if name.startswith(("encoder.", "decoder.")) and isinstance(module, nn.Linear)
    }
    assert same == found.keys() - matrices
    assert len(matrices) == 2 * 2 * len(model.encoder) + 3 * 2 * len(model.decoder)
