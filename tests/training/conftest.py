from __future__ import annotations

import datasets.config
import huggingface_hub.constants
import pytest
import torch

from tests.training.tiny import word_list


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Memory-mapped corpora of the tests stay out of the user's home; nothing asks the network."""
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


@pytest.fixture(autouse=True)
def same_arithmetic_everywhere(monkeypatch):
    """One thread and float32, so that runs compare bit for bit on any machine."""
    monkeypatch.setattr("training.hardware.bfloat16_pays", lambda: False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def data(tmp_path):
    """A folder with a word list."""
    return word_list(tmp_path / "data")
