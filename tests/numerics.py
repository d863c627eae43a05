"""Bounds for numbers that float32 computes: measured in float64, so that no processor decides them.

A pass in float32 gives the exact result of a model whose weights are off by a few roundings (backward error
analysis; Higham 2002, Accuracy and Stability of Numerical Algorithms, chapter 3). How much such weights
change a quantity is its conditioning. It is measured with the same model in float64, whose own rounding is
2^-29 of float32's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from model.network.transformer import Transformer
from model.results import Translation
from model.translator import Translator

Model = TypeVar("Model", bound=nn.Module)
UNIT = 2.0**-24  # the unit roundoff of float32: the largest relative error of one rounding
# By how many roundings a weight is perturbed. A sum of n terms, added in turn, rounds about √(n / 2) times as
# much as a rounding of each term changes it, so 16 covers 512 terms. Where there are more, every processor
# keeps several sums at a time.
ROUNDINGS = 16
PASSES = 3  # with other weights each; all numbers of a tensor share one bound, so few are enough
# Between two results in float64, relative to the largest: its unit roundoff is 1.1e-16, which leaves a factor
# of 1e7 for roundings and conditioning. A mistake changes more.
EXACT = 1e-9


def assert_exact(found: Any, wanted: Any) -> None:
    """Check that results in float64 are equal."""
    torch.testing.assert_close(found, wanted, rtol=EXACT, atol=EXACT)


def exact(model: Model) -> Model:
    """The same model in float64."""
    return copy.deepcopy(model).double()


@torch.no_grad()
def perturbed(model: Model) -> Iterator[Model]:
    """The model in float64, a few times, each weight up or down by as much as `ROUNDINGS` roundings."""
    for seed in range(PASSES):
        other, draw = exact(model), np.random.default_rng(seed)
        for weight in (*other.parameters(), *other.buffers()):
            signs = torch.from_numpy(draw.integers(2, size=weight.shape) * 2 - 1)
            weight.mul_(1 + ROUNDINGS * UNIT * signs)
        yield other


def translator_of(translator: Translator, model: Transformer) -> Translator:
    """The same translator with another model, computed by torch: the kernels know float32 only."""
    checkpoint = replace(translator.checkpoint, model=model)
    return Translator(
        checkpoint, translator.name, translator.max_tokens, translator.directory, use_kernels=False
    )


def scores(translator: Translator, text: str, ids: Sequence[int]) -> Callable[[Transformer], Any]:
    """The log-probabilities of these tokens as the translation of a text, for `assert_float32`."""
    return lambda model: translator_of(translator, model).score(text, tuple(ids)).log_probabilities


def parts(found: Translation) -> tuple[Any, ...]:
    """The log-probabilities of the tokens and the weights of the three kinds."""
    record = found.attention
    return torch.tensor(found.log_probabilities), record.encoder, record.decoder, record.cross


def scored(translator: Translator, text: str, target: str, model: Transformer) -> tuple[Any, ...]:
    """`parts` of a given translation by another model."""
    return parts(translator_of(translator, model).score(text, target))


def assert_slope(found: float, function: Callable[[float], float], step: float) -> None:
    """Check a derivative at 0 with central differences in float64.

    A difference is off by a multiple of step², so with twice the step it is four times as far off: three
    times the error is how far the two are apart. The values of the function add a hundred roundings.
    """
    near, far = ((function(each) - function(-each)) / (2 * each) for each in (step, 2 * step))
    rounding = 100 * 2.0**-53 * abs(function(0.0)) / step
    assert abs(found - near) <= abs(near - far) + rounding + EXACT * abs(near)


def assert_float32(found: Any, quantity: Callable[[Any], Any], model: nn.Module) -> dict[str, float]:
    """Check that `found` is `quantity(model)` but for the rounding of float32; return the bound of each part.

    Both are numbers or tensors, or lists, tuples or dicts of them.
    """
    wanted, mine = _leaves(quantity(copies(model)[0])), _leaves(found)
    assert mine.keys() == wanted.keys()
    bounds = roundings(quantity, model)
    for name, bound in bounds.items():
        assert mine[name].shape == wanted[name].shape, name
        apart = _apart(mine[name], wanted[name])
        assert apart <= bound, f"{name or 'the result'} is {apart:.3g} off; {bound:.3g} is rounding"
    return bounds


def roundings(quantity: Callable[[Any], Any], model: nn.Module) -> dict[str, float]:
    """How far float32 may be from each part of `quantity(model)`, "" for a single tensor or number."""
    wanted, *others = (_leaves(quantity(copy)) for copy in copies(model))
    bounds = {}
    for name, value in wanted.items():
        largest = float(value.abs().max()) if value.numel() else 0.0
        bounds[name] = max(_apart(other[name], value) for other in others) + ROUNDINGS * UNIT * largest
    return bounds


def copies(model: nn.Module) -> list[nn.Module]:
    """The exact copy and the perturbed ones, kept until the model changes: copying takes longest."""
    versions = [weight._version for weight in model.parameters()]
    if _KEPT.get(model, (None,))[0] != versions:
        _KEPT[model] = versions, [exact(model), *perturbed(model)]
    return _KEPT[model][1]


_KEPT: WeakKeyDictionary[nn.Module, tuple[list[int], list[nn.Module]]] = WeakKeyDictionary()


def _apart(one: Tensor, other: Tensor) -> float:
    # Equal ones are 0 apart, infinite ones too.
    apart = torch.where(one == other, 0.0, (one - other).abs())
    return float(apart.max()) if apart.numel() else 0.0


def _leaves(value: Any, name: str = "") -> dict[str, Tensor]:
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, Sequence) and any(isinstance(each, Mapping | Sequence | Tensor) for each in value):
        parts = enumerate(value)
    else:
        return {name: torch.as_tensor(value).detach().double()}
    return {path: leaf for key, each in parts for path, leaf in _leaves(each, f"{name}/{key}").items()}
