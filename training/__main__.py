"""`python -m training COMMAND`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import datasets
import tyro

from model.errors import UserError
from model.translator import Translator
from training.average import average_run
from training.evaluate import evaluate
from training.recipes import RECIPES
from training.trainer import Trainer


def run_train(
    recipe: Annotated[str, tyro.conf.Positional],
    data: tuple[Path, ...] = (),
    output: Path | None = None,
    minutes: float | None = None,
    resume: bool = False,
) -> None:
    """Train a recipe; several processes when started by `accelerate launch` or `torchrun`.

    Args:
        recipe: Name of the recipe; a wrong one lists them all.
        data: Folders of parallel files (train.de, train.en, dev.de, ...) or of word lists (.txt).
        output: Run directory; runs/RECIPE unless given.
        minutes: Wall-clock budget of the training, after which the run saves, validates and stops.
        resume: Go on from where the run in the output directory stopped.
    """
    if recipe not in RECIPES:
        raise UserError(f"There is no recipe {recipe}; choose one of {', '.join(RECIPES)}.")
    if minutes is not None and minutes <= 0:
        raise UserError(f"--minutes is {minutes}; give more than 0.")
    datasets.disable_progress_bars()
    best = Trainer(RECIPES[recipe], data, output or Path("runs") / recipe, resume).run(minutes)
    print(f"The best model is {best}.")


def run_evaluate(
    model: Annotated[Path, tyro.conf.Positional],
    source: Path,
    reference: Path,
    beam: int = 1,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Print BLEU, chrF, word and character error rate of a model on a test set.

    Args:
        model: Model directory.
        source: Sentences to translate, one a line.
        reference: Their translations, one a line.
        beam: Hypotheses kept at each step; 1 is greedy.
        as_json: Print one JSON object.
    """
    scores = evaluate(Translator.load(model), source, reference, beam)
    if as_json:
        print(json.dumps({"beam": beam, **asdict(scores)}))
        return
    print(f"BLEU  {scores.bleu:6.2f}  {scores.bleu_signature}")
    print(f"chrF  {scores.chrf:6.2f}  {scores.chrf_signature}")
    print(f"WER   {scores.wer:6.3f}  errors per reference word")
    print(f"CER   {scores.cer:6.3f}  errors per reference character")
    print(f"exact {scores.exact_match:6.2f}  % of sentences equal to their reference")


def run_average(
    run: Annotated[Path, tyro.conf.Positional],
    last: int = 0,
    best: int = 0,
    output: Path | None = None,
) -> None:
    """Write the mean of a run's latest or best snapshots as a model directory.

    Args:
        run: Run directory.
        last: Average so many of the latest snapshots.
        best: Average so many of the best ones, by their validation.
        output: Model directory to write; RUN/averaged unless given.
    """
    output = output or run / "averaged"
    snapshots = average_run(run, last, best, output)
    steps = ", ".join(f"{each.step:,} ({each.score:.2f})" for each in snapshots)
    print(f"{output} is the mean of the snapshots of steps {steps}.")


def main() -> None:
    """Run one command; a user's mistake ends in one sentence and status 1."""
    try:
        tyro.extras.subcommand_cli_from_dict(
            {"train": run_train, "average": run_average, "evaluate": run_evaluate}, prog="python -m training"
        )
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
