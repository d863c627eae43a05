"""The page with a model that was imported, beside one that was trained here."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import app
from model import Translator
from model.decoding.kernels.compilation import COMPILATION
from model.decoding.options import PAGE_BEAM, SearchOptions
from model.decoding.progress import WorkCancelled, report
from model.importing.importer import import_model
from model.storage.card import CARD
from model.storage.checkpoint import CONFIG
from tests.benchmarks.imported import first_picture, memory
from tests.browser.conftest import TRANSLATORS, Visit
from tests.browser.screen import FIRST
from tests.browser.static_site import Visitor, expect_translation, served, write
from tests.model.importing.checkpoints import write_checkpoint, write_opus
from tests.model.importing.families import random_m2m, write_nllb_tokenizer
from tests.viz.fakes import FakeTranslator
from viz.about import MOST_BUTTONS

pytestmark = pytest.mark.browser

NAME, HOSTILE, NLLB, PROMPTED = "opus-mt-de-ROMANCE", "hostile", "nllb-200", "prompted"
PROMPTS = ["translate English to German: ", "summarize: "]
TEXT = "Der kleine Hund läuft."
MARKUP = "<img src=x onerror=document.body.id='run'>"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported model of two target languages, and a stranger's whose every text is markup."""
    origin = tmp_path_factory.mktemp("hub") / NAME
    write_checkpoint(origin, codes=(">>ita<<", ">>fra<<"), seed=3)
    (origin / "README.md").write_text("---\nlicense: cc-by-4.0\n---\nHelsinki-NLP, transformer-align\n")
    folder = tmp_path_factory.mktemp("models")
    import_model(str(origin), folder / NAME)
    import_model(str(origin), folder / HOSTILE)
    many = tmp_path_factory.mktemp("hub") / NLLB
    tokenizer = write_nllb_tokenizer(many)
    random_m2m(len(tokenizer), seed=3).save_pretrained(many)
    import_model(str(many), folder / NLLB)
    config = json.loads((folder / HOSTILE / CONFIG).read_text())
    (folder / HOSTILE / CONFIG).write_text(json.dumps(config | {"title": MARKUP, "origin": MARKUP}))
    (folder / HOSTILE / CARD).write_text(json.dumps({"title": MARKUP, "facts": [["licence", MARKUP]]}))
    import_model(str(origin), folder / PROMPTED)
    config = json.loads((folder / PROMPTED / CONFIG).read_text())
    prompted = {"prompts": PROMPTS, "target_languages": []}
    (folder / PROMPTED / CONFIG).write_text(json.dumps(config | prompted))
    return folder


class LongWork(FakeTranslator):
    """Tries its heads until nobody waits any more."""

    cancelled = Event()

    def importance(self, text: str, target: object = None, baseline: object = None) -> Any:
        for done in itertools.count():
            time.sleep(0.01)
            try:
                report(f"{min(done, 143)} of 144 heads")
            except WorkCancelled:
                self.cancelled.set()
                raise


LONG = LongWork("long", "6 layers, 8 heads", layers=6, heads=8)


@pytest.fixture(scope="module")
def address(models: Path) -> Iterator[str]:
    imported, problems = app.load(models)
    assert not problems
    service = app.create({"de-en": TRANSLATORS["de-en"], "long": LONG} | imported)
    yield service.launch()
    service.stop()


@pytest.fixture
def page(visit: Visit, address: str) -> Page:
    """The page with the imported model's translation of TEXT into the first language of its list."""
    return visit(f"{address}#model={NAME}&text={TEXT}")


def first_chip(page: Page) -> str:
    return page.locator(".hl-chip[data-side=source]").first.inner_text()


def choose_language(page: Page, name: str) -> None:
    language = page.get_by_role("combobox", name="Target language")
    language.fill(name)
    language.press("Enter")


def test_the_list_says_which_models_were_trained_here_and_examples_are_of_the_language(page: Page) -> None:
    groups = page.locator("#hl-model optgroup").evaluate_all(
        "all => all.map((group) => [group.label, ...[...group.children].map(({ value }) => value)])"
    )
    assert groups == [["Trained here", "de-en", "long"], ["Imported", HOSTILE, NLLB, NAME, PROMPTED]]
    shown = page.locator("#hl-examples button:visible").all_inner_texts()
    assert shown == app.EXAMPLES["de-en"][: len(shown)]
    assert len(shown) == MOST_BUTTONS
    page.locator("#hl-examples button").first.click()
    expect(page.get_by_label("Sentence")).to_have_value(FIRST)
    expect(page.locator(".hl-translation")).not_to_be_empty()


