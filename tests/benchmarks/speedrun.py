"""Time to quality: `make speedrun ARGS="--data TATOEBA MULTI30K"`, from corpus to BLEU 40 on Multi30k val.

Trains the fastest settings so far, from preparing the corpus on, until a validation has the score (greedy,
cased, 13a) or the steps end, and prints the time, the steps and the target tokens that this took. The options
of `python -m training train` try other settings. `--config.optimizer adamw --config.schedule cosine
--config.peak-learning-rate 1.5e-3 --config.max-steps 20000 --config.warmup-steps 1500
--config.concatenate 0.04 --config.model.dropout 0.1` is the recipe everyday-de-en of release 0.2, the first
entry of the record in docs/benchmarks.md. Development sets of folders other than the last one are not used.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
import tyro
from datasets import disable_progress_bars

from model.errors import UserError
from training.config import STANDARD, TrainConfig
from training.corpus.sources import VALIDATION_NAMES
from training.recipes import RECIPES
from training.trainer import Trainer

RECIPE = replace(
    RECIPES["everyday-de-en"],
    warmup_steps=150,
    max_steps=2700,
    concatenate=0.0,
    model=replace(STANDARD, dropout=0.05),
    stop_at=40.0,
    validate_every=250,
    keep_last=1,
    keep_best=1,
    beam_size=1,
)


def main(data: tuple[Path, ...], config: TrainConfig = RECIPE, output: Path | None = None) -> None:
    """Train until the score is reached.

    Args:
        data: Folders of training data, as for the training; the last one has the development set.
        config: Settings that differ from the fastest ones.
        output: Run directory, which stays; a temporary one by default.
    """
    disable_progress_bars()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            trainer = Trainer(config, linked(data, Path(folder)), output or Path(folder) / "run")
            trainer.prepare()
            trainer.run()
        except UserError as error:
            sys.exit(str(error))
    progress = trainer.progress
    minutes = (time.monotonic() - started) / 60
    print(f"BLEU {progress.best:.2f} after {progress.step:,} steps and {progress.tokens:,} target tokens")
    print(f"{minutes:.1f} minutes in all, {progress.seconds / 60:.1f} of them training steps, ", end="")
    print(f"with {torch.get_num_threads()} threads and mixed precision {trainer.accelerator.mixed_precision}")


def linked(data: tuple[Path, ...], folder: Path) -> list[Path]:
    """Folders with links to the files of these, without the development sets of all but the last.

    Raises UserError when a folder is missing.
    """
    for directory in data:
        if not directory.is_dir():
            raise UserError(f"The data directory {directory} does not exist; check --data.")
        copy = folder / directory.resolve().name
        copy.mkdir()
        for file in directory.resolve().iterdir():
            if directory == data[-1] or file.stem not in VALIDATION_NAMES:
                (copy / file.name).symlink_to(file)
    return [folder / directory.resolve().name for directory in data]


if __name__ == "__main__":
    tyro.cli(main)
