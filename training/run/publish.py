"""A trained model as it is shared: half the size, beside the card that people wrote."""

from __future__ import annotations

from pathlib import Path

from model.storage.checkpoint import CARD, load, save
from training.run.directory import copy_record


def publish(model: Path, output: Path) -> None:
    """Write a model directory with weights in 8 bits and the record of its training.

    A card that `output` has already stays: `training.run.card.refresh` brings its figures up to date. Raises
    UserError when there is no model.
    """
    checkpoint = load(model)
    keep_card = (output / CARD).is_file()
    save(checkpoint, output, None if keep_card else checkpoint.card, eight_bit=True)
    copy_record(model, output)
