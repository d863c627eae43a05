"""Starts a run from the weights of another model of the same shape."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from model.errors import UserError
from model.network.transformer import Transformer
from model.storage.checkpoint import load
from model.tokenizer import Tokenizer

MAY_DIFFER = {"source_vocabulary", "target_vocabulary", "dropout", "taught_head"}
VOCABULARIES = {"source_embedding": 0, "target_embedding": 1, "output": 1}  # which tokenizer has the rows


@torch.no_grad()
def copy_weights(model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer], directory: Path) -> int:
    """Copy the weights of the model in `directory`; returns how many pieces of the vocabularies it knows.

    The row of a piece is copied to the row of the same piece; rows of other pieces stay as they are.
    Raises UserError when the model has another shape.
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
        side = VOCABULARIES.get(name.partition(".")[0])
        if side is None:
            parameter.copy_(weights[name])
            continue
        rows, same = shared_rows(tokenizers[side], former[side])
        parameter[rows] = weights[name][same]
        known |= {(side, row) for row in rows}
    return len(known)


def shared_rows(new: Tokenizer, old: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids of the pieces that both vocabularies have, in the new one and in the old one."""
    places = {piece: index for index, piece in enumerate(old.pieces(range(len(old))))}
    pieces = enumerate(new.pieces(range(len(new))))
    shared = [(index, places[piece]) for index, piece in pieces if piece in places]
    return [index for index, _ in shared], [place for _, place in shared]
