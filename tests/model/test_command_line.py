"""`python -m model translate`."""

import io
import json
from pathlib import Path

import pytest

from model.__main__ import translate
from model.errors import UserError
from model.storage.checkpoint import save
from model.translator import Translator
from tests.model.helpers import tiny_checkpoint

LINES = ["Ein Hund läuft.", "", "Wie geht's?", "Hund\u2028Schnee\rTür", " ", "Öffne die Tür!"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save(tiny_checkpoint(seed=1), tmp_path / "tiny")
    return tmp_path / "tiny"


class Run:
    """Calls the command with bytes on standard input."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path):
        self.monkeypatch, self.capsys, self.model = monkeypatch, capsys, str(model)

    def __call__(self, piped: bytes, status: int = 0, **options: object) -> tuple[str, str]:
        self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(piped), "ascii"))
        if status:
            with pytest.raises(SystemExit) as stopped:
                translate(model=self.model, **options)
            assert stopped.value.code == status
        else:
            translate(model=self.model, **options)
        captured = self.capsys.readouterr()
        return captured.out, captured.err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path) -> Run:
    return Run(monkeypatch, capsys, model)


@pytest.mark.parametrize("beam", [1, 3])
def test_lines_keep_their_order_and_empty_ones_stay_empty(run: Run, beam: int) -> None:
    translator = Translator.load(run.model)
    expected = [translator.translate(line, beam).text if line.strip() else "" for line in LINES]
    out, err = run("\n".join(LINES).encode(), beam=beam)
    assert out == "\n".join(expected) + "\n"
    assert err == ""  # no progress bar where nobody watches
    assert len(set(expected)) > 3


@pytest.mark.parametrize(
    ("text", "lines"), [(b"", 0), (b"\n", 1), (b"Hund", 1), (b"Hund\n", 1), (b"Hund\n\n", 2)]
)
def test_as_many_lines_come_out_as_go_in(run: Run, text: bytes, lines: int) -> None:
    assert run(text)[0].count("\n") == lines


def test_n_best_are_printed_behind_their_scores(run: Run) -> None:
    out, _ = run("Hund\n\nEin Hund läuft.\n".encode(), n_best=3)
    first, second = (lines.split("\n") for lines in out[:-1].split("\n\n"))
    assert len(first) == len(second) == 3
    for rows in (first, second):
        scores = [float(row.split("\t")[0]) for row in rows]
        assert scores == sorted(scores, reverse=True)


def test_json_has_tokens_and_scores(run: Run) -> None:
    out, _ = run("Ein Hund 😀 läuft.\n\nHund\n".encode(), as_json=True, beam=3, n_best=2)
    first, empty, last = map(json.loads, out.splitlines())
    translation = Translator.load(run.model).translate("Ein Hund 😀 läuft.", 3, n_best=2)
    assert empty == {"source": "", "text": ""}
    assert last["source"] == "Hund"
    assert first["text"] == translation.text
    assert first["source_tokens"] == [token.text for token in translation.attention.source]
    assert first["target_tokens"] == [token.text for token in translation.attention.predicted]
    assert first["log_probabilities"] == pytest.approx(translation.log_probabilities, abs=1e-4)
    assert len(first["hypotheses"]) == 2
    assert first["hypotheses"][0]["score"] == pytest.approx(translation.hypotheses[0].score, abs=1e-4)
    assert first["notices"] == list(translation.notices)
    assert any("😀" in notice for notice in first["notices"])


@pytest.mark.parametrize("as_json", [True, False])
def test_lines_that_cannot_be_translated_do_not_stop_the_others(run: Run, as_json: bool) -> None:
    lines = ["Hund", "Hund " * 200, "", "😀", "x" * 10_000, "Schnee"]
    out, err = run("\n".join(lines).encode(), status=1, as_json=as_json)
    texts = [json.loads(line)["text"] for line in out.splitlines()] if as_json else out[:-1].split("\n")
    assert [bool(text) for text in texts] == [True, False, False, False, False, True]
    second, fourth, fifth = err.splitlines()
    assert second.startswith("Line 2: The sentence has ")
    assert "tokens; the limit is 128" in second
    assert fourth == "Line 4: The model knows none of these characters; it reads German."
    assert fifth.startswith("Line 5: The text has 10,000 characters")


def test_other_encodings_are_refused(run: Run) -> None:
    with pytest.raises(UserError, match="not UTF-8; convert it first"):
        run("läuft".encode("latin-1"))


def test_sentences_may_be_arguments(run: Run) -> None:
    expected = Translator.load(run.model).translate_batch(["Hund", "Ein Hund"])
    assert run(b"", text=("Hund", "Ein Hund"))[0].splitlines() == expected
