"""The number of heads is found by how sure a model is of its own translations."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import UserError
from model.importing.heads import find_heads, with_heads
from model.importing.importer import read_checkpoint
from model.importing.own_models import Told
from model.storage.checkpoint import load
from tests.model.helpers import draw_weights
from tests.model.importing.test_own_models import Tutorial, write

MODELS = Path(__file__).parents[3] / "assets/models"
SENTENCES = {
    "reverse": ("lantern", "umbrella", "notebook", "garden"),
    "de-en": ("Der Hund schläft im Garten.", "Ich habe heute keine Zeit.", "Wir fahren morgen nach Berlin."),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_trained_model_is_surest_with_its_own_number(name: str) -> None:
    checkpoint = load(MODELS / name)
    right = checkpoint.model.config.n_heads
    found = find_heads(with_heads(checkpoint, 1), SENTENCES[name])
    assert next(iter(found)) == right
    assert all(checkpoint.model.config.d_model % number == 0 for number in found)


def test_what_is_found_is_used_and_said_and_a_given_number_is_kept(tmp_path: Path) -> None:
    folder = str(write(tmp_path / "run", draw_weights(Tutorial().eval()).state_dict()))
    checkpoint = read_checkpoint(folder, Told(sentences=("a b", "c d a")))
    best = checkpoint.model.config.n_heads
    assert f"with {best}, " in checkpoint.notes[-1]
    other = next(number for number in (1, 2, 3, 4) if number != best)
    given = read_checkpoint(folder, Told(heads=other, sentences=("a b", "c d a")))
    assert given.model.config.n_heads == other
    assert given.notes[-1].endswith(f"It probably has {best} heads: give --heads {best}.")


def test_sentences_that_it_cannot_read_are_said(tmp_path: Path) -> None:
    folder = str(write(tmp_path / "run", draw_weights(Tutorial().eval()).state_dict()))
    with pytest.raises(UserError, match="reads none of these sentences"):
        read_checkpoint(folder, Told(sentences=("a " * 100_000,)))
