"""`python -m training COMMAND`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import datasets
import tyro

from model.errors import UserError
from training.recipes import RECIPES
from training.trainer import Trainer

RecipeName = Literal["tatoeba-de-en", "reverse-words"]


def train(
    recipe: tyro.conf.Positional[RecipeName],
    /,
    data: tuple[Path, ...] = (),
    output: Path | None = None,
    minutes: float | None = None,
    resume: bool = False,
) -> None:
    """Train a recipe.

    Args:
        recipe: name of the recipe.
        data: folders of local parallel files (train.de, train.en, dev.de, ...) or of word lists.
        output: run directory; runs/RECIPE unless given.
        minutes: wall-clock budget, after which the run saves and stops.
        resume: go on from where the run in the output directory stopped.
    """
    datasets.disable_progress_bars()
    output = output or Path("runs") / recipe
    best = Trainer(RECIPES[recipe], data, output, resume).run(minutes)
    print(f"Best model: {best}")


def main() -> None:
    """Run one command; a user's mistake ends in one sentence and status 1."""
    try:
        tyro.extras.subcommand_cli_from_dict({"train": train, "evaluate": evaluate}, prog="python -m training")
    except UserError as error:
        sys.exit(f"{error}")


def evaluate() -> None:
    pass


if __name__ == "__main__":
    main()
