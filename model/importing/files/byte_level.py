"""Reads the tokenizers of GPT-2's kind: tokenizer.json, or else vocab.json and merges.txt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.errors import UserError
from model.files import read_json
from model.importing.files.settings import TOKENIZER, Settings, is_generic_tokenizer, settings_of
from model.importing.files.tokenizer_json import MAX_BYTES, added_entries, check_inference
from model.importing.files.tokenizers import (
    MERGES,
    TOKENIZER_JSON,
    VOCABULARY,
    Side,
    Sides,
    SpecialIds,
    ordered,
    read_entries,
    read_merges,
)
from model.text.byte_level import ByteLevelTokenizer, byte_pairs, readable
from model.text.sentencepiece import Frame
from model.text.tokenizer import BOS


def read_byte_level(directory: Path, values: Settings) -> Sides:
    """The tokenizer of both languages, whose sources begin with <s>.

    Raises UserError for broken files and for other rules.
    """
    frame = Frame(before=BOS)
    add_space = settings_of(directory / TOKENIZER).get("add_prefix_space") is True
    if (directory / TOKENIZER_JSON).exists():
        path = directory / TOKENIZER_JSON
        entries, merges, own = _rules(read_json(path, MAX_BYTES), path)
        if is_generic_tokenizer(directory):
            add_space = own  # BART's class believes tokenizer_config.json instead
    else:
        path = directory / MERGES
        entries = read_entries(directory / VOCABULARY)
        merges = [line for line in read_merges(path) if not line.startswith("#version")]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    if any(
        type(pair) is not list or len(pair) != 2 or not all(type(part) is str for part in pair)
        for pair in pairs
    ):
        raise UserError(f"{path} has merges that are not pairs of pieces; copy it again.")
    written = {index: readable(entry) for entry, index in entries.items()}
    segmenter = byte_pairs(list(written.values()), [(left, right) for left, right in pairs], add_space)
    segmenter.check(path)
    vocabulary, order = ordered(written, values["vocab_size"], SpecialIds.of(values), directory)
    target, source = (ByteLevelTokenizer(segmenter, vocabulary, *each) for each in ((), (frame,)))
    return Sides(Side(source, order), Side(target, order))


def _rules(settings: Any, path: Path) -> tuple[Mapping[str, int], list[Any], bool]:
    """The entries with their ids, the merges, and whether a space is put before a text."""
    match settings:
        case {
            "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": bool(add_space), **how},
            "model": {"type": "BPE", "vocab": dict(vocabulary), "merges": list(merges)},
            "added_tokens": list(added),
        } if how.get("use_regex", True) is True:
            entries = dict(vocabulary)
            check_inference(settings["model"], path)
            entries |= {content: index for index, content in added_entries(added, path).items()}
            if any(type(index) is not int for index in entries.values()):
                raise UserError(f"{path} has entries without ids; copy it again.")
            return entries, merges, add_space
    raise UserError(f"{path} does not cut text into pairs of bytes as GPT-2 does; Headlight cannot read it.")
