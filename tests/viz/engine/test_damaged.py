"""Damaged files of a model end in an answer or in an error that the Worker turns into a sentence.

A browser checks checksums only over HTTPS and on localhost, so elsewhere the engine can meet such files.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from model import Translator
from model.storage.checkpoint import save
from tests.model.helpers import tiny_checkpoint
from tests.viz.engine.engine import identity_for_node
from tests.viz.node import run_node
from tests.viz.questions import COMMON
from viz.static.settings import settings

HERE = Path(__file__).parent
NAMES = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.mark.parametrize("of_each", [20, pytest.param(700, marks=pytest.mark.slow)])
def test_damaged_files_never_stop_the_worker(tmp_path, of_each):
    save(tiny_checkpoint(seed=1), tmp_path / "tiny")
    translator = Translator.load(tmp_path / "tiny")
    draw = random.Random(of_each)
    damages = [
        {
            "name": name,
            "start": draw.randrange((tmp_path / "tiny" / name).stat().st_size),
            "length": draw.choice([1, 1, 4, 1000]),
            "byte": draw.choice([None, 0, 0x22, 0x39, 0x7D, 0xFF]),  # None: the bytes are missing
        }
        for name in NAMES
        for _ in range(of_each)
    ]
    request = {**COMMON, "do": "translate", "forced": [], "model": "tiny"}
    given = {"identity": identity_for_node(translator), "settings": settings(), "request": request}
    (tmp_path / "damages.json").write_text(json.dumps({**given, "names": NAMES, "damages": damages}))
    run_node(tmp_path, HERE, "tests/damaged.mjs", seconds=600)
    outcomes = json.loads((tmp_path / "outcomes.json").read_text())
    assert len(outcomes) == len(damages)
    assert len(set(outcomes)) > 1  # some damage is harmless, some is noticed
