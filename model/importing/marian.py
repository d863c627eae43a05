"""MarianMT, the family of OPUS-MT: post-norm, sinusoids, one SentencePiece model for each language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from model.errors import UserError
from model.importing.family import NEVER_LOGIT, Plan, output_bias
from model.importing.files.settings import CONFIG, Settings, settings_of, shape_of
from model.importing.files.tokenizer_json import read_tokenizer
from model.importing.files.tokenizers import (
    SOURCE_SPM,
    TOKENIZER_JSON,
    Side,
    Sides,
    SpecialIds,
    read_tokenizers,
)
from model.importing.files.weights import Weights
from model.importing.weight_names import (
    DECODER,
    ENCODER,
    OUTPUT,
    SHARED,
    axis_of,
    check_sinusoids,
    convert_layers,
)
from model.network.config import ModelConfig, Shape
from model.network.transformer import Transformer
from model.text.tokenizer import BOS_ID, PAD_ID


def plan(directory: Path, values: Settings, shape: Shape) -> Plan:
    """How a checkpoint of MarianMT becomes ours. Raises UserError."""
    shared, tied = values["share_encoder_decoder_embeddings"], values["tie_word_embeddings"]
    size = values["vocab_size"]
    target_size = size if shared else settings_of(directory / CONFIG).get("decoder_vocab_size") or size
    if type(target_size) is not int:
        raise UserError(f"{directory / CONFIG} has a decoder_vocab_size that is not a number; correct it.")
    # Check the sizes before anything of such a size is read.
    config = ModelConfig(size + 1, target_size + 1, **(shape | shape_of(values)))
    ids = SpecialIds.of(values)
    if (directory / SOURCE_SPM).exists() or not (directory / TOKENIZER_JSON).exists():
        source, target = read_tokenizers(directory, (size, target_size), ids)
    else:  # a model that Headlight exported
        source = target = read_tokenizer(directory, size, ids)
    if shared and source is not target and not torch.equal(source.order, target.order):
        raise UserError(f"{directory} has two vocabularies but one embedding, which Headlight cannot do.")
    one_matrix = shared and tied
    config = replace(
        config,
        source_vocabulary=len(source.order),
        target_vocabulary=len(target.order),
        tied=one_matrix,
        # Embeddings that are not scaled are divided by sqrt(d_model); then the output is a matrix of its own.
        separate_output=one_matrix and not values["scale_embedding"],
        output_bias=True,
    )
    convert = partial(_convert, source=source, target=target, scaled=values["scale_embedding"], tied=tied)
    return Plan(config, Sides(source, target), convert)


def _convert(
    weights: Weights, model: Transformer, source: Side, target: Side, scaled: bool, tied: bool
) -> Iterator[tuple[str, Tensor]]:
    config = model.config
    width = config.d_model
    axis = axis_of(width)
    scale = 1.0 if scaled else width**-0.5
    # Each row of ours that begins as a copy of another (<s>) comes from the same row of theirs.
    source_size, target_size = ((int(side.order.max()) + 1, width) for side in (source, target))
    # Checkpoints name the one matrix in different ways. The file of some tc-big models also has an output
    # matrix that was never trained, so lm_head.weight comes last.
    last = [OUTPUT] if tied else []
    if config.tied:
        embedding = weights.take_first([SHARED, DECODER, ENCODER, *last], source_size)
        yield "source_embedding.tokens.weight", _rows(embedding, source, axis, scale)
    else:
        encoder = weights.take_first([ENCODER, SHARED], source_size)
        yield "source_embedding.tokens.weight", _rows(encoder, source, axis, scale)
        embedding = weights.take_first([DECODER, SHARED, *last], target_size)
        yield "target_embedding.tokens.weight", _rows(embedding, target, axis, scale)
    if not config.tied or config.separate_output:
        output = embedding if tied else weights.take(OUTPUT, target_size)
        yield "output.weight", _rows(output, target, axis, 1.0)
    bias = output_bias(weights, target)
    if target.order[PAD_ID] == target.order[BOS_ID]:
        bias[PAD_ID] = NEVER_LOGIT  # the conversion to transformers added it, with a logit of 0
    yield "output.bias", bias
    yield from convert_layers(weights, model, axis)
    for side in ("encoder", "decoder"):
        check_sinusoids(weights, f"model.{side}.embed_positions.weight", axis)


def _rows(matrix: Tensor, side: Side, axis: Tensor, scale: float) -> Tensor:
    """A matrix of tokens in our order of rows and columns."""
    ordered = matrix[side.order[:, None], axis]
    return ordered if scale == 1 else ordered.float() * scale
