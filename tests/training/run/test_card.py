"""The cards of the shipped models are correct, and `python -m training cards` updates their figures."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
from huggingface_hub import RepoCard

from model.errors import UserError
from model.files import write_json
from model.storage.card import CARD, README, markdown_table, read_card, readme, write_card
from model.storage.checkpoint import WEIGHTS, list_models, save
from model.translator import Translator
from tests.model.helpers import SENTENCES, tiny_checkpoint
from tests.training.tiny import write_lines
from training import __main__ as command_line
from training.run.card import file_of, fill_data, refresh, translate_everyday

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = {path.name: path for path in list_models(ROOT / "assets" / "models")}
EVERYDAY = json.loads((ROOT / "assets" / "everyday.json").read_text(encoding="utf-8"))
LICENCES = {  # words about the data that a card must have
    "tatoeba": "CC BY 2.0 FR",
    "multi30k": "non-commercial research and education",
    "xdailydialog": "non-commercial",
    "pinocchio": "public domain",
    "english-words": "Unlicense",
}
NON_COMMERCIAL = {"multi30k", "xdailydialog"}
# How far figures differ between processors that multiply in bfloat16 and others: see
# model.decoding.search.BFLOAT16_TOLERANCE. A trial decides which kind this one is; it depends on the load.
TOLERANCE = {"BLEU": 0.2, "chrF": 0.2, "WER": 0.004, "CER": 0.004, "exact": 0.3}


@pytest.fixture(params=SHIPPED)
def shipped(request) -> Path:
    return SHIPPED[request.param]


def text_of(directory: Path) -> str:
    return (directory / README).read_text(encoding="utf-8")


# The cards that are shipped


def test_front_matter_has_languages_data_and_licence(shipped):
    data = RepoCard.load(shipped / README).data
    info = Translator.load(shipped).checkpoint.info
    words = info.source_language == "word"
    assert data.language == (["en"] if words else [info.source_language, info.target_language])
    assert data.pipeline_tag == ("text2text-generation" if words else "translation")
    assert {"headlight", "transformer"} <= set(data.tags)
    assert set(data.datasets) <= set(LICENCES)
    assert data.license == ("other" if NON_COMMERCIAL & set(data.datasets) else "apache-2.0")
    assert data.license != "other" or data.license_name


def test_the_card_names_the_licence_of_its_data(shipped):
    card = RepoCard.load(shipped / README)
    assert card.data.datasets
    text = " ".join(card.text.split())
    assert [name for name in card.data.datasets if LICENCES[name] not in text] == []


def test_size_and_shape_are_those_of_the_model(shipped):
    shape = Translator.load(shipped).checkpoint.shape((shipped / WEIGHTS).stat().st_size)
    assert read_card(shipped)["shape"] == shape


def test_the_readme_is_the_card(shipped):
    assert text_of(shipped) == readme(read_card(shipped))
    assert not re.search(r"^\{\w+\}$", text_of(shipped), re.MULTILINE)  # each table has its place


def test_every_command_on_the_card_parses(shipped, monkeypatch, command):
    class ParsedError(Exception):
        pass

    def parsed(*_: object) -> None:
        raise ParsedError

    monkeypatch.chdir(ROOT)
    for work in ("Trainer", "average_models", "publish", "evaluate"):
        monkeypatch.setattr(command_line, work, parsed)
    blocks = "".join(re.findall(r"^```bash\n(.*?)^```$", text_of(shipped), re.M | re.S))
    commands = re.findall(r"^python -m training (.*)$", blocks.replace("\\\n", " "), re.M)
    assert {line.split()[0] for line in commands} >= {"train", "evaluate"}
    for line in commands:
        with pytest.raises(ParsedError):
            command(*shlex.split(line, comments=True))


@pytest.mark.parametrize("name", EVERYDAY)
def test_there_are_forty_everyday_sentences_ten_of_them_long(name):
    assert len(set(EVERYDAY[name])) == len(EVERYDAY[name]) == 40
    assert sum(len(sentence.split()) > 20 for sentence in EVERYDAY[name]) >= 10


def test_the_table_of_sources_is_that_of_the_run(tmp_path):
    table = {"columns": ["source"], "rows": [["old"]]}
    about = {"news": {"kind": "news", "licence": "CC0"}}
    assert fill_data(table, "de-en", [tmp_path], about) == table  # the run is not here
    (tmp_path / "de-en").mkdir()
    sources = {"news": {"pairs": 1200, "weight": 0.5}, "concatenated": {"pairs": 2000, "weight": 1.0}}
    (tmp_path / "de-en" / "run.json").write_text(json.dumps({"sources": sources}))
    text = markdown_table(**fill_data(table, "de-en", [tmp_path], about))
    _, _, first, second = text.splitlines()
    assert first == "| concatenated | 2,000 | 1 | neighbouring pairs, joined | those of their sources |"
    assert second == "| news | 1,200 | 0.5 | news | CC0 |"
    with pytest.raises(UserError, match="news has no kind and licence; add them to assets/sources.json"):
        fill_data(table, "de-en", [tmp_path], {})


def test_every_source_of_the_file_has_a_kind_and_a_licence():
    sources = json.loads((ROOT / "assets" / "sources.json").read_text(encoding="utf-8"))
    assert sources
    assert [name for name, about in sources.items() if not (about.get("kind") and about.get("licence"))] == []


@pytest.mark.parametrize("name", sorted(set(EVERYDAY) & set(SHIPPED)))
def test_everyday_translations_are_those_of_the_model(name):
    shown = read_card(SHIPPED[name])["tables"]["everyday"]
    assert shown == translate_everyday(Translator.load(SHIPPED[name]), EVERYDAY[name])


@pytest.mark.slow
def test_every_figure_is_what_evaluate_prints(shipped, command):
    """HEADLIGHT_DATA lists the folders of the test sets as PATH does: the corpora and the runs."""
    corpora = [Path(folder) for folder in os.environ.get("HEADLIGHT_DATA", "").split(os.pathsep)]
    info = Translator.load(shipped).checkpoint.info
    figures = read_card(shipped)["tables"]["figures"]
    assert figures["rows"]
    for row in figures["rows"]:
        shown = dict(zip(figures["columns"], row, strict=True))
        names = [f"{shown['test set']}.{code}" for code in (info.source_language, info.target_language)]
        try:
            files = [file_of(name, corpora) for name in names]
        except UserError:
            pytest.skip(f"{shown['test set']} is not here; name its folder in HEADLIGHT_DATA")
        assert shown["sentences"] == len(files[1].read_text(encoding="utf-8").splitlines())
        words = ["--source", files[0], "--reference", files[1], "--beam", shown["beam"]]
        lines = command("evaluate", shipped, *words)[0].splitlines()
        printed = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines}
        for name in TOLERANCE.keys() & shown.keys():
            value, rest = printed[name]
            assert shown[name] == pytest.approx(float(value), abs=TOLERANCE[name]), (row, name)
            assert name not in ("BLEU", "chrF") or figures["signatures"][name] == rest[0]


# Updating a card

TEMPLATE = {
    "title": "By hand",
    "introduction": ["{figures}", "{everyday}"],
    "facts": [["data", "by hand"]],
    "tables": {
        "figures": {
            "columns": ["test set", "beam", "sentences", "BLEU"],
            "rows": [["set/test", 1], ["other/set/test", 2, 7, 99.99]],
        },
        "everyday": {"columns": ["old"], "rows": []},
        "mine": {"columns": ["a"], "rows": [["b"]]},
    },
}


@pytest.fixture
def directory(tmp_path) -> Path:
    directory = tmp_path / "model"
    save(tiny_checkpoint(seed=1), directory)
    write_json(directory / CARD, TEMPLATE)
    for folder in (tmp_path / "set", tmp_path / "more" / "other" / "set"):
        for language in ("German", "English"):
            write_lines(folder / f"test.{language}", SENTENCES[:3])
    return directory


@pytest.fixture
def corpora(tmp_path) -> list[Path]:
    return [tmp_path, tmp_path / "more"]


def test_refresh_updates_the_tables_and_keeps_the_rest(directory, corpora):
    refresh(directory, corpora, SENTENCES[:2])
    card = read_card(directory)
    assert text_of(directory) == readme(card)
    assert {**card, "shape": 0, "tables": 0} == {**TEMPLATE, "shape": 0, "tables": 0}
    figures = card["tables"]["figures"]
    assert figures["columns"] == TEMPLATE["tables"]["figures"]["columns"]
    assert [row[:3] for row in figures["rows"]] == [["set/test", 1, 3], ["other/set/test", 2, 3]]
    assert all(0 <= row[3] < 99 for row in figures["rows"])
    assert figures["signatures"].keys() == {"BLEU"}
    assert "BLEU `nrefs:1" in text_of(directory)
    assert [row[0] for row in card["tables"]["everyday"]["rows"]] == list(SENTENCES[:2])
    assert card["tables"]["mine"] == TEMPLATE["tables"]["mine"]
    refresh(directory, corpora, SENTENCES[:2])
    assert read_card(directory) == card


def test_a_missing_table_is_not_added(directory, corpora):
    write_card(directory, {"title": "Nothing to fill"})
    refresh(directory, corpora, SENTENCES)
    assert read_card(directory).keys() == {"title", "shape"}


@pytest.mark.parametrize(
    ("change", "message"),
    [(("BLEU", "COMET"), "no figure 'COMET'"), (("set/test", "set/missing"), "no file .*missing")],
)
def test_a_mistake_on_the_card_is_one_sentence_and_changes_nothing(directory, corpora, change, message):
    wrong = (directory / CARD).read_text(encoding="utf-8").replace(*change)
    (directory / CARD).write_text(wrong, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        refresh(directory, corpora, SENTENCES)
    assert (directory / CARD).read_text(encoding="utf-8") == wrong


def test_a_model_without_a_card_is_refused(directory, corpora):
    (directory / CARD).unlink()
    with pytest.raises(UserError, match="write the card first"):
        refresh(directory, corpora, SENTENCES)


def test_cards_refreshes_every_model_of_a_folder(directory, tmp_path, command):
    everyday = tmp_path / "everyday.json"
    write_lines(everyday, [json.dumps({"model": SENTENCES[:1]})])
    data = ["--data", tmp_path, tmp_path / "more"]
    printed, _ = command("cards", *data, "--models", tmp_path, "--everyday", everyday)
    assert printed == f"{directory / CARD}\n"
    assert SENTENCES[0] in text_of(directory)
