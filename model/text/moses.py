"""Tokenizers of the first fairseq models: the words of Moses (Koehn et al. 2007), cut by byte-pair encoding.

Byte-pair encoding as of Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units":
the last piece of a word ends with </w>. The package sacremoses finds the words and joins them again; it is
needed for these models alone.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from model.errors import TooLongError, UserError
from model.results import Token
from model.text.sentencepiece import TOO_LONG, Segment, SentencePieceTokenizer, check_vocabulary
from model.text.tokenizer import EOS_ID, SPECIALS, Tokenizer

FILE_TYPE = "moses"
END = "</w>"  # of a word
LANGUAGE = re.compile(r"[a-z]{2,3}")
MAX_WORD = 200  # characters: the time for a word grows with the square of its length
MAX_MERGES = 300_000
# Punctuation and digits of full width, and quotation marks, as the Moses scripts write them.
ASCII = str.maketrans(
    dict(zip("，、”“∶：？《》）！（；」「～’━〈〉【】％", ',,""::?"")!(;""~\'-<>[]%', strict=True))
    | {chr(0xFF10 + digit): str(digit) for digit in range(10)}
    | {"…": "..."}
)
FULL_STOP = re.compile(r"[。．]\s*")


@dataclass(frozen=True)
class MosesPieces:
    """Cuts a text of one language into pieces. Raises UserError if sacremoses is not installed."""

    language: str  # of two or three letters
    merges: tuple[tuple[str, str], ...]  # the first one first
    lower_case: bool
    byte_fallback = False

    @cached_property
    def _ranks(self) -> Mapping[tuple[str, str], int]:
        return {pair: rank for rank, pair in enumerate(self.merges)}

    @cached_property
    def _normaliser(self) -> Any:
        return sacremoses().MosesPunctNormalizer(lang=self.language)

    @cached_property
    def _words(self) -> Any:
        return sacremoses().MosesTokenizer(lang=self.language)

    @cached_property
    def _joiner(self) -> Any:
        return sacremoses().MosesDetokenizer(lang=self.language)

    def segment(self, text: str) -> list[Segment]:
        """Cut a text. Raises TooLongError if a word is too long to be cut."""
        found, place = [], 0
        for word in self._split(text):
            if len(word) > MAX_WORD:
                raise TooLongError(TOO_LONG)
            # Moses changes words; one that is not in the text begins where the last one did.
            place = max(place, text.find(word, place))
            found += [Segment(piece, True, place) for piece in self.cut(word)]
        return found

    def _split(self, text: str) -> list[str]:
        text = text.lower() if self.lower_case else text
        text = self._normaliser.normalize(FULL_STOP.sub(". ", text.translate(ASCII)))
        text = "".join(each for each in text if not unicodedata.category(each).startswith("C"))
        words: list[str] = self._words.tokenize(
            text, aggressive_dash_splits=True, return_str=False, escape=True
        )
        return [word for word in words if word]

    def cut(self, word: str) -> list[str]:
        """The pieces of one word: merge the pair of the lowest rank until no pair can be merged."""
        pieces = [*word[:-1], word[-1] + END]
        while len(pieces) > 1:
            pairs = set(pairwise(pieces)) & self._ranks.keys()
            if not pairs:
                break
            left, right = min(pairs, key=self._ranks.__getitem__)
            merged: list[str] = []
            for piece in pieces:
                # What was merged is longer than `left`, so it is not merged again.
                if merged and merged[-1] == left and piece == right:
                    merged[-1] = left + right
                else:
                    merged.append(piece)
            pieces = merged
        return pieces

    def join(self, pieces: Iterable[str]) -> str:
        words = "".join(pieces).replace(END, " ").split()
        return str(self._joiner.detokenize(words))


def sacremoses() -> Any:
    """The package. Raises UserError if it is not installed."""
    try:
        import sacremoses as package
    except ImportError as error:
        raise UserError(
            "This model cuts text into the words of Moses; install what finds them: pip install sacremoses."
        ) from error
    return package


class MosesTokenizer(SentencePieceTokenizer):
    """One side of an imported model with the words of Moses."""

    segmenter: MosesPieces

    @classmethod
    def from_json(cls, settings: Any, path: Path) -> MosesTokenizer:
        """Check everything that the algorithm relies on. Raises UserError."""
        match settings:
            case {
                "type": "moses",
                "vocabulary": list(vocabulary),
                "language": str(language),
                "lower_case": bool(lower_case),
                "merges": list(merges),
                **rest,
            } if not rest and LANGUAGE.fullmatch(language):
                check_vocabulary(vocabulary, path)
                return cls(MosesPieces(language, pairs_of(merges, path), lower_case), vocabulary)
        raise UserError(f"{path} is not a tokenizer of an imported model; import the model again.")

    def to_json(self) -> str:
        rules = {
            "language": self.segmenter.language,
            "lower_case": self.segmenter.lower_case,
            "merges": [" ".join(pair) for pair in self.segmenter.merges],
        }
        settings = {"type": FILE_TYPE, "vocabulary": self.vocabulary} | rules
        return json.dumps(settings, ensure_ascii=False)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids up to </s>, without special tokens."""
        pieces = (self.vocabulary[index] for index in takewhile(EOS_ID.__ne__, ids))
        return self.segmenter.join(piece for piece in pieces if piece not in SPECIALS)

    def tokens(self, ids: Sequence[int], surfaces: Sequence[str] | None = None) -> tuple[Token, ...]:
        """Ids as tokens to show; a word ends with the piece that says so."""
        shown, word, ended = [], -1, True
        for token in Tokenizer.tokens(self, ids, surfaces):
            special = token.special or token.piece in SPECIALS
            word += ended and not special
            # An unknown piece may be the last of its word.
            ended = special or token.text.endswith(END) or (ended and token.piece == SPECIALS[1])
            text = token.text.removesuffix(END) or token.text
            shown.append(replace(token, text=text, special=special, word=None if special else word))
        return tuple(shown)


def pairs_of(merges: Sequence[Any], path: Path) -> tuple[tuple[str, str], ...]:
    """Merges as pairs of pieces; a count may follow them. Raises UserError for other lines."""
    found = [merge.split(" ")[:2] if isinstance(merge, str) else [] for merge in merges]
    if len(found) > MAX_MERGES or any(len(pair) != 2 or not all(pair) for pair in found):
        raise UserError(f"{path} has merges that are not pairs of pieces, or too many; copy it again.")
    return tuple((left, right) for left, right in found)
