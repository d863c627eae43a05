"""Probes of a run: their steps and sentences, resumed runs, and no effect on the training."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import training.run.probes
from model.errors import UserError
from model.storage.checkpoint import WEIGHTS, list_models
from model.storage.probes import PROBES, ProbePair, Probes
from model.storage.run import LATEST
from model.storage.training_log import METRICS
from model.text.tokenizer import normalise
from model.translator import Translator
from tests.training.run.test_resume import probes_of
from tests.training.tiny import PARALLEL, REVERSE, assert_same_run, metrics, parallel_files, prepared, run
from training.recipes import RECIPES
from training.run.average import average_models
from training.run.damage import BEST
from training.run.directory import STATE
from training.run.probes import SENTENCES, measure, readable_sentences, should_probe

ROOT = Path(__file__).resolve().parents[3]
MAX_PROBES_BYTES = 1_500_000  # of a shipped model


# Steps and sentences


@pytest.mark.parametrize(("steps", "count"), [(4500, 26), (30_000, 31), (100_000, 35)])
def test_probes_are_log_spaced(steps, count):
    found = [step for step in range(steps + 1) if should_probe(step)]
    assert found[:6] == [0, 1, 2, 3, 4, 6]
    assert len({*found, steps}) == count
    assert all(4 / 3 <= later / earlier <= 3 / 2 for earlier, later in pairwise(found[3:]))


@pytest.mark.parametrize(("last", "steps"), [(12, (0, 1, 2, 3, 4, 6, 8, 12)), (7, (0, 1, 2, 3, 4, 6, 7))])
def test_a_run_is_probed_at_the_given_steps_and_its_last_step(tmp_path, data, last, steps):
    run(replace(REVERSE, max_steps=last), data, tmp_path / "run")
    assert Probes.load(tmp_path / "run").steps == steps


def test_each_probe_is_of_the_model_after_its_step(tmp_path, data):
    trainer = prepared(REVERSE, data, tmp_path / "run")
    pairs = readable_sentences(trainer.recorder.translator)
    wanted = {}

    def step(batches, window, take=trainer._step):
        take(batches, window)
        translator = trainer._translator(trainer.checkpoint())
        wanted[trainer.progress.step] = [measure(translator, pair).log_probabilities for pair in pairs]

    wanted[0] = [measure(trainer.recorder.translator, pair).log_probabilities for pair in pairs]
    trainer._step = step
    trainer.run()
    found = Probes.load(tmp_path / "run")
    assert found.current.sentences == pairs
    assert len(pairs) >= 2
    for at in found.steps:
        for place, values in enumerate(wanted[at]):
            assert found.log_probabilities(at, place) == tuple(values.tolist())
    assert not wanted[0][0].equal(wanted[1][0])


def test_every_recipe_has_short_sentences_of_its_languages():
    for config in RECIPES.values():
        pairs = SENTENCES[config.source_language, config.target_language]
        assert len(set(pairs)) == 3
        for text in (text for pair in pairs for text in pair):
            assert text == normalise(text)
            assert len(text) <= 50
        if config.reverse_words:
            assert all(pair.target == pair.source[::-1] for pair in pairs)


@pytest.mark.parametrize("model", list_models(ROOT / "assets" / "models"), ids=lambda path: path.name)
def test_the_probes_of_a_shipped_model_stay_small(model):
    translator = Translator.load(model)
    pairs = readable_sentences(translator)
    assert len(pairs) == 3
    one_step = sum(values.nbytes for pair in pairs for values in measure(translator, pair))
    assert 35 * one_step < MAX_PROBES_BYTES


def test_a_run_whose_tokenizer_cannot_read_the_sentences_has_no_probes(tmp_path):
    best = run(PARALLEL, parallel_files(tmp_path / "data"), tmp_path / "run")
    assert not (tmp_path / "run" / PROBES).exists()
    assert not (best / PROBES).exists()
    assert (best / METRICS).is_file()


# No effect on the training


def test_probing_changes_nothing_in_training(tmp_path, data, reference, monkeypatch):
    probed = reference(REVERSE)
    monkeypatch.setattr(training.run.probes, "SENTENCES", {})
    run(REVERSE, data, tmp_path / "alone")
    assert not (tmp_path / "alone" / PROBES).exists()
    assert_same_run(probed, tmp_path / "alone")
    for name in (BEST, LATEST):
        one, other = (output / name / WEIGHTS for output in (probed, tmp_path / "alone"))
        assert one.read_bytes() == other.read_bytes()
    assert metrics_without_times(probed) == metrics_without_times(tmp_path / "alone")


def metrics_without_times(output: Path) -> list[dict]:
    times = ("minutes", "train/tokens_per_second")
    return [{name: value for name, value in line.items() if name not in times} for line in metrics(output)]


def test_a_probe_draws_no_random_number_and_leaves_the_weights(tmp_path, data):
    trainer = prepared(REVERSE, data, tmp_path / "run")
    weights = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    state = torch.random.get_rng_state()
    trainer.recorder.record(0)
    assert torch.random.get_rng_state().equal(state)
    assert all(one.equal(two) for one, two in zip(weights, trainer.model.parameters(), strict=True))
    assert all(parameter.requires_grad for parameter in trainer.model.parameters())
    assert (tmp_path / "run" / PROBES).is_file()


# The same after a resume


@pytest.mark.slow
def test_a_run_that_started_without_probes_is_probed_from_where_it_resumes(tmp_path, data):
    run(replace(REVERSE, max_steps=5), data, tmp_path / "run")
    (tmp_path / "run" / PROBES).unlink()
    run(REVERSE, data, tmp_path / "run", resume=True)
    assert Probes.load(tmp_path / "run").steps == (6, 8, 12)


@pytest.mark.slow
def test_a_run_keeps_the_sentences_that_it_started_with(tmp_path, data, monkeypatch):
    run(replace(REVERSE, max_steps=5), data, tmp_path / "run")
    before = Probes.load(tmp_path / "run").current.sentences
    monkeypatch.setattr(training.run.probes, "SENTENCES", {("word", "reversed"): (ProbePair("abc", "cba"),)})
    run(REVERSE, data, tmp_path / "run", resume=True)
    assert Probes.load(tmp_path / "run").current.sentences == before


@pytest.mark.slow
def test_probes_of_a_run_killed_before_its_first_save_are_not_kept(tmp_path, data, reference):
    run(replace(REVERSE, seed=2), data, tmp_path / "killed")
    (tmp_path / "killed" / STATE).unlink()
    run(REVERSE, data, tmp_path / "killed")
    assert probes_of(tmp_path / "killed") == probes_of(reference(REVERSE))


def test_broken_probes_are_reported_before_a_run_resumes(tmp_path, data):
    run(replace(REVERSE, max_steps=2), data, tmp_path / "run")
    (tmp_path / "run" / PROBES).write_bytes(b"half a file")
    with pytest.raises(UserError, match="probes.safetensors is truncated or broken"):
        prepared(REVERSE, data, tmp_path / "run", resume=True)


# In the model directory


@pytest.mark.slow
def test_the_best_and_the_averaged_model_have_the_curves_and_probes_of_their_run(tmp_path, data):
    best = run(replace(REVERSE, validate_every=3), data, tmp_path / "run")
    average_models([tmp_path / "run"], 2, 0, tmp_path / "mean")
    for directory in (best, tmp_path / "mean"):
        assert probes_of(directory) == probes_of(tmp_path / "run")
        assert (directory / METRICS).read_bytes() == (tmp_path / "run" / METRICS).read_bytes()
        assert Probes.load(directory).record(12, 0).cross.shape[:2] == (1, 2)
