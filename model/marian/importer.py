"""Imports MarianMT checkpoints, such as those of OPUS-MT, as model directories.

The weights keep their meaning. Three things differ from ours and are changed once, here: the positions (all
sines, then all cosines), the order of the special tokens, and the names.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from torch import Tensor

from model.config import ModelConfig
from model.errors import UserError, quote_untrusted
from model.files import read_json, read_text
from model.marian.card import card_text, model_info, taught_head
from model.marian.tokenizers import (
    CONFIG,
    SOURCE_SPM,
    TARGET_SPM,
    TARGET_VOCABULARY,
    TOKENIZER,
    VOCABULARY,
    SpecialIds,
    read_tokenizers,
    settings_of,
)
from model.marian.weights import BIN, SAFETENSORS, Weights, read_weights
from model.network.layers import sinusoids
from model.network.transformer import Transformer
from model.storage.checkpoint import MAX_PARAMETERS, Checkpoint, load, load_weights, save
from model.storage.hub import fetch
from model.tokenizer import BOS_ID, PAD_ID

Bits = Literal[8, 16, 32]
GENERATION, README = "generation_config.json", "README.md"
FILES = (CONFIG, GENERATION, TOKENIZER, README, VOCABULARY, TARGET_VOCABULARY, SOURCE_SPM, TARGET_SPM)
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
ACTIVATIONS = {"relu": "relu", "swish": "silu", "silu": "silu", "gelu": "gelu"}
NEVER_LOGIT = -1e4  # the bias of tokens that are never predicted; e^-10000 is 0, and 16 bits can hold it
# What the settings of a MarianConfig are when its file leaves them out.
DEFAULTS: dict[str, Any] = {
    "model_type": "",
    "vocab_size": 58101,
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "activation_function": "gelu",
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "pad_token_id": 58100,
    "eos_token_id": 0,
    "decoder_start_token_id": 58100,
}
# Settings that change the arithmetic, with the only value that Headlight computes.
REQUIRED: dict[str, Any] = {
    "model_type": "marian",
    "is_encoder_decoder": True,
    "static_position_embeddings": True,
    "normalize_embedding": False,
    "normalize_before": False,
    "add_final_layer_norm": False,
    "quantization_config": None,
}
READS, WRITES = "reads", "writes"  # whether a weight reads the residual stream or writes to it
SELF_ATTENTION = (
    ("self_attention.project", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), READS),
    ("self_attention.output", ("self_attn.out_proj",), WRITES),
    ("self_residual.norm", ("self_attn_layer_norm",), WRITES),
)
CROSS_ATTENTION = (
    ("cross_attention.project", ("encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj"), READS),
    ("cross_attention.output", ("encoder_attn.out_proj",), WRITES),
    ("cross_residual.norm", ("encoder_attn_layer_norm",), WRITES),
)
FEED_FORWARD = (
    ("feed_forward.inner", ("fc1",), READS),
    ("feed_forward.outer", ("fc2",), WRITES),
    ("feed_forward_residual.norm", ("final_layer_norm",), WRITES),
)


def import_model(name: str, output: Path, bits: Bits = 8) -> Checkpoint:
    """Write the model directory `output` from a MarianMT checkpoint: a folder, or a name on the hub.

    Matrices take `bits` bits. Raises UserError for a broken checkpoint, for one of another architecture, for
    weights that do not fit `bits`, and if `output` exists or cannot be written; then nothing is written.
    """
    if os.path.lexists(output):  # a link to nothing too
        raise UserError(f"{output} exists already; delete it or name another folder with --output.")
    checkpoint = read_checkpoint(name)
    _check_range(checkpoint.model, name, bits)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".import-", dir=output.parent) as folder:
            written = Path(folder) / output.name
            dtype = torch.float32 if bits == 32 else torch.float16
            save(checkpoint, written, checkpoint.card, eight_bit=bits == 8, dtype=dtype)
            result = load(written)  # what cannot be opened is not kept
            written.rename(output)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(
            f"{output} cannot be written ({reason}); free space on its disk or name another folder with "
            "--output."
        ) from error
    return result


def read_checkpoint(name: str) -> Checkpoint:
    """Read a MarianMT checkpoint of a folder or of the hub. Raises UserError."""
    directory, origin = _find(name)
    shape = _read_shape(directory)
    source, target = read_tokenizers(directory, shape.sizes, shape.ids)
    if shape.shared and source.tokenizer.vocabulary != target.tokenizer.vocabulary:
        raise UserError(f"{directory} has two vocabularies but one embedding, which Headlight cannot do.")
    readme = read_text(directory / README) if (directory / README).exists() else ""
    taught = taught_head(readme, shape.network["n_decoder_layers"])
    config = ModelConfig(len(source.order), len(target.order), taught_head=taught, **shape.network)
    if config.n_parameters > MAX_PARAMETERS:
        raise UserError(
            f"{directory} is a model of {config.n_parameters:,} weights; at most {MAX_PARAMETERS:,} are read."
        )
    weights = read_weights(directory)
    model = Transformer(config).eval()
    converted = dict(_convert(weights, model, shape, source.order, target.order))
    weights.check_all_used()
    load_weights(model, converted, weights.path)
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        raise UserError(f"{weights.path} has weights that are not finite numbers; copy it again.")
    info = model_info(origin, settings_of(directory / TOKENIZER), source.tokenizer.language_codes)
    return Checkpoint(model, source.tokenizer, target.tokenizer, info, card_text(info, readme, config))


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
    directory = fetch(name, (*FILES, SAFETENSORS))
    if not (directory / SAFETENSORS).exists():
        directory = fetch(name, (*FILES, BIN))
    return directory, name


@dataclass(frozen=True)
class Shape:
    """What config.json says, checked."""

    network: Mapping[str, Any]  # arguments of ModelConfig except the sizes of the vocabularies
    sizes: tuple[int, int]  # of the source and the target vocabulary
    scaled: bool  # whether embeddings are multiplied by sqrt(d_model), as ours always are
    shared: bool  # one embedding for both languages
    output_shared: bool  # which is also the output projection
    ids: SpecialIds


def _read_shape(directory: Path) -> Shape:
    path = directory / CONFIG
    read_json(path)  # refuses a missing file
    written = settings_of(path)
    for name, wanted in REQUIRED.items():
        if written.get(name, DEFAULTS.get(name, wanted)) != wanted:
            raise UserError(
                f"{path} has {name} {quote_untrusted(written.get(name))}; only MarianMT models with {name} "
                f"{quote_untrusted(wanted)} can be imported."
            )
    start = settings_of(directory / GENERATION).get("decoder_start_token_id")
    values = _checked(written if start is None else written | {"decoder_start_token_id": start}, path)
    shared, tied = values["share_encoder_decoder_embeddings"], values["tie_word_embeddings"]
    size = values["vocab_size"]
    target_size = size if shared else written.get("decoder_vocab_size") or size
    if type(target_size) is not int:
        raise UserError(f"{path} has a decoder_vocab_size that is not a number; correct it.")
    network: dict[str, Any] = {
        "d_model": values["d_model"],
        "d_ff": values["encoder_ffn_dim"],
        "n_heads": values["encoder_attention_heads"],
        "n_encoder_layers": values["encoder_layers"],
        "n_decoder_layers": values["decoder_layers"],
        "norm": "post",
        "activation": ACTIVATIONS[values["activation_function"]],
        "tied": shared,
        # Embeddings that are not scaled are divided by sqrt(d_model); then the output is a matrix of its own.
        "separate_output": shared and not (tied and values["scale_embedding"]),
        "output_bias": True,
    }
    # Check the sizes before anything of such a size is read.
    ModelConfig(size + 1, target_size + 1, **network)
    ids = SpecialIds(*(values[f"{name}_token_id"] for name in ("pad", "eos", "decoder_start")))
    return Shape(network, (size, target_size), values["scale_embedding"], shared, tied, ids)


def _checked(written: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The settings of DEFAULTS as they are written or by default. Raises UserError for one that cannot be."""
    values = DEFAULTS | {name: written[name] for name in DEFAULTS if name in written}
    for name, value in values.items():
        if type(value) is not type(DEFAULTS[name]):
            raise UserError(
                f"{path} has {name} {quote_untrusted(value)}, which is of another type; correct it."
            )
    for name in ("ffn_dim", "attention_heads"):
        if values[f"encoder_{name}"] != values[f"decoder_{name}"]:
            raise UserError(
                f"{path} has another {name} in the encoder than in the decoder, which Headlight cannot do."
            )
    if values["activation_function"] not in ACTIVATIONS:
        raise UserError(
            f"{path} has activation_function {quote_untrusted(values['activation_function'])}; only "
            f"{', '.join(ACTIVATIONS)} can be imported."
        )
    return values


