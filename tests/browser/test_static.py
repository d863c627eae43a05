"""The page without a server in a real Chromium: first visit, offline, failed downloads, one file."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, Route, expect

import app
from model import Translator
from tests.browser.static_site import (
    CachedHandler,
    ask_page,
    await_kept,
    await_viewer,
    expect_translation,
    served,
    submit,
    write,
)
from viz.export import checksum
from viz.payload import encode
from viz.static import document, site
from viz.static.document import engine, viewer
from viz.static.site import portable
from viz.viewer import catalogues

pytestmark = pytest.mark.browser
FIRST_PICTURE = 400_000  # bytes
ENGINE = "**/engine.deflate*"
NOTHING = "There is nothing to translate; type a sentence."
WEIGHTS = "**/reverse/model.safetensors*"
WORD, SENTENCE = "headlight", "Der alte Mann kauft morgen einen neuen Hut."
NO_MODEL = "The model could not be loaded; check the connection, then try again."
BROKEN = {
    "gone": NO_MODEL,
    "no engine": NO_MODEL,
    "failing": "The model in this page failed; reload the page, then try again.",
    "cut": "The download of the model was cut off; try again.",
    "damaged": "The model arrived damaged: its checksum is wrong; try again.",
}


def test_the_first_picture_needs_no_engine_and_the_model_comes_with_a_bar(visitor, static, models):
    arrived: list[int] = []
    held: list[Route] = []
    page = visitor.page()
    page.on("response", lambda response: arrived.append(int(response.headers.get("content-length", 0))))
    for file in (ENGINE, WEIGHTS):
        page.route(file, lambda route: held.extend([route]))
    page.goto(static)
    page.locator(".hl-thumbnail").first.wait_for()
    expect_translation(page, models["reverse"].translate(app.EXAMPLES["reverse"][0]).text)
    assert 0 < sum(arrived) < FIRST_PICTURE
    expect(page.get_by_role("progressbar")).to_have_count(0)
    held.pop().continue_()
    expect(page.get_by_role("status").filter(has_text="reverse: 0.0 of 1.9 MB")).to_be_visible()
    held.pop().continue_()
    submit(page, WORD)
    expect_translation(page, models["reverse"].translate(WORD).text)
    expect(page.locator("#hl-progress")).to_be_hidden()


@pytest.mark.slow
def test_what_stands_beside_is_translated_in_the_page(visitor, static, models):
    page = visitor.visit(static)
    page.get_by_role("button", name="Side by side").click()
    page.get_by_label("Another sentence", exact=True).fill(WORD)
    page.get_by_label("Another sentence", exact=True).press("Enter")
    expect_translation(page, models["reverse"].translate(WORD).text, "Tokens of B")
    page.get_by_label("Another model", exact=True).select_option("de-en")
    same = app.EXAMPLES["reverse"][0]
    expect_translation(page, models["de-en"].translate(same).text, "Tokens of B")
    expect_translation(page, models["reverse"].translate(same).text, "Tokens")


def test_the_field_is_read_only_until_the_page_has_started(visitor, static):
    held: list[Route] = []
    page = visitor.page(locale="de-CH")
    page.route("**/locales/**", lambda route: held.extend([route]))
    page.goto(static)
    sentence = page.locator("#hl-sentence input")
    expect(sentence).not_to_be_editable()
    while not held:
        page.wait_for_timeout(20)
    held.pop().continue_()
    expect(sentence).to_be_editable()
    expect(sentence).to_have_value(app.EXAMPLES["reverse"][0])


@pytest.mark.slow
def test_a_visitor_gets_one_language_and_the_engine_s_errors_in_it(visitor, static, static_folder):
    arrived: dict[str, int] = {}
    page = visitor.page(locale="de-CH")
    page.on("response", lambda one: arrived.update({one.url: int(one.headers.get("content-length", 0))}))
    page.goto(static)
    expect(page.get_by_role("tab", name="Kopf")).to_be_visible()
    later = ("models/", "engine.deflate", "offline.js", "blob:")
    content = (static_folder / "locales" / "de.deflate").read_bytes()
    first = {url: size for url, size in arrived.items() if not any(part in url for part in later)}
    assert [url.split("/locales/")[1] for url in first if "locales" in url] == [
        f"de.deflate?{quote(checksum(content), safe='')}"
    ]
    assert 0 < sum(first.values()) < FIRST_PICTURE
    page.get_by_label("Satz", exact=True).fill(" ")
    page.get_by_role("button", name="Übersetzen").click()
    expect(page.get_by_role("alert").locator("span")).to_have_text(catalogues()["de"][NOTHING])
    page.get_by_label("Sprache", exact=True).select_option("it")
    expect(page.get_by_role("tab", name="Testa")).to_be_visible()


def test_an_export_in_german_stays_german(visitor, models, tmp_path):
    payload = encode(models["reverse"].translate("lantern"), "reverse")
    (tmp_path / "export.html").write_text(portable(models["reverse"], payload, language="de"), "utf-8")
    page = visitor.page(locale="fr-FR")
    page.goto((tmp_path / "export.html").as_uri())
    expect(page.get_by_role("tab", name="Kopf")).to_be_visible()
    assert page.locator("#hl-language option").all_inner_texts() == ["English", "Deutsch"]


def test_a_model_is_fetched_when_it_is_chosen(visitor, static, models):
    page = visitor.visit(static)
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    submit(page, WORD)
    expect_translation(page, models["reverse"].translate(WORD).text)
    assert not [url for url in fetched if "de-en" in url]
    page.get_by_label("Model").select_option("de-en")
    expect_translation(page, models["de-en"].translate(app.EXAMPLES["de-en"][0]).text)
    submit(page, SENTENCE)
    expect_translation(page, models["de-en"].translate(SENTENCE).text)
    assert [url for url in fetched if "de-en/model.safetensors" in url]


def test_a_second_visit_needs_no_connection(visitor, static_folder, models):
    with served(static_folder) as url:
        page = visitor.visit(url)
        submit(page, "lamp")
        expect_translation(page, models["reverse"].translate("lamp").text)
        await_kept(page)
    page.reload()
    submit(page, WORD)
    expect_translation(page, models["reverse"].translate(WORD).text)
    page.get_by_role("button", name="About", exact=True).click()
    expect(page.get_by_text(f"Kept for use without a connection: {models['reverse'].title}")).to_be_visible()


def test_a_model_that_cannot_be_loaded_stays_chosen_in_every_language(visitor, static):
    """Its sentence is not given to another model."""
    page = visitor.visit(static)
    page.route("**/models/de-en/**", lambda route: route.abort())
    model, sentence = page.locator("#hl-model select"), page.locator("#hl-sentence input")
    model.select_option("de-en")
    alert = page.get_by_role("alert").locator("span")
    expect(alert).to_contain_text("Below is still")
    for language in ("it", "fr", "en"):
        page.locator("#hl-language select").select_option(language)
        expect(page.locator("html")).to_have_attribute("lang", language)
        expect(alert).not_to_be_empty()
        expect(model).to_have_value("de-en")
        expect(sentence).to_have_value(app.EXAMPLES["de-en"][0])
        expect(page.locator(".hl-translation")).to_be_hidden()


@pytest.mark.slow
def test_a_second_visit_speaks_the_visitor_s_language_wherever_the_page_lies(visitor, models, tmp_path):
    write(tmp_path / "models" / "site", {"reverse": models["reverse"]})
    page = visitor.page(locale="de-CH")
    with served(tmp_path) as url:
        page.goto(f"{url}models/site/")
        await_kept(page)
    page.goto(f"{url}models/site/index.html?again")
    expect(page.get_by_role("tab", name="Kopf")).to_be_visible()


def release(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The sites that are written from now on have another viewer and another engine."""
    for module in (document, site):
        monkeypatch.setattr(module, "viewer", lambda: f"{viewer()}Headlight.release = {number};")
    changed = engine().replace(NOTHING, f"Release {number} has nothing to translate.")
    assert changed != engine()
    monkeypatch.setattr(site, "engine", lambda: changed)


