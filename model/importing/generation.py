"""What a checkpoint asks of every search: tokens that are never predicted, and a first token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import torch
from jaxtyping import Int
from torch import Tensor

from model.decoding.search import NEVER_PREDICTED
from model.errors import UserError, quote_untrusted
from model.importing.family import NEVER_LOGIT
from model.importing.files.settings import generation_path, settings_of
from model.importing.files.tokenizers import Sides
from model.network.transformer import Transformer
from model.text.sentencepiece import SentencePieceTokenizer
from model.text.tokenizer import SPECIALS


@dataclass(frozen=True)
class Generation:
    """What a checkpoint asks of a search."""

    path: Path  # where it says so
    never: tuple[int, ...] = ()  # ids in the checkpoint of tokens that are never predicted
    first: int | None = None  # id in the checkpoint of the token with which every translation begins
    notes: tuple[str, ...] = ()  # sentences about what Headlight does in another way

    def apply(self, model: Transformer, order: Int[Tensor, " V"]) -> None:
        """Give the tokens that are never predicted no probability; `order` has their ids by ours."""
        if self.never:
            banned = torch.isin(order, torch.tensor(self.never))
            banned[NEVER_PREDICTED] = False  # by no search here, so they keep their probability
            with torch.no_grad():
                model.output.bias[banned] = NEVER_LOGIT

    def begin(self, sides: Sides) -> Sides:
        """The sides whose source tells the search the first token. Raises UserError if it cannot."""
        if self.first is None:
            return sides
        source, target = sides.source.tokenizer, sides.target
        places = (target.order == self.first).nonzero().flatten().tolist()
        if not places or places[-1] < len(SPECIALS) or not isinstance(source, SentencePieceTokenizer):
            raise UserError(
                f"{self.path} has forced_bos_token_id {self.first}, with which Headlight cannot begin a "
                "translation; remove it or correct it."
            )
        (entry,) = target.tokenizer.pieces(places[-1:])
        return sides._replace(source=sides.source._replace(tokenizer=source.beginning(entry)))


def read_generation(directory: Path) -> Generation:
    """The settings of generation_config.json, or of config.json, as earlier versions wrote them.

    Raises UserError if they are of another form.
    """
    path = generation_path(directory)
    settings = settings_of(path)
    words = _words(settings.get("bad_words_ids"), path)
    never = {row[0] for row in words if len(row) == 1}
    never.update(*_words([settings.get("suppress_tokens") or []], path))
    first = settings.get("forced_bos_token_id")
    if first is None and settings.get("force_bos_token_to_be_generated"):  # the name in earlier versions
        first = settings.get("bos_token_id")
    has_sequences = any(len(row) > 1 for row in words)
    notes = ("bad_words_ids has sequences of tokens, which Headlight can predict.",) if has_sequences else ()
    if first is None or _is_id(first):
        return Generation(path, tuple(sorted(never)), first, notes)
    raise UserError(f"{path} has forced_bos_token_id {quote_untrusted(first)}, which is no id; correct it.")


def _is_id(value: object) -> TypeGuard[int]:
    return type(value) is int and abs(value) < 1 << 31


def _words(value: object, path: Path) -> list[list[int]]:
    """Lists of ids. Raises UserError for anything else."""
    rows = [] if value is None else value
    if not isinstance(rows, list) or any(
        not isinstance(row, list) or not all(map(_is_id, row)) for row in rows
    ):
        raise UserError(f"{path} has {quote_untrusted(value)} where ids of tokens belong; correct it.")
    return rows
