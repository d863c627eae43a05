"""The settings in config.json that families share, read with their defaults and checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.errors import UserError, quote_untrusted
from model.files import read_json
from model.inputs import MAX_TARGET_TOKENS

CONFIG, GENERATION, TOKENIZER, README = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "README.md",
)
ACTIVATIONS = {"relu": "relu", "swish": "silu", "silu": "silu", "gelu": "gelu", "gelu_new": "gelu_new"}


def settings_of(path: Path) -> dict[str, Any]:
    """A JSON object; empty if there is no such file."""
    if not path.exists():
        return {}
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise UserError(f"{path} is not a JSON object; copy it again.")
    return settings


def read_settings(
    directory: Path, defaults: Mapping[str, Any], required: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of `defaults` as config.json says, or else by default; checked.

    `required` are settings that change the arithmetic, with the only value that Headlight computes. Raises
    UserError for another value, another type, and what no ModelConfig can hold.
    """
    path = directory / CONFIG
    written = settings_of(path)
    for name, wanted in required.items():
        if written.get(name, wanted) != wanted:
            raise UserError(
                f"{path} has {name} {quote_untrusted(written.get(name))}; only models with {name} "
                f"{quote_untrusted(wanted)} can be imported."
            )
    start = settings_of(directory / GENERATION).get("decoder_start_token_id")
    if start is not None:
        written["decoder_start_token_id"] = start
    values = dict(defaults) | {name: written[name] for name in defaults if name in written}
    for name, value in values.items():
        if type(value) is not type(defaults[name]):
            raise UserError(
                f"{path} has {name} {quote_untrusted(value)}, which is of another type; correct it."
            )
    for name in ("ffn_dim", "attention_heads"):
        if values.get(f"encoder_{name}") != values.get(f"decoder_{name}"):
            raise UserError(
                f"{path} has another {name} in the encoder than in the decoder, which Headlight cannot do."
            )
    activation = values.get("activation_function", "relu")
    if activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise UserError(
            f"{path} has activation_function {quote_untrusted(activation)}; only {known} can be imported."
        )
    return values


def learned_positions(values: Mapping[str, Any], directory: Path) -> int:
    """How many positions a model learned. Raises UserError if the longest translation needs more."""
    positions: int = values["max_position_embeddings"]
    if positions < MAX_TARGET_TOKENS:
        raise UserError(
            f"{directory / CONFIG} has {positions} positions; Headlight needs {MAX_TARGET_TOKENS}, because "
            "a translation may be so long."
        )
    return positions


def shape_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ModelConfig that BART and the families that copied its names share."""
    return {
        "d_model": values["d_model"],
        "d_ff": values["encoder_ffn_dim"],
        "n_heads": values["encoder_attention_heads"],
        "n_encoder_layers": values["encoder_layers"],
        "n_decoder_layers": values["decoder_layers"],
        "activation": ACTIVATIONS[values["activation_function"]],
    }
