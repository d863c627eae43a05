"""The compiled kernels of training compute what the model's modules compute."""

from __future__ import annotations

import copy
import random
import sys
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import training
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from tests.model.helpers import draw_weights, random_numbers
from tests.numerics import assert_float32
from tests.training.tiny import collate
from training.corpus.batching import Batch
from training.fused import Attention, AttentionShape, Packed
from training.loss import SequenceLoss, compiled_kernels, cross_entropy_

pytestmark = pytest.mark.numeric

VOCABULARY = 60
CPU = torch.device("cpu")


def batch(rows: int = 12, longest: int = 40) -> Batch:
    """Sentences of 1 to `longest` tokens, on both sides of the vectors' and blocks' sizes."""
    some = random.Random(0)

    def side() -> list[list[int]]:
        lengths = [0, longest, *(some.randrange(longest) for _ in range(rows - 2))]
        return [[some.randrange(5, VOCABULARY) for _ in range(length)] for length in lengths]

    sources, targets = side(), side()
    return collate(sources, targets, CPU, [links(*pair) for pair in zip(sources, targets, strict=True)])


def links(source: list[int], target: list[int]) -> list[int]:
    """Every second target token with a source token, as far as there are any."""
    return [token for t in range(0, len(target) if source else 0, 2) for token in (t, t % len(source))]


def model(config: ModelConfig) -> Transformer:
    return draw_weights(Transformer(config), scale=1.0)


def gradients(model: Transformer, fused: bool, bfloat16: bool = False) -> dict[str, torch.Tensor]:
    """The loss and every gradient in training mode."""
    loss = SequenceLoss(copy.deepcopy(model).train(), smoothing=0.1)
    with pytest.MonkeyPatch.context() as patch, torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        if not fused:
            patch.setattr("training.loss.compiled_kernels", lambda device: None)
        terms = loss(batch())
        value = terms.translation + terms.alignment
        value.backward()
    found = {name: parameter.grad for name, parameter in loss.named_parameters()}
    return {"loss": value.detach()} | found


def shape(norm: str, d_model: int = 48, heads: int = 4, **settings: object) -> ModelConfig:
    return ModelConfig(
        VOCABULARY,
        VOCABULARY,
        d_model=d_model,
        d_ff=72,
        n_heads=heads,
        n_encoder_layers=2,
        n_decoder_layers=2,
        dropout=0.0,
        norm=norm,
        taught_head=(0, 1),
        **settings,
    )


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("head_width", [4, 12, 16, 24])
def test_loss_and_gradients_are_those_of_the_modules(norm, head_width):
    config = shape(norm, d_model=2 * head_width, heads=2, tied=head_width != 12)
    found = gradients(model(config), fused=True)
    assert_float32(found, lambda other: gradients(other, fused=False), model(config))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_in_bfloat16_gradients_are_as_exact_as_those_of_the_modules(norm):
    exact = gradients(model(shape(norm)), fused=False)
    ours, theirs = (gradients(model(shape(norm)), fused, bfloat16=True) for fused in (True, False))
    error, other = (
        sum(float((one[name] - value).square().sum()) for name, value in exact.items())
        for one in (ours, theirs)
    )
    # Squares. Where they round differs, but one sum in bfloat16 would make the error √48 times as large.
    assert error <= 4 * other


def test_the_seed_of_the_step_decides_the_masks():
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(gradients(model(replace(shape("pre"), dropout=0.25)), fused=True)["loss"])
    assert losses[0].equal(losses[1])
    assert not losses[0].equal(losses[2])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_large_and_small_logits(smoothing):
    logits = torch.nn.ParameterList([random_numbers(70, 333) * torch.logspace(-2, 2, 70)[:, None]])
    labels = torch.randint(333, (70,))

    def exact(logits):
        total = F.cross_entropy(logits[0], labels, label_smoothing=smoothing, reduction="sum")
        return total, *torch.autograd.grad(total, logits[0])

    gradient = logits[0].detach().clone()
    total = cross_entropy_(gradient, labels, smoothing)
    assert_float32((total, gradient), exact, logits)


@pytest.mark.parametrize("place", [0, 15, 16, 31, 32, 36])
def test_the_largest_score_is_found_in_every_place(place):
    """Otherwise its exponential would be infinite. The kernel's smallest exponential is 2^-126."""
    starts, keys = torch.tensor([0, 37]), torch.zeros(37, 1)
    keys[place] = 1000
    packed = Packed(torch.zeros(37, dtype=torch.int64), torch.arange(37), starts, 37)
    query, values = torch.ones(37, 1), torch.arange(37.0)[:, None]
    memory = torch.cat((keys, values), 1)
    out = Attention.apply(query, memory, AttentionShape(packed, packed, 1, False))
    assert (out - place).abs().max() <= 37 * 36 * 2**-126


def test_a_label_below_zero_adds_nothing():
    logits = random_numbers(3, 50)
    total = cross_entropy_(logits, torch.tensor([-1, -1, -1]), 0.1)
    assert total == 0
    assert logits.eq(0).all()


def test_nan_and_infinity_are_not_hidden():
    for value in (torch.nan, torch.inf):
        logits = random_numbers(2, 40)
        logits[1, 3] = value
        assert not cross_entropy_(logits, torch.tensor([1, 2]), 0.1).isfinite()


def test_the_number_of_threads_changes_no_bit():
    starts = torch.tensor([0, 30, 31, 90, 200])
    packed = Packed(torch.zeros(200, dtype=torch.int64), torch.zeros(200, dtype=torch.int64), starts, 110)
    projected = random_numbers(200, 96).requires_grad_()
    results = []
    threads = torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            out = Attention.apply(projected, None, AttentionShape(packed, packed, 4, True))
            (gradient,) = torch.autograd.grad(out.square().sum(), projected)
            results.append((out.detach(), gradient))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(one.equal(two) for one, two in zip(results[0], other, strict=True))


def test_without_numba_and_on_a_gpu_the_modules_train(monkeypatch):
    assert compiled_kernels(torch.device("cuda")) is None
    monkeypatch.delattr(training, "fused", raising=False)
    monkeypatch.setitem(sys.modules, "training.fused", None)
    assert compiled_kernels.__wrapped__(CPU) is None
