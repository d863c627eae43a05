"""SentencePiece tokenizers of imported models: the algorithm in plain Python, the model in plain JSON.

It cuts a text as Google's SentencePiece does (Kudo and Richardson 2018), which is not needed here. The
`tokenizers` package is not used, because its normalizer replaces whole grapheme clusters, where SentencePiece
replaces the longest match, and because it adds scores in 64 bits, where SentencePiece rounds each sum to 32.
"""

from __future__ import annotations

import base64
import codecs
import heapq
import json
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

from model.errors import Sentence, TooLongError, UserError, quote_untrusted
from model.files import read_json
from model.results import Token
from model.text.charsmap import Charsmap
from model.text.languages import TARGET_CODE
from model.text.tokenizer import BOS_ID, EOS_ID, SPACE, SPECIALS, UNK_ID, Tokenizer

Algorithm = Literal["unigram", "bpe"]
FILE_TYPE = "sentencepiece"
UNKNOWN_PENALTY = 10.0  # an unknown character costs this much more than the least likely piece
MAX_PIECE = 256  # characters; SentencePiece makes pieces of at most 16 by default
MAX_NORMALISED = 10_240  # characters; twice the longest text that is tokenised
MAX_LOOKUPS = 1 << 19  # of possible pieces in one text: 100 for each character of the longest one
MAX_ENTRIES = 260_000  # as in `model.network.config`
TOO_LONG = Sentence("The model's tokenizer makes this text too long; shorten it.")
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class Segment(NamedTuple):
    """A piece of a text: its string, whether the model knows it, and where it begins in the text."""

    piece: str
    known: bool
    start: int


@runtime_checkable
class Segmenter(Protocol):
    """Cuts a text into pieces."""

    @property
    def byte_fallback(self) -> bool:
        """Whether pieces such as <0xE2> are bytes."""

    def segment(self, text: str) -> list[Segment]:
        """Cut a text. Raises TooLongError."""