def write_later(folder: Path, models: dict[str, Translator]) -> None:
    """Write the site again as if a minute had passed: a file server dates its files to the second."""
    write(folder, models)
    later = time.time() + 60
    for name in ("index.html", "offline.js"):
        os.utime(folder / name, (later, later))


def expect_release(page: Page, number: int) -> None:
    await_viewer(page)
    assert page.evaluate("Headlight.release") == number
    submit(page, " ")
    sentence = page.get_by_role("alert").locator("span")
    expect(sentence).to_have_text(f"Release {number} has nothing to translate.")


@pytest.mark.slow
def test_a_new_release_replaces_the_one_that_the_browser_kept(visitor, models, tmp_path, monkeypatch):
    folder, own = tmp_path / "site", {"reverse": models["reverse"]}
    release(monkeypatch, 1)
    write(folder, own)
    with served(folder, CachedHandler) as url:
        page = visitor.visit(f"{url}?first")
        expect_release(page, 1)
        await_kept(page)
        release(monkeypatch, 2)
        write_later(folder, own)
        page.goto(url)
        expect_release(page, 2)
        await_kept(page)
    page.reload()
    expect_release(page, 2)


def test_two_pages_of_one_site_are_kept_apart(visitor, models, tmp_path, monkeypatch):
    page, own = visitor.page(), {"reverse": models["reverse"]}
    with served(tmp_path) as url:
        for number, name in enumerate(("one", "two"), 1):
            release(monkeypatch, number)
            write(tmp_path / name, own)
            page.goto(f"{url}{name}/")
            await_kept(page)
    for number, name in enumerate(("one", "two"), 1):
        page.goto(f"{url}{name}/")
        await_viewer(page)
        assert page.evaluate("Headlight.release") == number


