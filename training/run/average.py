"""The mean of several snapshots of a run: often better than each of them (Vaswani et al. 2017, 6.1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from model.errors import UserError
from model.storage.checkpoint import Checkpoint, load, save
from training.run.directory import RUN, SNAPSHOTS, STATE, copy_record, kept_snapshots
from training.run.resume import Snapshot, load_progress


def choose(run: Path, last: int, best: int) -> list[Snapshot]:
    """The latest `last` snapshots of a run, or its best `best` ones: one of the two is 0.

    Raises UserError when the run keeps fewer.
    """
    if not (run / STATE).is_file():
        raise UserError(f"There is no run in {run}; give the folder that `train` wrote.")
    if (last > 0) == (best > 0):
        raise UserError("Give either --last N or --best N, at least 1.")
    config = json.loads((run / RUN).read_text(encoding="utf-8"))["config"]
    if last > config["keep_last"] or best > config["keep_best"]:
        raise UserError(
            f"{run} keeps its last {config['keep_last']} and its best {config['keep_best']} snapshots; "
            "give no more."
        )
    snapshots = kept_snapshots(load_progress(run / STATE).snapshots, last, best)
    if len(snapshots) < max(last, best):
        raise UserError(f"{run} keeps {len(snapshots)} snapshots, fewer than {max(last, best)}; give less.")
    return snapshots


def average(directories: Sequence[Path]) -> Checkpoint:
    """One model whose every weight is the mean, taken in float32, of those in the directories."""
    checkpoints = [load(directory) for directory in directories]
    first, *others = checkpoints
    weights = [dict(other.model.named_parameters()) for other in others]
    with torch.no_grad():
        for name, parameter in first.model.named_parameters():
            parameter.copy_(torch.stack([parameter, *(other[name] for other in weights)]).mean(0))
    return first


def average_run(run: Path, last: int, best: int, output: Path) -> list[Snapshot]:
    """Write the mean of a run's snapshots as a model directory; returns those that went in."""
    snapshots = choose(run, last, best)
    directories = [run / SNAPSHOTS / each.name for each in snapshots]
    steps = ", ".join(f"{each.step:,}" for each in snapshots)
    checkpoint = average(directories)
    text = f"# {checkpoint.info.title}\n\nThe mean of the snapshots of steps {steps} of one training run.\n"
    save(checkpoint, output, text)
    copy_record(run, output)
    return snapshots
