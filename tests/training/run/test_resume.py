"""Runs that are stopped, killed or hit a full disk resume bit for bit."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, islice, pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors import SafetensorError, safe_open

import model.storage.checkpoint
import training.run.resume
from model.errors import UserError
from model.network.transformer import Transformer
from model.storage.checkpoint import WEIGHTS, load
from model.storage.probes import PROBES, Probes
from model.storage.run import LATEST
from model.translator import Translator
from tests.training.runner import KILLED
from tests.training.tiny import REVERSE, assert_same_run, logged, metrics, prepared, run, state_of
from training.run.damage import BEST, SNAPSHOTS
from training.run.directory import STATE
from training.run.resume import load_state
from training.schedule import learning_rate
from training.trainer import PLAN_EVERY, Trainer

ROOT = Path(__file__).resolve().parents[3]
UNSAVED = replace(KILLED, save_every=1000)  # the same run; it saves only when it validates


class CrashError(Exception):
    """The machine goes down."""


def crash_at(trainer: Trainer, step: int) -> None:
    """Make the trainer fail instead of taking this step."""
    train = trainer._step

    def crash(batches, window):
        if trainer.progress.step + 1 == step:
            raise CrashError
        train(batches, window)

    trainer._step = crash


@pytest.mark.parametrize(
    "stop", [1, 5, 7, *(pytest.param(stop, marks=pytest.mark.slow) for stop in (3, 4, 12))]
)
def test_a_run_resumed_after_its_last_step_equals_one_without_a_stop(tmp_path, data, reference, stop):
    output, whole = tmp_path / "halves", reference(REVERSE)
    run(replace(REVERSE, max_steps=stop), data, output)
    assert Probes.load(output).steps[-1] == stop
    best = run(REVERSE, data, output, resume=True)
    assert_same_run(whole, output)
    assert probes_of(output) == probes_of(whole) == probes_of(best)


@pytest.mark.parametrize(
    ("settings", "crash"),
    [
        ({}, 7),
        ({}, 9),  # the state of step 8 lies between two lines of the log
        ({"optimizer": "muon", "schedule": "trapezoid"}, 7),
        *(pytest.param({}, crash, marks=pytest.mark.slow) for crash in (5, 12)),
        *(pytest.param({"accumulate": 3}, crash, marks=pytest.mark.slow) for crash in (5, 7, 12)),
    ],
)
def test_a_run_resumed_after_a_crash_equals_one_without_it(
    tmp_path, data, reference, crash, settings, monkeypatch
):
    monkeypatch.setattr("training.trainer.LOG_EVERY", 3)
    output, config = tmp_path / "crashed", replace(REVERSE, keep_last=2, keep_best=1, **settings)
    whole = reference(config)
    trainer = prepared(config, data, output)
    crash_at(trainer, crash)
    with pytest.raises(CrashError):
        trainer.run()
    assert state_of(output)[1]["step"] == {5: 4, 7: 5, 9: 8, 12: 10}[crash]
    trainer = prepared(config, data, output, resume=True)
    assert max(trainer.recorder.probes.steps) <= trainer.progress.step  # later ones are taken again
    trainer.run()
    assert_same_run(whole, output)
    assert snapshots(output) == snapshots(whole)
    assert probes_of(output) == probes_of(whole)
    assert logged(output, "validation/loss") == [5, 10, 12]
    assert timeless(output) == timeless(whole)
    momenta = [name for name in state_of(output)[0] if "optimizer.momentum." in name]
    assert len(momenta) == (2 + 2 + 4 + 2 if config.optimizer == "muon" else 0)  # of one layer of each kind


def timeless(output: Path) -> list[dict]:
    """The log without what depends on the time that passed."""
    times = ("minutes", "train/tokens_per_second")
    return [{name: each[name] for name in each if name not in times} for each in metrics(output)]


def probes_of(output: Path) -> bytes:
    return (output / PROBES).read_bytes()


def snapshots(output: Path) -> tuple[list, list[str]]:
    return state_of(output)[1]["snapshots"], sorted(path.name for path in (output / SNAPSHOTS).iterdir())


def test_a_run_resumes_inside_an_epoch_and_continues_into_the_next(tmp_path, data):
    """After a stop at any step of the first two epochs the next batch follows."""
    trainer = prepared(REVERSE, data, tmp_path / "run")
    per_epoch = len(trainer.batches.epoch(0))
    whole = list(islice(trainer.loader.places(0, 0), 2 * per_epoch + 2))
    for last, following in pairwise(whole):
        assert next(trainer.loader.places(*last[:2])).rows.tolist() == following.rows.tolist()
    rows = np.concatenate([place.rows for place in whole[:per_epoch]])
    assert sorted(rows) == list(range(len(trainer.train)))


def test_minutes_stop_the_run_and_save_it_and_its_last_validation_is_not_ranked(tmp_path, data):
    config = replace(REVERSE, max_steps=10**6, validate_every=10**6, save_every=10**6)
    trainer = prepared(config, data, tmp_path / "run")
    assert trainer.run(minutes=0.005) == tmp_path / "run" / BEST
    progress = state_of(tmp_path / "run")[1]
    assert 0 < progress["step"] < config.max_steps
    assert progress["step"] == trainer.progress.step
    assert (progress["worse"], progress["snapshots"], progress["best_step"]) == (0, [], 0)
    assert logged(tmp_path / "run", "validation/loss") == [progress["step"]]
    for name in (LATEST, BEST):
        Translator.load(tmp_path / "run" / name)


def test_the_rate_of_a_run_with_a_time_limit_falls_until_it_ends(tmp_path, data, monkeypatch):
    """Also after another run, whose seconds do not count."""
    monkeypatch.setattr("training.trainer.LOG_EVERY", 1)
    clock = count()
    monkeypatch.setattr("training.trainer.time", SimpleNamespace(monotonic=lambda: next(clock) / 4))
    endless = replace(REVERSE, max_steps=10**6, validate_every=10**6, save_every=10**6, schedule="trapezoid")
    for name, start in (("one", None), ("two", tmp_path / "one" / LATEST)):
        trainer = prepared(replace(endless, decay_share=0.8), data, tmp_path / name, start=start)
        trainer.run(minutes=0.5)
        own = trainer.progress.history_step - trainer.progress.step
        steps = [line for line in metrics(tmp_path / name) if line["step"] > own]
        rates = [line["train/learning_rate"] for line in steps if "train/learning_rate" in line]
        assert max(rates) > 0.5 * endless.peak_learning_rate
        assert learning_rate(endless, trainer.progress.step, trainer.last_step) < 0.2 * max(rates)
        assert trainer.last_step == pytest.approx(trainer.progress.step, abs=PLAN_EVERY)


def test_resuming_a_finished_run_adds_nothing(tmp_path, data, reference):
    shutil.copytree(reference(REVERSE), tmp_path / "run")
    before, lines = state_of(tmp_path / "run")[0], metrics(tmp_path / "run")
    run(REVERSE, data, tmp_path / "run", resume=True)
    after = state_of(tmp_path / "run")[0]
    assert all(before[name].equal(after[name]) for name in before)
    assert metrics(tmp_path / "run") == lines


def test_a_resumed_run_keeps_its_precision(tmp_path, data, reference, monkeypatch):
    shutil.copytree(reference(REVERSE), tmp_path / "run")
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setattr("training.hardware.bfloat16_pays", lambda: True)
    trainer = prepared(REVERSE, data, tmp_path / "run", resume=True)
    assert trainer.accelerator.mixed_precision == "no"


@pytest.fixture
def bfloat16_pays(monkeypatch):
    """Set whether this machine is one where runs begin in mixed precision, as if in a new process."""

    def new_process(pays: bool) -> None:
        AcceleratorState._reset_state(reset_partial_state=True)
        monkeypatch.setattr("training.hardware.bfloat16_pays", lambda: pays)

    yield new_process
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.slow
def test_a_run_in_bfloat16_resumes_bit_for_bit(tmp_path, data, bfloat16_pays):
    bfloat16_pays(False)
    run(REVERSE, data, tmp_path / "float32")
    bfloat16_pays(True)
    run(REVERSE, data, tmp_path / "whole")
    trainer = prepared(REVERSE, data, tmp_path / "run")
    crash_at(trainer, 7)
    with pytest.raises(CrashError):
        trainer.run()
    bfloat16_pays(False)  # a resumed run keeps its precision
    trainer = prepared(REVERSE, data, tmp_path / "run", resume=True)
    trainer.run()
    assert trainer.accelerator.mixed_precision == "bf16"
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    other, mixed = (state_of(tmp_path / name)[0] for name in ("float32", "run"))
    assert {tensor.dtype for tensor in mixed.values()} == {torch.float32}
    assert not all(other[name].equal(mixed[name]) for name in mixed)
    losses = [metrics(tmp_path / name)[-1]["validation/loss"] for name in ("float32", "run")]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


# Processes that are killed or cannot write


def start(name: str, data: Path, output: Path, wrapper: Sequence[str] = ()) -> subprocess.Popen:
    """A run, new or resumed, in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [*wrapper, sys.executable, "-m", "tests.training.runner", name, str(data), str(output)]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def step_of(output: Path) -> int:
    """The last saved step; reads only the file's header, because tests poll it."""
    try:
        with safe_open(output / STATE, framework="pt") as stream:
            return json.loads(stream.metadata()["progress"])["step"]
    except (FileNotFoundError, SafetensorError):  # before the first save
        return 0


