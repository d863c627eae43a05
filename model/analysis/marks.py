"""Marks tokens: those that heads read when they have nothing to do, words, and ends of sentences."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from model.results import Token
from model.text.tokenizer import EOS


def sink_tokens(tokens: Sequence[Token]) -> Bool[Tensor, " S"]:
    """Marks the tokens that heads read when they have nothing to do: special tokens and final punctuation.

    Clark et al. 2019, "What Does BERT Look at?", section 3.2. <unk> is not a sink, because it replaces
    a word. Final punctuation is every mark between the last word and </s>.
    """
    sinks = [token.word is None for token in tokens]
    for place in reversed(range(len(tokens))):
        if not sinks[place] and not _is_punctuation(tokens[place]):
            break
        sinks[place] = True
    return torch.tensor(sinks)


def _is_punctuation(token: Token) -> bool:
    return all(unicodedata.category(letter).startswith("P") for letter in token.text)


def word_mask(tokens: Sequence[Token]) -> Bool[Tensor, " S"]:
    """Marks the tokens that are no special tokens."""
    return torch.tensor([token.word is not None for token in tokens])


def end_mask(tokens: Sequence[Token]) -> Bool[Tensor, " S"]:
    """Marks </s>."""
    return torch.tensor([token.special and token.piece == EOS for token in tokens])
