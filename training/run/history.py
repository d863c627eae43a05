"""The history of a run: a run started with --from begins with the curves and probes of the earlier run."""

from __future__ import annotations

import json
import math
from pathlib import Path

from model.files import write_lines
from model.storage.checkpoint import load, load_tokenizers
from model.storage.probes import PROBES, Part, ProbePair, Probes
from model.storage.run import LATEST
from model.storage.training_log import METRICS, TrainingLog
from training.run.damage import BEST
from training.run.directory import STATE
from training.run.resume import Progress, read_state

COUNTED = ("step", "minutes", "tokens")  # from the first run on
APART = 0.01  # of the step: the distance of probes in the history of earlier runs


def continue_history(
    model: Path, output: Path, languages: tuple[str, str], sentences: tuple[ProbePair, ...]
) -> Progress:
    """Begin the history of a new run in `output` with the history of `model`; returns the position after it.

    Where the vocabulary or the languages change, the probes begin a new part with these sentences. Nothing is
    copied if the model has no history, if the history is too large to go on with, or if its probes cannot
    tell the two parts apart. Raises UserError when the history is broken.
    """
    directory, last = history_of(model)
    if not (directory / METRICS).is_file():
        return Progress()
    rows = [row for row in TrainingLog.load(directory).rows if int(row["step"]) <= last]
    most = {name: max((float(row[name]) for row in rows if name in row), default=0.0) for name in COUNTED}
    probes = Probes.load(directory) if (directory / PROBES).is_file() else None
    if probes is not None:
        probes.keep(lambda step: step <= last)
    probed = probes.steps if probes is not None else ()
    steps = int(max((most["step"], *probed)) if last == math.inf else last)
    info = load(model).info
    former = info.source_language, info.target_language
    if vocabularies(directory) != vocabularies(output) or former != languages:
        if probes is None or not probes.current.measured or len(probes.current.sentences) != len(sentences):
            return Progress()
        tokenizers = load_tokenizers(output, joint=False)
        probes.begin_part(info.title, former, steps, Part.new(sentences, *tokenizers))
    if probes is not None and probed:
        if not probes.can_go_on:
            return Progress()
        thin(probes)
        probes.save(output)
    write_lines(output / METRICS, map(json.dumps, rows))
    return Progress(earlier_steps=steps, seconds=60 * most["minutes"], tokens=int(most["tokens"]))


def thin(probes: Probes) -> None:
    """Drop probes that follow another one closely, so that a chain of runs keeps a small file.

    Heads change little within a hundredth of the steps so far. Each part keeps its first probe.
    """
    kept = set()
    for part in probes.parts:
        last = 0.0
        for step in part.steps:
            if step >= last * (1 + APART):
                kept.add(step)
                last = step
    probes.keep(kept.__contains__)


def history_of(model: Path) -> tuple[Path, float]:
    """The directory with the history of a model, and the step in it that gave the model its weights.

    The step is infinite, which means the whole history, unless the model is the best or the latest of a run.
    """
    run = model.parent
    if model.name not in (BEST, LATEST) or not (run / STATE).is_file():
        return model, math.inf
    progress, _ = read_state(run / STATE)
    step = progress.best_step or progress.step if model.name == BEST else progress.step
    return run, progress.earlier_steps + step


def vocabularies(directory: Path) -> list[str]:
    """The tokenizers of both languages, as text to compare."""
    return [tokenizer.to_json() for tokenizer in load_tokenizers(directory, joint=False)]