def _convert(
    weights: Weights, model: Transformer, shape: Shape, source: Tensor, target: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """Our weights with their names. `source` and `target` are the orders of the vocabularies."""
    config = model.config
    width = config.d_model
    # Theirs are all sines, then all cosines; ours take turns. Heads have no part in this.
    axis = torch.arange(width).view(2, -1).t().flatten()
    scale = 1.0 if shape.scaled else width**-0.5
    source_size, target_size = ((size, width) for size in shape.sizes)
    if shape.shared:
        names = [
            "model.shared.weight",
            "model.decoder.embed_tokens.weight",
            "model.encoder.embed_tokens.weight",
        ]
        # Checkpoints name the one matrix in different ways. The file of some tc-big models has an output
        # matrix too that was never trained, so lm_head.weight comes last.
        names += ["lm_head.weight"] if shape.output_shared else []
        embedding = weights.take_first(names, source_size)
        if not shape.output_shared:
            weights.check_equal(names, embedding)
        yield "source_embedding.tokens.weight", embedding[source][:, axis] * scale
    else:
        encoder = weights.take("model.encoder.embed_tokens.weight", source_size)
        yield "source_embedding.tokens.weight", encoder[source][:, axis] * scale
        names = ["model.decoder.embed_tokens.weight", *(["lm_head.weight"] if shape.output_shared else [])]
        embedding = weights.take_first(names, target_size)
        yield "target_embedding.tokens.weight", embedding[target][:, axis] * scale
    if not config.tied or config.separate_output:
        output = embedding if shape.output_shared else weights.take("lm_head.weight", target_size)
        yield "output.weight", output[target][:, axis]
    bias = weights.take("final_logits_bias", (1, target_size[0]), default=0.0)[0][target]
    bias[[PAD_ID, BOS_ID]] = NEVER_LOGIT
    yield "output.bias", bias
    layers = (SELF_ATTENTION + FEED_FORWARD, SELF_ATTENTION + CROSS_ATTENTION + FEED_FORWARD)
    for side, parts in zip(("encoder", "decoder"), layers, strict=True):
        for place, layer in enumerate(getattr(model, side)):
            for ours, theirs, role in parts:
                prefix = f"model.{side}.layers.{place}."
                module = layer.get_submodule(ours)
                weight, bias = (
                    weights.take_rows([f"{prefix}{name}.{part}" for name in theirs], tuple(parameter.shape))
                    for part, parameter in (("weight", module.weight), ("bias", module.bias))
                )
                weight, bias = (weight[:, axis], bias) if role == READS else (weight[axis], bias[axis])
                yield f"{side}.{place}.{ours}.weight", weight
                yield f"{side}.{place}.{ours}.bias", bias
        _check_positions(weights, f"model.{side}.embed_positions.weight", axis)


def _check_positions(weights: Weights, name: str, axis: Tensor) -> None:
    """Raise UserError if a checkpoint has positions and they are not sinusoids."""
    positions = weights.take_any(name)
    if positions is None:
        return
    if positions.ndim != 2 or positions.shape[1] != len(axis):
        raise UserError(f"{name} in {weights.path} has another width than the model; copy it again.")
    wanted = sinusoids(min(len(positions), 1024), len(axis))
    # In 16 bits a number near 1 is off by at most 0.0005.
    if not torch.allclose(positions[:1024, axis].float(), wanted, rtol=0, atol=2e-3):
        raise UserError(f"{name} in {weights.path} has learned positions; only sinusoids can be imported.")
