"""The state of a run: one file that is replaced in one step, so a kill loses nothing before it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.checkpoint import load_weights, write_atomically
from model.errors import UserError
from model.transformer import Transformer


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already trained on
    validated: int = 0  # the last step that was validated
    best: float = float("-inf")
    seconds: float = 0.0  # spent in training, over all sessions


def save_state(path: Path, model: Transformer, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Write full-precision weights, optimizer, random state and position."""
    tensors = {"random": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    for name, parameter in model.named_parameters():
        tensors[f"model.{name}"] = parameter.detach().cpu()
        for key, value in optimizer.state[parameter].items():
            tensors[f"optimizer.{key}.{name}"] = value.cpu()
    metadata = {"progress": json.dumps(asdict(progress))}
    write_atomically(path, lambda part: save_file(tensors, part, metadata))


def load_state(path: Path, model: Transformer, optimizer: torch.optim.Optimizer) -> Progress:
    """Put everything that `save_state` wrote back; raises UserError on a broken file."""
    try:
        with safe_open(path, framework="pt") as stream:
            progress = Progress(**json.loads(stream.metadata()["progress"]))
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is broken ({error}); start the run again elsewhere.") from error
    weights = {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    load_weights(model, weights, path)
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = _optimizer_state(tensors, name, parameter)
    torch.set_rng_state(tensors["random"])
    if torch.cuda.is_available() and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"])
    return progress


def _optimizer_state(tensors: dict[str, Tensor], name: str, parameter: Tensor) -> dict[str, Tensor]:
    state = {}
    for key, value in tensors.items():
        kind, _, rest = key.partition(".")
        entry, _, owner = rest.partition(".")
        if kind == "optimizer" and owner == name:
            state[entry] = value.to(parameter.device)
    return state