def test_the_target_language_is_chosen_next_to_the_sentence(page: Page, browser: Browser) -> None:
    language = page.get_by_role("combobox", name="Target language")
    expect(language).to_have_value("French")
    assert first_chip(page) == ">>fra<<"
    language.click()
    entries = page.locator("#hl-prefix").get_by_role("option")
    expect(entries).to_have_text(["Frenchfra", "Italianita"])
    entries.last.click()
    expect(page.locator(".hl-chip[data-side=source]").first).to_have_text(">>ita<<")
    expect(page.get_by_label("Sentence")).to_have_value(TEXT)
    assert "to=ita" in page.url
    other = browser.new_page()
    other.goto(page.url)
    expect(other.locator(".hl-chip[data-side=source]").first).to_have_text(">>ita<<")
    expect(other.get_by_role("combobox", name="Target language")).to_have_value("Italian")
    other.close()
    page.get_by_label("Model").select_option("de-en")
    expect(page.locator(".hl-translation")).to_have_text(TRANSLATORS["de-en"].translate(TEXT).text)
    expect(language).to_be_hidden()
    assert "to=" not in page.url


def test_a_model_of_many_languages_begins_its_translation_with_the_code(visit: Visit, address: str) -> None:
    page = visit(f"{address}#model={NLLB}&text={TEXT}&to=fra_Latn")
    language, source = (
        page.get_by_role("combobox", name=f"{side} language") for side in ("Target", "Source")
    )
    assert first_chip(page) == ">>deu_Latn<<"
    expect(source).to_have_value("German")
    target = page.locator(".hl-chip[data-side=target]").nth(1)  # the first is <s>
    expect(target).to_have_text(">>fra_Latn<<")
    language.fill("zzz")
    entries = page.locator("#hl-prefix").get_by_role("option")
    expect(entries).to_have_count(0)
    language.press("Enter")  # chooses nothing
    language.press("Escape")
    expect(language).to_have_value("French")
    language.fill("engl")
    language.press("Enter")
    expect(target).to_have_text(">>eng_Latn<<")
    source.press("ArrowDown")
    chosen = page.locator("#hl-prefix [aria-selected=true]")
    expect(chosen).to_have_text("Germandeu_Latn")
    expect(source).to_have_attribute("aria-activedescendant", chosen.get_attribute("id") or "")
    source.press("ArrowUp")
    source.press("Enter")
    expect(page.locator(".hl-chip[data-side=source]").first).to_have_text(">>fra_Latn<<")
    expect(target).to_have_text(">>eng_Latn<<")
    assert "to=fra_Latn%2Ceng_Latn" in page.url
    page.get_by_label("Sentence").fill(f">>deu_Latn<< >>zho_Hans<< {TEXT}")  # typed codes become the choice
    page.get_by_role("button", name="Translate ⏎").click()
    expect(target).to_have_text(">>zho_Hans<<")
    expect(language).to_have_value("Chinese")
    expect(source).to_have_value("German")
    expect(page.get_by_label("Sentence")).to_have_value(TEXT)
    assert ">>" not in page.locator(".hl-translation").inner_text()
    page.get_by_role("tab", name="Why").or_(page.get_by_role("tab", name="Cell")).first.click()
    page.locator(".hl-thumbnail").first.click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_prompt_stands_before_the_sentence_and_in_the_link(visit: Visit, address: str) -> None:
    page = visit(f"{address}#model={PROMPTED}&text={TEXT}")
    prompt = page.get_by_role("combobox", name="Prompt")
    expect(prompt).to_have_value("No prompt")  # as the link says
    source = page.locator(".hl-chips").filter(has=page.locator("[data-side=source]")).first
    prompt.fill("summ")
    prompt.press("Enter")
    expect(source).to_contain_text(re.compile(r"s.*u.*m.*Hund"))
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(TEXT)
    expect(page).to_have_url(re.compile(r"to=summarize%3A\+&"))
    page.reload()
    expect(prompt).to_have_value("summarize:")
    page.get_by_label("Model").select_option("de-en")
    expect(prompt).to_be_hidden()
    page.get_by_label("Model").select_option(PROMPTED)
    expect(prompt).to_have_value("translate English to German:")


@pytest.mark.slow
def test_a_link_to_another_target_language_says_that_there_is_none(page: Page, address: str) -> None:
    page.goto(f"{address}#model={NAME}&text={TEXT}&to={MARKUP}")
    page.reload()
    expect(page.get_by_role("alert").first).to_contain_text("which this model does not have")
    assert first_chip(page) == ">>fra<<"