def wait_for(process: subprocess.Popen, output: Path, step: int) -> None:
    """Wait until the run has saved this step or has ended."""
    while process.poll() is None and step_of(output) < step:
        time.sleep(0.005)


def kill_some_steps_later(data: Path, output: Path, moments: random.Random) -> bool:
    """Start or resume a run in a process of its own and kill it; False if it ended before that."""
    goal = step_of(output) + moments.randint(1, 12)
    with start("killed", data, output) as process:
        wait_for(process, output, goal)
        for _ in range(moments.randint(0, 30)):  # not always right after a save
            step_of(output)
        process.kill()
        message = process.stderr.read().decode()
    assert process.returncode in (0, -signal.SIGKILL), message
    return process.returncode != 0


def kill_and_check(data: Path, output: Path, moments: random.Random) -> bool:
    killed = kill_some_steps_later(data, output, moments)
    Probes.load(output)
    Translator.load(output / LATEST).translate("abc")
    if (output / BEST / WEIGHTS).is_file():
        Translator.load(output / BEST).translate("abc")
    net = Transformer(load(output / LATEST).model.config)
    assert load_state(output / STATE, net, torch.optim.AdamW(net.parameters())).step > 0
    return killed


@pytest.mark.slow
def test_a_run_killed_at_any_moment_can_be_loaded_and_resumed_to_the_same_end(tmp_path, data, reference):
    output, moments, whole = tmp_path / "killed", random.Random(4), reference(UNSAVED)
    kills = sum(kill_and_check(data, output, moments) for _ in range(5))
    assert kills >= 4
    run(UNSAVED, data, output, resume=True)
    assert_same_run(output, whole)
    assert state_of(output)[1]["best"] == state_of(whole)[1]["best"]
    assert snapshots(output) == snapshots(whole)
    assert probes_of(output) == probes_of(whole)
    assert not list(output.rglob("*.part"))  # files that a kill left incomplete
    for name in ("validation/loss", "train/loss"):
        assert logged(output, name) == logged(whole, name)
        assert max(Counter(logged(output, name)).values()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_asked_to_stop_saves_and_says_so(tmp_path, data, number):
    trainer = prepared(REVERSE, data, tmp_path / "run")
    train = trainer._step

    def interrupted(batches, window):
        train(batches, window)
        if trainer.progress.step == 3:
            signal.raise_signal(number)

    trainer._step = interrupted
    with pytest.raises(UserError, match="Stopped at step 3; continue with --resume"):
        trainer.run()
    assert step_of(tmp_path / "run") == 3


# Simulates a full disk: no file of the process may grow beyond 20 KiB, and the state has 70.
FULL = ("bash", "-c", 'ulimit -f 20; exec "$@"', "bash")
# Makes root obey the permissions of a folder.
READ_ONLY = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()


@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv of util-linux to take root's powers away")
@pytest.mark.slow  # in `make test` a save fails below
@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_full_or_read_only_disk_ends_in_a_sentence_and_the_old_checkpoint_stays(
    tmp_path, data, reference, fault
):
    output = tmp_path / "run"
    run(replace(KILLED, max_steps=8), data, output)
    state = (output / STATE).read_bytes()
    folders = [output, output / LATEST, output / SNAPSHOTS]
    for folder in folders if fault == "read-only" else []:
        folder.chmod(0o555)
    with start("killed", data, output, FULL if fault == "full" else READ_ONLY) as process:
        message = process.stderr.read().decode()
    for folder in folders:
        folder.chmod(0o755)
    assert process.returncode == 1
    assert "Traceback" not in message
    assert "are writable and not full" in message.splitlines()[-1]
    assert (output / STATE).read_bytes() == state
    for name in (LATEST, BEST):
        Translator.load(output / name).translate("abc")
    run(UNSAVED, data, output, resume=True)
    assert_same_run(output, reference(UNSAVED))


def test_the_state_is_the_last_that_a_save_writes(tmp_path, data, monkeypatch):
    """So everything that it names exists, even if the machine fails between two writes."""
    config = replace(REVERSE, validate_every=4, keep_last=1, keep_best=0)
    run(config, data, tmp_path / "whole")
    run(replace(config, max_steps=4), data, tmp_path / "run")
    trainer = prepared(config, data, tmp_path / "run", resume=True)

    def crash(*_):
        raise CrashError

    monkeypatch.setattr("training.trainer.save_state", crash)
    with pytest.raises(CrashError):
        trainer.run()
    monkeypatch.undo()
    progress = state_of(tmp_path / "run")[1]
    assert (progress["step"], trainer.progress.step) == (4, 8)
    latest = load(tmp_path / "run" / LATEST).model
    for saved, parameter in zip(latest.parameters(), trainer.model.parameters(), strict=True):
        assert saved.half().equal(parameter.half())
    for snapshot in progress["snapshots"]:
        load(tmp_path / "run" / SNAPSHOTS / f"step-{snapshot['step']:08d}")
    run(config, data, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize("module", [model.storage.checkpoint, training.run.resume], ids=["model", "state"])
def test_a_run_whose_save_failed_half_way_can_be_resumed(tmp_path, data, reference, module):
    output, saves, write = tmp_path / "run", Counter(), module.save_file

    def full_after_two(tensors, path, *rest):
        saves["count"] += 1
        if saves["count"] > 2:
            Path(path).write_bytes(b"half a file")
            raise OSError("No space left on device")
        write(tensors, path, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "save_file", full_after_two)
        with pytest.raises(UserError, match="No space left .* --resume"):
            run(replace(REVERSE, save_every=2), data, output)
    Translator.load(output / LATEST)
    assert 0 < state_of(output)[1]["step"] < REVERSE.max_steps
    run(REVERSE, data, output, resume=True)
    assert_same_run(reference(REVERSE), output)
