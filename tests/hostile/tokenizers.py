"""Tokenizers of imported models that would take minutes for a short text."""

from __future__ import annotations

import struct

from model.storage.checkpoint import Checkpoint
from model.text.charsmap import Charsmap
from model.text.sentencepiece import MAX_PIECE, SentencePiece, SentencePieceTokenizer
from model.text.tokenizer import SPECIALS
from tests.model.helpers import INFO, random_model, trained

LETTER = "a"
GROWTH = 127  # characters that one letter becomes


def trie(edge: int, leaf: int = 0) -> bytes:
    """A charsmap whose trie has one edge, for the letter; `edge` and `leaf` are its units."""
    units = [1 << 31] * 512
    units[0] = 256 << 10  # the children of the root begin at 256
    units[256 ^ ord(LETTER)], units[256 ^ ord(LETTER) ^ 1] = edge, leaf
    return struct.pack("<I512I", 4 * 512, *units)


def growing() -> bytes:
    """Makes many letters of one."""
    has_value, first_child = 1 << 8, 1 << 10
    return trie(first_child | has_value | ord(LETTER), 1 << 31) + LETTER.encode() * GROWTH + b"\0"


def cyclic() -> bytes:
    """A trie whose edge leads back to its root, so that a match never ends."""
    return trie(ord(LETTER) << 10 | ord(LETTER))


def slow_tokenizer(longest: int = MAX_PIECE) -> SentencePieceTokenizer:
    """Letters become many letters, and every run of them is a piece."""
    pieces = [LETTER * length for length in range(1, longest + 1)]
    rules = SentencePiece("unigram", {piece: -float(len(piece)) for piece in pieces}, Charsmap(growing()))
    return SentencePieceTokenizer(rules, [*SPECIALS, *pieces])


def slow_checkpoint() -> Checkpoint:
    """A small model with such a tokenizer for its source."""
    source, target = slow_tokenizer(), trained("character")
    sizes = {"source_vocabulary": len(source), "target_vocabulary": len(target)}
    return Checkpoint(random_model(0, tied=False, **sizes), source, target, INFO)