@pytest.mark.slow
def test_a_full_disk_hides_no_new_release(visitor, models, tmp_path, monkeypatch):
    folder, own = tmp_path / "site", {"reverse": models["reverse"]}
    with served(write(folder, own)) as url:
        page = visitor.visit(url)
        await_kept(page)
        full = {"origin": url.rstrip("/"), "quotaSize": 1}
        page.context.new_cdp_session(page).send("Storage.overrideQuotaForOrigin", full)
        release(monkeypatch, 2)
        write_later(folder, own)
        page.reload()
        expect_release(page, 2)
    page.reload()
    await_viewer(page)
    assert page.evaluate("Headlight.release === undefined")  # the release that had room


def test_a_viewer_of_another_release_is_one_sentence(visitor, static):
    page = visitor.page()
    page.route("**/viewer.deflate*", lambda route: route.fulfill(body=zlib.compress(b"0")))
    page.goto(static)
    expect(page.get_by_role("alert")).to_have_text(
        "A part of this page did not arrive; check the connection and load the page again."
    )


# The first Worker of the page fails at once.
FAILING = """window.Worker = ((Own) => class extends Own {
  constructor(address) {
    super(window.failed ? address : URL.createObjectURL(new Blob(['throw new Error()'])));
    window.failed = true;
  }
})(Worker)"""


@pytest.mark.slow
def test_the_training_of_a_kept_model_shows_no_bar(visitor, static, models):
    page = visitor.visit(static)
    submit(page, "lamp")
    expect_translation(page, models["reverse"].translate("lamp").text)
    page.reload()
    submit(page, WORD)
    expect_translation(page, models["reverse"].translate(WORD).text)
    page.get_by_role("tab", name="Training").click()
    expect(page.locator(".hl-curve").first).to_be_visible()
    expect(page.locator("#hl-progress")).to_be_hidden()


def test_a_stored_answer_is_for_its_target_language_alone(visitor, static, models):
    task = {"model": "reverse", "text": app.EXAMPLES["reverse"][0], "beam_size": 1, "length_penalty": 1.0}
    question = {**task, "do": "translate", "forced": [], "language_prefix": ">>fra<< "}
    (reply,) = ask_page(visitor.visit(static), [question])
    assert reply["answer"]["text"] == models["reverse"].translate(f">>fra<< {task['text']}").text


SLOW_FAULTS = [pytest.param(fault, marks=pytest.mark.slow) for fault in ("gone", "cut", "failing")]