@pytest.mark.slow
def test_requests_and_exports_are_about_the_chosen_target_language(page: Page) -> None:
    choose_language(page, "Italian")
    expect(page.locator(".hl-chip[data-side=source]").first).to_have_text(">>ita<<")
    page.get_by_role("tab", name="What if").click()
    page.get_by_role("button", name="All of layer").click()
    expect(page.locator(".hl-outcome")).to_contain_text("changes by")
    page.get_by_role("button", name="Show its attention").click()
    expect(page.locator(".hl-status")).to_contain_text("muted")
    assert first_chip(page) == ">>ita<<"
    page.get_by_role("button", name="Export").click()
    written = page.get_by_role("button", name="(JSON)")
    expect(written).to_be_enabled()
    expect(page.locator("#hl-export-menu .hl-call").first).to_contain_text(f">>ita<< {TEXT}")


def test_the_dialog_says_who_trained_the_model_and_the_training_tab_too(page: Page) -> None:
    page.get_by_role("button", name="About", exact=True).click()
    dialog = page.get_by_role("dialog", name="About")
    for text in (f"Imported from {NAME}", "did not train", "cc-by-4.0", "University of Helsinki", "cite"):
        expect(dialog).to_contain_text(text)
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("tab", name="Training").click()
    expect(page.locator(".hl-panel-training")).to_contain_text("did not train it")


def test_the_head_that_was_taught_to_align_is_named_so(page: Page) -> None:
    page.get_by_role("gridcell", name="layer 3, head 1, taught to align").click()
    title = page.get_by_text("Cross · layer 3 · head 1 · taught to align", exact=True).first
    expect(title).to_be_visible()
    page.get_by_role("tab", name="Head").click()
    expect(page.locator(".hl-panel-head")).to_contain_text("by default teaches this head")
    expect(page.locator(".hl-roles")).to_contain_text("layer 3, head 1: taught to align")
    page.get_by_role("button", name="Decoder", exact=True).click()
    expect(page.locator(".hl-roles")).not_to_contain_text("taught")


@pytest.mark.slow
def test_the_page_without_a_server_has_the_languages(browser: Browser, models: Path, tmp_path: Path) -> None:
    imported = {name: Translator.load(models / name) for name in (NAME, HOSTILE)}
    translated = {
        code: imported[NAME].translate(f"{code} {FIRST}", PAGE_BEAM).text for code in (">>fra<<", ">>ita<<")
    }
    visitor = Visitor(browser)
    with served(write(tmp_path / "site", imported)) as site:
        page = visitor.visit(site)
        expect_translation(page, translated[">>fra<<"])
        groups = page.locator("#hl-model optgroup").evaluate_all("all => all.map(({ label }) => label)")
        assert groups == ["Imported"]
        expect(page.locator(f"#hl-model option[value={HOSTILE}]")).to_contain_text(MARKUP)
        choose_language(page, "Italian")
        expect_translation(page, translated[">>ita<<"])
        expect(page.locator(".hl-chip[data-side=source]").first).to_have_text(">>ita<<")
        expect(page.get_by_label("Sentence", exact=True)).to_have_value(FIRST)
        assert "to=ita" in page.url
    visitor.close()
    assert not visitor.trouble


@pytest.mark.slow
def test_work_over_all_heads_says_how_far_it_is_and_can_be_cancelled(page: Page) -> None:
    page.get_by_label("Model").select_option("long")
    expect(page.locator(".hl-translation")).to_have_text(LONG.translate(TEXT).text)
    page.get_by_role("tab", name="What if").click()
    page.get_by_role("button", name="Try all 144 heads").click()
    status = page.locator(".hl-status")
    expect(status).to_have_text(re.compile(r"Trying each head in turn … \d+ of 144 heads"))
    status.get_by_role("button", name="Cancel").click()
    expect(status).to_have_text("")
    assert LONG.cancelled.wait(30)
    expect(page.get_by_role("button", name="Try all 144 heads")).to_be_visible()


def test_texts_of_a_stranger_stay_text(page: Page) -> None:
    page.get_by_label("Model").select_option(HOSTILE)
    expect(page.locator("#hl-model option:checked")).to_contain_text("<img")
    expect(page).to_have_url(re.compile(HOSTILE))
    page.get_by_role("button", name="About", exact=True).click()
    dialog = page.get_by_role("dialog", name="About")
    expect(dialog).to_contain_text(f"Imported from {MARKUP}")
    assert dialog.locator("img").count() == 0
    assert page.evaluate("document.body.id") != "run"


@pytest.mark.slow
def test_a_model_of_the_size_of_OPUS_MT_is_drawn_within_a_gigabyte(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6 + 6 layers of 8 heads, 58,000 entries, 12 tokens; `make bench-imported` measures the time."""
    monkeypatch.setattr(SearchOptions, "limit", SearchOptions.limit)  # put back afterwards
    write_opus(tmp_path / NAME)
    import_model(str(tmp_path / NAME), tmp_path / "imported")
    before = memory()
    translator = Translator.load(tmp_path / "imported")
    assert COMPILATION.ready(300)
    first_picture(browser, translator, times=1)
    assert memory() - before < 1000
