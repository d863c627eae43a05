"""The run directory: its files, and the checks before a run starts or resumes.

- run.json: configuration, folders and sources of the data, versions of the libraries; split.json: the split
- test.LANGUAGE: the pairs that a recipe holds out for a test; the tokenizers
- metrics.jsonl and tensorboard/: the curves; samples.jsonl: some translations of each validation
- evaluation.json: scores of the best model at the end
- training_state.safetensors: what a resumed run needs; probes.safetensors: see `training.run.probes`
- best/, latest/ and each folder of snapshots/: model directories. At the end of the run the curves and
  the probes are copied into best/.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypedDict

from datasets.exceptions import DatasetGenerationError
from safetensors import SafetensorError
from torch.utils.tensorboard import SummaryWriter

from model.errors import UserError
from model.files import check_file, read_json, write_atomically, write_json, write_lines
from model.storage.probes import PROBES
from model.storage.run import RUN, lock, lock_of
from model.storage.training_log import METRICS
from training.config import TrainConfig
from training.corpus.splits import Corpus
from training.evaluation.validation import SampleTranslation
from training.run.damage import SNAPSHOTS, reading
from training.run.resume import Snapshot

STATE = "training_state.safetensors"
LOCK_TRIES, LOCK_PAUSE = 5, 0.1  # times, seconds
SPLIT, CURVES = "split.json", "tensorboard"
SAMPLES, EVALUATION = "samples.jsonl", "evaluation.json"
PRECISIONS = (None, "no", "bf16", "fp16")
MAX_LOG = 1 << 30  # bytes
MAY_CHANGE = {
    "max_steps",
    "validate_every",
    "save_every",
    "patience",
    "stop_at",
    "keep_last",
    "keep_best",
    "beam_size",
}
PACKAGES = ("torch", "numpy", "tokenizers", "datasets", "accelerate", "safetensors", "sacrebleu", "jiwer")


class RunDescription(TypedDict, total=False):
    """The content of run.json; see `write_description`."""

    config: Mapping[str, Any]  # the TrainConfig as JSON
    data: list[str]
    pairs: dict[str, int]
    sources: dict[str, dict[str, float]]
    dropped: dict[str, int]
    precision: str
    versions: dict[str, str]


def check_output(output: Path, resume: bool) -> None:
    """Raise UserError where a new run would overwrite one, or where there is no run to resume."""
    exists = (output / STATE).is_file()
    if resume and not exists:
        raise UserError(f"There is no run to resume in {output}; start one without --resume.")
    if exists and not resume:
        raise UserError(f"{output} holds a run; add --resume to continue it or give another --output.")


@contextmanager
def disk_errors_as_user_errors(output: Path) -> Iterator[None]:
    """Turn errors of the disk, such as a full or read-only one, into a UserError that says what to do."""
    try:
        yield
    except (OSError, SafetensorError, DatasetGenerationError) as error:
        saved = (output / STATE).is_file()
        raise UserError(
            f"A file could not be read or written ({error.__cause__ or error}); check that the data is "
            f"readable and that {output} and the cache of data sets are writable and not full. "
            + (
                "What the run saved before is intact; continue it with --resume."
                if saved
                else "The run has saved nothing to resume; start it again."
            )
        ) from error


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Keep other processes from training into this directory. Raises UserError if one does.

    The lock ends with the process, also when it is killed. In a run of several processes the first one
    takes it.
    """
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    with lock_of(output).open("a+", encoding="utf-8") as file:
        if not _lock(file):
            file.seek(0)
            raise UserError(f"Process {file.read()} trains into {output}; stop it or give another --output.")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _lock(file: TextIO) -> bool:
    """Lock a file, if no other process does. A page does so for a moment, to see whether a run goes on."""
    for _ in range(LOCK_TRIES):
        if lock(file):
            return True
        time.sleep(LOCK_PAUSE)
    return False


def read_run(output: Path) -> RunDescription:
    """The contents of run.json. Raises UserError if it is broken."""
    with reading(output / RUN):
        values: RunDescription = read_json(output / RUN)
        if values.get("precision") not in PRECISIONS:
            raise ValueError(f"{values['precision']!r} is no precision")
        return values


def check_config(output: Path, config: TrainConfig) -> list[str]:
    """Raise UserError if a setting differs from the setting of the run and must not change.

    Returns one sentence for each allowed change, because the change may be a mistake.
    """
    described = read_run(output)
    with reading(output / RUN):
        before = _settings(described["config"])
    now = _settings(json.loads(json.dumps(asdict(config))))
    # Settings added since the run started are not compared.
    changed = [name for name in now if name in before and before[name] != now[name]]
    for name in changed:
        if name not in MAY_CHANGE:
            raise UserError(
                f"The run in {output} started with {name} {before[name]}, but the recipe has {now[name]}; "
                "resume it with the settings it started with, or start another run."
            )
    return [f"{name} was {before[name]} when the run started and is {now[name]} now" for name in changed]


