"""Every command counts the same lines of a text file, whatever it holds."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import viz.__main__
from model.__main__ import translate
from model.errors import UserError
from model.files import BLOCK_BYTES, decode_lines, read_lines, write_lines
from model.storage.checkpoint import save
from model.translator import Translator
from tests.model.helpers import tiny_checkpoint
from tests.training.tiny import as_dataset
from training.corpus.links import with_links
from training.corpus.sources import read_training, read_words
from training.evaluation.align import AlignmentHead, align_files, read_gold
from training.evaluation.evaluate import evaluate

# A line feed alone ends a line; these characters belong to theirs.
ODD = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\ufeff"]
LINES = ["Der Hund schläft.", *(f"Ein{odd}Mann" for odd in ODD), "", "Ende"]
NASTY = b"\xef\xbb\xbf" + "\r\n".join(LINES).encode()  # a byte order mark first, no line feed last
WORDS = ["hund", "mann", "ende"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save(tiny_checkpoint(seed=1), tmp_path / "tiny")
    return tmp_path / "tiny"


Given = tuple[Path, Path, pytest.MonkeyPatch, pytest.CaptureFixture[str]]  # the file, the model, and pytest's


def count_in_training(given: Given) -> int:
    file = given[0]
    for language in ("de", "en"):
        (file.parent / f"train.{language}").write_bytes(file.read_bytes())
    return len(read_training(file.parent, ("de", "en")))


def count_of_origins(given: Given) -> int:
    (given[0].parent / "train.source").write_bytes(given[0].read_bytes())
    return count_in_training(given)


def count_in_evaluation(given: Given) -> int:
    return evaluate(Translator.load(given[1]), given[0], given[0], beam_size=1).sentences


def count_in_alignment(given: Given) -> int:
    head = AlignmentHead(0, 0, shifted=False)
    return len(align_files(Translator.load(given[1]), given[0], given[0], head=head).lines)


def count_in_gold(given: Given) -> int:
    return _count_in_message(lambda: read_gold(given[0], [], []))


def count_of_links(given: Given) -> int:
    return _count_in_message(lambda: with_links(as_dataset([("a", "b")]), given[0]))


def _count_in_message(read: Callable[[], object]) -> int:
    with pytest.raises(UserError) as refused:
        read()
    if (found := re.search(r"has (\d+) lines", str(refused.value))) is None:
        raise refused.value
    return int(found[1])


def count_of_standard_input(given: Given) -> int:
    file, model, monkeypatch, capsys = given
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes()), "ascii"))
    translate(model=str(model))
    return capsys.readouterr().out.count("\n")


def count_in_trained(given: Given) -> int:
    """Sentences that are not empty, of which LINES has one."""
    file, model, _, capsys = given
    viz.__main__.trained((file,), str(model), output=file.parent / "trained.json")
    found = re.search(r": (\d+) sentences", capsys.readouterr().out)
    assert found
    return int(found[1]) + 1


COUNTS = [
    count_in_training,
    count_of_origins,
    count_in_evaluation,
    count_in_alignment,
    count_in_gold,
    count_of_links,
    count_of_standard_input,
    count_in_trained,
]


@pytest.mark.parametrize("count", COUNTS)
def test_every_command_counts_the_same_lines(count, tmp_path, directory, monkeypatch, capsys):
    file = tmp_path / "text"
    given = file, directory, monkeypatch, capsys
    file.write_bytes(NASTY)
    assert count(given) == len(LINES)
    file.write_bytes(b"Hund\nHu\0nd\n")
    with pytest.raises(UserError, match="^Line 2 of .* has a NUL byte; remove it"):
        count(given)
    for encoding in ("utf-16", "utf-16-be"):
        file.write_bytes("\ufeffHund\n".encode(encoding))
        with pytest.raises(UserError, match="is UTF-16; convert it to UTF-8"):
            count(given)


def test_a_word_list_has_a_word_a_line(tmp_path):
    (tmp_path / "words.txt").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(WORDS).encode())
    assert sorted(read_words([tmp_path])["source"]) == sorted(WORDS)
    (tmp_path / "words.txt").write_text("Hund", encoding="utf-16")
    with pytest.raises(UserError, match="is UTF-16"):
        read_words([tmp_path])


def test_lines_are_the_same_in_blocks(tmp_path):
    lines = [*LINES, "x" * (2 * BLOCK_BYTES), "ä" * (BLOCK_BYTES // 3), *LINES, *["Hund"] * 300_000]
    write_lines(tmp_path / "text", lines)
    assert list(read_lines(tmp_path / "text")) == lines
    with pytest.raises(UserError, match=r"^Line 24 of Standard input has a NUL byte"):
        list(decode_lines(io.BytesIO("\n".join([*lines[:23], "\0"]).encode()), "Standard input"))


@pytest.mark.parametrize("text", [b"", b"\xef\xbb\xbf"])
def test_an_empty_text_has_no_line(text):
    assert list(decode_lines(io.BytesIO(text), "It")) == []
