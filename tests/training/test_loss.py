"""The loss: cross-entropy per real token, independent of chunks, padding and batches."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from model.network.transformer import Transformer
from model.tokenizer import PAD_ID
from tests.training.tiny import SHAPE
from training.corpus.batching import Batch, collate
from training.loss import CHUNK, SequenceLoss, token_loss

CPU = torch.device("cpu")
SOURCES = [[4, 5, 6, 7, 8], [9, 4]]
TARGETS = [[8, 7], [6, 5, 4, 9, 9, 10]]


def problem(n: int, dtype: torch.dtype, d: int = 12, v: int = 37):
    random = torch.Generator().manual_seed(n)
    hidden = torch.randn(n, d, generator=random, dtype=dtype, requires_grad=True)
    weight = torch.randn(v, d, generator=random, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(v, (n,), generator=random)


def gradients(loss, *inputs):
    return torch.autograd.grad(loss, inputs)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 17])
def test_loss_and_gradients_equal_cross_entropy_over_all_logits(n, dtype, smoothing):
    hidden, weight, labels = problem(n, dtype)
    loss = token_loss(hidden, weight, labels, smoothing)
    expected = F.cross_entropy(F.linear(hidden, weight), labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.to(dtype), expected, rtol=1e-5, atol=1e-4)
    found, wanted = gradients(3 * loss, hidden, weight), gradients(3 * expected, hidden, weight)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_equal_differences_of_the_loss(smoothing):
    hidden, weight, labels = problem(5, torch.float64)
    found = gradients(token_loss(hidden, weight, labels, smoothing), hidden, weight)
    for tensor, gradient in zip((hidden, weight), found, strict=True):
        direction = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0)).double()
        values = []
        for step in (1e-2, -1e-2):
            moved = [(t + step * direction if t is tensor else t).detach() for t in (hidden, weight)]
            values.append(float(token_loss(*moved, labels, smoothing)))
        assert (values[0] - values[1]) / 2e-2 == pytest.approx(float((gradient * direction).sum()), rel=1e-2)


def test_bfloat16_products_stay_near_float32():
    hidden, weight, labels = problem(300, torch.float32)
    exact = token_loss(hidden, weight, labels, 0.1).detach()
    with torch.autocast("cpu", torch.bfloat16):
        rough = token_loss(hidden, weight, labels, 0.1).detach()
    assert rough.dtype == torch.float32
    assert float(rough) != float(exact)
    assert float(rough) == pytest.approx(float(exact), rel=1e-2)


def test_a_certain_correct_model_has_a_loss_only_with_smoothing():
    weight = 50 * torch.eye(5)
    labels = torch.arange(5)
    assert float(token_loss(torch.eye(5), weight, labels, 0.0)) == pytest.approx(0, abs=1e-6)
    assert float(token_loss(torch.eye(5), weight, labels, 0.1)) > 1


# Over a batch of sentences


def sequence_loss(smoothing: float = 0.1) -> SequenceLoss:
    torch.manual_seed(0)
    config = dataclasses.replace(SHAPE, source_vocabulary=11, target_vocabulary=11, dropout=0.0)
    return SequenceLoss(Transformer(config), smoothing).train()


def loss_and_gradients(loss: SequenceLoss, *batches: Batch):
    loss.zero_grad()
    total = sum(loss(batch) for batch in batches)
    total.backward()
    return total.detach(), [parameter.grad.clone() for parameter in loss.parameters()]


def wider(rows: torch.Tensor, by: int) -> torch.Tensor:
    return F.pad(rows, (0, by), value=PAD_ID)


@pytest.mark.parametrize(("source", "target"), [(3, 0), (0, 4), (2, 5)])
def test_padding_changes_neither_loss_nor_gradients(source, target):
    loss, batch = sequence_loss(), collate(SOURCES, TARGETS, CPU)
    padded = Batch(wider(batch.source, source), wider(batch.read, target), wider(batch.labels, target))
    torch.testing.assert_close(loss_and_gradients(loss, padded), loss_and_gradients(loss, batch))


def test_a_batch_of_padding_has_no_loss_even_with_smoothing():
    loss, batch = sequence_loss(), collate(SOURCES, TARGETS, CPU)
    unlabelled = batch._replace(labels=torch.full_like(batch.labels, PAD_ID))
    assert float(loss(unlabelled).detach()) == 0


def test_a_batch_weighs_tokens_alike_in_short_and_long_sentences():
    loss = sequence_loss()
    together = loss_and_gradients(loss, collate(SOURCES, TARGETS, CPU))
    singles = [collate([s], [t], CPU) for s, t in zip(SOURCES, TARGETS, strict=True)]
    torch.testing.assert_close(together, loss_and_gradients(loss, *singles))


def test_smoothing_is_used_only_in_training():
    smooth, plain = sequence_loss(0.1), sequence_loss(0.0)
    batch = collate(SOURCES, TARGETS, CPU)
    assert not smooth(batch).equal(plain(batch))
    assert smooth.eval()(batch).equal(plain.eval()(batch))


def test_later_tokens_do_not_change_the_loss_of_earlier_ones():
    """The causal mask hides later target tokens."""
    loss = sequence_loss()
    batch = collate([SOURCES[0]], [[4, 5, 6]], CPU)
    only_first = batch._replace(labels=batch.labels.clone())
    only_first.labels[:, 1:] = PAD_ID
    changed = only_first._replace(read=batch.read.clone())
    changed.read[:, 1:] = 10
    assert loss(changed).equal(loss(only_first))