@pytest.mark.parametrize("fault", ["damaged", "no engine", *SLOW_FAULTS])
def test_what_does_not_arrive_or_run_is_one_sentence_with_another_try(
    visitor, static, static_folder, models, fault
):
    content = (static_folder / "models" / "reverse" / "model.safetensors").read_bytes()
    answers = {
        "no engine": {"status": 404, "body": "<h1>Not found</h1>"},
        "cut": {"body": content[:-1]},
        "damaged": {"body": content[:-1] + b"\0"},
    }
    page = visitor.page()
    if fault == "failing":
        page.add_init_script(FAILING)
    else:
        file, given = ENGINE if fault == "no engine" else WEIGHTS, answers.get(fault)
        page.route(file, lambda route: route.fulfill(**given) if given else route.abort())
    page.goto(static)
    expect(page.get_by_role("alert").locator("span")).to_have_text(BROKEN[fault])
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    submit(page, WORD)
    expect_translation(page, models["reverse"].translate(WORD).text)
    expect(page.get_by_role("alert").filter(visible=True)).to_have_count(0)


# What the Worker says, without its answers; a press on Cancel as soon as there is progress.
LISTEN = """window.said = [];
window.Worker = class extends Worker {
  constructor(address) {
    super(address);
    this.addEventListener('message', ({ data: { id, progress, error, answer } }) => {
      window.said.push({ id, progress, error, isAnswer: answer !== undefined });
      const buttons = progress ? document.querySelectorAll('main button') : [];
      for (const button of buttons) if (button.textContent === 'Cancel') button.click();
    });
  }
};"""


@pytest.mark.slow
def test_the_worker_stops_measuring_heads_when_it_is_cancelled(visitor, static, models):
    long = " ".join([SENTENCE] * 5)
    page = visitor.page()
    page.add_init_script(LISTEN)
    view = {"model": "de-en", "text": long, "kind": "cross", "panel": "mute"}
    page.goto(f"{static}#{urlencode(view)}")
    expect_translation(page, models["de-en"].translate(long).text)
    page.get_by_role("button", name="Try all 96 heads").click()
    page.wait_for_function("() => said.some(({ error }) => error === 'Cancelled.')")
    submit(page, WORD)
    expect_translation(page, models["de-en"].translate(WORD).text)
    heads = page.evaluate("said.filter(({ id }) => id === said.find(({ progress }) => progress).id)")
    assert len(heads) < 96
    assert not any(each["isAnswer"] for each in heads)
    expect(page.get_by_text("Marks:")).to_be_hidden()
    expect(page.get_by_role("alert").filter(visible=True)).to_have_count(0)


@pytest.mark.slow
def test_an_export_with_its_model_translates_on(visitor, models, tmp_path):
    shown = models["reverse"].translate("lantern")
    (tmp_path / "export.html").write_text(portable(models["reverse"], encode(shown, "reverse")), "utf-8")
    page = visitor.visit((tmp_path / "export.html").as_uri())
    expect_translation(page, shown.text)
    submit(page, WORD)
    expect_translation(page, models["reverse"].translate(WORD).text)


def test_one_file_translates_and_mutes_without_a_server(visitor, models, tmp_path):
    write(tmp_path / "single", {"reverse": models["reverse"]}, single=True)
    page = visitor.visit((tmp_path / "single" / "headlight.html").as_uri() + "#kind=cross&panel=mute")
    submit(page, WORD)
    expect_translation(page, models["reverse"].translate(WORD).text)
    page.get_by_role("button", name="All of layer 1").click()
    muted = models["reverse"].mute(WORD, [("cross", 0, head) for head in range(4)])
    expect(page.locator(".hl-outcome")).to_contain_text("changes by")
    page.get_by_role("button", name="Show its attention").click()
    expect_translation(page, muted.ablated.text)
    page.get_by_role("button", name="Show it without muting").click()
    expect(page.get_by_text("Marks:")).to_be_visible()


@pytest.mark.slow
def test_one_file_on_a_server_asks_it_for_nothing_else(visitor, models, tmp_path):
    asked: list[str] = []
    page = visitor.page()
    page.context.on("request", lambda request: asked.append(request.url))
    with served(write(tmp_path / "single", {"reverse": models["reverse"]}, single=True)) as url:
        page.goto(f"{url}headlight.html")
        submit(page, WORD)
        expect_translation(page, models["reverse"].translate(WORD).text)
    assert [each for each in asked if not each.startswith("blob:")] == [f"{url}headlight.html"]
