"""Reads tokenizer.json, the format of the `tokenizers` package, as data, and converts its rules to ours.

The package itself is not given a stranger's rules: it aborts on some settings, and a regular expression can
take exponential time.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from model.errors import UserError, quote_untrusted
from model.files import read_json
from model.importing.files.settings import CONFIG, is_generic_tokenizer
from model.importing.files.tokenizers import TOKENIZER_JSON, Side, SpecialIds, check_added, side_of
from model.text.charsmap import Charsmap
from model.text.sentencepiece import SentencePiece, check_scores
from model.text.tokenizer import EOS, SPECIALS, Tokenizer

MAX_BYTES = 48 << 20  # NLLB's has 33 MB


def read_tokenizer(directory: Path, size: int, ids: SpecialIds) -> Side:
    """The tokenizer of both languages and the rows of its entries. `size` is the size of the vocabulary.

    Raises UserError for a broken file and for rules that Headlight does not have.
    """
    path = directory / TOKENIZER_JSON
    settings = read_json(path, MAX_BYTES)
    if not isinstance(settings, dict):
        raise UserError(f"{path} is not a tokenizer file; copy it again.")
    own = dict.fromkeys(("normalizer", "post_processor", "decoder"))
    try:
        ours = Tokenizer.from_json(settings | own, path)
    except UserError:
        return _sentencepiece(settings, path, size, ids)
    wanted = [SPECIALS.index(name) for name in ("<pad>", EOS, "<s>")]
    if len(ours) != size or list(ids) != wanted:
        raise UserError(f"{path} does not belong to {CONFIG}; copy both from the same checkpoint.")
    return Side(ours, torch.arange(size))


def _sentencepiece(settings: Mapping[str, Any], path: Path, size: int, ids: SpecialIds) -> Side:
    """A tokenizer of SentencePiece that was converted to tokenizer.json."""
    scores, entries = _model(settings.get("model"), path)
    added = added_entries(settings.get("added_tokens"), path)
    entries |= added
    for entry in added.values():
        scores.pop(entry, None)  # a special token in a text is text
    check_scores(scores, path)
    if is_generic_tokenizer(path.parent):
        _check_end(settings.get("post_processor"), path)
    _check_pre_tokenizer(settings.get("pre_tokenizer"), path)
    bpe = settings["model"]["type"] == "BPE"
    cut = SentencePiece("bpe" if bpe else "unigram", scores, _charsmap(settings.get("normalizer"), path))
    return side_of(cut, entries, size, ids, path.parent)


def added_entries(tokens: Any, path: Path) -> dict[int, str]:
    """The added tokens by their ids. Raises UserError for a token that would be cut from a sentence."""
    entries = {}
    for token in _list(tokens, path):
        match token:
            case {"id": int(index), "content": str(content)}:
                entries[index] = content
            case _:
                raise UserError(f"{path} has added tokens without id or text; copy it again.")
    check_added(entries.values(), path)
    return entries


def check_inference(model: Mapping[str, Any], path: Path) -> None:
    """Raise UserError for rules of a model that Headlight's algorithms do not have."""
    for name in (
        "dropout",
        "byte_fallback",
        "continuing_subword_prefix",
        "end_of_word_suffix",
        "ignore_merges",
    ):
        if model.get(name):
            raise UserError(f"{path} has {name} {quote_untrusted(model[name])}, which Headlight cannot do.")


def _check_end(rule: Any, path: Path) -> None:
    """Raise UserError unless </s> follows a sentence; a class of a family would add it itself."""
    match rule:
        case {"type": "TemplateProcessing", "single": list(parts)} if any(
            part == {"SpecialToken": {"id": EOS, "type_id": 0}} for part in parts
        ):
            return
    raise UserError(
        f"{path} does not put {EOS} after a sentence, as models of translation need it; correct it."
    )


def _model(model: Any, path: Path) -> tuple[dict[str, float], dict[int, str]]:
    """The scores of the pieces, and the entries by their ids."""
    match model:
        case {"type": "Unigram", "vocab": list(vocabulary)}:
            if any(type(row) is not list or len(row) != 2 or type(row[0]) is not str for row in vocabulary):
                raise UserError(f"{path} has entries without text or score; copy it again.")
            check_inference(model, path)
            return dict(vocabulary), {i: row[0] for i, row in enumerate(vocabulary)}
        case {"type": "BPE", "vocab": dict(vocabulary), "merges": list(merges)}:
            check_inference(model, path)
            if any(type(index) is not int for index in vocabulary.values()):
                raise UserError(f"{path} has entries without ids; copy it again.")
            ranks = dict.fromkeys(vocabulary, 0.0)
            for rank, merge in enumerate(merges):
                parts = merge.split(" ") if isinstance(merge, str) else merge
                if type(parts) is not list or len(parts) != 2 or not all(type(part) is str for part in parts):
                    raise UserError(f"{path} has merges that are not pairs of pieces; copy it again.")
                # SentencePiece knows the first merge that makes a piece.
                piece = "".join(parts)
                if ranks.get(piece, 0.0) == 0.0:
                    ranks[piece] = -1.0 - rank
            return ranks, {index: piece for piece, index in vocabulary.items()}
    raise UserError(f"{path} is a tokenizer of another kind than Unigram and BPE; Headlight cannot read it.")


def _charsmap(normalizer: Any, path: Path) -> Charsmap:
    """The table of a normaliser. Merging spaces is what every SentencePiece model here does."""
    steps = _list(normalizer.get("normalizers"), path) if _kind(normalizer) == "Sequence" else [normalizer]
    table = b""
    for step in steps:
        match step:
            case None | {"type": "Strip"}:
                pass
            case {"type": "Precompiled", "precompiled_charsmap": str(text)}:
                try:
                    table = base64.b64decode(text, validate=True)
                except ValueError as error:
                    raise UserError(f"The charsmap in {path} is broken; copy it again.") from error
            case {"type": "Replace", "pattern": {"Regex": " {2,}"}}:
                pass
            case _:
                raise UserError(f"{path} normalises text by {_kind(step)}, which Headlight cannot do.")
    try:
        return Charsmap(table)
    except ValueError as error:
        raise UserError(f"The charsmap in {path} is broken; copy it again.") from error


def _check_pre_tokenizer(rule: Any, path: Path) -> None:
    """Raise UserError unless the text is only cut at spaces, each of which belongs to the word after it."""
    steps = _list(rule.get("pretokenizers"), path) if _kind(rule) == "Sequence" else [rule]
    for step in steps:
        match step:
            case {"type": "WhitespaceSplit"}:
                pass
            case {"type": "Metaspace", "replacement": "▁"} if step.get("prepend_scheme") != "never":
                pass
            case _:
                raise UserError(f"{path} cuts text by {_kind(step)}, which Headlight cannot do.")


def _kind(rule: Any) -> str:
    name = rule.get("type") if isinstance(rule, dict) else rule
    return name if name == "Sequence" else quote_untrusted(name)


def _list(value: Any, path: Path) -> list[Any]:
    if not isinstance(value, list):
        raise UserError(f"{path} lacks a list where the format has one; copy it again.")
    return value
