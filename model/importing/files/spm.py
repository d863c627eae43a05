"""Reads SentencePiece model files (.spm), protocol buffers as in sentencepiece_model.proto."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

from model.errors import UserError
from model.files import read_bytes
from model.text.charsmap import Charsmap
from model.text.sentencepiece import MAX_ENTRIES, Algorithm, SentencePiece, check_scores

MAX_FIELDS = MAX_ENTRIES + 100  # each piece is a field
MAX_BYTES = 16 << 20  # OPUS-MT's have 0.8 MB
# Fields of the messages.
PIECES, TRAINER, NORMALIZER, DENORMALIZER = 1, 2, 3, 5
PIECE, SCORE, TYPE = 1, 2, 3
MODEL_TYPE, SPACE_IS_SUFFIX, BYTE_FALLBACK = 3, 24, 35
TABLE, ADD_SPACE, MERGE_SPACES, ESCAPE_SPACES = 2, 3, 4, 5
# Types of pieces.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
ALGORITHMS: dict[int, Algorithm] = {1: "unigram", 2: "bpe"}


class Spm(NamedTuple):
    """A .spm file: what cuts a text, and all pieces in the order of their ids."""

    segmenter: SentencePiece
    pieces: tuple[str, ...]


def read_spm(path: Path) -> Spm:
    """Read a .spm file. Raises UserError if the file is broken or needs what is not supported."""
    data = read_bytes(path, MAX_BYTES)
    try:
        message = _message(data)
        trainer, normalizer = (_message(_last(message, name, b"")) for name in (TRAINER, NORMALIZER))
        denormalizer = _message(_last(message, DENORMALIZER, b""))
        pieces = [_piece(_message(data)) for data in message.get(PIECES, ())]
        charsmap = Charsmap(bytes(_last(normalizer, TABLE, b"")))
        algorithm = ALGORITHMS.get(_last(trainer, MODEL_TYPE, 1))
        space_is_suffix = _last(trainer, SPACE_IS_SUFFIX, 0)
        escapes_spaces = _last(normalizer, ESCAPE_SPACES, 1)
        changes_decoded = _last(denormalizer, TABLE, b"")
        add_space, merge_spaces = (bool(_last(normalizer, name, 1)) for name in (ADD_SPACE, MERGE_SPACES))
        byte_fallback = bool(_last(trainer, BYTE_FALLBACK, 0))
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise UserError(f"{path} is not a SentencePiece model, or it is cut short; copy it again.") from error
    types = {piece.type for piece in pieces}
    for found, what in (
        (algorithm is None, "is of words or characters"),
        (space_is_suffix, "marks spaces at the end of a piece"),
        (not escapes_spaces, "does not mark spaces"),
        (changes_decoded, "changes the text that it decodes"),
        (USER_DEFINED in types, "has pieces that its user defined"),
        (UNUSED in types, "has pieces that are not used"),
    ):
        if found:
            raise UserError(f"The SentencePiece model {path} {what}, which Headlight cannot do.")
    scores = {piece.text: piece.score for piece in pieces if piece.type == NORMAL}
    check_scores(scores, path)
    if not scores:
        raise UserError(f"{path} is not a SentencePiece model: it has no pieces; copy it again.")
    segmenter = SentencePiece(
        algorithm or "unigram",
        scores,
        charsmap,
        add_space=add_space,
        merge_spaces=merge_spaces,
        byte_fallback=byte_fallback,
    )
    return Spm(segmenter, tuple(piece.text for piece in pieces))


class _Piece(NamedTuple):
    text: str
    score: float
    type: int


def _piece(message: dict[int, list[Any]]) -> _Piece:
    (score,) = struct.unpack("<f", _last(message, SCORE, bytes(4)))
    return _Piece(str(_last(message, PIECE, b""), "utf-8"), score, _last(message, TYPE, NORMAL))


def _last(message: dict[int, list[Any]], name: int, default: Any) -> Any:
    """A field's value: the last one counts. Raises ValueError if it is of another kind than the default."""
    value = message.get(name, [default])[-1]
    if isinstance(value, int) != isinstance(default, int):
        raise ValueError("field of another type")
    return value


def _message(data: memoryview | bytes) -> dict[int, list[Any]]:
    """The fields of a protocol buffer: whole numbers, or bytes.

    Raises ValueError or IndexError if it is broken or has too many fields, and TypeError if it is a number.
    """
    fields: dict[int, list[Any]] = {}
    data, place, count = memoryview(data), 0, 0
    while place < len(data):
        key, place = _whole_number(data, place)
        value: Any
        wire_type = key & 7
        if wire_type == 0:
            value, place = _whole_number(data, place)
        else:
            if wire_type == 2:
                length, place = _whole_number(data, place)
            elif wire_type in (1, 5):
                length = 8 if wire_type == 1 else 4
            else:
                raise ValueError("unknown wire type")
            if place + length > len(data):
                raise ValueError("cut short")
            value, place = data[place : place + length], place + length
        count += 1
        if count > MAX_FIELDS:
            raise ValueError("too many pieces")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _whole_number(data: memoryview, place: int) -> tuple[int, int]:
    """A variable-length integer, seven bits in each byte, and where it ends."""
    value = data[place]
    if value < 128:  # most are
        return value, place + 1
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("number too long")
