"""Pegasus: pre-norm and sinusoids. Pre-norm models that were trained here are exported as Pegasus."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from model.importing.family import Plan, tied_config
from model.importing.files.settings import SHAPE, read_settings, shape_of
from model.importing.files.tokenizer_json import read_tokenizer
from model.importing.files.tokenizers import Side, SpecialIds
from model.importing.files.weights import Weights
from model.importing.weight_names import axis_of, check_sinusoids, convert_tied
from model.network.config import ModelConfig
from model.network.transformer import Transformer

# What the settings of a PegasusConfig are when its file leaves them out.
DEFAULTS: dict[str, Any] = {
    "vocab_size": 50265,
    **SHAPE,
    "activation_function": "gelu",
    "scale_embedding": False,
    "tie_word_embeddings": True,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
REQUIRED: dict[str, Any] = {
    "is_encoder_decoder": True,
    "static_position_embeddings": True,
    "tie_word_embeddings": True,
    "quantization_config": None,
}


def read(directory: Path) -> Plan:
    """Read what describes a Pegasus checkpoint. Raises UserError."""
    values = read_settings(directory, DEFAULTS, REQUIRED)
    size = values["vocab_size"]
    # Check the sizes before anything of such a size is read.
    shape = ModelConfig(size + 1, size + 1, norm="pre", **shape_of(values))
    ids = SpecialIds.of(values)
    side = read_tokenizer(directory, size, ids)
    config = tied_config(shape, side, values["scale_embedding"])
    return Plan(config, side, side, partial(_convert, side=side, scaled=values["scale_embedding"]))


def _convert(weights: Weights, model: Transformer, side: Side, scaled: bool) -> Iterator[tuple[str, Tensor]]:
    """Our weights with their names."""
    yield from convert_tied(weights, model, side, scaled)
    for place in ("encoder", "decoder"):
        check_sinusoids(weights, f"model.{place}.embed_positions.weight", axis_of(model.config.d_model))
