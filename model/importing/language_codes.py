"""The tokens of languages in a vocabulary of many languages, as Headlight reads them: >>fra_Latn<<."""

from __future__ import annotations

import re
from pathlib import Path

from model.errors import UserError
from model.importing.files.settings import TOKENIZER, settings_of
from model.importing.files.tokenizers import Side
from model.text.multilingual import MultilingualTokenizer
from model.text.sentencepiece import SentencePieceTokenizer

# A token of a language: that of NLLB or mBART (fra_Latn, fr_XX), or that of M2M100 (__fr__).
LANGUAGE = re.compile(r"([a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2})|__([a-z]{2,3})__")


def with_languages(side: Side, directory: Path, usual: str) -> tuple[Side, Side]:
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
