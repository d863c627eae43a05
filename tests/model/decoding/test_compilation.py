"""Where the kernels come from, and what happens where there are none."""

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model.decoding.kernels.compilation import COMPILATION, SOURCES, Compilation, cache_directory
from model.translator import Translator
from tests.numerics import assert_float32, scores, translator_of

TEXT = "Ein kleiner Hund läuft."


def score(translator: Translator, ids: Sequence[int]) -> tuple[tuple[float, ...], Tensor]:
    """Log-probabilities and cross-attention of this translation."""
    found = translator.score(TEXT, ids)
    return found.log_probabilities, found.attention.cross


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
    for found in (without, with_kernels):
        assert_float32(
            (found.log_probabilities, found.attention.cross),
            lambda model, ids=found.ids: score(translator_of(joint, model), ids),
            joint.checkpoint.model,
        )


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
    model, wanted = joint.checkpoint.model, scores(joint, TEXT, before.ids)
    (bound,) = assert_float32(after.log_probabilities, wanted, model).values()
    changes = zip(after.log_probabilities, before.log_probabilities, strict=True)
    assert max(abs(one - other) for one, other in changes) > 2 * bound


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
