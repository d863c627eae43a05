"""Models made from others: the mean of snapshots and models, and the 8-bit model that is shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from model.errors import UserError
from model.storage.card import CARD
from model.storage.checkpoint import CONFIG, Checkpoint, load, save
from training.run.damage import SNAPSHOTS
from training.run.directory import STATE, copy_curves_and_probes, kept_snapshots, read_run
from training.run.resume import Snapshot, read_state


def select_snapshots(run: Path, last: int, best: int) -> list[Snapshot]:
    """The latest `last` or the best `best` snapshots of a run; the other number is 0.

    Raises UserError when the run keeps fewer.
    """
    if not (run / STATE).is_file():
        raise UserError(f"There is neither a run nor a model in {run}; give the folder that `train` wrote.")
    if (last > 0) == (best > 0):
        raise UserError("Give either --last N or --best N, at least 1.")
    config = read_run(run)["config"]
    if last > config["keep_last"] or best > config["keep_best"]:
        raise UserError(
            f"{run} keeps its last {config['keep_last']} and its best {config['keep_best']} snapshots; "
            "give at most these numbers."
        )
    snapshots = kept_snapshots(read_state(run / STATE)[0].snapshots, last, best)
    if len(snapshots) < max(last, best):
        raise UserError(f"{run} has only {len(snapshots)} snapshots; give at most this number.")
    return snapshots


def _vocabularies(checkpoint: Checkpoint) -> tuple[str, str]:
    return checkpoint.source_tokenizer.to_json(), checkpoint.target_tokenizer.to_json()


def average(directories: Sequence[Path]) -> Checkpoint:
    """The model whose weights are the means, in float32, of the weights in the directories.

    The runs may have had different dropout. Raises UserError when they differ in vocabulary or network.
    """
    checkpoints = [load(directory) for directory in directories]
    first, *others = checkpoints
    if any(_vocabularies(each) != _vocabularies(first) for each in others):
        raise UserError(
            "The models have different vocabularies; train them on the same pairs with the same "
            "--config.vocabulary and --config.tokenizer."
        )
    dropout = first.model.config.dropout
    if any(replace(each.model.config, dropout=dropout) != first.model.config for each in others):
        raise UserError(
            "The models have different networks; give models with the same --config.model, all with "
            "--alignments or all without."
        )
    weights = [dict(other.model.named_parameters()) for other in others]
    with torch.no_grad():
        for name, parameter in first.model.named_parameters():
            parameter.copy_(torch.stack([parameter, *(other[name] for other in weights)]).mean(0))
    return first


class Source(NamedTuple):
    """A model whose weights are averaged."""

    directory: Path
    name: str  # for people: of a snapshot also its step and score


def sources_of(directory: Path, last: int, best: int) -> list[Source]:
    """A model directory itself, or the snapshots of a run that the numbers choose."""
    if (directory / CONFIG).is_file():
        return [Source(directory, directory.name)]
    return [
        Source(
            directory / SNAPSHOTS / each.name, f"{directory.name} at step {each.step:,} ({each.score:.2f})"
        )
        for each in select_snapshots(directory, last, best)
    ]


def average_models(directories: Sequence[Path], last: int, best: int, output: Path) -> list[Source]:
    """Write the mean of models, and of snapshots of runs, as a model directory; returns what was averaged.

    The mean is often better than each of them (Vaswani et al. 2017, section 6.1). Weights can be averaged if
    one run starts from the weights of the other. Curves and probes come from the last directory.
    """
    sources = [source for directory in directories for source in sources_of(directory, last, best)]
    checkpoint = average([source.directory for source in sources])
    names = ", ".join(source.name for source in sources)
    introduction = [f"The mean of the weights of {names}."]
    save(checkpoint, output, {"title": checkpoint.info.title, "introduction": introduction})
    copy_curves_and_probes(directories[-1], output)
    return sources


def publish(model: Path, output: Path) -> None:
    """Write a model directory with weights in 8 bits, and the curves and probes of its training.

    A card that is already in `output` stays; `training.run.card.refresh` updates its figures. Raises
    UserError when there is no model.
    """
    checkpoint = load(model)
    keep_card = (output / CARD).is_file()
    save(checkpoint, output, None if keep_card else checkpoint.card, eight_bit=True)
    copy_curves_and_probes(model, output)
