"""BART (Lewis et al. 2020): post-norm, learned positions, a norm after the embedding, pairs of bytes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from model.errors import UserError
from model.importing.family import Plan, tied_config
from model.importing.files.byte_level import read_byte_level
from model.importing.files.settings import (
    CONFIG,
    GENERATION,
    SHAPE,
    learned_positions,
    read_settings,
    settings_of,
    shape_of,
)
from model.importing.files.tokenizers import Side, SpecialIds
from model.importing.weight_names import convert_with_positions
from model.network.config import ModelConfig
from model.text.byte_level import ByteLevelTokenizer
from model.text.sentencepiece import Frame
from model.text.tokenizer import BOS

# What the settings of a BartConfig are when its file leaves them out.
DEFAULTS: dict[str, Any] = {
    "vocab_size": 50265,
    **SHAPE,
    "activation_function": "gelu",
    "scale_embedding": False,
    "max_position_embeddings": 1024,
    "bos_token_id": 0,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
REQUIRED: dict[str, Any] = {
    "is_encoder_decoder": True,
    "tie_word_embeddings": True,
    "quantization_config": None,
}


def read(directory: Path) -> Plan:
    """Read what describes a checkpoint of BART. Raises UserError."""
    values = read_settings(directory, DEFAULTS, REQUIRED)
    size = values["vocab_size"]
    # Check the sizes before anything of such a size is read.
    shape = ModelConfig(
        size + 1,
        size + 1,
        norm="post",
        positions="learned",
        n_positions=learned_positions(values, directory),
        embedding_norm=True,
        **shape_of(values),
    )
    tokenizer, order = read_byte_level(directory, size, SpecialIds.of(values))
    side = Side(tokenizer, order)
    config = tied_config(shape, side, values["scale_embedding"])
    frame = Frame(before=BOS, first=BOS if _forces_start(directory, values) else "")
    source = Side(ByteLevelTokenizer(tokenizer.segmenter, tokenizer.vocabulary, frame), order)
    convert = partial(convert_with_positions, side=side, scaled=values["scale_embedding"])
    return Plan(config, source, side, convert)


def _forces_start(directory: Path, values: dict[str, Any]) -> bool:
    """Whether every translation begins with <s>. Raises UserError if another token is forced."""
    for name in (GENERATION, CONFIG):
        forced = settings_of(directory / name).get("forced_bos_token_id")
        if forced is not None:
            if forced != values["bos_token_id"]:
                raise UserError(f"{directory / name} forces another first token than <s>; correct it.")
            return True
    return False
