"""Runs of several processes equal runs of one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from model.errors import UserError
from model.storage.checkpoint import JOINT, load, save
from model.storage.probes import Probes
from model.storage.run import LATEST
from model.translator import Translator
from tests.training.runner import SHARED
from tests.training.tiny import REVERSE, SHAPE, assert_same_run, metrics, prepared, run, word_list
from training.corpus.loading import Place
from training.corpus.splits import read_corpus
from training.evaluation.metrics import TrainingWindow, score
from training.run.damage import BEST
from training.run.directory import EVALUATION, SAMPLES
from training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[2]
TWO = ("--multi_gpu", "--num_processes", "2", "--main_process_port", "0")


def gradient_of_share(trainer: Trainer, rows: np.ndarray, index: int, processes: int) -> list[torch.Tensor]:
    """The gradients of process `index` of several, of which the mean is taken."""
    trainer.accelerator = SimpleNamespace(
        num_processes=processes, device=torch.device("cpu"), backward=torch.Tensor.backward
    )
    trainer.model.zero_grad()
    loaded = replace(trainer.loader, process=index, processes=processes).load(Place(0, 1, rows))
    trainer._backward(loaded, loaded.tokens)
    return [parameter.grad.clone() for parameter in trainer.model.parameters()]


@pytest.mark.parametrize("processes", [2, 3, 20])
def test_the_mean_over_processes_is_the_gradient_of_the_whole_batch(tmp_path, data, processes):
    config = replace(REVERSE, model=replace(SHAPE, dropout=0.0), tokens_per_batch=200)
    trainer = prepared(config, data, tmp_path / "run")
    # Rows of different length, so that a mean of means would differ; 9 rows, so that some of 20
    # processes have none.
    rows = trainer.batches.target_lengths.argsort()[:: len(trainer.train) // 9]
    whole = gradient_of_share(trainer, rows, 0, 1)
    shares = [gradient_of_share(trainer, rows, index, processes) for index in range(processes)]
    for one, parts in zip(whole, zip(*shares, strict=True), strict=True):
        torch.testing.assert_close(torch.stack(parts).mean(0), one, rtol=1e-4, atol=1e-6)


def test_the_gradients_of_a_step_travel_between_processes_once(tmp_path, data, monkeypatch):
    trainer = prepared(replace(REVERSE, accumulate=3), data, tmp_path / "run")
    backward, alone, quiet = trainer._backward, [], []

    @contextmanager
    def no_sync(module):
        assert module is trainer.loss
        quiet.append(True)
        yield
        quiet.pop()

    def noted(loaded, tokens):
        alone.append(bool(quiet))
        return backward(loaded, tokens)

    monkeypatch.setattr(trainer.accelerator, "no_sync", no_sync)
    monkeypatch.setattr(trainer, "_backward", noted)
    with closing(trainer.loader.stream(0, 0)) as batches:
        trainer._step([*islice(batches, 3)], TrainingWindow())
    assert alone == [True, True, False]


def test_only_the_first_process_writes(tmp_path, data, reference, monkeypatch):
    first = reference(REVERSE)
    output = tmp_path / "run"
    shutil.copytree(first / BEST, output / BEST)
    shutil.copy(first / JOINT, output)  # what the first process has written for the others

    def files() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in output.rglob("*")}

    before = files()
    monkeypatch.setattr(Accelerator, "is_main_process", False)
    prepared(REVERSE, data, output).run()
    assert files() == before


@pytest.mark.slow
def test_processes_wait_before_they_read_the_best_model_and_before_they_end(tmp_path, data, monkeypatch):
    trainer, events = prepared(REVERSE, data, tmp_path / "run"), []

    def noted_save(checkpoint, directory, *card):
        events.append(f"save {directory.name}")
        save(checkpoint, directory, *card)

    def noted_load(directory):
        events.append(f"load {directory.name}")
        return load(directory)

    monkeypatch.setattr("training.trainer.save", noted_save)
    monkeypatch.setattr("training.trainer.load", noted_load)
    monkeypatch.setattr(trainer.accelerator, "wait_for_everyone", lambda: events.append("wait"))
    trainer.run()
    read = events.index(f"load {BEST}")
    assert events[read - 1] == "wait"
    assert f"save {BEST}" in events[:read]
    assert events[-1] == "wait"


def launch(name: str, data: Path, output: Path) -> None:
    """Two processes, as a user starts them."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"}
    launcher = [sys.executable, "-m", "accelerate.commands.launch", *TWO]
    command = [*launcher, "-m", "tests.training.runner", name, str(data), str(output)]
    result = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_launcher_that_started_only_one_process_is_reported(tmp_path, data, monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(UserError, match="--multi_gpu --num_processes N"):
        prepared(REVERSE, data, tmp_path / "run")


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    directory = tmp_path_factory.mktemp("launched")
    launch("shared", word_list(directory / "data"), directory / "run")
    return directory


@pytest.mark.slow
def test_two_processes_give_the_loss_curve_of_one(tmp_path, launched):
    run(SHARED, launched / "data", tmp_path / "one")
    one, two = metrics(tmp_path / "one"), metrics(launched / "run")
    assert [line["step"] for line in one] == [line["step"] for line in two]
    for name in ("train/loss", "validation/loss", "train/gradient_norm"):
        curves = [[line[name] for line in lines if name in line] for lines in (one, two)]
        assert len(curves[0]) >= 1
        assert curves[0] == pytest.approx(curves[1], rel=2e-3)
    Translator.load(launched / "run" / LATEST).translate("abc")
    one, two = Probes.load(tmp_path / "one"), Probes.load(launched / "run")
    assert one.steps == two.steps
    for step in one.steps:
        assert one.log_probabilities(step, 0) == pytest.approx(two.log_probabilities(step, 0), rel=2e-2)


def samples(output: Path) -> list[dict]:
    """The translations that the first validation logged."""
    rows = [json.loads(row) for row in (output / SAMPLES).read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["step"] == SHARED.validate_every]


@pytest.mark.slow
def test_two_processes_translate_and_score_as_one(tmp_path, launched):
    run(replace(SHARED, max_steps=SHARED.validate_every), launched / "data", tmp_path / "one")
    one, two = (metrics(output)[0] for output in (tmp_path / "one", launched / "run"))
    names = [name for name in one if name.startswith("validation/") and name != "validation/loss"]
    assert len(names) == 7
    assert [one[name] for name in names] == [two[name] for name in names]
    assert samples(tmp_path / "one") == samples(launched / "run")
    pairs = read_corpus(SHARED, [launched / "data"]).validation
    best = Translator.load(launched / "run" / BEST)
    hypotheses = best.translate_batch(list(pairs["source"]), SHARED.beam_size)
    assert len(set(hypotheses)) > 1  # otherwise a wrong order would look right
    wanted = asdict(score(hypotheses, list(pairs["target"])))
    found = json.loads((launched / "run" / EVALUATION).read_text(encoding="utf-8"))
    assert found == {"beam": SHARED.beam_size, **wanted}


@pytest.mark.slow
def test_two_processes_resume_bit_for_bit(tmp_path, data):
    launch("dropping", data, tmp_path / "whole")
    launch("half", data, tmp_path / "halves")
    launch("dropping", data, tmp_path / "halves")
    assert_same_run(tmp_path / "whole", tmp_path / "halves")
