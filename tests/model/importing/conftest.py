"""A small checkpoint of MarianMT, written once, and a copy of it that a test may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.model.importing import checkpoints as marian

NAME = "opus-mt-de-en"


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("marian") / NAME
    marian.write_checkpoint(directory)
    return directory


@pytest.fixture
def checkpoint(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / NAME))
