"""The tokenizers of a checkpoint: SentencePiece models of both sides over one vocabulary or two."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from model.errors import UserError, quote_untrusted
from model.files import MAX_TEXT_BYTES, decode_lines, read_bytes, read_json
from model.importing.files.settings import CONFIG, TOKENIZER, Settings, settings_of
from model.importing.files.spm import read_spm
from model.text.languages import TARGET_CODE
from model.text.sentencepiece import SentencePiece, SentencePieceTokenizer, check_pieces
from model.text.tokenizer import EOS, PAD, SPECIALS, UNK, Tokenizer

VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
TOKENIZER_JSON = "tokenizer.json"
MERGES = "merges.txt"
FSMT_VOCABULARIES = ("vocab-src.json", "vocab-tgt.json")
SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
SPM, SPIECE = "sentencepiece.bpe.model", "spiece.model"  # of both languages, the latter in T5
# The token of a language in NLLB or mBART (fra_Latn, fr_XX), or in M2M100 (__fr__).
LANGUAGE = re.compile(r"([a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2})|__([a-z]{2,3})__")
# Tokens of other tasks, and fillers; they are no part of a sentence to translate.
OTHER_TASKS = re.compile(
    r"<(s|/s|pad|unk|mask|mask_\d|sep|cls|eop|eod|special)>|<extra_id_\d+>|<unk_\d+>|madeupword\d+"
)
VOCABULARY_FILES = (
    VOCABULARY,
    TARGET_VOCABULARY,
    *FSMT_VOCABULARIES,
    TOKENIZER_JSON,
    MERGES,
)
SPM_FILES = (SOURCE_SPM, TARGET_SPM, SPM, SPIECE)


class SpecialIds(NamedTuple):
    """What config.json says of the target vocabulary."""

    pad: int
    eos: int
    start: int  # what the decoder reads first; usually <pad>

    @classmethod
    def of(cls, values: Settings) -> SpecialIds:
        """The ids under their names in config.json."""
        return cls(values["pad_token_id"], values["eos_token_id"], values["decoder_start_token_id"])


class Side(NamedTuple):
    """The tokenizer of one language, and for each of its ids the row in the checkpoint's matrices."""

    tokenizer: Tokenizer
    order: Int[Tensor, " V"]


class Sides(NamedTuple):
    """Both sides of a checkpoint."""

    source: Side
    target: Side
    languages: tuple[str, str] | None = None  # their codes; None: those that the files name


def read_tokenizers(directory: Path, sizes: tuple[int, int], ids: SpecialIds) -> tuple[Side, Side]:
    """Source and target side. `sizes` are the sizes of their vocabularies. Raises UserError."""
    separate = settings_of(directory / TOKENIZER).get("separate_vocabs", False) is True
    if not separate and sizes[0] != sizes[1]:
        raise UserError(f"{directory / CONFIG} has two sizes of vocabularies but there is only {VOCABULARY}.")
    source = target = _read_vocabulary(directory / VOCABULARY, sizes[0])
    if separate:
        target = _read_vocabulary(directory / TARGET_VOCABULARY, sizes[1])
    pad, eos, start = ids
    if (target[PAD], target[EOS]) != (pad, eos) or not 0 <= start < sizes[1]:
        raise UserError(
            f"{directory} has other ids of {PAD} and {EOS} in its vocabulary than in {CONFIG}; copy both "
            "from the same checkpoint."
        )
    return (
        _side(directory / SOURCE_SPM, source, sizes[0], start if source is target else source[PAD]),
        _side(directory / TARGET_SPM, target, sizes[1], start),
    )


def _side(spm: Path, ids: dict[str, int], size: int, start: int) -> Side:
    """Ours begins with <pad> <unk> <s> </s>; the decoder's first token becomes <s>."""
    entries = {index: entry for entry, index in ids.items()}
    special = (ids[PAD], ids[UNK], ids[EOS])
    rest = [index for index in range(size) if index not in special]
    order = torch.tensor([ids[PAD], ids[UNK], start, ids[EOS], *rest])
    vocabulary = [*SPECIALS, *(entries.get(index, unused(index)) for index in rest)]
    return Side(SentencePieceTokenizer(read_spm(spm).segmenter, vocabulary), order)


def side_of(
    segmenter: SentencePiece, entries: Mapping[int, str], size: int, ids: SpecialIds, directory: Path
) -> Side:
    """The side of a SentencePiece model over a vocabulary with these entries. Raises UserError."""
    vocabulary, order = ordered(entries, size, ids, directory)
    return Side(SentencePieceTokenizer(segmenter, vocabulary), order)


def ordered(
    entries: Mapping[int, str], size: int, ids: SpecialIds, directory: Path
) -> tuple[list[str], Int[Tensor, " V"]]:
    """The entries in our order, and their rows; rows without an entry are unused tokens.

    Raises UserError if the entries and the special tokens do not fit the size.
    """
    unknown = next((index for index, entry in entries.items() if entry == UNK), None)
    if unknown is None:
        raise UserError(f"{directory} has a tokenizer without the entry {UNK}, which Headlight needs.")
    special = (ids.pad, unknown, ids.eos)
    if any(not 0 <= index < size for index in (*entries, *special, ids.start)) or len(set(special)) < 3:
        raise UserError(
            f"{directory} has a tokenizer that does not fit {CONFIG}; copy both from the same checkpoint."
        )
    check_pieces(list(entries.values()), directory)
    rest = [index for index in range(size) if index not in special]
    if ids.start not in special and entries.get(ids.start) in SPECIALS:
        rest.remove(ids.start)  # it is <s> and no copy
    vocabulary = [*SPECIALS, *(entries.get(index, unused(index)) for index in rest)]
    return vocabulary, torch.tensor([ids.pad, unknown, ids.start, ids.eos, *rest])


def unused(index: int) -> str:
    """What is shown for a row that no entry of the vocabulary has, as after an embedding was made larger."""
    return f"<unused {index}>"


def check_added(tokens: Iterable[Any], path: Path) -> None:
    """Raise UserError for a token that transformers would cut from a sentence before anything else."""
    for token in tokens:
        if not any(kind.fullmatch(str(token)) for kind in (OTHER_TASKS, LANGUAGE, TARGET_CODE)):
            raise UserError(
                f"{path} adds the token {quote_untrusted(token)}, which Headlight does not find in a "
                "sentence; only models without added tokens can be imported."
            )


def _read_vocabulary(path: Path, size: int) -> dict[str, int]:
    """The ids of the entries, which are below the size of the model's vocabulary."""
    ids = read_entries(path)
    if len(ids) > size:
        raise UserError(
            f"{path} has {len(ids):,} entries where {CONFIG} says {size:,}; copy both from the same "
            "checkpoint."
        )
    return ids


def read_entries(path: Path) -> dict[str, int]:
    """The entries of a vocabulary with their ids, which are 0, 1, 2 and so on. Raises UserError."""
    ids = read_json(path)
    if not isinstance(ids, dict) or any(type(index) is not int for index in ids.values()):
        raise UserError(f"{path} is not a list of entries with their ids; copy it again.")
    if sorted(ids.values()) != list(range(len(ids))):
        raise UserError(f"{path} leaves out ids; copy it again.")
    check_pieces(list(ids), path)
    for entry in (PAD, UNK, EOS):
        if entry not in ids:
            raise UserError(f"{path} has no entry {entry}; copy it again.")
    return ids


def read_merges(path: Path) -> list[str]:
    """The lines of merges.txt that are not empty. Raises UserError."""
    return list(filter(None, decode_lines(io.BytesIO(read_bytes(path, MAX_TEXT_BYTES)), path)))
