"""The prepared quarter of an hour on a GPU, with a few sentences and seconds on a CPU."""

import subprocess
import sys
from os import environ
from pathlib import Path

import pytest

from model.files import read_lines
from model.translator import Translator
from tests.training.tiny import parallel_files, sentences, write_lines

ROOT = Path(__file__).resolve().parents[2]
SHAPE = "--config.model.d-model 16 --config.model.n-encoder-layers 1 --config.model.n-decoder-layers 1"
SMALL = f"{SHAPE} --config.tokens-per-batch 256 --config.vocabulary 300"


@pytest.mark.slow
def test_a_student_learns_references_links_and_what_its_teacher_writes(tmp_path: Path) -> None:
    data, out, pairs = tmp_path / "data", tmp_path / "out", sentences(60)
    parallel_files(data / "references/home", pairs[:40])
    parallel_files(data / "references/home", pairs[:10], "dev")
    parallel_files(data / "others/marked", [(f"» {source}", target) for source, target in pairs[:20]])
    write_lines(data / "texts/alone/alone.de", [source for source, _ in pairs[40:]])
    write_lines(data / "texts/alone/alone.source", ["alone"] * 20)
    write_lines(data / "links", ["0-0 1-1 2-2"] * 40)
    write_lines(data / "weights", ["home/train", "2"])
    write_lines(out / "minutes", ["0.05 0.05 0.05"])
    command = ["bash", "tests/benchmarks/quarter.sh", "everyday-de-en", "de", "en", str(data), str(out)]
    given = environ | {"PYTHON": sys.executable, "TEACHER": SMALL, "SMALL": SMALL}
    found = subprocess.run(command, cwd=ROOT, env=given, check=True, capture_output=True, text=True)
    assert "teacher after" in found.stdout
    assert "student, " in found.stdout
    assert "tuned, " in found.stdout
    taught = {ending: list(read_lines(out / f"taught/all.{ending}")) for ending in ("de", "en", "source")}
    assert taught["de"] == [source for source, _ in pairs]
    assert taught["source"] == ["taught home"] * 40 + ["alone"] * 20
    teacher = Translator.load(out / "teacher/best")
    assert taught["en"][:3] == teacher.translate_batch(taught["de"][:3])
    assert Translator.load(out / "tuned-8bit").checkpoint.model.config.taught_head == (0, 0)
    again = subprocess.run(command, cwd=ROOT, env=given, check=True, capture_output=True, text=True)
    assert "teacher after" not in again.stdout
