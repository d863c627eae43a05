"""The loss: cross-entropy per real token, independent of chunks, padding and batches."""

from __future__ import annotations

import copy
import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from model.network.masks import padding_mask
from model.network.transformer import Transformer
from model.text.tokenizer import PAD_ID
from tests.model.helpers import random_numbers
from tests.numerics import UNIT, assert_float32
from tests.training.tiny import SHAPE, collate
from training.corpus.batching import Batch
from training.loss import CHUNK, SequenceLoss, token_loss

CPU = torch.device("cpu")
SOURCES = [[4, 5, 6, 7, 8], [9, 4]]
TARGETS = [[8, 7], [6, 5, 4, 9, 9, 10]]


class Problem(nn.Module):
    """What the loss reads: the decoder's output, the output matrix and the labels."""

    def __init__(self, n: int, d: int = 12, v: int = 37) -> None:
        super().__init__()
        torch.manual_seed(n)
        self.hidden = nn.Parameter(random_numbers(n, d))
        self.weight = nn.Parameter(random_numbers(v, d))
        self.labels = torch.randint(v, (n,))

    def loss(self, smoothing: float) -> torch.Tensor:
        return token_loss(self.hidden, self.weight, self.labels, smoothing)

    def reference(self, smoothing: float) -> torch.Tensor:
        """From all logits."""
        logits = F.linear(self.hidden, self.weight)
        return F.cross_entropy(logits, self.labels, label_smoothing=smoothing, reduction="sum")


def with_gradients(loss: torch.Tensor, problem: Problem) -> list[torch.Tensor]:
    return [loss, *torch.autograd.grad(3 * loss, list(problem.parameters()))]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # kernels, or torch with sums in float32
@pytest.mark.parametrize("n", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 17])
def test_loss_and_gradients_equal_cross_entropy_over_all_logits(n, dtype, smoothing):
    problem = Problem(n)
    own = copy.deepcopy(problem).to(dtype)
    found = with_gradients(own.loss(smoothing), own)
    assert_float32(found, lambda other: with_gradients(other.reference(smoothing), other), problem)


@torch.no_grad()
def test_bfloat16_rounds_the_products_alone():
    problem = Problem(300)
    exact = problem.loss(0.1)
    with torch.autocast("cpu", torch.bfloat16):
        rough = problem.loss(0.1)
    assert rough.dtype == torch.float32
    assert float(rough) != float(exact)
    # Both factors and the result of a product round by 2^-9. A loss changes by at most twice as much as the
    # logit that changes most.
    rounding = 3 * 2**-9 * F.linear(problem.hidden.abs(), problem.weight.abs())
    assert abs(rough - exact) <= 2 * rounding.amax(-1).sum()


def test_a_certain_correct_model_has_a_loss_only_with_smoothing():
    weight = 50 * torch.eye(5)
    labels = torch.arange(5)
    # Each loss is the difference of two numbers of 50, each rounded once.
    assert abs(float(token_loss(torch.eye(5), weight, labels, 0.0))) <= 5 * 2 * 50 * UNIT
    assert float(token_loss(torch.eye(5), weight, labels, 0.1)) > 1


# Over a batch of sentences


def sequence_loss(smoothing: float = 0.1) -> SequenceLoss:
    torch.manual_seed(0)
    config = dataclasses.replace(SHAPE, source_vocabulary=11, target_vocabulary=11, dropout=0.0)
    return SequenceLoss(Transformer(config), smoothing).train()


def loss_and_gradients(loss: SequenceLoss, *batches: Batch):
    loss.zero_grad()
    total = sum(loss(batch).translation for batch in batches)
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
    assert float(loss(unlabelled).translation.detach()) == 0


def test_a_batch_weighs_tokens_alike_in_short_and_long_sentences():
    loss = sequence_loss()
    together = loss_and_gradients(loss, collate(SOURCES, TARGETS, CPU))
    singles = [collate([s], [t], CPU) for s, t in zip(SOURCES, TARGETS, strict=True)]
    torch.testing.assert_close(together, loss_and_gradients(loss, *singles))


def test_smoothing_is_used_only_in_training():
    smooth, plain = sequence_loss(0.1), sequence_loss(0.0)
    batch = collate(SOURCES, TARGETS, CPU)
    assert not smooth(batch).translation.equal(plain(batch).translation)
    assert smooth.eval()(batch).translation.equal(plain.eval()(batch).translation)


