"""The tokenizers of models of many languages: M2M100, NLLB, mBART-25 and mBART-50.

Headlight writes the token of a language as >>fra_Latn<<.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from model.errors import UserError
from model.importing.files.settings import CONFIG, TOKENIZER, Settings, settings_of
from model.importing.files.spm import read_spm
from model.importing.files.tokenizer_json import read_tokenizer
from model.importing.files.tokenizers import (
    LANGUAGE,
    SPM,
    TOKENIZER_JSON,
    VOCABULARY,
    Side,
    Sides,
    SpecialIds,
    read_entries,
    side_of,
)
from model.text.languages import TARGET_CODE
from model.text.multilingual import MultilingualTokenizer
from model.text.sentencepiece import Frame, SentencePieceTokenizer

# Languages of M2M100 in the order of their ids, which no file of a checkpoint lists.
M2M_LANGUAGES = """
af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr
ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa
pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
"""
WMT21_LANGUAGES = "en ha is ja cs ru zh de"
MBART_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
# Languages of mBART-50 in the order of their ids, which no file of a checkpoint lists; mBART-25 has the
# first 25.
MBART_LANGUAGES = """
ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP
nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN
mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
"""


def read_m2m(directory: Path, values: Settings) -> Sides:
    """M2M100 and NLLB: the encoder reads the code of its language, the decoder writes the other one first."""
    side = _read_m2m(directory, values["vocab_size"], SpecialIds.of(values))
    return Sides(*_with_languages(side, directory, usual="en"))


def read_mbart(directory: Path, values: Settings) -> Sides:
    """mBART-50 as M2M100. mBART-25 reads its code after the </s>.

    The decoder of mBART-25 begins with the other code in place of a <s>, so that a checkpoint translates into
    one language. Raises UserError for another start of the decoder.
    """
    ids = SpecialIds.of(values)
    side = _read_mbart(directory, values["vocab_size"], ids)
    source, target = _with_languages(side, directory, usual="en_XX")
    start = target.tokenizer.pieces([int(row) for row in (target.order == ids.start).nonzero()[-1]])[0]
    _check_version(directory, values, bool(TARGET_CODE.fullmatch(start)))
    if not TARGET_CODE.fullmatch(start):
        return Sides(source, target)
    code = cast(MultilingualTokenizer, source.tokenizer).source_code
    own = cast(SentencePieceTokenizer, target.tokenizer)
    source = Side(SentencePieceTokenizer(own.segmenter, own.vocabulary, Frame(after=code)), source.order)
    return Sides(source, target, (code.strip("<>"), start.strip("<>")))


def _check_version(directory: Path, values: Settings, starts_with_code: bool) -> None:
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


def _read_m2m(directory: Path, size: int, ids: SpecialIds) -> Side:
    """The tokenizer with the names of the languages as they are in the checkpoint."""
    if (directory / TOKENIZER_JSON).exists():
        return read_tokenizer(directory, size, ids)
    entries = {index: entry for entry, index in read_entries(directory / VOCABULARY).items()}
    is_wmt21 = settings_of(directory / TOKENIZER).get("language_codes") == "wmt21"
    languages = WMT21_LANGUAGES if is_wmt21 else M2M_LANGUAGES
    first = len(entries)
    entries |= {first + place: f"__{code}__" for place, code in enumerate(languages.split())}
    return side_of(read_spm(directory / SPM).segmenter, entries, size, ids, directory)


def _read_mbart(directory: Path, size: int, ids: SpecialIds) -> Side:
    """The tokenizer with the names of the languages as they are in the checkpoint."""
    if (directory / TOKENIZER_JSON).exists():
        return read_tokenizer(directory, size, ids)
    segmenter, pieces = read_spm(directory / SPM)
    known = [*MBART_SPECIALS, *pieces[3:]]  # in place of <unk>, <s> and </s>
    languages = MBART_LANGUAGES.split()
    if size < len(known) + len(languages):
        languages = languages[:25]
    entries = [*known, *languages, "<mask>"]
    return side_of(segmenter, dict(enumerate(entries)), size, ids, directory)


def _with_languages(side: Side, directory: Path, usual: str) -> tuple[Side, Side]:
    """Source and target with their codes; `usual` is the source's where tokenizer_config.json names none.

    Raises UserError if the vocabulary has no tokens of languages.
    """
    tokenizer = side.tokenizer
    if not isinstance(tokenizer, SentencePieceTokenizer):
        raise UserError(f"{directory} has no tokenizer of many languages; copy the whole checkpoint.")
    vocabulary = [
        LANGUAGE.sub(_code, entry) if LANGUAGE.fullmatch(entry) else entry for entry in tokenizer.vocabulary
    ]
    target = SentencePieceTokenizer(tokenizer.segmenter, vocabulary)
    codes = target.language_codes
    if not codes:
        raise UserError(f"{directory} has no tokens of languages; copy the whole checkpoint.")
    named = settings_of(directory / TOKENIZER).get("src_lang") or usual
    code = f">>{named}<<"
    if code not in codes:  # a list of languages may have English under a longer code
        code = next((code for code in codes if code.startswith(">>en")), codes[0])
    source = MultilingualTokenizer(tokenizer.segmenter, vocabulary, code)
    return Side(source, side.order), Side(target, side.order)


def _code(match: re.Match[str]) -> str:
    return f">>{match.group(1) or match.group(2)}<<"
