"""What travels to a GPU and back: the parts of a prepared run that need no training."""

import tarfile
from pathlib import Path

import pytest

from model.files import read_lines, write_lines
from model.translator import Translator
from tests.benchmarks import quarter
from tests.model.helpers import SENTENCES, tiny_checkpoint


def test_a_share_of_every_pair_of_files_is_packed(tmp_path: Path) -> None:
    folder = tmp_path / "everyday"
    folder.mkdir()
    for name, count in (("train", 200), ("dev", 3)):
        for language in ("de", "en", "fr"):
            (folder / f"{name}.{language}").write_text("".join(f"{language} {n}\n" for n in range(count)))
    (folder / "alone.de").write_text("without a translation\n")
    quarter.pack(["de", "en"], [folder], tmp_path / "c.tar.xz", 0.05)
    with tarfile.open(tmp_path / "c.tar.xz") as tar:
        tar.extractall(tmp_path / "out", filter="data")
    found = {file.name: file.read_text() for file in (tmp_path / "out/everyday").iterdir()}
    assert sorted(found) == ["dev.de", "dev.en", "train.de", "train.en"]
    assert found["train.en"] == "".join(f"en {n}\n" for n in range(10))
    assert found["dev.de"] == "de 0\n"


def test_a_model_comes_back_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def publish(*arguments: str) -> str:
        Path(arguments[2]).mkdir()
        (Path(arguments[2]) / "model.safetensors").write_bytes(bytes(range(256)) * 100)
        return ""

    monkeypatch.setattr(quarter, "training", publish)
    monkeypatch.setattr(quarter, "PIECE", 1000)
    quarter.split(tmp_path / "best", tmp_path)
    assert all(piece.stat().st_size <= 1000 for piece in tmp_path.glob("model.part*"))
    quarter.join(tmp_path, tmp_path / "joined")
    assert (tmp_path / "joined/model.safetensors").read_bytes() == bytes(range(256)) * 100


def test_a_student_learns_references_and_what_its_teacher_writes(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    folder = tmp_path / "everyday"
    folder.mkdir()
    source, target = checkpoint.info.source_language, checkpoint.info.target_language
    sentences = [*SENTENCES[:3], ""]
    for name in ("train", "dev"):
        for language in (source, target):
            write_lines(folder / f"{name}.{language}", sentences)
    quarter.translate(Translator(checkpoint), tmp_path)
    taught = {path.name: list(read_lines(path)) for path in (tmp_path / "everyday-taught").iterdir()}
    assert taught.keys() == {f"train.{source}", f"train.{target}"}
    pairs = list(zip(taught[f"train.{source}"], taught[f"train.{target}"], strict=True))
    assert pairs == [
        (each, text) for each in sentences[:3] if (text := Translator(checkpoint).translate(each).text)
    ]
    quarter.translate(Translator(checkpoint), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["everyday", "everyday-taught"]