def _settings(config: Mapping[str, Any]) -> dict[str, object]:
    """The settings by name; settings of the model are named as on the command line, such as model.d_ff."""
    model = {f"model.{name}": value for name, value in config["model"].items()}
    return {name: value for name, value in config.items() if name != "model"} | model


def check_split(output: Path, corpus: Corpus) -> None:
    """Raise UserError if the run had another corpus."""
    with reading(output / SPLIT):
        written = read_json(output / SPLIT)
        if not written.keys() & corpus.split.keys() - {"sources"}:
            raise ValueError("it does not describe a split")
    before = corpus.split | written  # runs of release 0.1 did not write their sources
    if "groups" in written:
        before["sources"] = corpus.split["sources"]  # a folder may have got another name
    if before != corpus.split:
        raise UserError(
            f"The data differs from the corpus of the run in {output}; give the same data as before."
        )


def kept_snapshots(snapshots: Sequence[Snapshot], last: int, best: int) -> list[Snapshot]:
    """The newest `last` and the highest-scoring `best` snapshots; of equally good ones the earlier."""
    by_score = sorted(snapshots, key=lambda each: (-each.score, each.step))
    chosen = {each.step for each in (*by_score[:best], *snapshots[max(len(snapshots) - last, 0) :])}
    return [each for each in snapshots if each.step in chosen]


def remove_snapshots(output: Path, kept: Sequence[Snapshot]) -> None:
    """Delete the folders of all other snapshots."""
    names = {each.name for each in kept}
    for directory in (output / SNAPSHOTS).glob("step-*"):
        if directory.name not in names:
            shutil.rmtree(directory)


def drop_lines_after(path: Path, last_step: int) -> None:
    """Drop what a killed run logged after its last save; the resumed run logs it again."""
    if not path.exists():
        return
    with reading(path, is_needed=False):
        check_file(path, MAX_LOG)
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]  # without a last line that a kill cut short
        kept = [line for line in lines if json.loads(line)["step"] <= last_step]
    write_lines(path, kept)


def copy_curves_and_probes(output: Path, directory: Path) -> None:
    """Copy a run's curves and probes into a model directory; curves and probes of another run are removed."""
    for name in (METRICS, PROBES):
        if (output / name).is_file():
            write_atomically(directory / name, partial(shutil.copyfile, output / name))
        else:
            (directory / name).unlink(missing_ok=True)


def write_description(
    output: Path,
    config: TrainConfig,
    data: Sequence[Path],
    corpus: Corpus,
    pairs: dict[str, int],
    precision: str,
    **more: Any,
) -> None:
    """Write what is needed to repeat the run, and the values `more` as they are, before its first step."""
    output.mkdir(parents=True, exist_ok=True)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    folders = [str(directory.resolve()) for directory in data]
    values = {"config": asdict(config), "data": folders, "pairs": pairs, **more}
    values |= {"dropped": corpus.dropped, "precision": precision, "versions": versions}
    write_json(output / RUN, values)
    write_json(output / SPLIT, corpus.split)
    if corpus.test is not None:
        for side, language in (("source", config.source_language), ("target", config.target_language)):
            write_lines(output / f"test.{language}", corpus.test[side])


class RunLog:
    """The curves and sample translations of a run, as lines of JSON and for TensorBoard."""

    def __init__(self, output: Path, step: int) -> None:
        for name in (METRICS, SAMPLES):
            drop_lines_after(output / name, step)
        self.metrics = (output / METRICS).open("a", encoding="utf-8")
        self.samples = (output / SAMPLES).open("a", encoding="utf-8")
        self.writer = SummaryWriter(str(output / CURVES), purge_step=step + 1)

    def close(self) -> None:
        """Close all files."""
        self.metrics.close()
        self.samples.close()
        self.writer.close()

    def write(self, step: int, values: Mapping[str, float | str]) -> None:
        """Log numbers and texts of one step. The part of a name before a slash groups the curves."""
        self.metrics.write(json.dumps({"step": step, **values}) + "\n")
        self.metrics.flush()
        for name, value in values.items():
            if not isinstance(value, str):
                self.writer.add_scalar(name, value, step)

    def write_samples(self, step: int, samples: Sequence[SampleTranslation]) -> None:
        """Log the sample translations of one validation."""
        for number, sample in enumerate(samples):
            self.samples.write(json.dumps({"step": step, **sample._asdict()}, ensure_ascii=False) + "\n")
            # Indented, so that TensorBoard does not render the text as Markdown.
            lines = "\n".join(f"    {name:10} {text}" for name, text in sample._asdict().items())
            self.writer.add_text(f"sample {number + 1}", lines, step)
        self.samples.flush()
