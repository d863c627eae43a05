"""Imports checkpoints of other programs as model directories; `FAMILIES` lists the families of models.

The weights keep their meaning. What a family has in another form is changed once, at the import: names, the
order of the special tokens, and the order of the dimensions where a family orders its positions
differently.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError

from model.errors import UserError, quote_untrusted
from model.files import read_json, read_text
from model.importing.card import import_card, model_info, taught_head
from model.importing.checkpoint_settings import check_settings
from model.importing.families import FAMILIES
from model.importing.family import Plan
from model.importing.files.settings import (
    ADDED_TOKENS,
    CONFIG,
    GENERATION,
    README,
    SPECIAL_TOKENS,
    TOKENIZER,
    settings_of,
)
from model.importing.files.tokenizers import SPM_FILES, VOCABULARY_FILES
from model.importing.files.weights import BIN, INDEX, SAFETENSORS, SHARDS, Weights, read_weights
from model.importing.generation import read_generation
from model.importing.heads import find_heads, with_heads
from model.importing.memories import order_memories
from model.importing.own_models import Told, find_own, open_own
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.storage.checkpoint import MAX_PARAMETERS, Checkpoint, load, save
from model.storage.hub import fetch
from model.text.multilingual import MultilingualTokenizer

Bits = Literal[8, 16, 32]
FILES = (
    CONFIG,
    GENERATION,
    TOKENIZER,
    SPECIAL_TOKENS,
    ADDED_TOKENS,
    README,
    *VOCABULARY_FILES,
    *SPM_FILES,
)
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def import_model(name: str, output: Path, bits: Bits = 8, told: Told | None = None) -> Checkpoint:
    """Write the model directory `output` from a checkpoint: a folder, a file, or a name on the hub.

    Matrices take `bits` bits. Raises UserError for a broken checkpoint, for one of another architecture, for
    weights that do not fit `bits`, and if `output` exists or cannot be written; then nothing is written.
    """
    if os.path.lexists(output):  # a link to nothing too
        raise UserError(f"{output} exists already; delete it or name another folder with --output.")
    checkpoint = read_checkpoint(name, told)
    notes = checkpoint.notes
    _check_range(checkpoint.model, name, bits)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".import-", dir=output.parent) as folder:
            written = Path(folder) / output.name
            dtype = torch.float32 if bits == 32 else torch.float16
            save(checkpoint, written, checkpoint.card, eight_bit=bits == 8, dtype=dtype)
            del checkpoint  # memory need not hold both
            result = load(written)  # what cannot be opened is not kept
            written.rename(output)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(
            f"{output} cannot be written ({reason}); free space on its disk or name another folder with "
            "--output."
        ) from error
    return replace(result, notes=notes)


def read_checkpoint(name: str, told: Told | None = None) -> Checkpoint:
    """Read a checkpoint of a folder, a file or the hub. Raises UserError."""
    if (file := find_own(Path(name))) is not None:
        return _read_own(
            file, file.stem if Path(name).is_file() else Path(name).resolve().name, told or Told()
        )
    directory, origin = _find(name)
    family = _family(directory)
    notes = check_settings(directory, family)
    plan = FAMILIES[family].read_plan(directory)
    generation = read_generation(directory)
    notes += generation.notes
    sides = generation.begin(plan.sides)
    readme = read_text(directory / README) if (directory / README).exists() else ""
    config = replace(
        plan.config,
        taught_head=taught_head(readme, plan.config.n_decoder_layers),
        output_bias=plan.config.output_bias or bool(generation.never),
    )
    _check_parameters(config, directory)
    weights = read_weights(directory)
    _check_size(config, weights)
    model = Transformer(config).eval()
    _fill(model, plan, weights)
    weights.check_all_used(family)
    path = weights.path
    del weights  # memory need not hold the file and the model
    generation.apply(model, plan.sides.target.order)
    _check_finite(model, path)
    tokenizer = sides.source.tokenizer
    named = settings_of(directory / TOKENIZER)
    if plan.sides.languages is not None:
        named |= dict(zip(("source_lang", "target_lang"), plan.sides.languages, strict=True))
    if isinstance(tokenizer, MultilingualTokenizer):
        named |= {"source_lang": tokenizer.source_code.strip("<>"), "target_lang": "mul"}
    info = replace(model_info(origin, named, tokenizer.language_codes), prompts=plan.prompts)
    card = import_card(info, family, FAMILIES[family].title, readme, config, notes)
    return Checkpoint(model, tokenizer, sides.target.tokenizer, info, card, notes=notes)


def _read_own(file: Path, origin: str, told: Told) -> Checkpoint:
    """A model that somebody trained with a tutorial or a toolkit."""
    own = open_own(file, told)
    config = own.plan.config
    _check_parameters(config, file)
    model = Transformer(config).eval()
    _fill(model, own.plan, own.weights)
    _check_finite(model, file)
    if config.is_recurrent:
        order_memories(model)
    notes = (f"Recognised {own.layout.title}.", *([own.layout.assumed] if own.layout.assumed else []))
    source, target, languages = own.plan.sides
    named = dict(zip(("source_lang", "target_lang"), languages or (), strict=False))
    info = model_info(origin, named, ())
    checkpoint = Checkpoint(model, source.tokenizer, target.tokenizer, info)
    if told.sentences and not config.d_key:
        found = find_heads(checkpoint, told.sentences)
        checkpoint = with_heads(checkpoint, own.heads or next(iter(found)))
        notes += (_say_heads(checkpoint.model.config.n_heads, found),)
    config = checkpoint.model.config
    card = import_card(info, own.name, own.layout.title, "", config, notes, own.layout.licence)
    return replace(checkpoint, card=card, notes=notes)


def _say_heads(heads: int, found: Mapping[int, float]) -> str:
    """What the best number of heads is worth, and the second best or the given number."""
    best, *others = found
    compared = [best, *(others[:1] if heads == best else [heads])]
    values = ", ".join(f"{found[number]:.2f} with {number}" for number in compared)
    advice = "" if heads == best else f" It probably has {best} heads: give --heads {best}."
    return f"Mean log-probability of its own translations by the number of heads: {values}.{advice}"


def _check_parameters(config: ModelConfig, path: Path) -> None:
    count = config.n_parameters
    if count > MAX_PARAMETERS:
        raise UserError(f"{path} is a model of {count:,} weights; at most {MAX_PARAMETERS:,} are read.")


def _check_finite(model: Transformer, path: Path) -> None:
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise UserError(f"{path} has weights that are not finite numbers; copy it again.")


def _check_size(config: ModelConfig, weights: Weights) -> None:
    """Raise UserError unless the files are large enough for a model of this size, in 16 bits or more."""
    # What the file need not have: a bias of the output, copies of <s>, the biases that T5 lacks, and the
    # embedding a second time.
    spare = config.target_vocabulary + 4 * config.d_model
    if config.has_parts_of_t5:
        spare += config.n_biases
    if config.separate_output:
        spare += config.target_vocabulary * config.d_model
    wanted = 2 * (config.n_parameters - spare)
    if weights.n_bytes < wanted:
        raise UserError(
            f"{weights.path} has {weights.n_bytes:,} bytes where {CONFIG} asks for {wanted:,}; copy both "
            "from the same checkpoint."
        )


def _fill(model: Transformer, plan: Plan, weights: Weights) -> None:
    """Copy one weight after another, so that memory holds the model once."""
    parameters = dict(model.named_parameters())
    for name, weight in plan.convert(weights, model):
        parameter = parameters.pop(name, None)
        if parameter is None or parameter.shape != weight.shape:
            raise UserError(
                f"{weights.path} has weights of another shape than {CONFIG} says; copy both again."
            )
        with torch.no_grad():
            parameter.copy_(weight)
    if "output.bias" in parameters:  # a family without one, some of whose tokens are never predicted
        torch.nn.init.zeros_(parameters.pop("output.bias"))
    if parameters:
        raise UserError(f"{weights.path} lacks weights; copy it again.")


def _family(directory: Path) -> str:
    path = directory / CONFIG
    read_json(path)  # refuses a missing file
    family = settings_of(path).get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise UserError(
            f"{path} has model_type {quote_untrusted(family)}; only models of {', '.join(FAMILIES)} can be "
            "imported."
        )
    return family


def _check_range(model: Transformer, name: str, bits: Bits) -> None:
    """Raise UserError unless every number that is stored in 16 bits fits; in 8 bits the vectors are."""
    for parameter in model.parameters():
        if (bits == 16 or (bits == 8 and parameter.ndim < 2)) and not parameter.half().isfinite().all():
            raise UserError(f"{quote_untrusted(name)} has weights too large for 16 bits; give --bits 32.")


def _find(name: str) -> tuple[Path, str]:
    """The folder of a checkpoint and what its origin is called; the hub's files are fetched."""
    directory = Path(name)
    if directory.is_dir():
        return directory, directory.resolve().name
    if not HUB_NAME.fullmatch(name):
        raise UserError(
            f"There is no directory {quote_untrusted(name)}; give a folder or a name on the Hugging Face "
            "hub, such as Helsinki-NLP/opus-mt-de-en."
        )
    for weights, parts in zip((SAFETENSORS, BIN), SHARDS, strict=True):
        directory = fetch(name, (*FILES, weights, weights + INDEX, parts))
        if any((directory / each).exists() for each in (weights, weights + INDEX)):
            break
    return directory, name
