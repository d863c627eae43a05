"""The settings in config.json that families share, read with their defaults and checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict, cast

from model.errors import UserError, quote_untrusted
from model.files import read_json
from model.inputs import MAX_TARGET_TOKENS
from model.network.config import Shape

CONFIG, GENERATION, README = "config.json", "generation_config.json", "README.md"
TOKENIZER, SPECIAL_TOKENS, ADDED_TOKENS = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
# Classes that do what tokenizer.json says; the class of a family knows its rules itself.
GENERIC_TOKENIZERS = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Second names of settings, and the names that a family has for them.
ALIASES = {
    "hidden_size": ("d_model",),
    "num_attention_heads": ("encoder_attention_heads", "num_heads"),
    "num_hidden_layers": ("encoder_layers", "num_layers"),
    "head_dim": ("d_kv",),
}
ACTIVATIONS = {"relu": "relu", "swish": "silu", "silu": "silu", "gelu": "gelu", "gelu_new": "gelu_new"}


class Settings(TypedDict, total=False):
    """The settings in config.json that a family reads or requires."""

    is_encoder_decoder: bool
    quantization_config: None
    vocab_size: int
    src_vocab_size: int
    tgt_vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    activation_function: str
    scale_embedding: bool
    max_position_embeddings: int
    tie_word_embeddings: bool
    share_encoder_decoder_embeddings: bool
    static_position_embeddings: bool
    normalize_embedding: bool
    pad_token_id: int
    bos_token_id: int
    eos_token_id: int
    decoder_start_token_id: int
    # T5 has other names.
    d_kv: int
    d_ff: int
    num_layers: int
    num_heads: int
    relative_attention_num_buckets: int
    relative_attention_max_distance: int
    feed_forward_proj: str
    layer_norm_epsilon: float


def settings_of(path: Path) -> dict[str, object]:
    """A JSON object; empty if there is no such file."""
    if not path.exists():
        return {}
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise UserError(f"{path} is not a JSON object; copy it again.")
    return settings


def read_settings(
    directory: Path, defaults: Mapping[str, object], required: Mapping[str, object]
) -> Settings:
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
    search = settings_of(directory / GENERATION)
    if search.get("decoder_start_token_id") is not None:
        written["decoder_start_token_id"] = search["decoder_start_token_id"]
    _resolve_aliases(written, defaults, path)
    values = dict(defaults) | {name: written[name] for name in defaults if name in written}
    for name, value in values.items():
        if type(value) is not type(defaults[name]):
            raise UserError(
                f"{path} has {name} {quote_untrusted(value)}, which is of another type; correct it."
            )
    end = values["eos_token_id"]
    if (other := search.get("eos_token_id")) not in (None, end, [end]):
        raise UserError(
            f"{directory / GENERATION} has eos_token_id {quote_untrusted(other)} but {path} has {end}; "
            "Headlight ends a translation with one token, so correct one of them."
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
    return cast(Settings, values)


def _resolve_aliases(written: dict[str, object], defaults: Mapping[str, object], path: Path) -> None:
    """Take a setting under its second name. Raises UserError if both names have different values."""
    for alias, names in ALIASES.items():
        name = next((name for name in names if name in defaults), None)
        if name is None or alias not in written:
            continue
        if written.setdefault(name, written[alias]) != written[alias]:
            raise UserError(
                f"{path} has {name} {quote_untrusted(written[name])} and {alias} "
                f"{quote_untrusted(written[alias])}, which are two names of one setting; correct it."
            )


def generation_path(directory: Path) -> Path:
    """The file with the settings of a search: generation_config.json, or config.json of earlier versions."""
    return directory / (GENERATION if settings_of(directory / GENERATION) else CONFIG)


def is_generic_tokenizer(directory: Path) -> bool:
    """Whether tokenizer.json alone says how a sentence is cut, and no class of the family."""
    return settings_of(directory / TOKENIZER).get("tokenizer_class") in GENERIC_TOKENIZERS


def learned_positions(values: Settings, directory: Path) -> int:
    """How many positions a model learned. Raises UserError if the longest translation needs more."""
    positions = values["max_position_embeddings"]
    if positions < MAX_TARGET_TOKENS:
        raise UserError(
            f"{directory / CONFIG} has {positions} positions; Headlight needs {MAX_TARGET_TOKENS}, because "
            "a translation may be so long."
        )
    return positions


def shape_of(values: Settings) -> Shape:
    """The arguments of ModelConfig that BART and the families that copied its names share."""
    return {
        "d_model": values["d_model"],
        "d_ff": values["encoder_ffn_dim"],
        "n_heads": values["encoder_attention_heads"],
        "n_encoder_layers": values["encoder_layers"],
        "n_decoder_layers": values["decoder_layers"],
        "activation": ACTIVATIONS[values["activation_function"]],
    }
