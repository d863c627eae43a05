"""T5, Flan-T5, mT5 and ByT5 (Raffel et al. 2020): pre-norm, relative positions, RMSNorm, no biases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from model.errors import UserError, quote_untrusted
from model.importing.family import Plan, output_bias, tied_config
from model.importing.files.settings import (
    ACTIVATIONS,
    CONFIG,
    TOKENIZER,
    Settings,
    settings_of,
)
from model.importing.files.spm import read_spm
from model.importing.files.tokenizer_json import read_tokenizer
from model.importing.files.tokenizers import SPIECE, TOKENIZER_JSON, Side, Sides, SpecialIds, side_of
from model.importing.files.weights import Weights
from model.network.config import ModelConfig, Shape
from model.network.transformer import Transformer
from model.storage.checkpoint import MAX_LABEL, MAX_PROMPTS
from model.text.charsmap import Charsmap
from model.text.languages import NAMES
from model.text.sentencepiece import SentencePiece

BYTES = SentencePiece("unigram", {}, Charsmap(b""), add_space=False, merge_spaces=False, byte_fallback=True)
# Our names and theirs of the attentions in a layer and of the matrices in a feed-forward network.
ATTENTIONS = {
    "encoder": (("self", "SelfAttention"),),
    "decoder": (("self", "SelfAttention"), ("cross", "EncDecAttention")),
}
PLAIN = (("inner", "wi"), ("outer", "wo"))
GATED = (("inner", "wi_0"), ("gate", "wi_1"), ("outer", "wo"))
SOURCE = re.compile(r"translate (\w+) to ")
SHARED, OUTPUT = "shared.weight", "lm_head.weight"
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def plan(directory: Path, values: Settings, shape: Shape) -> Plan:
    """How a checkpoint of T5 becomes ours. Raises UserError."""
    written = settings_of(directory / CONFIG)
    decoder_layers = written.get("num_decoder_layers") or values["num_layers"]
    if type(decoder_layers) is not int:
        raise UserError(f"{directory / CONFIG} has a num_decoder_layers that is not a number; correct it.")
    size = values["vocab_size"]
    sizes: Shape = {
        "d_model": values["d_model"],
        "d_ff": values["d_ff"],
        "n_heads": values["num_heads"],
        "n_encoder_layers": values["num_layers"],
        "n_decoder_layers": decoder_layers,
        "d_key": values["d_kv"],
        "n_buckets": values["relative_attention_num_buckets"],
        "max_distance": values["relative_attention_max_distance"],
    }
    kind = _kind_of_feed_forward(values["feed_forward_proj"], directory / CONFIG)
    # Check the sizes before anything of such a size is read.
    config = ModelConfig(size + 1, size + 1, **(shape | sizes | kind))
    side = _read_side(directory, size, SpecialIds.of(values))
    scaled = _is_scaled(written)
    convert = partial(_convert, side=side, scaled=scaled)
    prompts = _prompts(written)
    sides = Sides(side, side, (_source_language(prompts), "mul"))
    return Plan(tied_config(config, side, scaled), sides, convert, prompts)


def _kind_of_feed_forward(projection: str, path: Path) -> Shape:
    """The arguments of ModelConfig for relu, gated-gelu and their like. Raises UserError."""
    activation = projection.removeprefix("gated-")
    if activation not in ACTIVATIONS:
        raise UserError(
            f"{path} has feed_forward_proj {quote_untrusted(projection)}; only {', '.join(ACTIVATIONS)} and "
            "each of these with gated- before it can be imported."
        )
    gated = activation != projection
    # T5 1.1 computes gelu as BERT's first code did.
    name = "gelu_new" if gated and activation == "gelu" else ACTIVATIONS[activation]
    return {"activation": name, "gated": gated}


def _is_scaled(written: Mapping[str, object]) -> bool:
    """Whether the output is scaled by d_model^-0.5, as in T5 1.0 alone, whose output is the embedding."""
    if written.get("model_type") == "mt5":
        return False
    return bool(written.get("scale_decoder_outputs", written.get("tie_word_embeddings", True)))


def _read_side(directory: Path, size: int, ids: SpecialIds) -> Side:
    """The tokenizer of the files; ByT5, whose tokens are bytes, has none."""
    if (directory / TOKENIZER_JSON).exists():
        return read_tokenizer(directory, size, ids)
    if settings_of(directory / TOKENIZER).get("tokenizer_class") == "ByT5Tokenizer":
        entries = ["<pad>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
        return side_of(BYTES, dict(enumerate(entries)), size, ids, directory)
    # The file has the ids; the rows of the matrix after its end belong to other tasks.
    segmenter, pieces = read_spm(directory / SPIECE)
    return side_of(segmenter, dict(enumerate(pieces)), size, ids, directory)


def _prompts(written: Mapping[str, object]) -> tuple[str, ...]:
    """The beginnings that name a task of translation, such as "translate English to German: "."""
    tasks = written.get("task_specific_params")
    found = []
    for name, task in tasks.items() if isinstance(tasks, dict) else ():
        prefix = task.get("prefix") if isinstance(task, dict) else None
        if "translation" in str(name) and isinstance(prefix, str) and 0 < len(prefix) <= MAX_LABEL:
            found.append(prefix)
    return tuple(prompt for prompt in found[:MAX_PROMPTS] if prompt.isprintable())


def _source_language(prompts: tuple[str, ...]) -> str:
    """The code of the language that all prompts translate from, or mul."""
    found = {match.group(1) if (match := SOURCE.match(prompt)) else "" for prompt in prompts}
    codes = [code for code, name in NAMES.items() if {name} == found]
    return codes[0] if codes else "mul"


def _convert(weights: Weights, model: Transformer, side: Side, scaled: bool) -> Iterator[tuple[str, Tensor]]:
    """Our weights with their names. The biases, which T5 does not have, are zero."""
    yield from _convert_embeddings(weights, model, side, scaled)
    config = model.config
    for part, attentions in ATTENTIONS.items():
        for place in range(len(getattr(model, part))):
            ours, theirs = f"{part}.{place}", f"{part}.block.{place}.layer"
            for number, (own, name) in enumerate(attentions):
                yield f"{ours}.{own}_residual.norm.weight", _norm(weights, model, f"{theirs}.{number}")
                yield from _attention(weights, model, f"{ours}.{own}_attention", f"{theirs}.{number}.{name}")
            last = f"{theirs}.{len(attentions)}"
            yield f"{ours}.feed_forward_residual.norm.weight", _norm(weights, model, last)
            yield from _feed_forward(weights, model, f"{ours}.feed_forward", f"{last}.DenseReluDense")
        table = f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        biases = weights.take(table, (config.n_buckets, config.n_heads))
        yield f"{part}.0.self_attention.positions.biases", biases
        yield f"{part}_norm.weight", weights.take(f"{part}.final_layer_norm.weight", (config.d_model,))
    # The first checkpoints have this table, which no program reads.
    weights.take_any("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight")


def _convert_embeddings(
    weights: Weights, model: Transformer, side: Side, scaled: bool
) -> Iterator[tuple[str, Tensor]]:
    """The embedding of both sides, and the output. Raises UserError if a scaled output is another matrix."""
    width = model.config.d_model
    shape = (int(side.order.max()) + 1, width)
    shared = weights.take_first([SHARED, *COPIES], shape)
    output = weights.take(OUTPUT, shape) if weights.has(OUTPUT) else shared
    # Ours multiplies embeddings by sqrt(d_model), theirs does not.
    embedding = shared.float() * width**-0.5
    if not scaled:
        yield "output.weight", output[side.order]
    elif not torch.equal(output, shared):
        raise UserError(
            f"{weights.path} has an output that is not the embedding, but config.json says "
            "tie_word_embeddings; correct it."
        )
    yield "source_embedding.tokens.weight", embedding[side.order]
    yield "output.bias", output_bias(weights, side)


def _attention(weights: Weights, model: Transformer, ours: str, theirs: str) -> Iterator[tuple[str, Tensor]]:
    width, inner = model.config.d_model, model.config.d_attention
    query, key, value = (weights.take(f"{theirs}.{name}.weight", (inner, width)) for name in "qkv")
    # Ours divides scores by sqrt(d_head), theirs does not.
    query = query.float() * model.config.d_head**0.5
    yield f"{ours}.project.weight", torch.cat((query, key.float(), value.float()))
    yield f"{ours}.project.bias", torch.zeros(3 * inner)
    yield f"{ours}.output.weight", weights.take(f"{theirs}.o.weight", (width, inner))
    yield f"{ours}.output.bias", torch.zeros(width)


def _feed_forward(
    weights: Weights, model: Transformer, ours: str, theirs: str
) -> Iterator[tuple[str, Tensor]]:
    width, inner = model.config.d_model, model.config.d_ff
    for own, name in GATED if model.config.gated else PLAIN:
        rows, columns = (width, inner) if own == "outer" else (inner, width)
        yield f"{ours}.{own}.weight", weights.take(f"{theirs}.{name}.weight", (rows, columns))
        yield f"{ours}.{own}.bias", torch.zeros(rows)


def _norm(weights: Weights, model: Transformer, sublayer: str) -> Tensor:
    return weights.take(f"{sublayer}.layer_norm.weight", (model.config.d_model,))
