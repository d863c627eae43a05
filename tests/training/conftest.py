from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import datasets.config
import huggingface_hub.constants
import pytest
import torch

from tests.model.conftest import float64  # noqa: F401 (a fixture here too)
from tests.training.tiny import run, word_list
from training.__main__ import main
from training.config import TrainConfig


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep memory-mapped corpora of the tests out of the user's home, and stay offline."""
    home = tmp_path_factory.mktemp("hf")
    places = {
        "HF_CACHE_HOME": home,
        "HF_DATASETS_CACHE": home / "datasets",
        "HF_MODULES_CACHE": home / "modules",
        "DOWNLOADED_DATASETS_PATH": home / "datasets" / "downloads",
        "EXTRACTED_DATASETS_PATH": home / "datasets" / "downloads" / "extracted",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, place in places.items():
            patch.setattr(datasets.config, name, type(getattr(datasets.config, name))(place))
        patch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
        patch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
        # For the processes that tests start.
        patch.setenv("HF_HOME", str(home))
        patch.setenv("HF_DATASETS_CACHE", str(home / "datasets"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="module", autouse=True)
def same_arithmetic_everywhere():
    """One thread and float32, so that runs compare bit for bit on any machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("training.hardware.bfloat16_pays", lambda: False)
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Callable[[TrainConfig], Path]:
    """Uninterrupted runs on the words of `data`, one for each configuration; tests only read them."""
    folder = tmp_path_factory.mktemp("reference")
    words = word_list(folder / "data")

    @functools.cache
    def run_once(config: TrainConfig) -> Path:
        return run(config, words, tmp_path_factory.mktemp("reference")).parent

    return run_once


@pytest.fixture
def data(tmp_path):
    """A folder with a word list."""
    return word_list(tmp_path / "data")


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `python -m training` with these words; return what it wrote to standard output and error."""

    def call(*words: object) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["training", *map(str, words)])
        main()
        return capsys.readouterr()

    return call
