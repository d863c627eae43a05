"""mBART-25 (Liu et al. 2020) and mBART-50 (Tang et al. 2020): BART with pre-norm and codes of languages.

The encoder of mBART-50 reads the code of its language before the sentence, and its decoder writes that of the
target language first. mBART-25 reads its code after the </s>, and its decoder begins with the other code in
place of a <s>, so a checkpoint translates into one language.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

from model.errors import UserError
from model.importing.family import Plan, tied_config
from model.importing.files.settings import (
    CONFIG,
    SHAPE,
    TOKENIZER,
    learned_positions,
    read_settings,
    settings_of,
    shape_of,
)
from model.importing.files.spm import read_spm
from model.importing.files.tokenizer_json import read_tokenizer
from model.importing.files.tokenizers import SPM, TOKENIZER_JSON, Side, SpecialIds, side_of
from model.importing.language_codes import with_languages
from model.importing.weight_names import convert_with_positions
from model.network.config import ModelConfig
from model.text.languages import TARGET_CODE
from model.text.multilingual import MultilingualTokenizer
from model.text.sentencepiece import Frame, SentencePieceTokenizer

# What the settings of an MBartConfig are when its file leaves them out.
DEFAULTS: dict[str, Any] = {
    "vocab_size": 50265,
    **SHAPE,
    "activation_function": "gelu",
    "scale_embedding": False,
    "max_position_embeddings": 1024,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
REQUIRED: dict[str, Any] = {
    "is_encoder_decoder": True,
    "tie_word_embeddings": True,
    "quantization_config": None,
}
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
# Languages of mBART-50 in the order of their ids, which no file of a checkpoint lists; mBART-25 has the
# first 25.
LANGUAGES = """
ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP
nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN
mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
"""


def read(directory: Path) -> Plan:
    """Read what describes a checkpoint of mBART. Raises UserError."""
    values = read_settings(directory, DEFAULTS, REQUIRED)
    size = values["vocab_size"]
    # Check the sizes before anything of such a size is read.
    shape = ModelConfig(
        size + 1,
        size + 1,
        norm="pre",
        positions="learned",
        n_positions=learned_positions(values, directory),
        embedding_norm=True,
        **shape_of(values),
    )
    ids = SpecialIds.of(values)
    side = _read_side(directory, size, ids)
    config = tied_config(shape, side, values["scale_embedding"])
    source, target = with_languages(side, directory, usual="en_XX")
    convert = partial(convert_with_positions, side=side, scaled=values["scale_embedding"])
    start = target.tokenizer.pieces([int(row) for row in (target.order == ids.start).nonzero()[-1]])[0]
    _check_version(directory, values, bool(TARGET_CODE.fullmatch(start)))
    if not TARGET_CODE.fullmatch(start):
        return Plan(config, source, target, convert)
    code = cast(MultilingualTokenizer, source.tokenizer).source_code
    own = cast(SentencePieceTokenizer, target.tokenizer)
    source = Side(SentencePieceTokenizer(own.segmenter, own.vocabulary, Frame(after=code)), source.order)
    return Plan(config, source, target, convert, languages=(code.strip("<>"), start.strip("<>")))


def _check_version(directory: Path, values: dict[str, Any], starts_with_code: bool) -> None:
    """Raise UserError for an mBART-25 that names no target language, and for another start of the decoder."""
    named = [settings_of(directory / name).get("tokenizer_class") for name in (TOKENIZER, CONFIG)]
    versions = {str(name).startswith("MBart50") for name in named if name is not None}
    if False in versions and not starts_with_code:
        raise UserError(
            f"{directory} is mBART-25 without a target language; set decoder_start_token_id in {CONFIG} "
            "to the id of its code."
        )
    if starts_with_code and True not in versions:
        return
    if values["decoder_start_token_id"] != values["eos_token_id"]:
        raise UserError(
            f"{directory / CONFIG} has a decoder_start_token_id that is neither </s> nor the code of a "
            "language; correct it."
        )


def _read_side(directory: Path, size: int, ids: SpecialIds) -> Side:
    """The tokenizer with the names of the languages as they are in the checkpoint."""
    if (directory / TOKENIZER_JSON).exists():
        return read_tokenizer(directory, size, ids)
    segmenter = read_spm(directory / SPM)
    known = [*SPECIALS, *segmenter.scores]
    languages = LANGUAGES.split()
    if size < len(known) + len(languages):
        languages = languages[:25]
    entries = [*known, *languages, "<mask>"]
    return side_of(segmenter, dict(enumerate(entries)), size, ids, directory)
