"""Tokenizer: text to tokens and back, by joint BPE, words or characters.

All three kinds mark a preceding space inside the piece, as U+2581. So joining the pieces restores the
text exactly: spaces, punctuation, umlauts and apostrophes included.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import tokenizers
import torch
from jaxtyping import Int
from tokenizers import models, pre_tokenizers, trainers
from torch import Tensor

from model.errors import UserError, quote_untrusted
from model.files import read_json
from model.results import Token
from model.text.scripts import INVISIBLE

PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
SPECIALS = (PAD, UNK, BOS, EOS)
PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
SPACE = "\u2581"
MAX_PIECE = 100  # characters of a vocabulary entry, the space before a word included
COVERAGE = 0.9995  # of the text; a vocabulary has its most frequent characters, as in SentencePiece
MIN_ALPHABET = 500  # at least so many characters
MAX_ALPHABET = 0.75  # of the entries are characters at most, so that pairs of characters have room
LONG_WORD = re.compile(rf"[^\s]{{{MAX_PIECE - 1}}}(?=[^\s])")

TokenizerKind = Literal["bpe", "word", "character"]
TOKENIZER_KINDS: tuple[TokenizerKind, ...] = get_args(TokenizerKind)


def normalise(text: str) -> str:
    """Unicode NFC with single spaces and no invisible characters; the form that decoding restores."""
    text = INVISIBLE.sub("", text.encode("utf-8", "replace").decode("utf-8"))  # replaces lone surrogates
    return " ".join(unicodedata.normalize("NFC", text).replace(SPACE, " ").split())


def split_long_words(text: str) -> str:
    """Put a space after each 99 characters of a longer word.

    A vocabulary is learned from the result: the time for a word grows with the square of its length.
    """
    return LONG_WORD.sub(r"\g<0> ", text)


class Tokenizer:
    """A vocabulary with its rules for splitting text. Ids 0 to 3 are <pad> <unk> <s> </s>."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        kind: TokenizerKind,
        vocabulary: int = 8000,
        min_frequency: int = 1,
    ) -> Tokenizer:
        """Learn a vocabulary of at most `vocabulary` entries from sentences, which are read twice for BPE."""
        trainer: trainers.BpeTrainer | trainers.WordLevelTrainer
        if kind == "bpe":
            backend = tokenizers.Tokenizer(models.BPE(unk_token=UNK, fuse_unk=True))
            sentences = list(sentences) if isinstance(sentences, Iterator) else sentences
            trainer = trainers.BpeTrainer(limit_alphabet=_alphabet(sentences, vocabulary))
        else:
            backend = tokenizers.Tokenizer(models.WordLevel(unk_token=UNK))
            trainer = trainers.WordLevelTrainer()
        trainer.special_tokens, trainer.show_progress = list(SPECIALS), False
        trainer.vocab_size, trainer.min_frequency = vocabulary, min_frequency
        backend.pre_tokenizer = _pre_tokenizer(kind)
        # A special token that a user types is ordinary text, never a control symbol.
        backend.encode_special_tokens = True
        backend.train_from_iterator(map(split_long_words, map(normalise, sentences)), trainer)
        return cls(backend)

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read the file that `save` wrote. Raises UserError if it is missing, broken or not ours.

        Its rules must be those that `train` sets. Other rules could crash or hang the process: the library
        aborts on some settings, and a regular expression can take exponential time.
        """
        return cls.from_json(read_json(path), path)

    @classmethod
    def from_json(cls, settings: Any, path: Path) -> Tokenizer:
        """The tokenizer of the settings in a file, checked as `load` does. Raises UserError."""
        ours = (json.loads(cls.train((), kind).to_json()) for kind in TOKENIZER_KINDS)
        if _rules(settings) not in map(_rules, ours):
            raise UserError(f"{path} is not a tokenizer file of Headlight; write it with Tokenizer.save.")
        _check_vocabulary(settings["model"]["vocab"], path)
        try:
            backend = tokenizers.Tokenizer.from_str(json.dumps(settings))
        except Exception as error:  # the library raises bare Exception
            raise UserError(
                f"{path} is not a tokenizer file ({quote_untrusted(str(error))}); copy it again."
            ) from error
        backend.encode_special_tokens = True
        return cls(backend)

    def to_json(self) -> str:
        """The tokenizer in the JSON format of the library."""
        return str(self._backend.to_str())

    def save(self, path: Path) -> None:
        text = json.dumps(json.loads(self.to_json()), ensure_ascii=False, indent=0)
        path.write_text(text, encoding="utf-8")

    def __len__(self) -> int:
        return int(self._backend.get_vocab_size())

    @property
    def language_codes(self) -> tuple[str, ...]:
        """The codes such as >>fra<<, one of which must begin a source sentence. Here none."""
        return ()

    def first_ids(self, text: str) -> list[int]:
        """The tokens with which the model begins every translation of this text. Here none."""
        return []

    @property
    def ending(self) -> tuple[int, ...]:
        """The ids after the ids of a source sentence: </s>."""
        return (EOS_ID,)

    def encode(self, text: str) -> list[int]:
        """Ids of the text's tokens without <s> and </s>; unknown characters become <unk>."""
        return list(self._backend.encode(normalise(text), add_special_tokens=False).ids)

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """`encode`, with the span [start, end) of each id in the normalised text."""
        encoding = self._backend.encode(normalise(text), add_special_tokens=False)
        return list(encoding.ids), list(encoding.offsets)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many texts, in parallel."""
        encodings = self._backend.encode_batch_fast(
            [normalise(text) for text in texts], add_special_tokens=False
        )
        return [list(encoding.ids) for encoding in encodings]

    def spans_batch(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """The spans that `encode_spans` gives, for many texts, in parallel."""
        encodings = self._backend.encode_batch([normalise(text) for text in texts], add_special_tokens=False)
        return [list(encoding.offsets) for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids up to </s>, without special tokens."""
        known = (index for index in takewhile(EOS_ID.__ne__, ids) if index not in (PAD_ID, BOS_ID, UNK_ID))
        return "".join(self.pieces(known)).replace(SPACE, " ").strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [str(self._backend.id_to_token(index)) for index in ids]

    def spell(self, piece: str) -> list[int]:
        """Ids of the pieces that make up a piece of another vocabulary, its space included."""
        return [token.id for token in self._backend.model.tokenize(piece)]

    def source_tokens(self, text: str) -> tuple[Token, ...]:
        """Tokens of a source sentence, </s> last; <unk> keeps the text that it replaces."""
        text = normalise(text)
        ids, spans = self.encode_spans(text)
        surfaces = [text[start:end].replace(" ", SPACE) for start, end in spans]
        return self.tokens([*ids, EOS_ID], [*surfaces, EOS])

    def tokens(self, ids: Sequence[int], surfaces: Sequence[str] | None = None) -> tuple[Token, ...]:
        """Ids as tokens to show, each with the index of its word.

        `surfaces` has the text of each id in the sentence, with spaces marked as in pieces. It is shown
        for an unknown piece; without it <unk> is shown.
        """
        pieces = self.pieces(ids)
        written = list(pieces)
        if surfaces is not None:
            written = [s if i == UNK_ID else p for i, s, p in zip(ids, surfaces, pieces, strict=True)]
        words = _word_indices(ids, written)
        return tuple(
            Token(piece, text.replace(SPACE, "") or " ", word, index < len(SPECIALS), index)
            for index, piece, text, word in zip(ids, pieces, written, words, strict=True)
        )


