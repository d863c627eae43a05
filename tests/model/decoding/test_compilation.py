"""Where the kernels come from, and what happens where there are none."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from model.decoding.kernels.compilation import COMPILATION, SOURCES, Compilation, cache_directory
from model.translator import Translator
from tests.model.helpers import read_target

TEXT = "Ein kleiner Hund läuft."


def test_without_numba_torch_translates(
    joint: Translator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with_kernels = joint.translate(TEXT, 3)

    def missing(cache: object) -> None:
        raise ImportError("No module named 'numba'")

    monkeypatch.setattr("model.decoding.kernels.compilation.load_kernels", missing)
    compilation = Compilation()
    with caplog.at_level(logging.WARNING):
        assert not compilation.ready(timeout=30.0)
    assert "torch translates instead" in caplog.text
    monkeypatch.setattr("model.decoding.inference.COMPILATION", compilation)
    without = joint.translate(TEXT, 3)
    assert without.ids == with_kernels.ids
    assert without.log_probabilities == pytest.approx(with_kernels.log_probabilities, abs=1e-4)
    torch.testing.assert_close(without.attention.cross, with_kernels.attention.cross, atol=1e-5, rtol=0)


def test_begin_twice_compiles_once() -> None:
    thread = COMPILATION.ident
    COMPILATION.begin()
    assert COMPILATION.ident == thread
    assert COMPILATION.ready()


def test_changed_weights_are_packed_again(joint: Translator) -> None:
    before = joint.translate(TEXT)
    with torch.no_grad():
        joint.checkpoint.model.decoder[0].feed_forward.inner.weight.mul_(2)
    after = joint.score(TEXT, before.ids)
    _, scores = read_target(joint, TEXT, before.ids)
    chosen = scores[torch.arange(len(before.ids)), torch.tensor(before.ids)]
    assert after.log_probabilities == pytest.approx(chosen.tolist(), abs=1e-4)
    assert after.log_probabilities != pytest.approx(before.log_probabilities, abs=1e-4)


def test_directory_of_the_cache_names_the_state_of_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "new"))
    first = cache_directory(SOURCES)
    assert first is not None
    assert first.parent == tmp_path / "new"
    assert cache_directory(SOURCES[:-1]) not in (None, first)


def test_directory_that_cannot_be_written_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    found = cache_directory(SOURCES)
    assert found is None or tmp_path not in found.parents


@pytest.mark.slow  # compiles everything
@pytest.mark.parametrize("state", ["broken", "nowhere"])
def test_kernels_work_with_a_broken_cache_or_none(tmp_path: Path, state: str) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    wait = "assert c.COMPILATION.ready(timeout=600.0)"
    script = f"import model.decoding.kernels.compilation as c; {wait}"
    if state == "nowhere":
        script = script.replace(wait, f"c.cache_directory = lambda sources: None; {wait}")
    else:
        subprocess.run([sys.executable, "-c", script], env=environment, check=True)
        for index in (tmp_path / "cache").rglob("*.nbi"):
            index.write_bytes(index.read_bytes()[:40])
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


@pytest.mark.slow  # starts Python with nothing compiled
@pytest.mark.parametrize("seconds", [0.0, 2.0, 5.0])
def test_a_program_that_ends_while_its_kernels_compile_ends_cleanly(tmp_path: Path, seconds: float) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    begin = "import time; from model.decoding.kernels.compilation import COMPILATION; COMPILATION.begin()"
    command = [sys.executable, "-c", f"{begin}; time.sleep({seconds})"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
