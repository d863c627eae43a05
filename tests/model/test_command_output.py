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
from tests.commands import run_command
from tests.model.helpers import tiny_checkpoint

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    save(tiny_checkpoint(seed=1), directory)
    return directory


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1:strict"])
def test_text_is_written_in_utf_8(encoding: str, model: Path) -> None:
    words = ("model", "translate", "--model", model, "--json", "Öffne die Tür! ✓ 日")
    found = run_command(*words, encoding=encoding)
    assert (found.returncode, found.stderr) == (0, b"")
    assert json.loads(found.stdout.decode())["source"] == "Öffne die Tür! ✓ 日"
    failed = run_command("model", "translate", "--model", model.parent / "Tür✓", "Hund", encoding=encoding)
    assert failed.returncode == 1
    assert "Tür✓" in failed.stderr.decode()
    assert b"Traceback" not in failed.stderr


@pytest.mark.parametrize("package", ["model", "viz", "training"])
def test_help_is_written_in_any_encoding(package: str) -> None:
    found = run_command(package, "--help", encoding="ascii")
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout


# In a process of its own


def command(model: Path, *words: str | bytes) -> list[str | bytes]:
    return [sys.executable, "-m", "model", "translate", "--model", str(model), *words]


def test_bytes_that_are_no_text_are_written_as_question_marks(model: Path) -> None:
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONWARNINGS": "ignore"}
    words = command(model, "--json", "Öffne ✓ ".encode() + b"H\xffund")
    found = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert json.loads(found.stdout.decode())["source"] == "Öffne ✓ H?und"


def test_a_pipe_that_closes_ends_the_command_quietly(model: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command(model, "--n-best", "3"), cwd=ROOT, **pipes) as process:  # type: ignore[call-overload]
        process.stdout.close()
        process.stdin.write("Öffne die Tür!\n".encode() * 50)
        process.stdin.close()
        errors = process.stderr.read()
    assert errors == b""
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_standard_output_is_one_sentence(model: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        pipes = {"stdout": full, "stderr": subprocess.PIPE}
        found = subprocess.run(command(model, "Hund"), cwd=ROOT, check=False, **pipes)  # type: ignore[call-overload]
    assert found.returncode == 1
    assert found.stderr.startswith(b"A file could not be read or written (No space left")


# In this process


@pytest.mark.parametrize("more", [(), ("--with-model",)])
def test_a_missing_folder_of_the_output_is_made(more: tuple[str, ...], model: Path, tmp_path: Path) -> None:
    words = ("viz", "export", "--model", model, *more, "Ein Hund läuft.", "--output")
    output = tmp_path / "missing" / "dir" / "x.html"
    assert run_command(*words, output).returncode == 0
    assert output.stat().st_size > 1000
    failed = run_command(*words, output / "x.html")  # inside a file
    assert failed.returncode == 1
    assert failed.stderr.count(b"\n") == 1
    assert b".part" not in failed.stderr


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
        found = run_command("model", "translate", "--model", model, *words)
        assert (found.returncode, found.stderr) == (0, b"")
        assert found.stdout.count(b"\n") == 2
    assert b"Unrecognized" in run_command("model", "translate", "--beem", 2, "Hund").stderr
