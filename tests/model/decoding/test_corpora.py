"""Kernels and torch translate the test sets of two corpora alike; HEADLIGHT_DATA names the folder of both."""

import os
from pathlib import Path

import pytest
import torch

from model.decoding.kernels.model import CompiledModel
from model.decoding.options import SearchOptions
from model.decoding.search import search
from model.inputs import MAX_TOKENS, batches_by_length, source_ids
from model.network.transformer import Encoded
from model.text.tokenizer import pad
from model.translator import Translator

MODEL = Path(__file__).parents[3] / "assets" / "models" / "de-en"
DATA = Path(os.environ.get("HEADLIGHT_DATA", "nowhere"))
CLOSE = 1e-4  # candidates whose log-probabilities differ by less may be exchanged by rounding


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus", "count"), [("tatoeba-de-en/test.de", 2000), ("multi30k/test_2016_flickr.de", 1000)]
)
@torch.inference_mode()
def test_translations_are_those_of_torch(corpus: str, count: int) -> None:
    if not (DATA / corpus).is_file():
        pytest.skip("HEADLIGHT_DATA names no folder with tatoeba-de-en and multi30k")
    checkpoint = Translator.load(MODEL).checkpoint
    model, ours = checkpoint.model.eval(), CompiledModel(checkpoint.model)
    rows = source_ids(checkpoint, (DATA / corpus).read_text("utf-8").splitlines()[:count], MAX_TOKENS)
    assert len(rows) == count
    others = []
    for places in batches_by_length({place: len(row) for place, row in enumerate(rows)}, 1024):
        reference = search(model, pad([rows[place] for place in places]))
        for place, (expected,) in zip(places, reference, strict=True):
            encoded = ours.encode(torch.tensor([rows[place]]))
            (found,) = ours.search(encoded, SearchOptions())[0].candidates
            if found.ids != expected.ids:
                others.append(margin(ours, encoded, found.ids, expected.ids))
            else:
                assert found.log_probabilities == pytest.approx(expected.log_probabilities, abs=CLOSE)
    assert all(difference < CLOSE for difference in others), others


def margin(ours: CompiledModel, encoded: Encoded, found: tuple[int, ...], expected: tuple[int, ...]) -> float:
    """How much likelier one of the two tokens is than the other where two translations part."""
    place = next(i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b)
    values = [
        ours.score(encoded, torch.tensor([ids[: place + 1]])).log_probabilities[place]
        for ids in (found, expected)
    ]
    return abs(values[0] - values[1])