@dataclass(frozen=True)
class SentencePiece:
    """Cuts text of one language into pieces."""

    algorithm: Algorithm
    scores: Mapping[str, float]  # of each piece: a log-probability, or minus the rank of a BPE merge
    charsmap: Charsmap  # replaces characters before the text is cut
    add_space: bool = True  # before the first word, as before all others
    merge_spaces: bool = True  # and remove those at both ends
    byte_fallback: bool = False  # write an unknown character as its bytes in UTF-8

    def segment(self, text: str) -> list[Segment]:
        """Cut a text. Unknown characters in a row make one unknown segment.

        Raises TooLongError if the model makes the text too long to be cut, or cutting it too slow.
        """
        normalised, origins = self.normalise(text)
        segments: list[Segment] = []
        cut = self._unigram if self.algorithm == "unigram" else self._bpe
        for start, end in cut(normalised):
            piece, origin = normalised[start:end], origins[start]
            known = piece in self.scores
            if not known and self.byte_fallback:
                written = piece.replace(SPACE, " ").encode()  # only ByT5 has no piece for a space
                segments += (Segment(f"<0x{byte:02X}>", True, origin) for byte in written)
            elif not known and segments and not segments[-1].known:
                segments[-1] = segments[-1]._replace(piece=segments[-1].piece + piece)
            else:
                segments.append(Segment(piece, known, origin))
        return segments

    def normalise(self, text: str) -> tuple[str, list[int]]:
        """The text as it is cut, and the place in `text` where each of its characters comes from."""
        characters, origins = ([SPACE], [0]) if self.add_space else ([], [])
        after_space, start = self.merge_spaces, 0
        while start < len(text):
            replaced, end = self.charsmap.replace(text, start)
            if after_space:
                replaced = replaced.lstrip(" ")
            if replaced:
                characters += replaced.replace(" ", SPACE)
                origins += [start] * len(replaced)
                if len(characters) > MAX_NORMALISED:
                    raise TooLongError(TOO_LONG)
                after_space = self.merge_spaces and replaced.endswith(" ")
            start = end
        while self.merge_spaces and characters and characters[-1] == SPACE:
            characters.pop()
        return "".join(characters) if text else "", origins

    def _unigram(self, text: str) -> list[tuple[int, int]]:
        """The most probable segmentation: the Viterbi algorithm (Kudo 2018). Raises TooLongError."""
        if sum(self._longest_piece.get(character, 1) for character in text) > MAX_LOOKUPS:
            raise TooLongError(TOO_LONG)
        # Numbers of 32 bits, since SentencePiece rounds each sum: it decides between equal segmentations.
        best, rounded = array("f", bytes(4 * (len(text) + 1))), array("f", (0.0,))
        begins = [-1] * (len(text) + 1)
        for start, character in enumerate(text):
            before, last = best[start], min(start + self._longest_piece.get(character, 1), len(text))
            for end in range(start + 1, last + 1):
                score = self.scores.get(text[start:end])
                if score is None:
                    if end > start + 1:
                        continue
                    score = self._unknown_score
                rounded[0] = before + score
                if begins[end] < 0 or rounded[0] > best[end]:
                    best[end], begins[end] = rounded[0], start
        cuts, end = [], len(text)
        while end > 0:
            cuts.append((begins[end], end))
            end = begins[end]
        return cuts[::-1]

    def _bpe(self, text: str) -> list[tuple[int, int]]:
        """Join the neighbours of the best score, the leftmost first, until no two make a piece."""
        ends = list(range(1, len(text) + 1))  # of the symbol that begins at each place; 0 after a join
        previous = list(range(-1, len(text)))
        queue: list[tuple[float, int, int, int]] = []

        def offer(left: int, right: int) -> None:
            if left >= 0 and right < len(text):
                score = self.scores.get(text[left : ends[right]])
                if score is not None:
                    heapq.heappush(queue, (-score, left, right, ends[right]))

        for right in range(1, len(text)):
            offer(right - 1, right)
        while queue:
            _, left, right, end = heapq.heappop(queue)
            if ends[left] != right or ends[right] != end:  # one of the two was joined to another
                continue
            ends[left], ends[right] = end, 0
            previous[end] = left
            offer(previous[left], left)
            offer(left, end)
        return [(start, end) for start, end in enumerate(ends) if end]

    @cached_property
    def _unknown_score(self) -> float:
        return array("f", [min(self.scores.values(), default=0.0) - UNKNOWN_PENALTY])[0]

    @cached_property
    def _longest_piece(self) -> dict[str, int]:
        return _longest(self.scores)


def _longest(strings: Iterable[str]) -> dict[str, int]:
    """Length of the longest string that begins with each character."""
    lengths: dict[str, int] = {}
    for string in strings:
        lengths[string[0]] = max(lengths.get(string[0], 0), len(string))
    return lengths


class Frame(NamedTuple):
    """Entries of the vocabulary around a text; empty where the model has none."""

    before: str = ""  # the first token of every source, as <s> of BART
    after: str = ""  # follows the </s> of every source, as the code of its language in mBART-25
    first: str = ""  # the first token of every translation
    without: str = ""  # </s>, where no source ends with it, as in OpenNMT

    @classmethod
    def from_json(cls, settings: Mapping[Any, Any], vocabulary: Sequence[str], path: Path) -> Frame:
        """Those of a tokenizer file. Raises UserError for other settings."""
        if set(settings) - set(cls._fields) or any(each not in vocabulary for each in settings.values()):
            raise UserError(f"{path} is not a tokenizer of an imported model; import the model again.")
        return cls(**settings)

    def to_json(self) -> dict[str, str]:
        return {name: entry for name, entry in self._asdict().items() if entry}


NO_FRAME = Frame()


