"""The page inside other sites' frames, as a Space shows it, and its policy in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

import app
from model import Translator
from tests.browser.conftest import EMPTY, TRANSLATORS
from tests.browser.screen import FIRST
from viz.export import document
from viz.payload import encode
from viz.server.connections import Access
from viz.static.site import portable

pytestmark = pytest.mark.browser

SPACES, FRIEND, FOREIGN = "https://huggingface.co", "https://school.example", "https://foreign.example"
# What Hugging Face allows the frame of a Space.
SANDBOX = (
    "allow-downloads allow-forms allow-modals allow-pointer-lock allow-popups allow-popups-to-escape-sandbox "
    "allow-same-origin allow-scripts allow-storage-access-by-user-activation"
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the page, which runs as a Space does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPACE_ID", "user/headlight")
        service = app.create(TRANSLATORS, access=Access([FRIEND]))
        yield service.launch()
        service.stop()


@contextmanager
def listening(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A tab, and the errors and warnings of its console and scripts, those of frames included."""
    # Other sites may show an address of this machine in a frame only with the person's permission.
    # The window holds a frame whole: a click right after a scroll of the page around it can miss the frame.
    context = browser.new_context(
        permissions=["local-network-access"], viewport={"width": 1400, "height": 1000}
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    told: list[str] = []
    page.on("console", lambda line: told.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    yield page, told
    context.close()


def show_in_frame(page: Page, site: str, address: str) -> FrameLocator:
    """Open a page of another site that shows the address in a frame."""
    frame = f'<iframe src="{address}" sandbox="{SANDBOX}" width="1200" height="900"></iframe>'
    body = f'<!doctype html><link rel="icon" href="data:,">{frame}'
    page.route(f"{site}/**", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(f"{site}/")
    return page.frame_locator("iframe")


def use(page: Page, shown: Page | FrameLocator) -> None:
    """Do what a person does: translate, mute a head, change the model, save the record."""
    translation = shown.locator(".hl-translation")
    expect(translation).to_have_text(TRANSLATORS["de-en"].translate(FIRST).text)
    shown.get_by_label("Model").select_option("reverse")
    first = app.EXAMPLES["reverse"][0]
    expect(translation).to_have_text(TRANSLATORS["reverse"].translate(first).text)
    sentence = shown.get_by_label("Sentence")
    sentence.fill("Guten Tag!")
    sentence.press("Enter")
    expect(translation).to_have_text(TRANSLATORS["reverse"].translate("Guten Tag!").text)
    shown.get_by_role("gridcell", name="layer 1, head 2", exact=True).click()
    shown.get_by_role("tab", name="What if").click()
    shown.get_by_role("button", name="Head 2", exact=True).click()
    expect(shown.locator(".hl-outcome strong")).to_be_visible()
    shown.get_by_role("button", name="Light or dark").click()
    shown.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        shown.get_by_role("button", name="(JSON)").click()
    assert '"Guten Tag!"' in download.value.path().read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("site", [SPACES, pytest.param(FRIEND, marks=pytest.mark.slow)])
def test_a_named_site_shows_the_page_in_a_frame(browser: Browser, address: str, site: str):
    with listening(browser) as (page, told):
        use(page, show_in_frame(page, site, address))
    assert not told


def test_another_site_does_not(browser: Browser, address: str):
    with (
        listening(browser) as (page, _),
        page.expect_console_message(lambda line: "frame-ancestors" in line.text),
    ):
        show_in_frame(page, FOREIGN, address)


@pytest.mark.slow  # in `make test` the page in a frame keeps to it
def test_the_page_keeps_to_its_own_policy(browser: Browser, address: str):
    """Else a part of the page would be missing without a sign of it."""
    with listening(browser) as (page, told):
        page.goto(address)
        use(page, page)
    assert not told


# Frames of notebooks, Streamlit and gr.HTML: text without an address.
WAYS = {
    "srcdoc": "frame.srcdoc = html",
    "blob": "frame.src = URL.createObjectURL(new Blob([html], { type: 'text/html' }))",
}


def show_text(page: Page, html: str, way: str, sandbox: str | None) -> FrameLocator:
    """Open a file that shows an exported page in a frame."""
    page.goto(EMPTY.as_uri())
    page.evaluate(
        """([html, sandbox]) => {
          const frame = Object.assign(document.createElement('iframe'), { width: 1300, height: 900 });
          if (sandbox !== null) frame.sandbox = sandbox;
          WAY;
          document.body.append(frame);
        }""".replace("WAY", WAYS[way]),
        [html, sandbox],
    )
    return page.frame_locator("iframe")


@pytest.mark.parametrize("sandbox", ["allow-scripts", None])
@pytest.mark.parametrize("way", WAYS)
def test_an_exported_view_in_a_frame_without_an_address(way: str, sandbox: str | None, browser: Browser):
    html = document(encode(TRANSLATORS["de-en"].translate(FIRST), "de-en"))
    with listening(browser) as (page, told):
        frame = show_text(page, html, way, sandbox)
        frame.get_by_role("gridcell", name="layer 1, head 2", exact=True).click()
        expect(frame.locator(".hl-centre h2")).to_have_text("Cross · layer 1 · head 2")
        frame.get_by_role("button", name="How to read this").press("Enter")
        expect(frame.get_by_role("dialog", name="How to read this")).to_be_visible()
        frame.get_by_role("button", name="Close").click()
        expect(frame.get_by_role("dialog")).to_have_count(0)
        assert told == []


# The view above is in every frame; the model is in two, which differ in both.
FRAMES = [("srcdoc", "allow-scripts"), ("blob", None)]
SLOW_FRAMES = [("srcdoc", None), ("blob", "allow-scripts")]


@pytest.mark.parametrize(
    ("way", "sandbox"), [*FRAMES, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW_FRAMES)]
)
def test_an_exported_model_in_a_frame_translates(way: str, sandbox: str | None, browser: Browser):
    model = Translator.load(Path(app.__file__).parent / "assets/models/reverse")
    html = portable(model, encode(model.translate("headlight"), "reverse"))
    with listening(browser) as (page, told):
        frame = show_text(page, html, way, sandbox)
        frame.locator(".hl-thumbnail").first.wait_for()
        frame.locator("#hl-sentence input").fill("lantern")
        frame.locator("#hl-sentence input").press("Enter")
        expect(frame.locator(".hl-translation").first).to_have_text("nretnal")
        assert told == []


def test_a_frame_without_scripts_says_what_it_needs(browser: Browser):
    html = document(encode(TRANSLATORS["de-en"].translate(FIRST), "de-en"))
    with listening(browser) as (page, _):
        frame = show_text(page, html, "srcdoc", "")
        frame.locator("noscript").wait_for()
        said = frame.locator("noscript").text_content()
        assert said is not None
        assert said.startswith(FIRST)
        assert "needs JavaScript" in said


def test_words_of_sentences_are_kept_from_a_translation_by_the_browser(browser: Browser):
    result = replace(TRANSLATORS["de-en"].translate(FIRST), source_language="de", target_language="eng_Latn")
    html = document(encode(result, "de-en"))
    with listening(browser) as (page, _):
        frame = show_text(page, html, "blob", None)
        frame.locator(".hl-thumbnail").first.click()
        words = frame.locator("body").evaluate(
            """(body) => {
              const texts = [...body.querySelectorAll('bdi, .hl-translation, .hl-chip, [dir=auto]')];
              return texts.map((one) => [one.translate, one.closest('[lang]').lang, one.className]);
            }"""
        )
        assert len(words) > 20
        assert not any(translate for translate, _, name in words if "hl-chip" not in name)
        assert {lang for _, lang, name in words if "hl-chip" in name} == {"de", "eng-Latn"}
