"""Training runs: whole, stopped in every way, killed, resumed, and refused."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors import SafetensorError
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import model.checkpoint
import training.state
from model.checkpoint import WEIGHTS, load
from model.errors import UserError
from model.transformer import Transformer
from model.translator import Translator
from tests.training.tiny import (
    PARALLEL,
    REVERSE,
    SHAPE,
    assert_same_run,
    parallel_files,
    sentences,
    state_of,
    word_list,
    write_lines,
)
from training.run_directory import BEST, CURVES, LATEST, METRICS, RUN, SPLIT, STATE
from training.state import load_state
from training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data(tmp_path):
    return word_list(tmp_path / "data")


def run(config, data: Path, output: Path, resume: bool = False) -> Path:
    return Trainer(config, [data], output, resume).run()


def metrics(output: Path) -> list[dict]:
    return [json.loads(line) for line in (output / METRICS).read_text(encoding="utf-8").splitlines()]


def logged(output: Path, name: str) -> list[int]:
    return [entry["step"] for entry in metrics(output) if name in entry]


class CrashError(Exception):
    """The machine goes down."""


def crash_at(trainer: Trainer, step: int) -> None:
    """Make the trainer fail in place of this step."""
    train = trainer._step

    def crash(rows):
        if trainer.progress.step + 1 == step:
            raise CrashError
        return train(rows)

    trainer._step = crash


# A whole run


@pytest.mark.parametrize("kind", ["words", "parallel"])
def test_a_run_writes_models_state_split_and_curves(tmp_path, kind):
    config, data = (
        (REVERSE, word_list(tmp_path / "data"))
        if kind == "words"
        else (PARALLEL, parallel_files(tmp_path / "data"))
    )
    output = tmp_path / "runs" / "one"
    assert run(config, data, output) == output / BEST
    for name in (BEST, LATEST):
        assert Translator.load(output / name).translate("ab" if kind == "words" else "eins zwei").text
    assert json.loads((output / RUN).read_text(encoding="utf-8"))["config"]["seed"] == config.seed
    assert len(json.loads((output / SPLIT).read_text(encoding="utf-8"))["test"]) == config.test_rows
    assert logged(output, "validation/bleu") == [5, 10, 12]
    curves = EventAccumulator(str(output / CURVES)).Reload()
    assert [event.step for event in curves.Scalars("validation/loss")] == [5, 10, 12]


def test_latest_holds_the_weights_of_the_saved_state(tmp_path, data):
    run(REVERSE, data, tmp_path / "run")
    tensors, progress = state_of(tmp_path / "run")
    assert progress["step"] == REVERSE.max_steps
    for name, parameter in load(tmp_path / "run" / LATEST).model.named_parameters():
        assert parameter.half().equal(tensors[f"model.{name}"].half())


def test_best_holds_the_weights_of_the_best_validation(tmp_path, data):
    scores = iter([20.0, 30.0, 10.0])
    named = {"bleu": 0.0, "chrf": 0.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("training.trainer.score", lambda *_: SimpleNamespace(exact_match=next(scores), **named))
        run(REVERSE, data, tmp_path / "whole")
    run(replace(REVERSE, max_steps=10), data, tmp_path / "ten")
    best, ten = load(tmp_path / "whole" / BEST), load(tmp_path / "ten" / LATEST)
    for one, other in zip(best.model.parameters(), ten.model.parameters(), strict=True):
        assert one.equal(other)
    assert state_of(tmp_path / "whole")[1]["best"] == 30


def test_training_learns(tmp_path, data):
    config = replace(REVERSE, max_steps=150, validate_every=75, tokens_per_batch=128)
    run(config, data, tmp_path / "run")
    first, *_, last = [entry["validation/loss"] for entry in metrics(tmp_path / "run") if "minutes" in entry]
    losses = [entry["train/loss"] for entry in metrics(tmp_path / "run") if "train/loss" in entry]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    assert last < first


def test_validation_and_saving_change_nothing_in_training(tmp_path, data):
    run(replace(REVERSE, validate_every=1, save_every=1), data, tmp_path / "often")
    run(replace(REVERSE, validate_every=100, save_every=100), data, tmp_path / "seldom")
    assert_same_run(tmp_path / "often", tmp_path / "seldom")


def test_too_long_sentences_are_counted_and_never_stop_a_run(tmp_path):
    long = " ".join(["eins"] * 300)
    data = parallel_files(tmp_path, [*sentences(40), (long, "one"), ("zwei", long)])
    parallel_files(data, [*sentences(5), (long, "one"), ("zwei", long)], "dev")
    config = replace(PARALLEL, test_rows=0, max_steps=2)
    trainer = Trainer(config, [data], tmp_path / "run")
    trainer.run()
    described = json.loads((tmp_path / "run" / RUN).read_text(encoding="utf-8"))
    assert described["dropped"]["too_long"] + described["dropped"]["length_ratio"] == 2
    assert described["pairs"] == {"train": 40, "validation": 5}


@pytest.mark.parametrize("part", ["training", "validation"])
def test_a_corpus_of_which_nothing_is_left_is_refused(tmp_path, part):
    long = [(" ".join(["eins"] * 30), " ".join(["one"] * 30))]
    data = parallel_files(tmp_path, long if part == "training" else sentences(9))
    parallel_files(data, long if part == "validation" else sentences(9), "dev")
    with pytest.raises(UserError, match=f"No {part} pair is left"):
        Trainer(replace(PARALLEL, test_rows=0), [data], tmp_path / "run")


# Stopped and resumed


@pytest.mark.parametrize("stop", [1, 4, 5, 7])
def test_a_run_resumed_after_its_last_step_equals_one_without_a_stop(tmp_path, data, stop):
    run(REVERSE, data, tmp_path / "whole")
    run(replace(REVERSE, max_steps=stop), data, tmp_path / "halves")
    run(REVERSE, data, tmp_path / "halves", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "halves")


@pytest.mark.parametrize("crash", [5, 7, 12])
def test_a_run_resumed_after_a_crash_equals_one_without_it(tmp_path, data, crash):
    run(REVERSE, data, tmp_path / "whole")
    trainer = Trainer(REVERSE, [data], tmp_path / "crashed")
    crash_at(trainer, crash)
    with pytest.raises(CrashError):
        trainer.run()
    assert state_of(tmp_path / "crashed")[1]["step"] == (crash - 1) // 4 * 4
    run(REVERSE, data, tmp_path / "crashed", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "crashed")
    assert logged(tmp_path / "crashed", "validation/loss") == [5, 10, 12]
    assert [e["validation/loss"] for e in metrics(tmp_path / "crashed")] == [
        e["validation/loss"] for e in metrics(tmp_path / "whole")
    ]


def test_runs_cross_epochs_and_resume_inside_one(tmp_path, data):
    """A stop at every step of the first two epochs comes back to the very next batch."""
    trainer = Trainer(REVERSE, [data], tmp_path / "run")
    per_epoch = len(trainer.batches.epoch(0))
    batches = trainer._batches()
    whole = [next(batches).tolist() for _ in range(2 * per_epoch + 2)]
    for stop in range(1, 2 * per_epoch + 1):
        trainer.progress.epoch = trainer.progress.batch = 0
        before = trainer._batches()
        for _ in range(stop):
            next(before)
        assert next(trainer._batches()).tolist() == whole[stop]
    assert sorted(row for batch in whole[:per_epoch] for row in batch) == list(range(len(trainer.train)))


def test_minutes_stop_the_run_and_save_it(tmp_path, data):
    config = replace(REVERSE, max_steps=10**6, validate_every=10**6, save_every=10**6)
    trainer = Trainer(config, [data], tmp_path / "run")
    trainer.run(minutes=0.005)
    step = state_of(tmp_path / "run")[1]["step"]
    assert 0 < step < config.max_steps
    assert step == trainer.progress.step
    assert logged(tmp_path / "run", "validation/loss") == [step]
    Translator.load(tmp_path / "run" / LATEST)
    Translator.load(tmp_path / "run" / BEST)


def test_resuming_a_finished_run_adds_nothing(tmp_path, data):
    run(REVERSE, data, tmp_path / "run")
    before, lines = state_of(tmp_path / "run")[0], metrics(tmp_path / "run")
    run(REVERSE, data, tmp_path / "run", resume=True)
    after = state_of(tmp_path / "run")[0]
    assert all(before[name].equal(after[name]) for name in before)
    assert metrics(tmp_path / "run") == lines


def test_a_resumed_run_keeps_the_precision_it_began_with(tmp_path, data, monkeypatch):
    run(REVERSE, data, tmp_path / "run")
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setattr("training.trainer.bfloat16_pays", lambda: True)
    trainer = Trainer(REVERSE, [data], tmp_path / "run", resume=True)
    assert trainer.accelerator.mixed_precision == "no"


def test_resuming_on_other_data_is_refused(tmp_path, data):
    run(replace(REVERSE, max_steps=1), data, tmp_path / "run")
    write_lines(data / "more.txt", ["another", "word"])
    with pytest.raises(UserError, match="corpus differs"):
        Trainer(REVERSE, [data], tmp_path / "run", resume=True)


def test_a_run_is_not_overwritten_and_nothing_is_resumed_from_nowhere(tmp_path, data):
    run(replace(REVERSE, max_steps=1), data, tmp_path / "run")
    before = (tmp_path / "run" / STATE).read_bytes()
    with pytest.raises(UserError, match="add --resume"):
        Trainer(REVERSE, [data], tmp_path / "run")
    assert (tmp_path / "run" / STATE).read_bytes() == before
    with pytest.raises(UserError, match="no run to resume"):
        Trainer(REVERSE, [data], tmp_path / "other", resume=True)


# What goes wrong


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_state(tmp_path, data):
    output = tmp_path / "run"
    run(replace(REVERSE, max_steps=4), data, output)
    kept = {name: (output / name).read_bytes() for name in (STATE, f"{LATEST}/{WEIGHTS}")}
    trainer = Trainer(replace(REVERSE, save_every=1), [data], output, resume=True)
    with torch.no_grad():
        trainer.model.output.weight.fill_(torch.nan)
    with pytest.raises(UserError, match="loss is nan .* at step 5; .* Lower the learning rate"):
        trainer.run()
    assert {name: (output / name).read_bytes() for name in kept} == kept


def test_an_endless_gradient_stops_the_run_before_it_spoils_the_weights(tmp_path, data):
    trainer = Trainer(REVERSE, [data], tmp_path / "run")
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.model.output.weight.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(UserError, match="at step 1"):
        trainer.run()
    assert all(one.equal(two) for one, two in zip(before, trainer.model.parameters(), strict=True))


@pytest.mark.parametrize("module", [model.checkpoint, training.state], ids=["model", "state"])
def test_a_full_disk_leaves_a_run_to_resume(tmp_path, data, module):
    run(REVERSE, data, tmp_path / "whole")
    output, saves, write = tmp_path / "run", Counter(), module.save_file

    def full_after_two(tensors, path, *rest):
        saves["count"] += 1
        if saves["count"] > 2:
            Path(path).write_bytes(b"half a file")
            raise OSError("No space left on device")
        write(tensors, path, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "save_file", full_after_two)
        with pytest.raises(OSError, match="No space left"):
            run(replace(REVERSE, save_every=2), data, output)
    Translator.load(output / LATEST)
    assert 0 < state_of(output)[1]["step"] < REVERSE.max_steps
    run(REVERSE, data, output, resume=True)
    assert_same_run(tmp_path / "whole", output)


RUNNER = """
import sys, pathlib, torch, tests.training.test_trainer as here, training.trainer as trainer
torch.set_num_threads(1)
trainer.bfloat16_pays = lambda: False
data, output = map(pathlib.Path, sys.argv[1:])
trainer.Trainer(here.KILLED, [data], output, resume=(output / here.STATE).is_file()).run()
"""
KILLED = replace(REVERSE, max_steps=120, validate_every=9, save_every=1)


def step_of(output: Path) -> int:
    try:
        return state_of(output)[1]["step"]
    except (FileNotFoundError, SafetensorError):  # before the first save
        return 0


def kill_some_steps_later(data: Path, output: Path, moments: random.Random) -> bool:
    """Start or resume a run in a process of its own and kill it; whether that came before its end."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUNNER, str(data), str(output)]
    goal = step_of(output) + moments.randint(1, 12)
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None and step_of(output) < goal:
            time.sleep(0.002)
        for _ in range(moments.randint(0, 30)):  # not always just behind a save
            step_of(output)
        process.kill()
        message = process.stderr.read().decode()
    assert process.returncode in (0, -signal.SIGKILL), message
    return process.returncode != 0


