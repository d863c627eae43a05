"""Tokenizers of GPT-2's kind, which BART has: byte-pair encoding of the bytes of a text.

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2. The `tokenizers`
package cuts the text; its rules are fixed here, and only vocabulary and merges come from a checkpoint. GPT-2
writes each byte as one printable character. Here a piece is written as its text, with ▁ for a space, or as
its bytes, such as <0xE2>, where they are not text on their own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, pre_tokenizers

from model.errors import TooLongError, UserError, quote_untrusted
from model.text.sentencepiece import (
    BYTE,
    TOO_LONG,
    Frame,
    Segment,
    SentencePieceTokenizer,
    check_vocabulary,
)
from model.text.tokenizer import SPACE, SPECIALS

FILE_TYPE = "byte-level"
MAX_MERGES = 300_000
MAX_WORD = 1000  # characters without a space: the time for a word grows faster than its length
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
# GPT-2's character of each byte: printable ones are their own, the others follow from U+0100 on.
LETTERS = {byte: chr(byte) for byte in _PRINTABLE}
LETTERS |= {byte: chr(0x100 + place) for place, byte in enumerate(b for b in range(256) if b not in LETTERS)}
BYTES = {letter: byte for byte, letter in LETTERS.items()}


def readable(letters: str) -> str:
    """A piece in GPT-2's letters as Headlight writes it; what is not made of these letters stays."""
    if any(letter not in BYTES for letter in letters):
        return letters
    data = bytes(BYTES[letter] for letter in letters)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = SPACE  # not text
    if SPACE in text or BYTE.search(text):
        return "".join(f"<0x{byte:02X}>" for byte in data)
    return text.replace(" ", SPACE)


def in_letters(piece: str) -> str:
    """A piece as Headlight writes it in GPT-2's letters."""
    found = BYTE.findall(piece)
    data = bytes.fromhex("".join(found)) if found else piece.replace(SPACE, " ").encode()
    return "".join(LETTERS[byte] for byte in data)


@dataclass(frozen=True)
class BytePairs:
    """Cuts a text into pieces. `pieces` are all that merges can make, as Headlight writes them."""

    pieces: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]  # in GPT-2's letters, the first one first
    add_space: bool  # before a text that does not begin with one
    byte_fallback = True  # pieces such as <0xE2> are bytes

    @cached_property
    def _backend(self) -> tokenizers.Tokenizer:
        vocabulary = {in_letters(piece): index for index, piece in enumerate(self.pieces)}
        backend = tokenizers.Tokenizer(models.BPE(vocabulary, list(self.merges)))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=self.add_space, use_regex=True)
        return backend

    def segment(self, text: str) -> list[Segment]:
        """Cut a text. Raises TooLongError if a word is too long to be cut."""
        if max(map(len, text.split()), default=0) > MAX_WORD:
            raise TooLongError(TOO_LONG)
        found = self._backend.encode(text, add_special_tokens=False)
        return [
            Segment(readable(token), True, start)
            for token, (start, _) in zip(found.tokens, found.offsets, strict=True)
        ]

    def check(self, path: Path) -> None:
        """Raise UserError unless every byte has a piece and every merge makes one."""
        known = set(map(in_letters, self.pieces))
        if missing := [letter for letter in BYTES if letter not in known]:
            raise UserError(f"{path} has no piece for {len(missing)} of the 256 bytes; copy it again.")
        if len(self.merges) > MAX_MERGES:
            raise UserError(f"{path} has {len(self.merges):,} merges; at most {MAX_MERGES:,} are read.")
        for left, right in self.merges:
            if not {left, right, left + right} <= known:
                raise UserError(
                    f"{path} merges {quote_untrusted(left)} and {quote_untrusted(right)}, which are not both "
                    "pieces, or what they make is none; copy it again."
                )


class ByteLevelTokenizer(SentencePieceTokenizer):
    """One side of an imported model whose pieces are pairs of bytes."""

    segmenter: BytePairs

    @classmethod
    def from_json(cls, settings: Any, path: Path) -> ByteLevelTokenizer:
        """Check everything that the library relies on. Raises UserError."""
        match settings:
            case {
                "type": "byte-level",
                "vocabulary": list(vocabulary),
                "merges": list(merges),
                "add_space": bool(add_space),
                **rest,
            }:
                check_vocabulary(vocabulary, path)
                pairs = [merge.split(" ") if isinstance(merge, str) else [] for merge in merges]
                if any(len(pair) != 2 for pair in pairs):
                    raise UserError(f"{path} has merges that are not pairs; import the model again.")
                segmenter = byte_pairs(vocabulary, [(left, right) for left, right in pairs], add_space)
                segmenter.check(path)
                return cls(segmenter, vocabulary, Frame.from_json(rest, vocabulary, path))
        raise UserError(f"{path} is not a tokenizer of an imported model; import the model again.")

    def to_json(self) -> str:
        rules = {
            "type": FILE_TYPE,
            "vocabulary": self.vocabulary,
            "merges": [" ".join(merge) for merge in self.segmenter.merges],
            "add_space": self.segmenter.add_space,
        }
        return json.dumps(rules | self.frame.to_json(), ensure_ascii=False)


def byte_pairs(vocabulary: Sequence[str], merges: Sequence[tuple[str, str]], add_space: bool) -> BytePairs:
    """The segmenter of a vocabulary; special tokens and unused entries are no pieces of a text."""
    made = set(BYTES) | {left + right for left, right in merges}
    pieces = tuple(
        piece for piece in dict.fromkeys(vocabulary) if piece not in SPECIALS and in_letters(piece) in made
    )
    return BytePairs(pieces, tuple(merges), add_space)
