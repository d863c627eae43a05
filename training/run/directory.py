"""The run directory: what a run writes beside its models, and what it checks before it starts.

run.json holds the configuration, the folders of the data and the versions of the libraries,
split.json the split, test.LANGUAGE the pairs that a recipe holds out for a test, the tokenizers
their vocabularies; metrics.jsonl and tensorboard/ are the curves, samples.jsonl some
translations, evaluation.json the scores at the end; training_state.safetensors is what a resumed
run needs; `best`, `latest` and each folder of snapshots/ are model directories. At its end a run copies
its curves and its probes, probes.safetensors, into `best`.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from model.errors import UserError
from model.files import write_atomically, write_json
from model.storage.probes import PROBES
from model.storage.training_log import METRICS
from training.config import TrainConfig
from training.corpus.splits import Corpus
from training.evaluation.validation import Sample
from training.run.resume import Snapshot

STATE, LATEST, BEST = "training_state.safetensors", "latest", "best"
RUN, SPLIT, CURVES = "run.json", "split.json", "tensorboard"
SAMPLES, EVALUATION, SNAPSHOTS = "samples.jsonl", "evaluation.json", "snapshots"
PACKAGES = ("torch", "numpy", "tokenizers", "datasets", "accelerate", "safetensors", "sacrebleu", "jiwer")


def check_output(output: Path, resume: bool) -> None:
    """Refuse to overwrite a run, or to resume where there is none."""
    exists = (output / STATE).is_file()
    if resume and not exists:
        raise UserError(f"There is no run to resume in {output}; leave --resume out to start one.")
    if exists and not resume:
        raise UserError(f"{output} holds a run; add --resume to go on or give another --output.")


MAY_CHANGE = {"max_steps", "validate_every", "save_every", "patience", "keep_last", "keep_best", "beam_size"}


def check_config(output: Path, config: TrainConfig) -> list[str]:
    """Refuse to resume with another configuration than the run began with.

    Returns a sentence for each setting that may change and did: it may have been left out by mistake.
    """
    before = json.loads((output / RUN).read_text(encoding="utf-8"))["config"]
    now = json.loads(json.dumps(config.to_json()))
    # A setting that is younger than the run is at the value that the run had.
    changed = [name for name in now if name in before and before[name] != now[name]]
    for name in changed:
        if name not in MAY_CHANGE:
            raise UserError(
                f"The run in {output} began with {name} {before[name]}, but the recipe says "
                f"{now[name]}; resume with the recipe it began with or start another run."
            )
    return [f"{name} was {before[name]} when the run began and is {now[name]} now" for name in changed]


def check_split(output: Path, corpus: Corpus) -> None:
    """Refuse to resume on other data than the run began with."""
    if json.loads((output / SPLIT).read_text(encoding="utf-8")) != corpus.split:
        raise UserError(f"The corpus differs from the one that {output} began with; give that one.")


def kept_snapshots(snapshots: Sequence[Snapshot], last: int, best: int) -> list[Snapshot]:
    """The latest `last` and the best `best` of them; of equals the earlier one."""
    by_score = sorted(snapshots, key=lambda each: (-each.score, each.step))
    chosen = {each.step for each in (*by_score[:best], *snapshots[max(len(snapshots) - last, 0) :])}
    return [each for each in snapshots if each.step in chosen]


def remove_snapshots(output: Path, kept: Sequence[Snapshot]) -> None:
    """Delete the folders of all other snapshots."""
    names = {each.name for each in kept}
    for directory in (output / SNAPSHOTS).glob("step-*"):
        if directory.name not in names:
            shutil.rmtree(directory)


def keep_lines(path: Path, last_step: int) -> None:
    """Drop what a killed run logged after its last save; the resumed one logs it again."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    lines = text.rpartition("\n")[0].splitlines()  # without a last one that a kill cut short
    kept = "".join(f"{line}\n" for line in lines if json.loads(line)["step"] <= last_step)
    write_atomically(path, lambda part: part.write_text(kept, encoding="utf-8"))


def copy_record(output: Path, directory: Path) -> None:
    """Give a model directory the run's curves and probes, which the page shows; no other run's stay."""
    for name in (METRICS, PROBES):
        if (output / name).is_file():
            write_atomically(directory / name, partial(shutil.copyfile, output / name))
        else:
            (directory / name).unlink(missing_ok=True)


def precision_of(output: Path) -> str | None:
    """The precision that the run began with: a timing may come out otherwise on the next day."""
    precision: str | None = json.loads((output / RUN).read_text(encoding="utf-8")).get("precision")
    return precision


def describe(
    output: Path,
    config: TrainConfig,
    data: Sequence[Path],
    corpus: Corpus,
    pairs: dict[str, int],
    precision: str,
) -> None:
    """Write what makes the run repeatable, before its first step."""
    output.mkdir(parents=True, exist_ok=True)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    folders = [str(directory.resolve()) for directory in data]
    values = {"config": config.to_json(), "data": folders, "pairs": pairs, "dropped": corpus.dropped}
    write_json(output / RUN, values | {"precision": precision, "versions": versions})
    write_json(output / SPLIT, corpus.split)
    if corpus.test is not None:
        for side, language in (("source", config.source_language), ("target", config.target_language)):
            lines = "".join(f"{line}\n" for line in corpus.test[side])
            (output / f"test.{language}").write_text(lines, encoding="utf-8")


class RunLog:
    """Curves of one run, as lines of JSON and for TensorBoard."""

    def __init__(self, output: Path, step: int) -> None:
        for name in (METRICS, SAMPLES):
            keep_lines(output / name, step)
        self.metrics = (output / METRICS).open("a", encoding="utf-8")
        self.samples = (output / SAMPLES).open("a", encoding="utf-8")
        self.writer = SummaryWriter(str(output / CURVES), purge_step=step + 1)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.metrics.close()
        self.samples.close()
        self.writer.close()

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Log numbers and texts of one step; a name such as validation/bleu groups the curves."""
        self.metrics.write(json.dumps({"step": step, **values}) + "\n")
        self.metrics.flush()
        for name, value in values.items():
            if not isinstance(value, str):
                self.writer.add_scalar(name, value, step)

    def write_samples(self, step: int, samples: Sequence[Sample]) -> None:
        """Log some translations."""
        for number, sample in enumerate(samples):
            self.samples.write(json.dumps({"step": step, **sample._asdict()}, ensure_ascii=False) + "\n")
            # Indented, so that TensorBoard shows text as it is and not as Markdown.
            lines = "\n".join(f"    {name:10} {text}" for name, text in sample._asdict().items())
            self.writer.add_text(f"sample {number + 1}", lines, step)
        self.samples.flush()


class Window:
    """Steps since the last line of the log."""

    def __init__(self) -> None:
        self.started, self.tokens, self.loss, self.latest = time.monotonic(), 0, 0.0, (0.0, 0.0)

    def add(self, loss: float, tokens: int, norm: float, rate: float) -> None:
        """Count one step: loss in nats per token, gradient norm before clipping, learning rate."""
        self.loss += loss * tokens
        self.tokens += tokens
        self.latest = norm, rate

    def values(self) -> dict[str, float]:
        """Loss in nats per target token and speed, of the window; the rest of the latest step."""
        norm, rate = self.latest
        loss = self.loss / max(self.tokens, 1)
        speed = {"tokens_per_second": self.speed()}
        return {"loss": loss, "gradient_norm": norm, "learning_rate": rate} | speed

    def speed(self) -> float:
        """Target tokens per second."""
        return self.tokens / max(time.monotonic() - self.started, 1e-9)
