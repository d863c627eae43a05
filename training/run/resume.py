"""The saved state of a run, from which it resumes; the file is replaced atomically."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.files import write_atomically
from model.network.transformer import Transformer
from model.storage.checkpoint import load_weights
from training.evaluation.metrics import WindowSums
from training.run.damage import reading


@dataclass(frozen=True)
class Snapshot:
    """A model directory kept for averaging."""

    step: int
    score: float  # of its validation; higher is better

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"step-{self.step:08d}"


@dataclass
class Progress:
    """The position of a run."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    validated: int = 0  # step of the last validation
    best: float = float("-inf")  # score of the best validation; higher is better
    best_step: int = 0
    worse: int = 0  # validations since the best one
    seconds: float = 0.0  # spent in training, over all sessions and joined runs
    tokens: int = 0  # of the target that were read, over the same time
    snapshots: list[Snapshot] = field(default_factory=list)
    window: WindowSums = field(default_factory=WindowSums)  # since the last line of the curves
    earlier_steps: int = 0  # of the runs whose history this one continues

    @property
    def history_step(self) -> int:
        """The position in the history, which begins with the history of the run it starts from."""
        return self.earlier_steps + self.step


def seed_step(seed: int, step: int, process: int) -> None:
    """Make the random numbers of a step depend only on the run's seed, the step and the process.

    So no random state is saved, and a resumed run draws the same numbers as an uninterrupted one.
    """
    words = np.random.SeedSequence((seed, step, process)).generate_state(1, np.uint64)
    torch.manual_seed(int(words[0]))


def save_state(path: Path, model: Transformer, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write the weights in full precision, the optimizer's state and the position."""
    tensors = {}
    for name, parameter in model.named_parameters():
        tensors[f"model.{name}"] = parameter.detach().cpu()
        for key, value in optimizer.state[parameter].items():
            tensors[f"optimizer.{key}.{name}"] = value.cpu()
    position = json.dumps(asdict(progress))
    metadata = {"progress": position, "checksum": _checksum(position, tensors)}
    write_atomically(path, lambda part: save_file(tensors, part, metadata))


def load_state(path: Path, model: Transformer, optimizer: torch.optim.Optimizer) -> Progress:
    """Load what `save_state` wrote. Raises UserError on a broken file."""
    progress, tensors = read_state(path)
    weights = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    with reading(path):
        load_weights(model, weights, path)
    keys = {name.split(".")[1] for name in tensors if name.startswith("optimizer.")}
    for name, parameter in model.named_parameters():
        names = {key: f"optimizer.{key}.{name}" for key in keys}
        optimizer.state[parameter] = {
            key: tensors[stored].to(parameter.device) for key, stored in names.items() if stored in tensors
        }
    return progress


def read_state(path: Path) -> tuple[Progress, dict[str, Tensor]]:
    """The position and the tensors of a run. Raises UserError on a missing or broken file."""
    with reading(path), safe_open(path, framework="pt", backend="pread") as stream:
        metadata = stream.metadata() or {}
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
        # Runs that began with an earlier version have no checksum.
        if metadata.get("checksum") not in (None, _checksum(metadata["progress"], tensors)):
            raise ValueError("its bytes have changed since it was written")
        values = json.loads(metadata["progress"])
        values["snapshots"] = [Snapshot(**each) for each in values["snapshots"]]
        return Progress(**values), tensors


def _checksum(position: str, tensors: Mapping[str, Tensor]) -> str:
    """CRC-32 of the position and of all tensors by name, to notice a damaged disk."""
    checksum = zlib.crc32(position.encode())
    for name in sorted(tensors):
        checksum = zlib.crc32(name.encode(), checksum)
        checksum = zlib.crc32(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data, checksum)
    return f"{checksum:08x}"
