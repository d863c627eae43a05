"""The families of models that can be imported, one row each; a module says what a row cannot."""

from __future__ import annotations

from pathlib import Path

from model.importing import fsmt, marian, t5
from model.importing.family import Family, tied
from model.importing.files.byte_level import read_byte_level
from model.importing.files.settings import Settings
from model.importing.files.tokenizer_json import read_tokenizer
from model.importing.files.tokenizers import Sides, SpecialIds
from model.importing.language_codes import read_m2m, read_mbart
from model.importing.weight_names import convert_tied, convert_with_positions, convert_with_sinusoids
from model.network.config import Shape

# The names of BART's settings and what they are when a file leaves them out. All families but T5 copied them.
BART: Settings = {
    "d_model": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "activation_function": "gelu",
    "scale_embedding": False,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
RELATIVE: Shape = {"norm": "pre", "rms_norm": True, "positions": "relative"}
# The same of T5.
T5: Settings = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "feed_forward_proj": "relu",
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
FAIRSEQ: Settings = {"scale_embedding": True, "activation_function": "relu"}
TIED: Settings = {"tie_word_embeddings": True}
PAD_1: Settings = {"pad_token_id": 1}  # the first position of fairseq is the one after it


def _read_one(directory: Path, values: Settings) -> Sides:
    side = read_tokenizer(directory, values["vocab_size"], SpecialIds.of(values))
    return Sides(side, side)


FAMILIES: dict[str, Family] = {
    "marian": Family(
        "MarianMT",
        BART
        | TIED
        | {"vocab_size": 58101, "share_encoder_decoder_embeddings": True}
        | {"pad_token_id": 58100, "eos_token_id": 0, "decoder_start_token_id": 58100},
        {"norm": "post", "tied": False},
        marian.plan,
        # normalize_before and add_final_layer_norm are not here: MarianMT is post-norm whatever they say, and
        # a weight that it does not have is refused.
        {"static_position_embeddings": True, "normalize_embedding": False},
    ),
    "pegasus": Family(  # pre-norm models that were trained here are exported as Pegasus
        "Pegasus",
        BART
        | TIED
        | {"vocab_size": 50265, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0},
        {"norm": "pre"},
        tied(_read_one, convert_with_sinusoids),
        {"static_position_embeddings": True} | TIED,
    ),
    "m2m_100": Family(
        "M2M100 or NLLB",
        BART | FAIRSEQ | {"vocab_size": 128112},
        {"norm": "pre", "positions": "fairseq"},
        tied(read_m2m, convert_tied),
        TIED | PAD_1,
    ),
    "mbart": Family(  # Liu et al. 2020 and Tang et al. 2020: BART with pre-norm and codes of languages
        "mBART",
        BART | {"vocab_size": 50265, "max_position_embeddings": 1024},
        {"norm": "pre", "positions": "learned", "embedding_norm": True},
        tied(read_mbart, convert_with_positions),
        TIED,
    ),
    "bart": Family(  # Lewis et al. 2020
        "BART",
        BART | {"vocab_size": 50265, "max_position_embeddings": 1024, "bos_token_id": 0},
        {"norm": "post", "positions": "learned", "embedding_norm": True},
        tied(read_byte_level, convert_with_positions),
        TIED,
    ),
    "fsmt": Family(
        "FSMT",
        BART | FAIRSEQ | {"src_vocab_size": 42024, "tgt_vocab_size": 42024},
        # The bias forbids <s>, a copy of </s>.
        {"norm": "post", "positions": "fairseq", "tied": False, "output_bias": True},
        fsmt.plan,
        PAD_1,
    ),
    "t5": Family("T5", T5, RELATIVE, t5.plan, {"layer_norm_epsilon": 1e-6}),
    "mt5": Family("mT5", T5, RELATIVE, t5.plan, {"layer_norm_epsilon": 1e-6}),
}
