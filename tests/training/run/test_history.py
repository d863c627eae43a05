"""A run that starts from another run begins with the history of that run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

import model.storage.probes
import training.run.history
from model.storage.checkpoint import load
from model.storage.probes import PROBES, Probes
from model.storage.run import LATEST
from model.storage.training_log import METRICS
from model.translator import Translator
from tests.training.run.test_resume import CrashError, crash_at
from tests.training.tiny import REVERSE, metrics, prepared, run, word_list
from training.run.average import average_models
from training.run.damage import BEST
from training.run.history import thin, vocabularies
from training.run.probes import SENTENCES, ProbeRecorder

SHIPPED = Path(__file__).parents[3] / "assets" / "models" / "en-fr"
SIX = replace(REVERSE, max_steps=6, validate_every=3, keep_last=2)
LAST = replace(SIX, peak_learning_rate=5e-3)
OTHER_WORDS = replace(SIX, validation_rows=2, test_rows=1)


@pytest.fixture(scope="module")
def joined(tmp_path_factory) -> tuple[Path, Path]:
    """A run of 6 steps, and a second one from its last weights."""
    folder = tmp_path_factory.mktemp("joined")
    data = word_list(folder / "data")
    run(SIX, data, folder / "first")
    prepared(LAST, data, folder / "second", start=folder / "first" / LATEST).run()
    return folder / "first", folder / "second"


def test_curves_and_probes_of_two_runs_are_those_of_one_run_of_their_steps(joined):
    first, second = joined
    assert [line["step"] for line in metrics(first)] == [3, 6]
    assert [line["step"] for line in metrics(second)] == [3, 6, 9, 12]
    assert metrics(second)[:2] == metrics(first)
    for name in ("minutes", "tokens"):
        counts = [line[name] for line in metrics(second)]
        assert counts == sorted(counts)
    before, after = Probes.load(first), Probes.load(second)
    assert after.steps == (0, 1, 2, 3, 4, 6, 12)
    for step in (0, 1, 4):
        assert after.log_probabilities(step, 0) == before.log_probabilities(step, 0)


def test_a_joined_run_that_resumes_keeps_its_history(joined, tmp_path):
    first, second = joined
    data = first.parent / "data"
    trainer = prepared(LAST, data, tmp_path / "run", start=first / LATEST)
    crash_at(trainer, 5)
    with pytest.raises(CrashError):
        trainer.run()
    run(LAST, data, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / PROBES).read_bytes() == (second / PROBES).read_bytes()
    assert [line["step"] for line in metrics(tmp_path / "run")] == [3, 6, 9, 12]


def test_a_third_run_and_a_mean_have_the_whole_history(joined, tmp_path):
    first, second = joined
    prepared(SIX, first.parent / "data", tmp_path / "run", start=second / LATEST).run()
    average_models([tmp_path / "run"], 2, 0, tmp_path / "mean")
    for directory in (tmp_path / "run", tmp_path / "run" / BEST, tmp_path / "mean"):
        assert [line["step"] for line in metrics(directory)] == [3, 6, 9, 12, 15, 18]
        assert Probes.load(directory).steps == (0, 1, 2, 3, 4, 6, 12, 18)


def test_a_history_that_goes_on_keeps_probes_that_are_a_hundredth_of_the_steps_apart(joined):
    probes = Probes.load(joined[0])
    early, late = (replace(probes.current, measured={}) for _ in range(2))
    (measured, *_) = probes.current.measured.values()
    early.measured = dict.fromkeys((0, 1, 2, 3, 1000, 1009, 1010, 1019, 1030), measured)
    late.measured = dict.fromkeys((1032, 1040, 1043), measured)
    probes.parts = (early, late)
    thin(probes)
    assert probes.steps == (0, 1, 2, 3, 1000, 1010, 1030, 1032, 1043)


def test_a_run_goes_on_with_a_thinned_history(joined, tmp_path, monkeypatch):
    monkeypatch.setattr(training.run.history, "APART", 1.0)  # each step at least twice the one before
    prepared(SIX, joined[0].parent / "data", tmp_path / "run", start=joined[0] / LATEST)
    assert Probes.load(joined[0]).steps == (0, 1, 2, 3, 4, 6)
    assert Probes.load(tmp_path / "run").steps == (0, 1, 2, 4)


def test_the_history_of_the_best_model_ends_where_it_was_saved(joined, tmp_path):
    data = joined[0].parent / "data"
    trainer = prepared(replace(SIX, validate_every=4, max_steps=8), data, tmp_path / "first")
    trainer.run()
    best = trainer.progress.best_step
    trainer = prepared(SIX, data, tmp_path / "second", start=tmp_path / "first" / BEST)
    assert trainer.progress.earlier_steps == best
    assert max(line["step"] for line in metrics(tmp_path / "second")) == best


def test_a_run_with_other_words_keeps_the_vocabulary_and_the_history(joined, tmp_path):
    data = word_list(tmp_path / "data", ["other", "words", "with", "more", "letters", *"abcdefghijklm"])
    trainer = prepared(OTHER_WORDS, data, tmp_path / "run", start=joined[0] / LATEST)
    assert vocabularies(tmp_path / "run") == vocabularies(joined[0])
    assert trainer.progress.earlier_steps == 6


def test_a_run_for_another_language_begins_a_part_of_the_history(tmp_path):
    data = word_list(tmp_path / "data", ["lantern", "notebook", "sunflower", "lamp", "yard"])
    trainer = prepared(replace(OTHER_WORDS, save_every=5), data, tmp_path / "first")
    crash_at(trainer, 6)  # the last save is of step 5, the last probe of step 4
    with pytest.raises(CrashError):
        trainer.run()
    config = replace(OTHER_WORDS, target_language="it", max_steps=66)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SENTENCES, ("word", "it"), SENTENCES["word", "reversed"])
        trainer = prepared(config, data, tmp_path / "run", start=tmp_path / "first" / LATEST)
        assert trainer.progress.earlier_steps == 5
        trainer.run()
    before, after = Probes.load(tmp_path / "first"), Probes.load(tmp_path / "run")
    part, _ = after.parts
    assert (part.title, part.languages, part.last) == (REVERSE.title, ("word", "reversed"), 5)
    assert part.steps == list(before.steps) == [0, 1, 2, 3, 4]
    assert after.steps[5:] == (5 + 64, 5 + 66)
    assert after.current.sentences == SENTENCES["word", "reversed"]
    assert not after.begin_trained
    for step in before.steps:
        former, found = before.record(step, 0), after.record(step, 0)
        assert (found.source, found.read, found.predicted) == (former.source, former.read, former.predicted)
        assert found.cross.equal(former.cross)
        assert after.log_probabilities(step, 0) == before.log_probabilities(step, 0)


def test_a_history_is_not_joined_if_nothing_could_tell_its_parts_apart(joined, tmp_path):
    data = word_list(tmp_path / "data", ["other", "words", "with", "more", "letters", *"abcdefghijklm"])
    config = replace(OTHER_WORDS, target_language="it")  # no probes: there are no sentences for it
    trainer = prepared(config, data, tmp_path / "run", start=joined[0] / LATEST)
    assert vocabularies(tmp_path / "run") != vocabularies(joined[0])
    assert trainer.progress.earlier_steps == 0
    assert not (tmp_path / "run" / METRICS).exists()


def test_the_curves_of_a_model_without_probes_are_kept(joined, tmp_path):
    copytree(joined[0] / BEST, tmp_path / "model")
    (tmp_path / "model" / PROBES).unlink()
    trainer = prepared(SIX, joined[0].parent / "data", tmp_path / "run", start=tmp_path / "model")
    assert trainer.progress.earlier_steps == 6
    assert metrics(tmp_path / "run") == metrics(joined[0])


def test_a_history_too_large_to_go_on_with_is_not_joined(joined, tmp_path, monkeypatch):
    data = joined[0].parent / "data"
    monkeypatch.setattr(model.storage.probes, "MAX_BYTES", (joined[0] / PROBES).stat().st_size)
    trainer = prepared(SIX, data, tmp_path / "run", start=joined[0] / LATEST)
    assert trainer.progress.earlier_steps == 0
    assert not (tmp_path / "run" / PROBES).exists()


def test_the_whole_history_of_a_shipped_model_is_kept(tmp_path):
    probes = Probes.load(SHIPPED)
    checkpoint = load(SHIPPED)
    copytree(SHIPPED, tmp_path / "run")
    last = probes.steps[-1]
    recorder = ProbeRecorder(Translator(checkpoint), tmp_path / "run", last + 70, start=last)
    assert recorder.probes.steps == probes.steps
