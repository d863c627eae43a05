"""The run directory: what a run writes beside its models, and what it checks before it starts.

run.json holds the configuration and the versions of the libraries, split.json the split,
metrics.jsonl and tensorboard/ the curves, training_state.safetensors what a resumed run needs;
`best` and `latest` are model directories.
"""

from __future__ import annotations

import importlib.metadata
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from model.checkpoint import write_atomically, write_json
from model.errors import UserError
from training.config import TrainConfig
from training.data import Corpus

STATE, LATEST, BEST = "training_state.safetensors", "latest", "best"
RUN, SPLIT, METRICS, CURVES = "run.json", "split.json", "metrics.jsonl", "tensorboard"
PACKAGES = ("torch", "tokenizers", "datasets", "accelerate", "safetensors", "sacrebleu")


def check_output(output: Path, resume: bool) -> None:
    """Refuse to overwrite a run, or to resume where there is none."""
    exists = (output / STATE).is_file()
    if resume and not exists:
        raise UserError(f"There is no run to resume in {output}; leave --resume out to start one.")
    if exists and not resume:
        raise UserError(f"{output} holds a run; add --resume to go on or give another --output.")


def check_split(output: Path, corpus: Corpus) -> None:
    """Refuse to resume on other data than the run began with."""
    if json.loads((output / SPLIT).read_text(encoding="utf-8")) != corpus.split:
        raise UserError(f"The corpus differs from the one that {output} began with; give that one.")


def keep_metrics(path: Path, last_step: int) -> None:
    """Drop what a killed run logged after its last save; the resumed one logs it again."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    lines = text.rpartition("\n")[0].splitlines()  # without a last one that a kill cut short
    kept = "".join(f"{line}\n" for line in lines if json.loads(line)["step"] <= last_step)
    write_atomically(path, lambda part: part.write_text(kept, encoding="utf-8"))


def precision_of(output: Path) -> str | None:
    """The precision that the run began with: a timing may come out otherwise on the next day."""
    precision: str | None = json.loads((output / RUN).read_text(encoding="utf-8")).get("precision")
    return precision


def describe(
    output: Path, config: TrainConfig, corpus: Corpus, pairs: dict[str, int], precision: str
) -> None:
    """Write what makes the run repeatable, before its first step."""
    output.mkdir(parents=True, exist_ok=True)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    values = {"config": config.to_json(), "pairs": pairs, "dropped": corpus.dropped}
    write_json(output / RUN, values | {"precision": precision, "versions": versions})
    write_json(output / SPLIT, corpus.split)
    if corpus.test is not None:
        for side, language in (("source", config.source_language), ("target", config.target_language)):
            lines = "".join(f"{line}\n" for line in corpus.test[side])
            (output / f"test.{language}").write_text(lines, encoding="utf-8")


class RunLog:
    """Curves of one run, as lines of JSON and for TensorBoard."""

    def __init__(self, output: Path, step: int) -> None:
        keep_metrics(output / METRICS, step)
        self.lines = (output / METRICS).open("a", encoding="utf-8")
        self.writer = SummaryWriter(str(output / CURVES), purge_step=step + 1)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lines.close()
        self.writer.close()

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Log the values of one step; a name such as validation/bleu groups the curves."""
        self.lines.write(json.dumps({"step": step, **values}) + "\n")
        self.lines.flush()
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)


class Window:
    """Mean loss and speed since the last line of the log."""

    def __init__(self) -> None:
        self.started, self.tokens, self.loss = time.monotonic(), 0, 0.0

    def add(self, loss: float, tokens: int) -> None:
        """Count one step."""
        self.loss += loss * tokens
        self.tokens += tokens

    def mean(self) -> float:
        """Loss per target token in nats."""
        return self.loss / max(self.tokens, 1)

    def speed(self) -> float:
        """Target tokens per second."""
        return self.tokens / max(time.monotonic() - self.started, 1e-9)
