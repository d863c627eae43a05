"""What the page knows of its models."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from model.errors import UserError
from model.storage.checkpoint import ModelInfo
from tests.viz.questions import TRANSLATOR
from viz.about import about_models, measure_range, model_files, read_card, read_weaknesses, write_range
from viz.viewer import ENGLISH, catalogues

MODELS = Path(__file__).parents[2] / "assets" / "models"
LANGUAGES = (ENGLISH, *catalogues())


def model_in(directory: Path | None, **info: Any) -> Any:
    """A translator of which only the information is known."""
    about = ModelInfo(**({"source_language": "de", "target_language": "en", "title": "One"} | info))
    return SimpleNamespace(directory=directory, checkpoint=SimpleNamespace(info=about))


def test_the_range_of_a_training_is_within_its_sentences(tmp_path):
    tokenizer = TRANSLATOR.checkpoint.source_tokenizer
    lines = ["Ein kleiner Hund läuft.", "", "Die Tür ist heiß"]
    found = measure_range(tokenizer, lines)
    lengths = [len(tokenizer.source_tokens(line)) for line in lines if line]
    assert found.sentences == 2
    assert min(lengths) <= found.tokens <= max(lengths)
    assert found.pieces >= 1
    write_range(tmp_path / "trained.json", "one", found)
    write_range(tmp_path / "trained.json", "other", found)
    known = about_models({"one": model_in(None)}, tmp_path)
    assert known == {"one": {"trained": found._asdict()}}
    with pytest.raises(UserError, match="There is no sentence"):
        measure_range(tokenizer, ["  "])


def test_the_card_of_a_model_is_its_tables(tmp_path):
    (tmp_path / "README.md").write_text(
        "# x\n\n| | |\n|---|---|\n| size | 9 M |\n| data | a, b |\n\n## How\n| no | no |\n"
    )
    known = about_models({"x": model_in(tmp_path)}, tmp_path)
    assert known == {"x": {"card": [("size", "9 M"), ("data", "a, b")]}}


@pytest.mark.parametrize("model", sorted(path.name for path in MODELS.iterdir()))
def test_what_make_cards_writes_can_be_translated(model):
    text, card = (MODELS / model / "README.md").read_text("utf-8"), dict(read_card(MODELS / model))
    for name in ("size", "shape", "tokens"):
        template, values = card.pop(name)
        (row,) = re.findall(rf"^\| {name} \| (.+) \|$", text, re.MULTILINE)
        written = re.findall(r"[\d.,]*\d", template.format(**values))
        assert written
        assert set(written) <= set(re.findall(r"[\d.,]*\d", row))
    assert all(isinstance(value, str) for value in card.values())


def test_a_link_to_another_folder_is_not_published(tmp_path):
    """Neither as the card nor in the page without a server, which contains the model's files."""
    (tmp_path / "secret").write_text("| key | 1234 |\n")
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    for name in ("README.md", "metrics.jsonl"):
        (directory / name).symlink_to(tmp_path / "secret")
    assert about_models({"x": model_in(directory)}, tmp_path) == {"x": {}}
    assert [path.name for path in model_files(model_in(directory))] == ["config.json"]


def test_a_model_says_where_it_fails_in_every_language_of_the_page():
    shipped = {path.name: model_in(path) for path in MODELS.iterdir() if path.is_dir()}
    for name, about in about_models(shipped, None).items():
        assert {code: len(lines) for code, lines in about["weaknesses"].items()} == dict.fromkeys(
            LANGUAGES, 3
        ), name


@pytest.mark.parametrize("content", ["", "[]", "3", '{"en": "one"}', '{"en": {"a": 1}}', None])
def test_a_model_without_such_lines_has_none(tmp_path, content):
    if content is not None:
        (tmp_path / "weaknesses.json").write_text(content)
    assert read_weaknesses(tmp_path) == {}
