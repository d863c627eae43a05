"""The state of a run: one file that is replaced in one step, so a kill loses nothing before it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.errors import UserError
from model.files import write_atomically
from model.network.transformer import Transformer
from model.storage.checkpoint import load_weights


@dataclass(frozen=True)
class Snapshot:
    """A model directory kept for averaging."""

    step: int
    score: float  # of its validation; more is better

    @property
    def name(self) -> str:
        """Its folder's name."""
        return f"step-{self.step:08d}"


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already trained on
    validated: int = 0  # the last step that was validated
    best: float = float("-inf")  # score of the best validation; more is better
    best_step: int = 0
    worse: int = 0  # validations since then
    seconds: float = 0.0  # spent in training, over all sessions
    snapshots: list[Snapshot] = field(default_factory=list)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Progress:
        """The progress that `asdict` wrote down. Raises TypeError on other names."""
        return cls(**values | {"snapshots": [Snapshot(**each) for each in values["snapshots"]]})


def seed_step(seed: int, step: int, process: int) -> None:
    """Make the step's random numbers a function of run, step and process alone.

    So no random state needs saving: a resumed run draws what an uninterrupted one would have.
    """
    words = np.random.SeedSequence((seed, step, process)).generate_state(1, np.uint64)
    torch.manual_seed(int(words[0]))


def save_state(path: Path, model: Transformer, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write full-precision weights, optimizer and position."""
    tensors = {}
    for name, parameter in model.named_parameters():
        tensors[f"model.{name}"] = parameter.detach().cpu()
        for key, value in optimizer.state[parameter].items():
            tensors[f"optimizer.{key}.{name}"] = value.cpu()
    metadata = {"progress": json.dumps(asdict(progress))}
    write_atomically(path, lambda part: save_file(tensors, part, metadata))


def load_progress(path: Path) -> Progress:
    """The position alone; raises UserError on a missing or broken file."""
    return _read(path)[0]


def load_state(path: Path, model: Transformer, optimizer: torch.optim.Optimizer) -> Progress:
    """Put everything that `save_state` wrote back; raises UserError on a broken file."""
    progress, tensors = _read(path)
    weights = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    load_weights(model, weights, path)
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = _optimizer_state(tensors, name, parameter)
    return progress


def _read(path: Path) -> tuple[Progress, dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as stream:
            progress = Progress.from_json(json.loads(stream.metadata()["progress"]))
            return progress, {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is broken ({error}); start the run again elsewhere.") from error


def _optimizer_state(tensors: dict[str, Tensor], name: str, parameter: Tensor) -> dict[str, Tensor]:
    state = {}
    for key, value in tensors.items():
        kind, _, rest = key.partition(".")
        entry, _, owner = rest.partition(".")
        if kind == "optimizer" and owner == name:
            state[entry] = value.to(parameter.device)
    return state
