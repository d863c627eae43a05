"""What the commands write, and text that begins with a hyphen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from model.command_line import protect_text
from model.storage.checkpoint import save
from tests.model.helpers import tiny_checkpoint

ROOT = Path(__file__).parents[2]
PACKAGES = ("model", "viz", "training")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    save(tiny_checkpoint(seed=1), directory)
    return directory


def run(
    *words: object, encoding: str = "utf-8", piped: bytes = b"", stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONIOENCODING": encoding, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", *map(str, words)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, input=piped, stdout=stdout, stderr=subprocess.PIPE, check=False
    )


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1:strict"])
def test_text_is_written_in_utf_8(encoding: str, model: Path) -> None:
    found = run("model", "translate", "--model", model, "--json", "Öffne die Tür! ✓ 日", encoding=encoding)
    assert (found.returncode, found.stderr) == (0, b"")
    assert json.loads(found.stdout.decode())["source"] == "Öffne die Tür! ✓ 日"
    failed = run("model", "translate", "--model", model.parent / "Tür✓", "Hund", encoding=encoding)
    assert failed.returncode == 1
    assert "Tür✓" in failed.stderr.decode()
    assert b"Traceback" not in failed.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_help_is_written_in_any_encoding(package: str) -> None:
    found = run(package, "--help", encoding="ascii")
    assert (found.returncode, found.stderr) == (0, b"")


def test_bytes_that_are_no_text_are_written_as_question_marks(model: Path) -> None:
    command = [sys.executable, "-m", "model", "translate", "--model", str(model), "--json", b"H\xffund"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert json.loads(found.stdout.decode())["source"] == "H?und"


def test_a_pipe_that_closes_ends_the_command_quietly(model: Path) -> None:
    command = [sys.executable, "-m", "model", "translate", "--model", str(model), "--n-best", "3"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.close()
        process.stdin.write("Öffne die Tür!\n".encode() * 50)
        process.stdin.close()
        errors = process.stderr.read()
    assert errors == b""
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_standard_output_is_one_sentence(model: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        found = run("model", "translate", "--model", model, "Hund", stdout=full.fileno())
    assert found.returncode == 1
    assert found.stderr.startswith(b"A file could not be read or written (No space left")


@pytest.mark.parametrize("more", [(), ("--with-model",)])
def test_a_missing_folder_of_the_output_is_made(more: tuple[str, ...], model: Path, tmp_path: Path) -> None:
    output = tmp_path / "missing" / "dir" / "x.html"
    found = run("viz", "export", "--model", model, *more, "--output", output, "Ein Hund läuft.")
    assert found.returncode == 0
    assert output.stat().st_size > 1000


@pytest.mark.parametrize("more", [(), ("--with-model",)])
def test_an_output_inside_a_file_is_one_sentence(more: tuple[str, ...], model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "x.html"
    found = run("viz", "export", "--model", model, *more, "--output", output, "Ein Hund läuft.")
    assert found.returncode == 1
    assert found.stderr.count(b"\n") == 1
    assert b".part" not in found.stderr


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["translate", "-Ja."], ["translate", " -Ja."]),
        (["translate", "-Ja, das\nstimmt."], ["translate", " -Ja, das\nstimmt."]),
        (["translate", "--Ja."], ["translate", " --Ja."]),
        (["translate", "-- Ja."], ["translate", " -- Ja."]),
        (["translate", "---"], ["translate", " ---"]),
        (["translate", "--beam", "-1", "-"], ["translate", "--beam", "-1", "-"]),
        (["train", "--config.model.d-model=8", "--n_best", "2", "-h"],) * 2,
        (["translate", "--", "-Ja."], ["translate", "--", " -Ja."]),
    ],
)
def test_text_that_begins_with_a_hyphen_is_no_option(words: list[str], wanted: list[str]) -> None:
    assert protect_text(words) == wanted


def test_a_line_of_a_dialogue_is_translated(model: Path) -> None:
    for words in (
        ("-Ein Hund läuft.", "Ein Hund."),
        ("--beam", 2, "-Ein Hund läuft.", "Ein Hund."),
        ("--", "-Ein Hund läuft.", "Ein Hund."),
    ):
        found = run("model", "translate", "--model", model, *words)
        assert (found.returncode, found.stderr) == (0, b"")
        assert found.stdout.count(b"\n") == 2
    assert b"Unrecognized" in run("model", "translate", "--beem", 2, "Hund").stderr
