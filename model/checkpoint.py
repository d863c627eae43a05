"""A model directory: config.json, model.safetensors, tokenizer.json, README.md card.

Everything is safetensors or JSON, so that loading a stranger's model runs none of their code.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from model.config import ModelConfig
from model.errors import UserError
from model.tokenizer import Tokenizer
from model.transformer import Transformer

FORMAT = 2  # 2 added weights in 8 bits; 1 is read as before
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
SCALES = ".scales"  # behind the name of a weight in 8 bits: its scale of each row
JOINT, SOURCE, TARGET = "tokenizer.json", "source_tokenizer.json", "target_tokenizer.json"


@dataclass(frozen=True)
class ModelInfo:
    """What a model directory says about itself beside its shape."""

    source_language: str
    target_language: str
    title: str
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """A model with its tokenizers, as a model directory holds it."""

    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer  # the same object when the vocabulary is joint
    info: ModelInfo


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, then put it in place of `path` in one step."""
    _remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(temporary)
        temporary.chmod(0o644)  # safetensors creates files that only their owner can read
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _remove_leftovers(path: Path) -> None:
    """Delete half files of `path` whose process was killed; one that still runs keeps its own."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        process = part.name.removeprefix(f".{path.name}.").removesuffix(".part")
        if process.isdecimal() and not _lives(int(process)):
            part.unlink(missing_ok=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 only asks
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def save(
    checkpoint: Checkpoint, directory: Path, card: str | None = None, *, eight_bit: bool = False
) -> None:
    """Write a model directory, weights in 16 bits and last, each file in one step.

    With `eight_bit` matrices take 8 bits and a scale a row, half the size: see `quantise`. A save over an
    older state of the same model leaves a loadable directory at every moment.
    """
    directory.mkdir(parents=True, exist_ok=True)
    config = {"format": FORMAT, "model": checkpoint.model.config.to_json()}
    write_json(directory / CONFIG, config | asdict(checkpoint.info))
    save_tokenizers(directory, checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    if card is not None:
        write_atomically(directory / CARD, lambda part: part.write_text(card, encoding="utf-8"))
    # named_parameters names a tied weight once.
    weights = {name: parameter.detach().cpu() for name, parameter in checkpoint.model.named_parameters()}
    stored = {name: weight.to(torch.float16).contiguous() for name, weight in weights.items()}
    if eight_bit:
        stored |= quantise(weights)
    write_atomically(directory / WEIGHTS, lambda part: save_file(stored, part))


def quantise(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The matrices [O, I] among the weights as 8-bit integers, and the scales [O, 1] of their rows.

    A weight is its integer times its scale, within 1/254 of the largest weight of its row.
    """
    stored = {}
    for name, weight in weights.items():
        if weight.ndim == 2:
            # float32, since the scale of a row of small weights has few digits in float16.
            scales = (weight.float().abs().amax(1, keepdim=True) / 127).clamp_min(1e-30)
            stored[name] = (weight / scales).round().to(torch.int8).contiguous()
            stored[name + SCALES] = scales
    return stored


def dequantise(stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Every weight, multiplied by its scales where it has such as `quantise` makes."""

    def restore(name: str, weight: torch.Tensor) -> torch.Tensor:
        scales = stored.get(name + SCALES)
        fits = scales is not None and scales.shape == (*weight.shape[:1], 1)
        return weight * scales if scales is not None and fits else weight

    return {name: restore(name, weight) for name, weight in stored.items() if not name.endswith(SCALES)}


def save_tokenizers(directory: Path, source: Tokenizer, target: Tokenizer) -> None:
    """Write one file when both languages share a tokenizer, else one for each; no others stay."""
    if source is target:
        write_atomically(directory / JOINT, source.save)
        for name in (SOURCE, TARGET):
            (directory / name).unlink(missing_ok=True)
    else:
        (directory / JOINT).unlink(missing_ok=True)
        write_atomically(directory / SOURCE, source.save)
        write_atomically(directory / TARGET, target.save)


def load_tokenizers(directory: Path, joint: bool) -> tuple[Tokenizer, Tokenizer]:
    """Source and target tokenizer: the same object when one file holds both."""
    if joint or (directory / JOINT).is_file():
        tokenizer = Tokenizer.load(directory / JOINT)
        return tokenizer, tokenizer
    return Tokenizer.load(directory / SOURCE), Tokenizer.load(directory / TARGET)


def load(directory: Path) -> Checkpoint:
    """Read a model directory into float32 and eval mode.

    Raises UserError when a file is missing, cut short, from a newer version or of another shape.
    """
    if not directory.is_dir():
        raise UserError(f"There is no model directory {directory}; check the path.")
    settings = _read_config(directory / CONFIG)
    model = Transformer(ModelConfig.from_json(settings["model"]))
    load_weights(model, dequantise(_read_weights(directory / WEIGHTS)), directory / WEIGHTS)
    source, target = load_tokenizers(directory, model.config.tied)
    sizes = (model.config.source_vocabulary, model.config.target_vocabulary)
    if (len(source), len(target)) != sizes:
        raise UserError(
            f"The tokenizer in {directory} has {len(source)} and {len(target)} entries but the "
            f"model wants {sizes[0]} and {sizes[1]}; copy both from the same run."
        )
    try:
        info = ModelInfo(**{name: settings[name] for name in ModelInfo.__dataclass_fields__})
    except KeyError as error:
        raise UserError(f"{directory / CONFIG} has no {error}; copy it from the run again.") from error
    return Checkpoint(model.eval(), source, target, info)


def load_weights(model: Transformer, weights: Mapping[str, torch.Tensor], path: Path) -> None:
    """Copy weights into the model. Raises UserError on a missing, unknown or misshapen one."""
    parameters = dict(model.named_parameters())
    for problem, names in (
        ("lacks", parameters.keys() - weights.keys()),
        ("has unknown", weights.keys() - parameters.keys()),
    ):
        if names:
            raise UserError(
                f"{path} {problem} weights ({sorted(names)[0]} and {len(names) - 1} more); "
                f"it belongs to another {CONFIG}."
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            if weights[name].shape != parameter.shape:
                raise UserError(
                    f"{name} in {path} has shape {tuple(weights[name].shape)} but {CONFIG} says "
                    f"{tuple(parameter.shape)}; copy both from the same run."
                )
            if not weights[name].is_floating_point():
                raise UserError(f"{name} in {path} lacks its scales; copy the model directory again.")
            parameter.copy_(weights[name])


def list_models(directory: Path) -> list[Path]:
    """The model directories inside `directory`, by name."""
    return sorted(path.parent for path in directory.glob(f"*/{CONFIG}"))


def find_model(name: str, models: Path) -> Path:
    """The model directory of this name inside `models`, else the path that the name is."""
    inside = models / name
    return inside if inside.is_dir() else Path(name)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        version, _ = int(settings["format"]), settings["model"]["d_model"]
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing; copy the whole model directory.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a Headlight model's config; write it again.") from error
    if version > FORMAT:
        raise UserError(
            f"{path} has format {version}, newer than the {FORMAT} that this program reads; update Headlight."
        )
    return dict(settings)


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing; copy the whole model directory.") from error
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is cut short or broken ({error}); copy it again.") from error