def _alphabet(sentences: Iterable[str], vocabulary: int) -> int:
    """How many characters a vocabulary of this size knows."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(normalise(sentence))
    del counts[" "]
    covered = np.cumsum([count for _, count in counts.most_common()], dtype=np.int64)
    wanted = int(np.searchsorted(covered, COVERAGE * covered[-1])) + 1 if len(covered) else 0
    return max(MIN_ALPHABET, min(wanted, int(MAX_ALPHABET * vocabulary)))


# A sequence of letters, one digit or one punctuation mark, each with the space before it.
PRE_TOKEN = tokenizers.Regex(rf"{SPACE}?(\p{{L}}[\p{{L}}\p{{M}}]*|[^\p{{L}}{SPACE}])|{SPACE}")


def _pre_tokenizer(kind: TokenizerKind) -> pre_tokenizers.PreTokenizer:
    prepend = "never" if kind == "character" else "always"
    spaces = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=prepend, split=False)
    pattern = "" if kind == "character" else PRE_TOKEN
    return pre_tokenizers.Sequence([spaces, pre_tokenizers.Split(pattern, behavior="isolated")])


def _rules(settings: Any) -> Any:
    """A tokenizer file without its learned vocabulary and merges; None if it has no vocabulary."""
    match settings:
        case {"model": {"vocab": _, **model}}:
            return settings | {"model": {name: rule for name, rule in model.items() if name != "merges"}}
    return None


def _check_vocabulary(vocabulary: Any, path: Path) -> None:
    """Raise UserError unless the ids are 0, 1, 2 and so on, as the rows of the embedding are."""
    entries = vocabulary if isinstance(vocabulary, dict) else {}
    if [entries.get(special) for special in SPECIALS] != list(range(len(SPECIALS))):
        raise UserError(f"{path} must begin with the entries {' '.join(SPECIALS)}.")
    if sorted(each for each in entries.values() if type(each) is int) != list(range(len(entries))):
        raise UserError(f"{path} has missing or repeated ids; copy it from the run again.")
    if (longest := max(map(len, entries))) > MAX_PIECE:
        raise UserError(
            f"{path} has an entry of {longest:,} characters; at most {MAX_PIECE} are read. Train it again."
        )


def _word_indices(ids: Sequence[int], pieces: Sequence[str]) -> list[int | None]:
    """The word index of each id; a new word begins at each space and each punctuation mark.

    A space that is a piece of its own belongs to the next word.
    """
    indices: list[int | None] = []
    word, previous = -1, ""
    for index, piece in zip(ids, pieces, strict=True):
        if index in (PAD_ID, BOS_ID, EOS_ID):
            indices.append(None)
            previous = ""
            continue
        meets_mark = previous != SPACE and (_is_mark(piece[:1]) or _is_mark(previous[-1:]))
        if not previous or piece.startswith(SPACE) or meets_mark:
            word += 1
        indices.append(word)
        previous = piece
    return indices


def _is_mark(character: str) -> bool:
    return character != "" and unicodedata.category(character)[0] in "PSZ"


def pad(rows: Sequence[Sequence[int]]) -> Int[Tensor, "B S"]:
    """Rows of ids as one tensor, padded on the right."""
    lengths = np.array(list(map(len, rows)))
    padded = np.full((len(rows), lengths.max()), PAD_ID)
    padded[np.arange(lengths.max()) < lengths[:, None]] = np.fromiter(chain.from_iterable(rows), np.int64)
    return torch.from_numpy(padded)
