"""M2M100 and NLLB: pre-norm, the sinusoids of fairseq, and codes of the languages in source and target."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from model.importing.family import Plan, tied_config
from model.importing.files.settings import SHAPE, TOKENIZER, read_settings, settings_of, shape_of
from model.importing.files.spm import read_spm
from model.importing.files.tokenizer_json import read_tokenizer
from model.importing.files.tokenizers import (
    SPM,
    TOKENIZER_JSON,
    VOCABULARY,
    Side,
    SpecialIds,
    read_entries,
    side_of,
)
from model.importing.language_codes import with_languages
from model.importing.weight_names import convert_tied
from model.network.config import ModelConfig

# What the settings of an M2M100Config are when its file leaves them out.
DEFAULTS: dict[str, Any] = {
    "vocab_size": 128112,
    **SHAPE,
    "activation_function": "relu",
    "scale_embedding": True,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
REQUIRED: dict[str, Any] = {
    "is_encoder_decoder": True,
    "tie_word_embeddings": True,
    "pad_token_id": 1,  # the first position is the one after it
    "quantization_config": None,
}
# Languages of M2M100 in the order of their ids, which no file of a checkpoint lists.
M2M_LANGUAGES = """
af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr
ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa
pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
"""
WMT21_LANGUAGES = "en ha is ja cs ru zh de"


def read(directory: Path) -> Plan:
    """Read what describes a checkpoint of M2M100 or NLLB. Raises UserError."""
    values = read_settings(directory, DEFAULTS, REQUIRED)
    size = values["vocab_size"]
    # Check the sizes before anything of such a size is read.
    shape = ModelConfig(size + 1, size + 1, norm="pre", positions="fairseq", **shape_of(values))
    ids = SpecialIds.of(values)
    side = _read_side(directory, size, ids)
    config = tied_config(shape, side, values["scale_embedding"])
    source, target = with_languages(side, directory, usual="en")
    return Plan(config, source, target, partial(convert_tied, side=side, scaled=values["scale_embedding"]))


def _read_side(directory: Path, size: int, ids: SpecialIds) -> Side:
    """The tokenizer with the names of the languages as they are in the checkpoint."""
    if (directory / TOKENIZER_JSON).exists():
        return read_tokenizer(directory, size, ids)
    entries = {index: entry for entry, index in read_entries(directory / VOCABULARY).items()}
    is_wmt21 = settings_of(directory / TOKENIZER).get("language_codes") == "wmt21"
    languages = WMT21_LANGUAGES if is_wmt21 else M2M_LANGUAGES
    first = len(entries)
    entries |= {first + place: f"__{code}__" for place, code in enumerate(languages.split())}
    return side_of(read_spm(directory / SPM), entries, size, ids, directory)
