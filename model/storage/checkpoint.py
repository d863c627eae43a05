"""Reads and writes a model directory: config.json, model.safetensors, tokenizer.json, the card.

All files are safetensors, JSON or text, so that loading an untrusted model never runs its code.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from model.errors import UserError, quote_untrusted
from model.files import (
    MAX_HEADER_BYTES,
    open_tensors,
    read_json,
    write_atomically,
    write_json,
)
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.storage.card import Card, ModelSize, read_card, shape_of, write_card
from model.storage.hub import OnHub
from model.text.languages import TARGET_CODE
from model.text.multilingual import load_tokenizer
from model.text.tokenizer import Tokenizer

FORMAT = 3  # 2 added weights in 8 bits, 3 imported models; 1 and 2 can still be read
CONFIG, WEIGHTS = "config.json", "model.safetensors"
MAX_PARAMETERS = 700_000_000  # 3 GB in memory; NLLB-200-distilled has 615, the shipped models under 10
FIRST_MODEL = "de-en"  # what commands and the page open unless another is named
MAX_WEIGHTS_BYTES = 4 * MAX_PARAMETERS + MAX_HEADER_BYTES
SCALES = ".scales"  # suffix of the name of the row scales of a weight in 8 bits
STORED_TYPES = {"F16", "BF16", "F32", "I8"}
MAX_LABEL, MAX_SCORES = 100, 20  # what fits into the page's list of models
MAX_CODES, MAX_PROMPTS = 1000, 100  # what its lists of languages and prompts offer
JOINT, SOURCE, TARGET = "tokenizer.json", "source_tokenizer.json", "target_tokenizer.json"


@dataclass(frozen=True)
class ModelInfo:
    """What config.json says about a model, apart from its shape."""

    source_language: str
    target_language: str
    title: str
    scores: Mapping[str, float] = field(default_factory=dict)
    origin: str = ""  # where an imported model comes from; empty when it was trained here
    target_languages: tuple[str, ...] = ()  # codes such as >>fra<<, one of which must begin each source
    prompts: tuple[str, ...] = ()  # as in "translate English to German: ", one of which may begin a source


@dataclass(frozen=True)
class Checkpoint(OnHub):
    """A model with its tokenizers, as a model directory holds it."""

    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer  # the same object when the vocabulary is joint
    info: ModelInfo
    card: Card = field(default_factory=Card)  # the content of card.json
    notes: tuple[str, ...] = ()  # sentences about what an import does in another way than the origin

    def shape(self, size: int) -> ModelSize:
        """What the card says about the shape of the model, whose weights are a file of `size` bytes."""
        return shape_of(self.model, (self.source_tokenizer, self.target_tokenizer), size)

    @classmethod
    def load(cls, directory: Path) -> Checkpoint:
        """Read a model directory."""
        return load(directory)

    def _save_pretrained(self, save_directory: Path) -> None:
        save(self, save_directory, self.card)


def save(
    checkpoint: Checkpoint,
    directory: Path,
    card: Card | None = None,
    *,
    eight_bit: bool = False,
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write a model directory with weights in `dtype`, each file atomically, the weights last.

    With `eight_bit` matrices have 8 bits and one scale per row, which is half the size. While a newer
    state of the same model is saved, the directory can be loaded at any time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    config = {"format": FORMAT, "model": checkpoint.model.config.to_json()}
    write_json(directory / CONFIG, config | asdict(checkpoint.info))
    save_tokenizers(directory, checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    if card:
        write_card(directory, card)
    # named_parameters has a tied weight only once.
    weights = {name: parameter.detach().cpu() for name, parameter in checkpoint.model.named_parameters()}
    stored = {} if not eight_bit else quantise_rows(weights)
    others = {name: weight for name, weight in weights.items() if name not in stored}
    stored |= {name: weight.to(dtype).contiguous() for name, weight in others.items()}
    write_atomically(directory / WEIGHTS, lambda part: save_file(stored, part))


def quantise_rows(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The matrices [O, I] among the weights as 8-bit integers, with the scales [O, 1] of their rows.

    An integer times its scale differs from the weight by at most 1/254 of the row's largest weight.
    """
    stored = {}
    for name, weight in weights.items():
        # The biases of relative positions are few, and 8 bits would move scores by hundredths.
        if weight.ndim == 2 and not name.endswith(".positions.biases"):
            # In float32, because float16 is imprecise for the scale of a row of small weights.
            scales = (weight.float().abs().amax(1, keepdim=True) / 127).clamp_min(1e-30)
            stored[name] = (weight / scales).round_().to(torch.int8).contiguous()
            stored[name + SCALES] = scales
    return stored


