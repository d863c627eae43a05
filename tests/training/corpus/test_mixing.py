"""Mixing: an epoch reads each source as often as its weight says, and long pairs are joined neighbours."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import UserError
from tests.training.tiny import (
    PARALLEL,
    as_dataset,
    pairs_of,
    parallel_files,
    prepared,
    sentences,
    write_lines,
)
from training.config import TrainConfig
from training.corpus.mixing import CONCATENATED, LONGEST, Mixture, concatenate
from training.corpus.splits import read_corpus
from training.run.directory import RUN
from training.trainer import Trainer

MIXED = dataclasses.replace(PARALLEL, test_rows=0)


def mixed_files(directory):
    """A folder with two files: 40 pairs without named sources, and 80 of two sources."""
    pairs = sentences(120)
    parallel_files(directory, pairs[:40])
    parallel_files(directory, pairs[40:], "more")
    write_lines(directory / "more.source", ["news", "talks"] * 40)
    parallel_files(directory, sentences(6), "dev")
    parallel_files(directory, sentences(9), "newstest")
    return directory


def weighted(**weights: float) -> TrainConfig:
    return dataclasses.replace(MIXED, weights=tuple(weights.items()))


def read_in_epoch(trainer: Trainer, epoch: int) -> Counter[int]:
    return Counter(np.concatenate(trainer.batches.epoch(epoch)).tolist())


# Sources


def test_every_pair_of_files_but_development_and_test_sets_is_training_data(tmp_path):
    corpus = read_corpus(MIXED, [mixed_files(tmp_path / "folder")])
    pairs = sentences(120)
    assert pairs_of(corpus.train) == [*pairs[40:], *pairs[:40]]  # more, then train
    assert pairs_of(corpus.validation) == sentences(6)
    assert corpus.train["origin"][:] == ["news", "talks"] * 40 + ["folder/train"] * 40


def test_a_file_of_sources_needs_a_line_for_each_pair(tmp_path):
    write_lines(mixed_files(tmp_path) / "more.source", ["news"] * 79)
    with pytest.raises(UserError, match=r"more\.de has 80 lines but .*more\.source has 79"):
        read_corpus(MIXED, [tmp_path])


# Weights


@given(
    st.lists(st.tuples(st.integers(1, 20), st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 3.0])), min_size=1),
    st.integers(0, 3),
)
def test_an_epoch_reads_each_source_as_often_as_its_weight_says(sources, seed):
    origins = np.concatenate([np.full(count, index) for index, (count, _) in enumerate(sources)])
    weights = tuple(weight for _, weight in sources)
    mixture = Mixture(tuple(map(str, range(len(sources)))), weights, origins)
    rows = mixture.rows(np.random.default_rng(seed))
    assert sorted(rows) == rows.tolist()
    times = np.bincount(rows, minlength=len(origins))
    for index, (count, weight) in enumerate(sources):
        mine = times[origins == index]
        assert mine.sum() == count * int(weight) + round(count * (weight % 1))
        assert set(mine) <= {int(weight), int(weight) + 1}


def test_batches_follow_the_weights_and_other_epochs_draw_other_pairs(tmp_path):
    data = mixed_files(tmp_path / "folder")
    trainer = prepared(weighted(news=0.5, talks=2), data, tmp_path / "run")
    news, talks = set(range(0, 80, 2)), set(range(1, 80, 2))
    epochs = [read_in_epoch(trainer, epoch) for epoch in range(3)]
    for read in epochs:
        assert sum(read[row] for row in news) == 20
        assert all(read[row] == 2 for row in talks)
        assert all(read[row] == 1 for row in range(80, 120))
    assert epochs[0] != epochs[1]
    again = prepared(weighted(news=0.5, talks=2), data, tmp_path / "again")
    assert [read_in_epoch(again, epoch) for epoch in range(3)] == epochs


def test_without_weights_the_batches_are_those_of_the_plain_rows(tmp_path):
    trainer = prepared(MIXED, mixed_files(tmp_path / "folder"), tmp_path / "run")
    plain = dataclasses.replace(trainer.batches, choose=None)
    for rows, wanted in zip(trainer.batches.epoch(1), plain.epoch(1), strict=True):
        np.testing.assert_array_equal(rows, wanted)


def test_the_run_says_how_many_pairs_each_source_has(tmp_path):
    prepared(weighted(news=0.5), mixed_files(tmp_path / "folder"), tmp_path / "run")
    described = json.loads((tmp_path / "run" / RUN).read_text())
    assert described["config"]["weights"] == [["news", 0.5]]
    assert described["sources"] == {
        "folder/train": {"pairs": 40, "weight": 1.0},
        "news": {"pairs": 40, "weight": 0.5},
        "talks": {"pairs": 40, "weight": 1.0},
    }
    without = prepared(weighted(news=0), tmp_path / "folder", tmp_path / "without")
    assert len(without.train) == 80
    assert "news" not in json.loads((tmp_path / "without" / RUN).read_text())["sources"]


def test_a_weight_of_an_unknown_source_names_the_sources(tmp_path):
    with pytest.raises(UserError, match="no source 'nwes'; .* concatenated, folder/train, news, talks"):
        read_corpus(weighted(nwes=0.5), [mixed_files(tmp_path / "folder")])


@pytest.mark.parametrize("weight", [-1, float("nan"), 1000])
def test_a_weight_outside_the_range_is_refused(weight):
    with pytest.raises(UserError, match="weight of news is"):
        weighted(news=weight)


def test_a_resumed_run_keeps_its_sources(tmp_path):
    data = mixed_files(tmp_path / "folder")
    prepared(weighted(news=0.5), data, tmp_path / "run").run()
    config = dataclasses.replace(weighted(news=0.5), max_steps=14)
    prepared(config, data, tmp_path / "run", resume=True)
    write_lines(data / "more.source", ["talks", "news"] * 40)
    with pytest.raises(UserError, match="differs from the corpus"):
        prepared(config, data, tmp_path / "run", resume=True)


# Joined pairs


def test_joined_pairs_are_runs_of_neighbours_of_one_source(tmp_path):
    pairs = as_dataset([(f"s{i}", f"t{i} u{i}") for i in range(200)])
    pairs = pairs.add_column("origin", [str(i // 50) for i in range(200)])
    joined = concatenate(pairs, 0.5, seed=1)
    assert joined.select(range(200)).to_list() == pairs.to_list()
    added = joined.select(range(200, len(joined)))
    assert 80 < len(added) <= 100
    assert set(added["origin"]) == {CONCATENATED}
    for source, target in pairs_of(added):
        rows = [int(word[1:]) for word in source.split()]
        assert rows == list(range(rows[0], rows[0] + len(rows)))
        assert 2 <= len(rows) <= LONGEST
        assert len({row // 50 for row in rows}) == 1
        assert target == " ".join(f"t{row} u{row}" for row in rows)


def test_joined_pairs_depend_on_the_seed_alone_and_have_a_weight(tmp_path):
    data = mixed_files(tmp_path / "folder")
    config = dataclasses.replace(MIXED, concatenate=0.2, max_tokens=LONGEST, weights=((CONCATENATED, 0.5),))
    one, same, other = (
        read_corpus(dataclasses.replace(config, seed=seed), [data]).train for seed in (1, 1, 2)
    )
    assert pairs_of(one) == pairs_of(same) != pairs_of(other)
    trainer = prepared(config, data, tmp_path / "run")
    added = len(trainer.train) - 120  # fewer than joined, because some are too long
    assert added > 2
    read = read_in_epoch(trainer, 0)
    assert sum(count for row, count in read.items() if row >= 120) == round(added / 2)