def test_later_tokens_do_not_change_the_loss_of_earlier_ones():
    """The causal mask hides later target tokens."""
    loss = sequence_loss()
    batch = collate([SOURCES[0]], [[4, 5, 6]], CPU)
    only_first = batch._replace(labels=batch.labels.clone())
    only_first.labels[:, 1:] = PAD_ID
    changed = only_first._replace(read=batch.read.clone())
    changed.read[:, 1:] = 10
    assert loss(changed).translation.equal(loss(only_first).translation)


# The taught head

LINKS = [[0, 4, 1, 0], [0, 1, 2, 0, 2, 1]]  # target and source token in turn


def taught_loss() -> SequenceLoss:
    torch.manual_seed(0)
    config = dataclasses.replace(
        SHAPE, source_vocabulary=11, target_vocabulary=11, dropout=0.0, n_decoder_layers=2, taught_head=(0, 1)
    )
    return SequenceLoss(Transformer(config), 0.1).train()


def test_the_alignment_loss_is_the_cross_entropy_of_the_taught_heads_weights_in_the_rows_that_read():
    loss, batch = taught_loss(), collate(SOURCES, TARGETS, CPU, LINKS)
    model, mask = loss.model, padding_mask(batch.source, PAD_ID)
    weights = model.decode(batch.read, model.encode(batch.source, mask), explicit=True).cross_weights
    head = weights[:, 0, 1]  # of layer 0
    wanted = -(head[0, 1, 4].log() + head[0, 2, 0].log())
    wanted -= head[1, 1, 1].log() + 0.5 * (head[1, 3, 0].log() + head[1, 3, 1].log())
    torch.testing.assert_close(loss(batch).alignment, wanted)
    padded = Batch(
        wider(batch.source, 3), wider(batch.read, 2), wider(batch.labels, 2), F.pad(batch.links, (0, 3, 0, 2))
    )
    torch.testing.assert_close(loss(padded).alignment, wanted)


def test_the_row_that_reads_a_linked_token_has_that_token_as_input():
    batch = collate(SOURCES, TARGETS, CPU, LINKS)
    for pair, row in itertools.product(range(2), range(batch.read.shape[1])):
        linked = batch.links[pair, row].nonzero().flatten().tolist()
        wanted = [s for t, s in zip(LINKS[pair][::2], LINKS[pair][1::2], strict=True) if t + 1 == row]
        assert linked == wanted
        assert float(batch.links[pair, row].sum()) == pytest.approx(float(bool(wanted)))
        if wanted:
            assert int(batch.read[pair, row]) == TARGETS[pair][row - 1]


def test_links_change_neither_the_translation_loss_nor_its_gradients():
    loss = taught_loss()
    plain = loss_and_gradients(loss, collate(SOURCES, TARGETS, CPU))
    with_links = loss_and_gradients(loss, collate(SOURCES, TARGETS, CPU, LINKS))
    torch.testing.assert_close(plain, with_links, rtol=0, atol=0)
    assert float(loss(collate(SOURCES, TARGETS, CPU)).alignment) == 0


def test_the_alignment_loss_reaches_only_what_the_taught_heads_weights_depend_on():
    loss = taught_loss()
    loss(collate(SOURCES, TARGETS, CPU, LINKS)).alignment.backward()
    changed = {name for name, p in loss.model.named_parameters() if p.grad is not None and p.grad.any()}
    assert "decoder.0.cross_attention.project.weight" in changed
    assert not any(name.startswith(("decoder.1", "decoder_norm")) for name in changed)
    width = SHAPE.d_head
    query = loss.model.decoder[0].cross_attention.project.weight.grad[: SHAPE.d_model]
    assert query[width:].any()  # of head 1
    assert not query[:width].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_empty_alignment_has_no_loss(dtype):
    loss = taught_loss()
    with torch.autocast("cpu", dtype, enabled=dtype == torch.bfloat16):
        empty = loss(collate(SOURCES, TARGETS, CPU, [[], []])).alignment
        some = loss(collate(SOURCES, TARGETS, CPU, LINKS)).alignment
    assert float(empty.detach()) == 0
    assert some.dtype == torch.float32
    assert float(some.detach()) > 0
