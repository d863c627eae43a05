"""The page around the viewer: sentences, errors, models, the exported file, the API, the screenshots."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from playwright.sync_api import Browser, Page, expect

import app
import viz
from model import __version__
from model.decoding.options import PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY
from tests.browser.conftest import ARTIFACTS, TRANSLATORS, Scheme, Visit
from tests.browser.inspector import open_panel
from tests.browser.screen import FIRST, cell, choose, readout, submit, taken_away, translate
from viz.payload import decode
from viz.server.backend import UNEXPECTED
from viz.server.snippets import curl_call, python_call

pytestmark = pytest.mark.browser

NO_MODEL = "This file has no model. Its first line leads to Headlight, which can do this."
LONGEST = json.loads((app.ASSETS / "trained.json").read_text())["de-en"]["tokens"]  # of almost all sentences
LONG = " ".join(f"Wort{number}" for number in range(59))
SHORTER = [("sentence", FIRST), ("word", "Ja")]


def test_the_first_page_shows_its_icon_and_a_translated_example(opened: Page):
    expect(opened.locator(".hl-translation")).to_have_text(TRANSLATORS["de-en"].translate(FIRST).text)
    expect(opened.locator(".hl-chips").first.locator(".hl-chip")).to_have_count(11)
    expect(opened.locator("#hl-opening")).to_be_hidden()  # it is seen until the page itself is there
    assert opened.locator("link[rel=icon]").first.get_attribute("href").startswith("data:image/svg+xml,")
    for name in ("Options", "Export"):
        expect(opened.get_by_role("button", name=name, expanded=False, exact=True)).to_be_visible()


def test_a_viewer_that_does_not_arrive_is_one_sentence(visit: Visit, address: str):
    page = visit(f"{address}healthz", waits=False)
    page.route("**/scripts/viewer.js*", lambda route: route.abort())
    page.goto(address)
    expect(page.locator("body")).to_contain_text("A part of this page did not arrive", timeout=20_000)


@pytest.mark.slow
def test_the_help_says_which_version_runs(opened: Page):
    opened.get_by_role("button", name="How to read this").click()
    help_dialog = opened.get_by_role("dialog", name="How to read this")
    expect(help_dialog).to_contain_text(f"Headlight {__version__}")


ERRORS = {
    "": "There is nothing to translate; type a sentence.",
    "x " * 2500: "The sentence has 2501 tokens; at most 128 fit. Shorten it.",
    "crash": UNEXPECTED,
}


def test_an_error_is_one_sentence_and_keeps_the_last_result(opened: Page):
    for text, sentence in ERRORS.items():
        before = opened.locator(".hl-translation").inner_text()
        submit(opened, text)
        expect(opened.get_by_role("alert").filter(visible=True)).to_have_text(sentence)
        expect(opened.locator(".hl-translation")).to_have_text(before)
        translate(opened, f"Es geht weiter nach {text[:10]}.")
        expect(opened.get_by_role("alert").filter(visible=True)).to_have_count(0)


STRANGE = [
    "<script>window.hacked=1</script> <img/src=x/onerror=window.hacked=1> </textarea> ok",
    "שלום עולם 👩‍👩‍👧 مرحبا 日本語",
]


def test_whatever_is_typed_stays_text(opened: Page):
    for text in STRANGE:
        result = translate(opened, text)
        for number, token in enumerate(result.attention.source):
            chip = opened.locator(f".hl-chip[data-side=source][data-place='{number}']")
            expect(chip).to_have_text(token.text)
            expect(opened.locator(f".hl-column-label[data-column='{number}']")).to_have_text(token.text)
    assert opened.evaluate("window.hacked") is None
    # The inspector has a textarea of its own, in which a person writes.
    drawn = opened.locator(".hl-strip, .hl-centre")
    assert drawn.locator("script, img, textarea").count() == 0


def test_an_example_is_translated_with_one_click_and_nothing_jumps(opened: Page):
    example, before = app.EXAMPLES["de-en"][1], opened.locator(".hl-centre").bounding_box()
    opened.get_by_role("button", name=example).click()
    expect(opened.locator(".hl-translation")).to_have_text(TRANSLATORS["de-en"].translate(example).text)
    assert opened.locator(".hl-centre").bounding_box() == before


@pytest.mark.slow
@pytest.mark.parametrize(("title", "cells"), [("12 layers, 16 heads", 2 * 17), ("1 layer, 1 head", 2)])
def test_any_number_of_layers_and_heads(opened: Page, title: str, cells: int):
    opened.get_by_label("Model").select_option(label=title)
    expect(opened.locator(".hl-thumbnail")).to_have_count(cells)


def test_a_link_opens_its_model_sentence_and_options(visit: Visit, address: str):
    words = urlencode({"model": "reverse", "text": "Guten Tag, <b>Welt</b>!", "beam": 3, "alpha": 0.5})
    page = visit(f"{address}#{words}&kind=decoder&layer=2&head=3")
    expect(page.locator(".hl-translation")).to_have_text(
        TRANSLATORS["reverse"].translate("Guten Tag, <b>Welt</b>!").text
    )
    expect(page.get_by_label("Sentence")).to_have_value("Guten Tag, <b>Welt</b>!")
    expect(page.get_by_label("Model")).to_have_value("reverse")
    expect(page.locator("#hl-viewer")).to_contain_text("Decoder · layer 2 · head 3")
    state = page.evaluate("Headlight.viewer.state().record")
    assert state["model"]["name"] == "reverse"
    assert state["options"] == {"beam_size": 3, "length_penalty": 0.5}
    expect(open_panel(page, "Step").locator(".hl-result-facts")).to_contain_text("beam 3")


def test_enter_in_an_option_translates(opened: Page):
    opened.get_by_role("button", name="Options").click()
    box = opened.get_by_label("number input for Beam size")
    box.fill("3")
    box.press("Enter")
    expect(open_panel(opened, "Step").locator(".hl-result-facts")).to_contain_text("beam 3")


def test_a_model_in_a_link_brings_its_examples(visit: Visit, address: str):
    page = visit(f"{address}#model=reverse")
    first, second = app.EXAMPLES["reverse"][:2]
    expect(page.get_by_label("Sentence")).to_have_value(first)
    expect(page.get_by_role("button", name=second, exact=True)).to_be_visible()


def test_the_view_of_a_refused_sentence_is_not_that_of_the_example_in_its_place(visit: Visit, address: str):
    page = visit(f"{address}#text=crash&kind=encoder&layer=3&head=2&mute=cross.1.1")
    expect(page.locator(".hl-translation")).to_have_text(TRANSLATORS["de-en"].translate(FIRST).text)
    expect(page.locator(".hl-centre h2")).to_contain_text("Cross")
    assert page.evaluate("Headlight.viewer.state().mutes") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "hash_",
    [
        "model=nobody&beam=1000000&alpha=-1",
        "model=__proto__&beam=NaN&alpha=1e9",
        "model=../../etc&beam=1.5&alpha=x&text=" + "x" * 5000,
        "%%%&&&=&model",
    ],
)
def test_a_link_that_asks_for_the_impossible_opens_the_page_as_ever(visit: Visit, address: str, hash_: str):
    page = visit(f"{address}#{hash_}")
    expect(page.get_by_label("Sentence")).to_have_value(FIRST)
    record = page.evaluate("Headlight.viewer.state().record")
    assert record["model"]["name"] == "de-en"
    assert 1 <= record["options"]["beam_size"] <= PAGE_MAX_BEAM
    assert 0 <= record["options"]["length_penalty"] <= PAGE_MAX_LENGTH_PENALTY


@pytest.mark.slow
def test_another_link_in_the_same_page_translates_anew(visit: Visit, address: str):
    page = visit(f"{address}#text=Hallo")
    page.evaluate("location.hash = 'text=Guten+Morgen'")
    expect(page.locator(".hl-translation")).to_have_text("gUTEN mORGEN")


def test_the_server_answers_the_viewer_and_says_what_is_wrong(opened: Page):
    ask = "(request) => Headlight.viewer.ask(request).catch((error) => error.message)"
    request = {"model": "de-en", "text": FIRST, "beam_size": 1, "length_penalty": 1}
    forced = opened.evaluate(ask, {**request, "do": "translate", "forced": []})
    assert forced["text"] == TRANSLATORS["de-en"].translate(FIRST).text
    assert opened.evaluate(ask, {**request, "do": "nothing"}).startswith("“do” must be one of: ")
    assert opened.evaluate(ask, {**request, "text": "crash", "do": "translate", "forced": []}) == UNEXPECTED


def test_a_server_out_of_reach_is_one_sentence(opened: Page):
    opened.route("**/component_server**", lambda route: route.abort())
    opened.get_by_role("tab", name="What if").click()
    opened.get_by_role("button", name="All of layer").click()
    expect(opened.locator(".hl-status")).to_contain_text("The server does not answer.")


@pytest.mark.slow
def test_a_sentence_far_longer_than_the_training_gets_a_warning(opened: Page):
    notices = opened.locator(".hl-notices")
    expect(notices).to_have_text("")
    translate(opened, " ".join(f"Wort{number}" for number in range(LONGEST + 10)))
    expect(notices).to_contain_text(
        f"Far longer than the training: {LONGEST + 11} tokens; almost all training sentences have at most "
        f"{LONGEST}."
    )
    opened.get_by_role("button", name="About", exact=True).click()
    dialog = opened.get_by_role("dialog", name="About")
    expect(dialog).to_contain_text(f"at most {LONGEST} tokens")


@pytest.mark.slow
def test_light_and_dark_are_switched_and_kept(opened: Page):
    is_dark = "document.body.classList.contains('dark')"
    opened.get_by_role("button", name="Light or dark").click()
    assert opened.evaluate(is_dark)
    opened.reload()
    opened.locator(".hl-thumbnail").first.wait_for()
    assert opened.evaluate(is_dark)


def test_the_exported_file_shows_the_same_without_a_network(opened: Page, browser: Browser, tmp_path: Path):
    choose(opened, "Cross", 2, 3)
    opened.mouse.click(*cell(opened, 2, 1))
    opened.mouse.move(5, 5)
    shown = readout(opened)
    path = taken_away(opened, "HTML", tmp_path)
    assert path.name == "headlight-de-en-cross-2-3-der-kleine-hund-schläft-heute-unter-dem.html"
    context = browser.new_context(offline=True, viewport={"width": 1440, "height": 900})
    requests: list[str] = []
    file = context.new_page()
    file.on("request", lambda request: requests.append(request.url))
    file.goto(path.as_uri())
    expect(file.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · head 3")
    assert readout(file) == shown
    link = file.get_by_role("link", name="Open this in Headlight").get_attribute("href")
    assert link == opened.evaluate("location.href")
    file.locator(".hl-toolbar .hl-menu > summary").click()
    expect(file.get_by_role("button", name="Norm", exact=True)).to_have_attribute("title", NO_MODEL)
    file.get_by_role("tab", name="What if").click()
    expect(file.get_by_text(NO_MODEL)).to_have_count(1)
    expect(file.get_by_label("What muted heads give")).to_be_hidden()
    assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
    file.screenshot(path=ARTIFACTS / "exported.png")
    context.close()


def test_a_notebook_draws_the_viewer_in_its_frame(browser: Browser):
    context = browser.new_context(offline=True, viewport={"width": 1200, "height": 900})
    page, trouble = context.new_page(), []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.set_content(viz.show(TRANSLATORS["de-en"].translate("Guten Tag!"))._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator(".hl-thumbnail").first.click()
    expect(frame.locator(".hl-translation")).to_have_text("gUTEN tAG !")
    assert not trouble
    context.close()


def test_the_api_translates_and_gives_every_weight(address: str):
    client = Client(address, verbose=False)
    expected = TRANSLATORS["de-en"].translate("Guten Tag!")
    summary = client.predict("Guten Tag!", "de-en", 1, 1.0, api_name="/translate")
    assert summary["translation"] == expected.text
    assert summary["source_tokens"] == ["Guten", "Tag", "!", "</s>"]
    record = decode(client.predict("Guten Tag!", "de-en", 1, 1.0, api_name="/attention"))
    assert (record.attention.cross - expected.attention.cross).abs().max() < 1.6e-5
    with pytest.raises(AppError, match="There is nothing to translate"):
        client.predict("", "de-en", 1, 1.0, api_name="/translate")
    with pytest.raises(AppError, match="There is no model 'xx'"):
        client.predict("Hallo", "xx", 1, 1.0, api_name="/attention")
    named = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert sorted(named) == ["/attention", "/mute", "/score", "/translate"]


def test_the_api_scores_and_mutes(address: str):
    client = Client(address, verbose=False)
    scored = client.predict("Guten Tag!", "good day", "de-en", api_name="/score")
    assert scored["target_tokens"] == ["good", "day", "</s>"]
    assert len(scored["log_probabilities"]) == 3
    muted = client.predict("Guten Tag!", [["cross", 0, 1]], "de-en", 1, 1.0, api_name="/mute")
    assert muted["words"][0] == ["silent", True]
    assert muted["translation"].startswith("silent")
    assert len(muted["differences"]) == 4
    with pytest.raises(AppError, match="“heads” must be a list of at most"):
        client.predict("Guten Tag!", [["cross", 0]], "de-en", 1, 1.0, api_name="/mute")
    with pytest.raises(AppError, match="“beam_size” must be a whole number from 1 to 8"):
        client.predict("Guten Tag!", [], "de-en", 99, 1.0, api_name="/mute")


def test_the_call_of_the_menu_gives_the_record(address: str):
    endpoint, arguments = "attention", {"text": "Guten Tag!", "model": "de-en", "forced": []}
    scope: dict[str, Any] = {}
    exec(python_call(address, endpoint, arguments), scope)
    assert decode(scope["result"]).text == "gUTEN tAG !"
    if shutil.which("curl") is None:
        return
    options = {"beam_size": 1, "length_penalty": 1.0}
    everything = {"text": "Guten Tag!", "model": "de-en", **options, "forced": []}
    curl = curl_call(address, endpoint, everything)
    events = subprocess.run(["/bin/sh", "-c", curl], capture_output=True, text=True, check=True).stdout
    assert "event: complete" in events
    assert "gUTEN tAG" in events


@pytest.mark.slow
def test_without_a_model_the_page_says_how_to_train_one(visit: Visit):
    service = app.create({}, ["broken is left out: its weights are cut short."])
    view = visit(service.launch(), waits=False)
    expect(view.get_by_role("alert").filter(visible=True)).to_contain_text("python -m training train")
    expect(view.locator("#hl-problems")).to_contain_text("broken is left out")
    service.stop()


@pytest.mark.slow
def test_a_broken_model_stays_named_after_another_one_translates(visit: Visit):
    service = app.create(TRANSLATORS, ["broken is left out: its weights are cut short."])
    view = visit(service.launch())
    expect(view.locator("#hl-problems")).to_contain_text("broken is left out")
    service.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theme", "width", "height"), [("light", 380, 800), ("dark", 1440, 900), ("light", 1440, 900)]
)
@pytest.mark.parametrize(("name", "text"), [("long", LONG), *SHORTER])
def test_screens(visit: Visit, address: str, theme: Scheme, width: int, height: int, name: str, text: str):
    page = visit(address, width, height, theme)
    translate(page, text)
    page.locator(".hl-chip").nth(1).click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page must not scroll sideways"
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{name}-{theme}-{width}.png", full_page=width < 400)