def dequantise_rows(stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights; those that `quantise_rows` stored are multiplied by their scales."""

    def restore(name: str, weight: torch.Tensor) -> torch.Tensor:
        scales = stored.get(name + SCALES)
        # Only for a matrix: a vector of N numbers times [N, 1] would have N * N numbers.
        fits = scales is not None and weight.ndim == 2 and scales.shape == (len(weight), 1)
        return weight * scales if scales is not None and fits else weight

    return {name: restore(name, weight) for name, weight in stored.items() if not name.endswith(SCALES)}


def save_tokenizers(directory: Path, source: Tokenizer, target: Tokenizer) -> None:
    """Write one file if both languages share a tokenizer, else two; remove the other files."""
    if source is target:
        write_atomically(directory / JOINT, source.save)
        for name in (SOURCE, TARGET):
            (directory / name).unlink(missing_ok=True)
    else:
        (directory / JOINT).unlink(missing_ok=True)
        write_atomically(directory / SOURCE, source.save)
        write_atomically(directory / TARGET, target.save)


def load_tokenizers(directory: Path, joint: bool) -> tuple[Tokenizer, Tokenizer]:
    """Source and target tokenizer, the same object if they share one file.

    An imported model may have one vocabulary for both languages and yet a tokenizer for each.
    """
    if (directory / JOINT).is_file() or (joint and not (directory / SOURCE).is_file()):
        tokenizer = load_tokenizer(directory / JOINT)
        return tokenizer, tokenizer
    return load_tokenizer(directory / SOURCE), load_tokenizer(directory / TARGET)


def load(directory: Path) -> Checkpoint:
    """Read a model directory, which need not be trusted, in float32 and eval mode.

    Sizes and shapes are checked before memory is taken. Raises UserError if a file is missing, truncated,
    too large, a link to another folder, from a newer version, or has wrong shapes or values.
    """
    if not directory.is_dir():
        raise UserError(f"There is no model directory {directory}; check the path.")
    settings = _read_config(directory / CONFIG)
    config = ModelConfig.from_json(settings["model"])
    info = _info(settings, directory / CONFIG)
    source, target = load_tokenizers(directory, config.tied)
    sizes = (config.source_vocabulary, config.target_vocabulary)
    if (len(source), len(target)) != sizes:
        raise UserError(
            f"The tokenizer in {directory} has {len(source)} and {len(target)} entries but the "
            f"model needs {sizes[0]} and {sizes[1]}; copy both from the same run."
        )
    card = read_card(directory)
    return Checkpoint(_read_model(config, directory / WEIGHTS), source, target, info, card)


def load_weights(model: Transformer, weights: Mapping[str, torch.Tensor], path: Path) -> None:
    """Copy weights into the model. Raises UserError if one is missing, unknown or of another shape."""
    check_shapes(model, {name: weight.shape for name, weight in weights.items()}, path)
    for name, parameter in model.named_parameters():
        _copy(weights[name], parameter, name, path)


def _copy(weight: torch.Tensor, parameter: torch.Tensor, name: str, path: Path) -> None:
    if not weight.is_floating_point():
        raise UserError(f"{name} in {path} has no scales; copy the model directory again.")
    with torch.no_grad():
        parameter.copy_(weight)


def check_shapes(model: Transformer, shapes: Mapping[str, Sequence[int]], path: Path) -> None:
    """Raise UserError unless these are the names and shapes of the model's weights."""
    parameters = dict(model.named_parameters())
    for problem, names in (
        ("lacks", parameters.keys() - shapes.keys()),
        ("has unknown", shapes.keys() - parameters.keys()),
    ):
        if names:
            raise UserError(
                f"{path} {problem} weights ({quote_untrusted(sorted(names)[0])} and {len(names) - 1} more); "
                f"it belongs to another {CONFIG}."
            )
    for name, parameter in parameters.items():
        if tuple(shapes[name]) != parameter.shape:
            raise UserError(
                f"{name} in {path} has shape {tuple(shapes[name])} but {CONFIG} says "
                f"{tuple(parameter.shape)}; copy both from the same run."
            )


def list_models(directory: Path) -> list[Path]:
    """The subdirectories that have a config or weights, even broken ones, sorted by name."""
    return sorted(
        path
        for path in directory.glob("*")
        if path.is_dir() and any(os.path.lexists(path / name) for name in (CONFIG, WEIGHTS))
    )


def find_model(name: str, models: Path) -> Path:
    """The model directory of this name in the folder `models`, or else the name as a path."""
    return {path.name: path for path in list_models(models)}.get(name, Path(name))


def _read_config(path: Path) -> Mapping[str, Any]:
    settings = read_json(path)
    match settings:
        case {"format": int(version), "model": {"d_model": _}}:
            if version > FORMAT:
                raise UserError(
                    f"{path} has format {quote_untrusted(version)}, newer than the {FORMAT} that this "
                    "program reads; update Headlight."
                )
            return dict(settings)
    raise UserError(f"{path} is not a Headlight model's config; write it again.")


def _info(settings: Mapping[str, Any], path: Path) -> ModelInfo:
    for name in ("source_language", "target_language", "title", "scores"):
        if name not in settings:
            raise UserError(f"{path} has no {name!r}; copy it from the run again.")
        if name != "scores" and not _is_label(settings[name]):
            raise UserError(f"{name} in {path} is not a short line of visible text; write it again.")
    scores = settings["scores"]
    if not isinstance(scores, dict) or len(scores) > MAX_SCORES:
        raise UserError(f"scores in {path} are not at most {MAX_SCORES} named numbers; write them again.")
    for name, value in scores.items():
        if not (_is_label(name) and type(value) in (int, float) and abs(value) < 1e9):
            raise UserError(
                f"The score {quote_untrusted(name)} in {path} is not a valid number; write it again."
            )
    # Only the settings of an imported model say these.
    origin, codes, prompts = (settings.get(name) for name in ("origin", "target_languages", "prompts"))
    if not (origin in (None, "") or _is_label(origin)):
        raise UserError(f"origin in {path} is not a short line of visible text; import the model again.")
    if not (codes is None or (isinstance(codes, list) and all(map(_is_code, codes[:MAX_CODES])))):
        raise UserError(f"target_languages in {path} are not codes of languages; import the model again.")
    if not (prompts is None or (isinstance(prompts, list) and all(map(_is_label, prompts[:MAX_PROMPTS])))):
        raise UserError(f"prompts in {path} are not short lines of visible text; import the model again.")
    return ModelInfo(
        settings["source_language"],
        settings["target_language"],
        settings["title"],
        {name: float(value) for name, value in scores.items()},
        origin or "",
        tuple(codes or ())[:MAX_CODES],
        tuple(prompts or ())[:MAX_PROMPTS],
    )


def _is_label(value: object) -> bool:
    """Whether the page can show this value in its list of models."""
    return isinstance(value, str) and 0 < len(value) <= MAX_LABEL and value.isprintable()


def _is_code(value: object) -> bool:
    return _is_label(value) and TARGET_CODE.fullmatch(str(value)) is not None


def _read_model(config: ModelConfig, path: Path) -> Transformer:
    """The model of a weights file. A config that needs more memory than the file justifies is refused."""
    try:
        with open_tensors(path, MAX_WEIGHTS_BYTES) as stored:
            header = {name: stored.get_slice(name) for name in stored.keys()}  # noqa: SIM118
            _check_size(config, header, path)
            model = Transformer(config)
            shapes = {name: each.get_shape() for name, each in header.items() if not name.endswith(SCALES)}
            check_shapes(model, shapes, path)
            for name, parameter in model.named_parameters():  # one at a time, so that memory holds one model
                parts = {each: stored.get_tensor(each) for each in (name, name + SCALES) if each in header}
                _copy(dequantise_rows(parts)[name], parameter, name, path)
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} is truncated or broken ({quote_untrusted(str(error))}); copy it again."
        ) from error
    except (MemoryError, RuntimeError) as error:  # torch has no error of its own for memory
        raise UserError(
            f"{path} does not fit into the memory that is free ({4 * config.n_parameters / 1e9:.1f} GB are "
            "needed); close other programs or choose a smaller model."
        ) from error
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise UserError(f"{path} has weights that are infinite or not numbers; copy it from an earlier save.")
    return model.eval()


def _check_size(config: ModelConfig, header: Mapping[str, Any], path: Path) -> None:
    """Raise UserError unless the header has about as many numbers as the model, of supported types."""
    wanted = config.n_parameters
    if wanted > MAX_PARAMETERS:
        raise UserError(f"{path} has a model of {wanted:,} weights; at most {MAX_PARAMETERS:,} are read.")
    for name, entry in header.items():
        if entry.get_dtype() not in STORED_TYPES:
            known = ", ".join(sorted(STORED_TYPES))
            raise UserError(
                f"{quote_untrusted(name)} in {path} is {entry.get_dtype()}; only {known} are read."
            )
    held = sum(math.prod(entry.get_shape()) for entry in header.values())
    if not wanted <= held <= 2 * wanted:  # the scales of weights in 8 bits come in addition
        problem = "lacks weights" if held < wanted else "has unknown weights"
        raise UserError(
            f"{path} {problem}: it has {held:,} numbers where {CONFIG} asks for {wanted:,}; "
            "copy both from the same run."
        )
