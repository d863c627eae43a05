"""Batches: every row once, within the budget, repeatable from a position."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.text.tokenizer import BOS_ID, EOS_ID, PAD_ID
from tests.training.tiny import as_lists, collate
from training.corpus.batching import ROWS, WIDTHS, IdRows, TokenBatches, padded, padding_share

pairs_of_lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=80)
budgets = st.integers(1, 300)


def batches_of(lengths: list[tuple[int, int]], budget: int, seed: int = 1) -> TokenBatches:
    source, target = np.array(lengths, dtype=np.int64).reshape(-1, 2).T
    return TokenBatches(source, target, budget, seed)


def realistic(count: int = 50_000) -> TokenBatches:
    """Log-normal source lengths and similar target lengths, as in a corpus of captions."""
    random = np.random.default_rng(0)
    source = np.clip(random.lognormal(2.4, 0.5, count), 1, 100).astype(np.int64)
    target = np.clip(source * random.normal(1, 0.15, count), 1, 100).astype(np.int64)
    return TokenBatches(source, target, 4096, 1)


def rows(batches) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@given(pairs_of_lengths, budgets, st.integers(0, 5))
def test_every_row_occurs_exactly_once_in_an_epoch(lengths, budget, epoch):
    found = [row for batch in rows(batches_of(lengths, budget).epoch(epoch)) for row in batch]
    assert sorted(found) == list(range(len(lengths)))


@given(pairs_of_lengths, budgets)
def test_no_batch_is_over_budget_on_either_side_unless_it_is_one_row(lengths, budget):
    for batch in rows(batches_of(lengths, budget).epoch(0)):
        for side in (0, 1):
            width = padded(np.array([lengths[row][side] for row in batch])).max()
            assert len(batch) == 1 or len(batch) * width <= budget


@given(pairs_of_lengths, st.integers(1, 9))
def test_no_batch_has_more_pairs_than_allowed_and_nearly_all_have_that_many(lengths, pairs):
    source, target = np.array(lengths, dtype=np.int64).reshape(-1, 2).T
    sizes = [len(batch) for batch in TokenBatches(source, target, 10**6, 1, pairs).epoch(0)]
    assert sum(sizes) == len(lengths)
    assert sum(size != pairs for size in sizes) <= 1
    assert max(sizes, default=0) <= pairs


@given(pairs_of_lengths, budgets, st.integers(0, 3), st.integers(0, 3))
def test_the_same_seed_and_epoch_give_the_same_batches(lengths, budget, seed, epoch):
    one, other = (batches_of(lengths, budget, seed) for _ in range(2))
    one.epoch(epoch + 1)  # what came before does not matter
    assert rows(one.epoch(epoch)) == rows(other.epoch(epoch))


@settings(max_examples=20)
@given(st.integers(0, 100), st.integers(0, 100))
def test_epochs_and_seeds_differ_in_order_and_in_the_rows_of_a_batch(seed, epoch):
    lengths = [(1 + row % 5, 1 + row % 5) for row in range(200)]
    batches = batches_of(lengths, 40, seed)
    mixtures = [
        {frozenset(batch) for batch in rows(other)}
        for other in (
            batches.epoch(epoch),
            batches.epoch(epoch + 1),
            batches_of(lengths, 40, seed + 1).epoch(epoch),
        )
    ]
    assert mixtures[0] != mixtures[1]
    assert mixtures[0] != mixtures[2]


def test_the_rest_of_an_epoch_follows_from_a_position():
    batches = realistic(500)
    whole = rows(batches.epoch(3))
    assert len(whole) > 2
    assert whole[:2] + rows(batches.epoch(3)[2:]) == whole


def test_long_sentences_are_not_left_for_the_end():
    batches = realistic()
    means = [batches.source_lengths[batch].mean() for batch in batches.epoch(0)]
    steps = np.arange(len(means))
    assert abs(np.corrcoef(steps, means)[0, 1]) < 0.5


def test_realistic_lengths_need_little_padding():
    batches = realistic()
    epoch = batches.epoch(0)
    assert padding_share(epoch, batches.target_lengths) < 0.05
    assert padding_share(epoch, batches.source_lengths) < 0.15
    assert padding_share(epoch, batches.source_lengths, batches.target_lengths) < 0.09
    unsorted = np.array_split(np.random.default_rng(0).permutation(50_000), len(epoch))
    assert padding_share(unsorted, batches.source_lengths) > 0.5


def test_sources_that_rise_and_fall_in_turn_save_a_tenth_of_their_padding():
    batches = realistic()
    plain = batches._cut(np.lexsort((batches.source_lengths, batches.target_lengths)))
    ours, others = (padding_share(each, batches.source_lengths) for each in (batches.epoch(0), plain))
    assert ours < 0.9 * others


def test_batches_are_filled_nearly_to_the_budget():
    batches = realistic()
    tokens = int(np.maximum(batches.source_lengths, batches.target_lengths).sum())
    assert len(batches.epoch(0)) < 1.35 * tokens / batches.budget


@given(pairs_of_lengths.filter(bool), budgets)
def test_padding_share_counts_the_padded_places(lengths, budget):
    batches = batches_of(lengths, budget)
    epoch = batches.epoch(0)
    sources = [[[5] * (lengths[row][0] - 1) for row in batch] for batch in rows(epoch)]  # </s> makes one more
    total = sum(collate(batch, batch, torch.device("cpu")).source.numel() for batch in sources)
    real = sum(length for length, _ in lengths)
    assert abs(padding_share(epoch, batches.source_lengths) - (1 - real / total)) < 1e-9


@given(pairs_of_lengths, st.integers(1, 3000))
def test_few_different_shapes(lengths, budget):
    sizes = [len(batch) for batch in batches_of(lengths * 3, budget).epoch(0)]
    assert sum(size > ROWS and size % ROWS != 0 for size in sizes) <= 1
    batch = collate(
        [[5] * a for a, _ in lengths] or [[5]], [[5] * b for _, b in lengths] or [[5]], torch.device("cpu")
    )
    assert all(ids.shape[1] % WIDTHS == 0 for ids in (batch.source, batch.read, batch.labels))


@given(st.lists(st.lists(st.integers(4, 9), max_size=5), min_size=1, max_size=9), st.data())
def test_rows_are_gathered_as_lists_are(rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    assert as_lists(IdRows.of(rows)[np.array(chosen)]) == [rows[row] for row in chosen]
    batch = collate([rows[row] for row in chosen], [rows[row] for row in chosen], torch.device("cpu"))
    for place, row in enumerate(chosen):
        padding = [PAD_ID] * (batch.source.shape[1] - len(rows[row]) - 1)
        assert batch.source[place].tolist() == batch.labels[place].tolist() == [*rows[row], EOS_ID, *padding]
        assert batch.read[place].tolist() == [BOS_ID, *rows[row], *padding]
