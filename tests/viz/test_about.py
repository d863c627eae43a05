"""What the page knows of its models."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from model.analysis.corpus import HEADS, load_heads
from model.analysis.definitions import MEASURES
from model.decoding.options import PAGE_BEAM
from model.errors import UserError
from model.results import KINDS
from model.storage.card import read_card, readme
from model.storage.checkpoint import ModelInfo, list_models, save
from model.translator import Translator
from tests.model.helpers import tiny_checkpoint
from tests.viz.questions import TRANSLATOR
from viz.about import (
    about_models,
    card_rows,
    measure_range,
    model_files,
    study_of,
    weaknesses_of,
    write_range,
)
from viz.viewer import ENGLISH, catalogues

ASSETS = Path(__file__).parents[2] / "assets"
MODELS = ASSETS / "models"
LANGUAGES = (ENGLISH, *catalogues())


def model_in(directory: Path | None, **card: Any) -> Any:
    """A translator of which only the information and the card are known."""
    checkpoint = SimpleNamespace(info=ModelInfo("de", "en", "One"), card=card)
    return SimpleNamespace(directory=directory, checkpoint=checkpoint)


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


def test_the_facts_of_a_card_replace_rows_of_their_name():
    card = {"facts": [["data", "a, b"], ["shape", "mine"], *[["more", "x" * 2000]] * 30]}
    translator = Translator(replace(TRANSLATOR.checkpoint, card=card))
    translator.directory = MODELS / "reverse"
    rows = about_models({"x": translator}, None)["x"]["card"]
    assert [name for name, _ in rows] == ["size", "tokens", "data", "shape", *["more"] * 18]
    assert rows[3] == ("shape", "mine")
    assert len(rows[-1][1]) == 1000


@pytest.mark.parametrize("model", sorted(path.name for path in MODELS.iterdir()))
def test_size_and_shape_can_be_translated_and_are_those_of_the_card(model):
    translator = Translator.load(MODELS / model)
    text, card = readme(translator.checkpoint.card), dict(card_rows(translator))
    for name in ("size", "shape", "tokens"):
        template, values = card.pop(name)
        (row,) = re.findall(rf"^\| {name} \| (.+) \|$", text, re.MULTILINE)
        written = re.findall(r"[\d.,]*\d", template.format(**values))
        assert written
        assert set(written) <= set(re.findall(r"[\d.,]*\d", row))
    assert card == dict(translator.checkpoint.card["facts"])


def test_a_model_without_a_card_says_its_size_and_shape(tmp_path):
    save(tiny_checkpoint(), tmp_path / "x")
    (tmp_path / "x" / "README.md").write_text("| data | of an older version |\n")
    rows = about_models({"x": Translator.load(tmp_path / "x")}, None)["x"]["card"]
    assert [name for name, value in rows if isinstance(value, list)] == ["size", "shape", "tokens"]
    assert len(rows) == 3


def test_a_link_to_another_folder_is_not_published(tmp_path):
    """In the page without a server, which contains the model's files. A card that is a link is not loaded."""
    (tmp_path / "secret").write_text("| key | 1234 |\n")
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    (directory / "metrics.jsonl").symlink_to(tmp_path / "secret")
    assert [path.name for path in model_files(model_in(directory))] == ["config.json"]


@pytest.mark.parametrize("model", sorted(path.name for path in MODELS.iterdir()))
def test_a_model_says_where_it_fails_in_every_language_of_the_page(model):
    found = weaknesses_of(read_card(MODELS / model))
    assert {code: len(lines) for code, lines in found.items()} == dict.fromkeys(LANGUAGES, 3)


@pytest.mark.parametrize("weaknesses", [[], 3, {"en": "one"}, {"en": {"a": 1}}, None])
def test_a_model_without_such_lines_has_none(weaknesses):
    assert weaknesses_of({"weaknesses": weaknesses}) == weaknesses_of({}) == {}
    assert weaknesses_of({"weaknesses": {"en": [1, "a"]}}) == {"en": ["a"]}


def test_a_model_that_was_moved_while_the_page_runs_still_says_its_facts(tmp_path):
    save(
        tiny_checkpoint(),
        tmp_path / "x",
        {"front": {}, "title": "x", "introduction": [], "facts": [["data", "two pairs"]]},
    )
    translator = Translator.load(tmp_path / "x")
    (tmp_path / "x").rename(tmp_path / "moved")
    assert card_rows(translator) == [("data", "two pairs")]


@pytest.mark.parametrize("path", list_models(MODELS), ids=lambda path: path.name)
def test_the_heads_of_every_shipped_model_are_measured_in_a_small_file(path):
    assert (path / HEADS).stat().st_size <= 150_000
    translator = Translator.load(path)
    found, config = load_heads(path), translator.checkpoint.model.config
    assert found
    for kind, layers in zip(KINDS, (config.n_encoder_layers, *2 * [config.n_decoder_layers]), strict=True):
        assert [len(row) for row in found["heads"][kind]] == layers * [config.n_heads]
    study = study_of(translator)
    assert study
    assert study["sentences"] == found["count"] <= 300
    names = {name for tables in study["measures"].values() for name in tables}
    assert {one.name for one in MEASURES} <= names


def test_a_model_without_such_a_file_has_no_study(tmp_path):
    save(tiny_checkpoint(seed=1), tmp_path)
    assert study_of(Translator.load(tmp_path)) is None


def test_the_shipped_files_have_at_most_48_megabytes():
    assert sum(path.stat().st_size for path in ASSETS.rglob("*") if path.is_file()) <= 48_000_000


def test_a_sentence_that_is_said_to_fail_fails():
    """The card quotes whole sentences; what each became is what the page shows for it."""
    translator = Translator.load(MODELS / "de-en")
    lines = " ".join(weaknesses_of(translator.checkpoint.card)["en"])
    quoted = re.findall(r"“([^”]+[.?])”[^“]*? became “([^”]+)”", lines)
    assert len(quoted) >= 2
    for sentence, wrong in quoted:
        assert translator.translate(sentence, beam_size=PAGE_BEAM).text == wrong
