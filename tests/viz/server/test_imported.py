"""Requests about an imported model of several target languages."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

import app
from model.errors import UserError
from model.importing.importer import import_model
from model.translator import Translator
from tests.model.importing.checkpoints import write_checkpoint
from tests.viz.questions import TRANSLATOR
from viz.__main__ import trained
from viz.about import NOT_TRAINED_HERE, about_models, examples_of_models, prefix_choices
from viz.payload import decode, encode
from viz.server.backend import Backend
from viz.server.handlers import CHEAPEST
from viz.static.site import portable

NAME, TEXT, CODE, OTHER = "opus-mt-de-ROMANCE", "Der kleine Hund läuft.", ">>fra<<", ">>ita<<"
WRONG = "“language_prefix” must be a prompt, or codes of languages such as >>fra<< and a space."
COMMON = {"model": NAME, "text": TEXT, "beam_size": 1, "length_penalty": 1.0, "language_prefix": f"{CODE} "}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    origin = tmp_path_factory.mktemp("hub") / NAME
    write_checkpoint(origin, codes=(CODE, OTHER, ">>gos<<"))
    (origin / "README.md").write_text("---\nlicense: cc-by-4.0\n---\nHelsinki-NLP, transformer-align\n")
    directory = tmp_path_factory.mktemp("models") / NAME
    import_model(str(origin), directory)
    return Translator.load(directory)


@pytest.fixture(scope="module")
def backend(imported: Translator) -> Backend:
    return Backend({NAME: imported, "tiny": TRANSLATOR})


def answer(backend: Backend, do: str, **fields: Any) -> Any:
    return backend.answer(COMMON | {"do": do} | fields)


@pytest.fixture(scope="module")
def record(backend: Backend) -> dict[str, Any]:
    record: dict[str, Any] = answer(backend, "translate", forced=[])["answer"]
    return record


def test_the_code_is_the_first_token_and_no_part_of_the_sentence(
    record: dict[str, Any], imported: Translator
):
    assert (record["source_text"], record["language_prefix"]) == (TEXT, f"{CODE} ")
    assert record["tokens"]["source"][0]["piece"] == CODE
    assert record["tokens"]["source"][0]["special"]
    assert record["text"] == imported.translate(f"{CODE} {TEXT}").text
    assert not [notice for notice in record["notices"] if "code" in notice]


def test_the_payload_of_an_imported_model_can_be_read_again(imported: Translator):
    translation = imported.translate(f"{CODE} {TEXT}")
    assert decode(json.loads(json.dumps(encode(translation, NAME)))).source_text == f"{CODE} {TEXT}"
    own = TRANSLATOR.translate(TEXT)
    assert encode(own, "tiny")["language_prefix"] == ""
    typed = TRANSLATOR.translate(f"{CODE} {TEXT}")  # to a model without codes it is text
    assert encode(typed, "tiny")["source_text"] == f"{CODE} {TEXT}"


@pytest.mark.parametrize(
    ("do", "fields"),
    [
        ("target", {}),
        ("score", {"target": "The dog."}),
        ("mute", {"heads": [["cross", 2, 0]]}),
        ("importance", {}),
        ("transformed_norm", {}),
        ("cell", {"kind": "cross", "layer": 2, "head": 0, "row": 1, "column": 0}),
        ("beams", {"beam_size": 2}),
        ("lens", {}),
        ("leave_one_out", {}),
        ("routes", {"step": 0}),
        ("mute", {"heads": [["cross", 2, 0]], "baseline": "sentence", "other": "Die Katze."}),
    ],
)
def test_every_request_is_about_the_target_language(
    do: str, fields: dict[str, Any], backend: Backend, record: dict[str, Any]
):
    ids = [token["id"] for token in record["tokens"]["predicted"]]
    fields = ({} if do in ("score", "beams") else {"ids": ids}) | fields
    found = answer(backend, do, **fields)
    assert "answer" in found, found
    written = {"text": f"{CODE} {TEXT}"} | ({"other": f"{CODE} Die Katze."} if "other" in fields else {})
    assert without_times(found) == without_times(
        answer(backend, do, **(fields | written | {"language_prefix": ""}))
    )
    assert without_times(found) != without_times(answer(backend, do, **fields, language_prefix=f"{OTHER} "))


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(each) for name, each in value.items() if name != "timings"}
    return value


def test_examples_are_read_with_the_code(backend: Backend):
    given = [TEXT, "Die Katze schläft."]
    found = answer(backend, "examples", sentences=given)["answer"]
    assert all(sides["source"][0] == CODE for sides in found["sentences"].values())


def test_an_export_names_the_target_language(backend: Backend):
    files = answer(backend, "export", forced=[], heads=[], address="http://x", view="")["answer"]
    assert f"text='{CODE} {TEXT}'" in files["python"]
    assert f"{CODE} {TEXT}" in files["curl"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"language_prefix": ">>deu<< "},
            f"'{NAME}' has no language or prompt '>>deu<< '; choose one that it has, such as '{CODE}'.",
        ),
        ({"model": "tiny"}, "'tiny' has no language or prompt '>>fra<< '; leave out “language_prefix”."),
        ({"language_prefix": 3}, WRONG),
        ({"language_prefix": "x" * 101}, WRONG),
        ({"text": ""}, "There is nothing to translate; type a sentence."),
        ({"text": "  "}, "There is nothing to translate; type a sentence."),
    ],
)
def test_wrong_target_languages_are_refused(fields: dict[str, Any], sentence: str, backend: Backend):
    assert answer(backend, "translate", forced=[], **fields)["error"] == sentence


def test_the_panel_training_says_that_the_model_was_imported(backend: Backend):
    assert answer(backend, "training")["answer"]["notice"] == NOT_TRAINED_HERE


def test_work_for_a_larger_model_counts_more(backend: Backend, imported: Translator, monkeypatch):
    request = COMMON | {"do": "translate", "forced": []}
    before = backend.estimate_seconds(request)
    monkeypatch.setattr("viz.server.backend.USUAL_WEIGHTS", imported.checkpoint.model.config.n_parameters / 8)
    assert backend.estimate_seconds(request) == pytest.approx(8 * before)
    assert backend.estimate_seconds(request | {"model": []}) == CHEAPEST  # it is refused


# What the page says about it


def test_what_is_known_of_a_shipped_model_is_not_said_of_an_imported_one_of_its_name(imported: Translator):
    known = about_models({"de-en": imported}, app.ASSETS)["de-en"]
    assert known.keys() == {"card", "origin", "everyday"}
    assert known["origin"] == NAME
    card = dict(known["card"])
    assert "cc-by-4.0" in card["licence"]
    assert "University of Helsinki" in card["attribution"]


def test_examples_are_those_of_the_language(imported: Translator):
    found = examples_of_models({NAME: imported, "tiny": TRANSLATOR}, {"de-en": [TEXT], "tiny": ["x"]})
    assert found == {NAME: [TEXT], "tiny": ["x"]}
    assert examples_of_models({NAME: imported}, {"en-fr": ["A dog."]}) == {NAME: []}


def test_target_languages_have_their_names_and_are_sorted_by_them(imported: Translator):
    wanted = [(CODE, "French"), (OTHER, "Italian"), (">>gos<<", "gos")]
    found = prefix_choices(imported)
    assert found == {"codes": wanted, "source": "", "prompts": (), "usual": f"{CODE} "}
    assert prefix_choices(TRANSLATOR) == {}


def test_prompts_stand_before_every_sentence_of_a_request(imported: Translator, record: dict[str, Any]):
    prompts = ("translate: ", "translate: slowly: ")
    info = replace(imported.checkpoint.info, target_languages=(), prompts=prompts)
    asked = Translator(replace(imported.checkpoint, info=info), NAME)
    assert prefix_choices(asked) == {"prompts": prompts, "usual": prompts[0]}
    found = answer(Backend({NAME: asked}), "translate", forced=[], language_prefix=prompts[1])["answer"]
    assert (found["language_prefix"], found["source_text"]) == (prompts[1], TEXT)
    assert decode(found).source_text == prompts[1] + TEXT
    typed = answer(Backend({NAME: asked}), "translate", forced=[], language_prefix="", text=prompts[0] + TEXT)
    assert (typed["answer"]["language_prefix"], typed["answer"]["source_text"]) == (prompts[0], TEXT)
    wrong = answer(Backend({NAME: asked}), "translate", forced=[], language_prefix="summarize: ")["error"]
    assert wrong == (
        f"'{NAME}' has no language or prompt 'summarize: '; choose one that it has, such as 'translate: '."
    )


def test_payloads_of_the_last_release_keep_their_target_language(record: dict[str, Any]):
    former = {name: value for name, value in record.items() if name not in ("language_prefix", "n_forced")}
    found = decode(former | {"target_code": CODE, "n_prefix": 0})
    assert (found.source_text, found.source.language_prefix) == (f"{CODE} {TEXT}", f"{CODE} ")


def test_a_page_with_its_model_opens_on_the_target_language(imported: Translator):
    payload = encode(imported.translate(f"{OTHER} {TEXT}"), NAME)
    found = re.search(r'id="site">(.*?)</script>', portable(imported, payload))
    assert found is not None
    site = json.loads(html.unescape(found[1]))
    wanted = {"text": TEXT, "beam_size": 1, "length_penalty": 1.0, "language_prefix": f"{OTHER} "}
    assert site["stored"] == {NAME: wanted}
    assert parse_qs(site["view"])["to"] == ["ita"]


def test_its_training_cannot_be_measured(imported: Translator, tmp_path: Path):
    assert imported.directory is not None
    with pytest.raises(UserError, match="was not trained here"):
        trained((tmp_path / "train.de",), NAME, imported.directory.parent, tmp_path / "trained.json")


def test_hostile_codes_in_a_directory_are_refused(imported: Translator, tmp_path: Path):
    config = json.loads((imported.directory / "config.json").read_text())
    for path in imported.directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for code in ("<script>", ">>a b<<", ">><b<<", "fra", 7):
        (tmp_path / "config.json").write_text(json.dumps(config | {"target_languages": [code]}))
        with pytest.raises(UserError, match="are not codes of languages; import the model again"):
            Translator.load(tmp_path)
