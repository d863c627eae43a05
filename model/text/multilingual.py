"""The source tokenizer of a model of many languages, such as NLLB: codes of both languages before a sentence.

The encoder reads the code of the source language first. The decoder writes the target's code first,
so this code is given to the search and is not part of the source.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model.errors import UserError
from model.files import read_json
from model.text.byte_level import FILE_TYPE as BYTE_LEVEL
from model.text.byte_level import ByteLevelTokenizer
from model.text.languages import TARGET_CODE
from model.text.moses import FILE_TYPE as MOSES
from model.text.moses import MosesTokenizer
from model.text.ready_made import FILE_TYPE as READY_MADE
from model.text.ready_made import ReadyMadeTokenizer
from model.text.sentencepiece import FILE_TYPE as ONE_LANGUAGE
from model.text.sentencepiece import NO_FRAME, Frame, Segment, Segmenter, SentencePieceTokenizer
from model.text.tokenizer import Tokenizer

FILE_TYPE = "multilingual"


class MultilingualTokenizer(SentencePieceTokenizer):
    """Reads `>>fra<< sentence`, or `>>deu<< >>fra<< sentence` for a source that is not of the usual language.

    `source_code` is the usual language of the source.
    """

    def __init__(
        self, segmenter: Segmenter, vocabulary: Sequence[str], source_code: str, frame: Frame = NO_FRAME
    ) -> None:
        super().__init__(segmenter, vocabulary, frame)
        self.source_code = source_code

    @classmethod
    def from_json(cls, settings: Any, path: Path) -> MultilingualTokenizer:
        """As of every SentencePiece tokenizer. Raises UserError."""
        settings = dict(settings)
        code = settings.pop("source_code", None)
        one = SentencePieceTokenizer.from_json(settings | {"type": ONE_LANGUAGE}, path)
        if code not in one.language_codes:
            raise UserError(f"{path} has no language that is the source's; import the model again.")
        return cls(one.segmenter, one.vocabulary, code, one.frame)

    def to_json(self) -> str:
        rules = json.loads(super().to_json())
        return json.dumps(rules | {"type": FILE_TYPE, "source_code": self.source_code}, ensure_ascii=False)

    def first_ids(self, text: str) -> list[int]:
        """The code of the target language: the text's, or else the one that the model always writes."""
        codes, _ = self._split(text)
        return [self._ids[codes[-1]]] if codes else super().first_ids(text)

    def segments(self, text: str) -> list[Segment]:
        """The code of the source language and the pieces of the sentence."""
        codes, start = self._split(text)
        code = codes[0] if len(codes) > 1 else self.source_code
        pieces = self.segmenter.segment(text[start:].encode("utf-8", "replace").decode("utf-8"))
        return [Segment(code, True, 0), *(each._replace(start=each.start + start) for each in pieces)]

    def _split(self, text: str) -> tuple[list[str], int]:
        """The codes before the sentence, at most two, and where the sentence begins."""
        codes: list[str] = []
        start = 0
        while len(codes) < 2:
            place = start + len(text[start:]) - len(text[start:].lstrip())
            match = TARGET_CODE.match(text, place)
            if match is None or match.group() not in self._ids:
                break
            codes.append(match.group())
            start = match.end()
        return codes, start


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of one side, of a model trained here or imported. Raises UserError."""
    settings = read_json(path)
    kind = settings.get("type") if isinstance(settings, dict) else None
    if kind == ONE_LANGUAGE:
        return SentencePieceTokenizer.from_json(settings, path)
    if kind == FILE_TYPE:
        return MultilingualTokenizer.from_json(settings, path)
    if kind == BYTE_LEVEL:
        return ByteLevelTokenizer.from_json(settings, path)
    if kind == MOSES:
        return MosesTokenizer.from_json(settings, path)
    if kind == READY_MADE:
        return ReadyMadeTokenizer.from_json(settings, path)
    return Tokenizer.load(path)
