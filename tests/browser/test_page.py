"""The page around the viewer: sentences, errors, models, the exported file, the API, the screenshots."""

from __future__ import annotations

from pathlib import Path

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from playwright.sync_api import Browser, Page, expect

import app
from tests.browser.conftest import ARTIFACTS, TRANSLATORS
from tests.browser.screen import FIRST, choose, point, readout, submit, translate
from viz.payload import decode

pytestmark = pytest.mark.browser

LONG = " ".join(f"Wort{number}" for number in range(59))


def test_the_first_page_shows_a_translated_example(opened: Page):
    expect(opened.locator(".hl-translation")).to_have_text(TRANSLATORS["de-en"].translate(FIRST).text)
    expect(opened.locator(".hl-chips").first.locator(".hl-chip")).to_have_count(11)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "There is nothing to translate; type a sentence."),
        ("x " * 5000, "The sentence has 5001 tokens; at most 128 fit. Shorten it."),
        ("crash", app.UNEXPECTED),
    ],
)
def test_an_error_is_one_sentence_and_keeps_the_last_result(opened: Page, text: str, sentence: str):
    before = opened.locator(".hl-translation").inner_text()
    submit(opened, text)
    expect(opened.get_by_role("alert").filter(visible=True)).to_have_text(sentence)
    expect(opened.locator(".hl-translation")).to_have_text(before)
    translate(opened, "Es geht weiter.")
    expect(opened.get_by_role("alert").filter(visible=True)).to_have_count(0)


@pytest.mark.parametrize(
    "text",
    [
        "<script>window.hacked=1</script> <img/src=x/onerror=window.hacked=1> </textarea> ok",
        "שלום עולם 👩‍👩‍👧 مرحبا 日本語",
    ],
)
def test_whatever_is_typed_stays_text(opened: Page, text: str):
    result = translate(opened, text)
    for number, token in enumerate(result.attention.source):
        expect(opened.locator(f".hl-chip[data-side=source][data-place='{number}']")).to_have_text(token.text)
        expect(opened.locator(f".hl-column-label[data-column='{number}']")).to_have_text(token.text)
    assert opened.evaluate("window.hacked") is None
    assert opened.locator(".headlight script, .headlight img, .headlight textarea").count() == 0


def test_an_example_is_translated_with_one_click(opened: Page):
    example = app.EXAMPLES["de-en"][1]
    opened.get_by_role("button", name=example).click()
    expect(opened.locator(".hl-translation")).to_have_text(TRANSLATORS["de-en"].translate(example).text)


@pytest.mark.parametrize(("title", "cells"), [("12 layers, 16 heads", 12 * 17), ("1 layer, 1 head", 2)])
def test_any_number_of_layers_and_heads(opened: Page, title: str, cells: int):
    opened.get_by_label("Model").click()
    opened.get_by_role("option", name=title).click()
    expect(opened.locator(".hl-thumbnail")).to_have_count(cells)


def test_nothing_jumps_when_a_result_arrives(opened: Page):
    before = opened.locator(".hl-centre").bounding_box()
    translate(opened, "Vorgestern schlief er.")
    assert opened.locator(".hl-centre").bounding_box() == before


def test_the_exported_file_shows_the_same_without_a_network(opened: Page, browser: Browser, tmp_path: Path):
    choose(opened, "Cross", 2, 3)
    point(opened, 2, 1)
    shown = readout(opened)
    with opened.expect_download() as download:
        opened.get_by_role("button", name="Export").click()
    assert download.value.suggested_filename == "attention_maps.html"
    path = tmp_path / "attention_maps.html"
    download.value.save_as(path)
    context = browser.new_context(offline=True, viewport={"width": 1440, "height": 900})
    requests: list[str] = []
    file = context.new_page()
    file.on("request", lambda request: requests.append(request.url))
    file.goto(path.as_uri())
    choose(file, "Cross", 2, 3)
    point(file, 2, 1)
    assert readout(file) == shown
    assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
    file.screenshot(path=ARTIFACTS / "exported.png")
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
    assert sorted(named) == ["/attention", "/translate"]


def test_without_a_model_the_page_says_how_to_train_one(browser: Browser):
    page = app.build({}, ["broken is left out: its weights are cut short."])
    _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, **app.launch_options())
    view = browser.new_page()
    view.goto(url)
    expect(view.get_by_role("alert").filter(visible=True)).to_contain_text("python -m training train")
    expect(view.locator("#hl-problems")).to_contain_text("broken is left out")
    view.close()
    page.close()


def test_a_broken_model_stays_named_after_another_one_translates(browser: Browser):
    page = app.build(TRANSLATORS, ["broken is left out: its weights are cut short."])
    _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, **app.launch_options())
    view = browser.new_page()
    view.goto(url)
    view.locator(".hl-thumbnail").first.wait_for()
    expect(view.locator("#hl-problems")).to_contain_text("broken is left out")
    view.close()
    page.close()


@pytest.mark.parametrize(
    ("theme", "width", "height"), [("light", 1440, 900), ("dark", 1440, 900), ("light", 380, 800)]
)
@pytest.mark.parametrize(("name", "text"), [("sentence", FIRST), ("long", LONG), ("word", "Ja")])
def test_screens(browser: Browser, address: str, theme: str, width: int, height: int, name: str, text: str):
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
    page.goto(address)
    page.locator(".hl-thumbnail").first.wait_for()
    translate(page, text)
    page.locator(".hl-chip").nth(1).click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page must not scroll sideways"
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{name}-{theme}-{width}.png", full_page=width < 400)
    page.close()