class SentencePieceTokenizer(Tokenizer):
    """One side of an imported model: its own pieces, looked up in a vocabulary that both sides may share.

    `vocabulary` lists the entries in the order of their ids. A text may begin with a code such as >>fra<<,
    which is one token.
    """

    segmenter: Segmenter

    def __init__(self, segmenter: Segmenter, vocabulary: Sequence[str], frame: Frame = NO_FRAME) -> None:
        self.segmenter = segmenter
        self.vocabulary = tuple(vocabulary)
        self.frame = frame
        first = len(SPECIALS)
        self._ids = {piece: index for index, piece in enumerate(vocabulary[first:], first)}

    @classmethod
    def load(cls, path: Path) -> SentencePieceTokenizer:
        """Read what `save` wrote. Raises UserError if the file is missing, broken or of another form."""
        return cls.from_json(read_json(path), path)

    @classmethod
    def from_json(cls, settings: Any, path: Path) -> SentencePieceTokenizer:
        """Check everything that the algorithm relies on. Raises UserError."""
        match settings:
            case {
                "type": "sentencepiece",
                "algorithm": "unigram" | "bpe" as algorithm,
                "vocabulary": list(vocabulary),
                "scores": dict(scores),
                "charsmap": str(charsmap),
                "add_space": bool(add_space),
                "merge_spaces": bool(merge_spaces),
                "byte_fallback": bool(byte_fallback),
                **rest,
            }:
                check_vocabulary(vocabulary, path)
                check_scores(scores, path)
                try:
                    table = Charsmap(base64.b64decode(charsmap, validate=True))
                except ValueError as error:
                    raise UserError(f"The charsmap in {path} is broken; import the model again.") from error
                rules = (algorithm, scores, table, add_space, merge_spaces, byte_fallback)
                frame = Frame.from_json(rest, vocabulary, path)
                return cls(SentencePiece(*rules), vocabulary, frame)
        raise UserError(f"{path} is not a tokenizer of an imported model; import the model again.")

    def to_json(self) -> str:
        segmenter = cast(SentencePiece, self.segmenter)
        rules = {each.name: getattr(segmenter, each.name) for each in fields(segmenter)}
        rules["charsmap"] = base64.b64encode(segmenter.charsmap.table).decode()
        rules |= self.frame.to_json()
        return json.dumps({"type": FILE_TYPE, "vocabulary": self.vocabulary} | rules, ensure_ascii=False)

    def __len__(self) -> int:
        return len(self.vocabulary)

    @property
    def language_codes(self) -> tuple[str, ...]:
        """The codes such as >>fra<< in the vocabulary, each of which may begin a source sentence."""
        if self.frame.after:  # the model has a code of its own
            return ()
        return tuple(piece for piece in self.vocabulary if TARGET_CODE.fullmatch(piece))

    @property
    def ending(self) -> tuple[int, ...]:
        """</s>, and what the model reads after it."""
        if self.frame.without:
            return ()
        return (EOS_ID, self._ids[self.frame.after]) if self.frame.after else super().ending

    def beginning(self, entry: str) -> SentencePieceTokenizer:
        """The same tokenizer, with which every translation begins with an entry of the vocabulary."""
        other = copy(self)
        other.frame = self.frame._replace(first=entry)
        return other

    def first_ids(self, text: str) -> list[int]:
        """The token with which every translation begins, if the model has one."""
        return [self._ids[self.frame.first]] if self.frame.first else []

    def segments(self, text: str) -> list[Segment]:
        """The pieces of a text with the code before it, if it begins with one, as MarianTokenizer cuts it."""
        text = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is not a character
        if self.frame.before:
            return [Segment(self.frame.before, True, 0), *self.segmenter.segment(text)]
        end = text.find("<<") + 2 if text.startswith(">>") else 0
        if end < 2:
            return self.segmenter.segment(text)
        rest = (each._replace(start=each.start + end) for each in self.segmenter.segment(text[end:]))
        return [Segment(text[:end], text[:end] in self._ids, 0), *rest]

    def encode(self, text: str) -> list[int]:
        """Ids of the text's tokens without </s>. What the vocabulary lacks becomes <unk>."""
        return self._lookup(self.segments(text))

    def _lookup(self, segments: Sequence[Segment]) -> list[int]:
        ids = [self._ids.get(segment.piece, UNK_ID) for segment in segments]
        if self.frame.before and ids:  # the <s> of most models, or else a copy of it, as in BART
            ids[0] = self._ids.get(self.frame.before, BOS_ID)
        return ids

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """`encode`, and the characters [start, end) of the text that each id was cut from."""
        segments = self.segments(text)
        starts = [segment.start for segment in segments]
        ids = self._lookup(segments)
        ends = [*starts[1:], len(text)] if starts else []
        return ids, list(zip(starts, ends, strict=True))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def spans_batch(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """The spans that `encode_spans` gives, for many texts."""
        return [self.encode_spans(text)[1] for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids. Special tokens, codes of languages and everything after </s> are left out."""
        pieces: list[str] = []
        for index in ids:
            if index == EOS_ID:
                break
            piece = self.vocabulary[index]
            if piece not in SPECIALS and not TARGET_CODE.fullmatch(piece):
                pieces.append(piece)
        text = "".join(pieces)
        if self.segmenter.byte_fallback:
            text = re.sub(rf"(?:{BYTE.pattern})+", _from_bytes, text)
        return text.replace(SPACE, " ").strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.vocabulary[index] for index in ids]

    def tokens(self, ids: Sequence[int], surfaces: Sequence[str] | None = None) -> tuple[Token, ...]:
        """As of every tokenizer; a language code is a special token, and so is a <s> that is no start."""
        return tuple(
            replace(token, special=True, word=None)
            if TARGET_CODE.fullmatch(token.piece) or (token.piece in SPECIALS and token.id != UNK_ID)
            else token
            for token in super().tokens(ids, surfaces)
        )

    def source_tokens(self, text: str) -> tuple[Token, ...]:
        """Tokens of a source sentence, </s> last. An unknown piece keeps the text that it was cut from."""
        segments = self.segments(text)
        pieces = [segment.piece for segment in segments]
        return self.tokens([*self._lookup(segments), *self.ending], [*pieces, *self.pieces(self.ending)])


def _from_bytes(pieces: re.Match[str]) -> str:
    """Byte pieces in a row as text; each byte that is not UTF-8 becomes U+FFFD."""
    values = bytes.fromhex("".join(BYTE.findall(pieces.group())))
    return values.decode("utf-8", "one-by-one")


def _one_by_one(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\N{REPLACEMENT CHARACTER}", error.start + 1


codecs.register_error("one-by-one", _one_by_one)


def check_scores(scores: Mapping[Any, Any], path: Path) -> None:
    """Raise UserError unless these are pieces of bounded length with finite scores."""
    check_pieces(list(scores), path)
    for piece, score in scores.items():
        if type(score) not in (int, float) or not abs(score) < 1e30:
            raise UserError(
                f"{path} gives the piece {quote_untrusted(piece)} a score that is not a usable number; "
                "copy it again."
            )


def check_vocabulary(vocabulary: Sequence[Any], path: Path) -> None:
    """Raise UserError unless the entries are text, the special tokens first."""
    if tuple(vocabulary[: len(SPECIALS)]) != SPECIALS:
        raise UserError(f"{path} must begin with the entries {' '.join(SPECIALS)}.")
    check_pieces(vocabulary, path)


def check_pieces(pieces: Sequence[Any], path: Path) -> None:
    """Raise UserError unless these entries of a vocabulary are text, and not too much of it."""
    if len(pieces) > MAX_ENTRIES:
        raise UserError(f"{path} has {len(pieces):,} entries; at most {MAX_ENTRIES:,} are read.")
    for piece in pieces:
        if not isinstance(piece, str) or not 0 < len(piece) <= MAX_PIECE or not _is_unicode(piece):
            raise UserError(
                f"{path} has the entry {quote_untrusted(piece)}, which is not text of 1 to {MAX_PIECE} "
                "characters; copy it again."
            )


def _is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8, which half a surrogate pair cannot."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
