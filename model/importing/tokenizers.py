"""The tokenizers of a MarianMT checkpoint: two SentencePiece models over one vocabulary or two."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from model.errors import UserError
from model.files import read_json
from model.importing.settings import CONFIG, TOKENIZER, settings_of
from model.importing.spm import read_spm
from model.sentencepiece import SentencePieceTokenizer, check_pieces
from model.tokenizer import EOS, PAD, SPECIALS, UNK, Tokenizer

VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
TOKENIZER_JSON = "tokenizer.json"
SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
VOCABULARY_FILES = (VOCABULARY, TARGET_VOCABULARY, TOKENIZER_JSON)
SPM_FILES = (SOURCE_SPM, TARGET_SPM)


class SpecialIds(NamedTuple):
    """What config.json says of the target vocabulary."""

    pad: int
    eos: int
    start: int  # what the decoder reads first; usually <pad>


class Side(NamedTuple):
    """The tokenizer of one language, and for each of its ids the row in the checkpoint's matrices."""

    tokenizer: Tokenizer
    order: Int[Tensor, " V"]


def read_tokenizers(directory: Path, sizes: tuple[int, int], ids: SpecialIds) -> tuple[Side, Side]:
    """Source and target side. `sizes` are those of their vocabularies. Raises UserError."""
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
        _side(directory / SOURCE_SPM, source, start if source is target else source[PAD]),
        _side(directory / TARGET_SPM, target, start),
    )


def _side(spm: Path, ids: dict[str, int], start: int) -> Side:
    """Ours begins with <pad> <unk> <s> </s>; the decoder's first token becomes <s>."""
    entries = {index: entry for entry, index in ids.items()}
    special = (ids[PAD], ids[UNK], ids[EOS])
    rest = [index for index in range(len(entries)) if index not in special]
    order = torch.tensor([ids[PAD], ids[UNK], start, ids[EOS], *rest])
    return Side(SentencePieceTokenizer(read_spm(spm), [*SPECIALS, *map(entries.__getitem__, rest)]), order)


def _read_vocabulary(path: Path, size: int) -> dict[str, int]:
    """The ids of the entries, each of 0 to size - 1 once."""
    ids = read_json(path)
    if not isinstance(ids, dict) or any(type(index) is not int for index in ids.values()):
        raise UserError(f"{path} is not a list of entries with their ids; copy it again.")
    if sorted(ids.values()) != list(range(size)):
        raise UserError(
            f"{path} has {len(ids):,} entries where {CONFIG} says {size:,}, or leaves out ids; copy both "
            "from the same checkpoint."
        )
    check_pieces(list(ids), path)
    for entry in (PAD, UNK, EOS):
        if entry not in ids:
            raise UserError(f"{path} has no entry {entry}; copy it again.")
    return ids
