"""Starts a run from the weights of another model of the same shape."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from model.errors import UserError
from model.network.transformer import Transformer
from model.storage.checkpoint import load
from model.text.multilingual import MultilingualTokenizer
from model.text.sentencepiece import SentencePieceTokenizer
from model.text.tokenizer import EOS_ID, UNK, UNK_ID, Tokenizer

MAY_DIFFER = {"source_vocabulary", "target_vocabulary", "dropout", "taught_head"}
# The parameters with a row for each piece, and which tokenizer has the pieces.
VOCABULARIES = {
    "source_embedding.tokens.weight": 0,
    "target_embedding.tokens.weight": 1,
    "output.weight": 1,
    "output.bias": 1,
}


@torch.no_grad()
def copy_weights(model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer], directory: Path) -> int:
    """Copy the weights of the model in `directory`; returns how many pieces of the vocabularies it knows.

    The row of a piece is copied to the row of the same piece. A piece that it does not know gets the mean
    of the rows of the pieces that spell it there (Gee et al. 2022, section 3). A piece with a character
    that it does not know stays as it is. Raises UserError when the model has another shape.
    """
    other = load(directory)
    shape, wanted = asdict(other.model.config), asdict(model.config)
    for name, value in wanted.items():
        if name not in MAY_DIFFER and shape[name] != value:
            raise UserError(
                f"The model in {directory} has {name} {shape[name]}, but the run has {value}; give the run "
                f"the same with --config.model.{name.replace('_', '-')} or start from another model."
            )
    weights = dict(other.model.named_parameters())
    former, known = (other.source_tokenizer, other.target_tokenizer), set()
    for name, parameter in model.named_parameters():
        side = VOCABULARIES.get(name)
        if side is None:
            parameter.copy_(weights[name])
            continue
        for row, spelling in spellings(tokenizers[side], former[side]).items():
            parameter[row] = weights[name][spelling].mean(0)
            if len(spelling) == 1:
                known.add((tokenizers[side], row))
    return len(known)


def tokenizers_of(directory: Path, languages: tuple[str, str]) -> tuple[Tokenizer, Tokenizer] | None:
    """The tokenizers of the model in `directory`, if the run has its languages and so keeps them; else None.

    Raises UserError for an imported model that a run cannot start from: a model of other languages, whose
    tokenizers cut whole texts and cannot spell a piece of another vocabulary, or a model that reads more
    around a sentence than <s> and </s>, which a run does not write.
    """
    former = load(directory)
    tokenizer = former.source_tokenizer
    same = (former.info.source_language, former.info.target_language) == languages
    if not same and isinstance(tokenizer, SentencePieceTokenizer):
        raise UserError(
            f"{directory} has the vocabulary of an imported model, which no other can replace; start from a "
            "model that was trained here, or give the recipe the languages of this one."
        )
    is_framed = tokenizer.first_ids("") or tokenizer.ending != (EOS_ID,)
    if is_framed or isinstance(tokenizer, MultilingualTokenizer):
        raise UserError(
            f"{directory} reads codes of languages or a second mark around each sentence, which a run does "
            "not write; start from another model."
        )
    return (tokenizer, former.target_tokenizer) if same else None


def spellings(new: Tokenizer, old: Tokenizer) -> dict[int, list[int]]:
    """The pieces of the old vocabulary that spell each piece of the new one, by ids, where they can."""
    places = {piece: index for index, piece in enumerate(old.pieces(range(len(old))))}
    found = {}
    for index, piece in enumerate(new.pieces(range(len(new)))):
        spelling = [places[piece]] if piece in places else old.spell(piece)
        if UNK_ID not in spelling or piece == UNK:
            found[index] = spelling
    return found