def test_a_run_killed_at_any_moment_can_be_loaded_and_resumed_to_the_same_end(tmp_path, data):
    output, moments = tmp_path / "killed", random.Random(4)
    kills = sum(kill_and_check(data, output, moments) for _ in range(3))
    assert kills >= 2
    run(KILLED, data, output, resume=True)
    run(replace(KILLED, save_every=1000), data, tmp_path / "whole")
    assert_same_run(output, tmp_path / "whole")
    assert state_of(output)[1]["best"] == state_of(tmp_path / "whole")[1]["best"]
    for name in ("validation/loss", "train/loss"):
        assert logged(output, name) == logged(tmp_path / "whole", name)
        assert max(Counter(logged(output, name)).values()) == 1


def kill_and_check(data: Path, output: Path, moments: random.Random) -> bool:
    killed = kill_some_steps_later(data, output, moments)
    Translator.load(output / LATEST).translate("abc")
    if (output / BEST / WEIGHTS).is_file():
        Translator.load(output / BEST).translate("abc")
    net = Transformer(load(output / LATEST).model.config)
    state = torch.get_rng_state()
    assert load_state(output / STATE, net, torch.optim.AdamW(net.parameters())).step > 0
    torch.set_rng_state(state)
    return killed


# Several processes


def gradient_of_share(trainer: Trainer, rows, index: int, processes: int) -> list[torch.Tensor]:
    """What process `index` of several would hand to the average."""
    gradients: list[torch.Tensor] = []

    def capture(parameters, _) -> torch.Tensor:
        gradients.extend(parameter.grad.clone() for parameter in parameters)
        return torch.zeros(())

    trainer.accelerator = SimpleNamespace(
        process_index=index,
        num_processes=processes,
        device=torch.device("cpu"),
        backward=torch.Tensor.backward,
        clip_grad_norm_=capture,
        reduce=lambda loss, _: loss,
    )
    trainer.optimizer = SimpleNamespace(
        param_groups=[{}], step=lambda: None, zero_grad=trainer.model.zero_grad
    )
    trainer._step(rows)
    return gradients


@pytest.mark.parametrize("processes", [2, 3])
def test_the_average_over_processes_is_the_gradient_of_the_whole_batch(tmp_path, data, processes):
    config = replace(REVERSE, model=replace(SHAPE, dropout=0.0), tokens_per_batch=200)
    trainer = Trainer(config, [data], tmp_path / "run")
    # Rows of unlike length, so that an average of means would be another number.
    rows = trainer.target_lengths.argsort()[:: len(trainer.train) // 9]
    whole = gradient_of_share(trainer, rows, 0, 1)
    shares = [gradient_of_share(trainer, rows, index, processes) for index in range(processes)]
    for one, parts in zip(whole, zip(*shares, strict=True), strict=True):
        torch.testing.assert_close(torch.stack(parts).mean(0), one, rtol=1e-4, atol=1e-6)
