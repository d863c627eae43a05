"""A model that the page trained and saved opens in Python, with the same weights and words."""

from __future__ import annotations

import itertools
import json
import random
import string
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from model import Translator
from model.storage.probes import Probes
from model.storage.training_log import TrainingLog
from tests.viz.node import run_node

WORDS = 200
LONGEST_TARGET = 17  # tokens that the page writes; Python's limit is higher
ONES = ("ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
SETTINGS = {
    "task": "reverse",
    "layers": 1,
    "heads": 2,
    "width": 16,
    "positions": True,
    "mask": True,
    "rate": 0.01,
    "seed": 1,
}


def trained(folder: Path, texts: list[str], steps: int, **changes: Any) -> dict[str, Any]:
    """Train in node and unpack the saved directory; returns its name, its weights and what is written."""
    request = {"settings": SETTINGS | changes, "steps": steps, "texts": texts}
    (folder / "settings.json").write_text(json.dumps(request), "utf-8")
    run_node(folder, Path(__file__).parent, "tests/directory.mjs")
    with zipfile.ZipFile(folder / "model.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(folder)
    found: dict[str, Any] = json.loads((folder / "written.json").read_text("utf-8"))
    return found


def draw_texts(task: str) -> list[str]:
    """As many different sources of a task."""
    draw = random.Random(1)
    if task == "dates":
        days = itertools.product(range(1, 29), ("may", "june"), range(1900, 2100))
        return [f"{day} {month} {year}" for day, month, year in draw.sample(list(days), WORDS)]
    if task == "numbers":
        endings = itertools.product(ONES, ("zwanzig", "dreißig", "achtzig", "neunzig"))
        small = [f"{one}und{ten}" for one, ten in endings]
        return draw.sample([*small, *(f"{one}hundert{rest}" for one in ONES for rest in small)], WORDS)
    return ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(3, 8))) for _ in range(WORDS)]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"positions": False, "layers": 2}, id="no-positions"),
        pytest.param({"task": "dates"}, id="dates"),
        pytest.param({}, id="reverse", marks=pytest.mark.slow),
        pytest.param({"mask": False}, id="peeks", marks=pytest.mark.slow),
        pytest.param({"task": "numbers"}, id="numbers", marks=pytest.mark.slow),
    ],
)
def test_a_saved_model_opens_in_python_with_the_same_numbers(tmp_path, changes):
    texts = draw_texts(changes.get("task", ""))
    found = trained(tmp_path, texts, 30, **changes)
    translator = Translator.load(tmp_path / found["name"])
    for name, parameter in translator.checkpoint.model.named_parameters():
        expected = torch.tensor(found["weights"][name]).view_as(parameter)
        assert torch.equal(parameter.detach(), expected), name  # float32 on both sides
    for text, written in zip(texts, found["written"], strict=True):
        ids = list(translator.translate(text).ids)
        assert translator.checkpoint.target_tokenizer.decode(ids[:LONGEST_TARGET]) == written, text
    assert Probes.load(tmp_path / found["name"]).steps == (0, 1, 2, 3, 4, 6, 8, 12, 16, 24)
    assert [row["step"] for row in TrainingLog.load(tmp_path / found["name"]).rows] == [25]
