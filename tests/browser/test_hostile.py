"""Hostile texts in a real browser: nothing of them runs, and the page works on after each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from model.text.tokenizer import normalise
from tests import hostile
from tests.browser.inspector import open_panel
from tests.browser.static_site import is_outside
from tests.hostile.models import BROKEN, NAME, TITLE, serving_them
from tests.viz.fakes import random_translation
from viz.export import write
from viz.payload import encode

pytestmark = pytest.mark.browser

# Lone surrogates travel as JSON. The page is busy from the press of Enter until its answer is there.
TYPE = """([selector, json]) => {
  const box = document.querySelector(selector);
  const prototype = box.tagName === 'TEXTAREA' ? HTMLTextAreaElement : HTMLInputElement;
  Object.getOwnPropertyDescriptor(prototype.prototype, 'value').set.call(box, JSON.parse(json));
  box.dispatchEvent(new Event('input', { bubbles: true }));
}"""
WATCH = """() => {
  window.answered = new Promise((done) => {
    const busy = () => document.body.classList.contains('hl-pending');
    let begun = busy();
    new MutationObserver(() => (busy() ? (begun = true) : begun && done(true))).observe(document.body, {
      attributeFilter: ['class'],
    });
  });
}"""
ASK = """async ([json, fields, action]) => {
  const { record } = Headlight.viewer.state();
  const good = { model: record.model.name, text: record.source_text, ...record.options };
  const text = JSON.parse(json);
  const spoilt = Object.fromEntries(fields.map((field) => [field, text]));
  const request = { ...good, ids: [], heads: [], forced: [], do: action, ...spoilt };
  return Headlight.viewer.ask(request).then(() => null, ({ message }) => message);
}"""
CANARIES = f"() => [window, ...Array.from(window.frames)].some((one) => one.{hostile.CANARY} !== undefined)"
# A page has settled when a record is drawn or a sentence says why there is none.
SETTLED = """() => window.Headlight?.viewer && !document.body.classList.contains('hl-pending') &&
  (Headlight.viewer.state().record || document.querySelector('#hl-message').innerText.trim() !== '')"""
# As if a text had become elements: of a script, and of one that a failed picture calls.
BREAK_IN = """async ([script]) => {
  const element = document.createElement('script');
  element.textContent = script;
  document.body.append(element);
  const picture = document.createElement('div');
  picture.innerHTML = `<img src="data:," onerror="${script}">`;
  document.body.append(picture);
  await picture.firstChild.decode().catch(() => null);
}"""
TOKENS = 40  # of one exported file
GOOD = "Ein kleiner Hund."
LINK_WORDS = ("text", "model", "kind", "layer", "heads", "mute", "panel", "hostile")


class Watched:
    """A page, and whatever should not happen in it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.trouble: list[str] = []
        page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: is_outside(request.url) and self.trouble.append(request.url))
        page.on("popup", lambda popup: self.trouble.append(f"popup: {popup.url}"))
        page.set_default_timeout(30_000)
        self.open("")

    def open(self, fragment: str) -> None:
        self.page.goto("about:blank")  # else only the fragment changes
        self.page.goto(f"{self.address}#{fragment}")
        self.page.wait_for_function(SETTLED)

    def translate(self, text: str) -> None:
        self.page.evaluate(WATCH)
        self.page.evaluate(TYPE, ["#hl-sentence textarea, #hl-sentence input", json.dumps(text)])
        self.page.get_by_label("Sentence").press("Enter")
        self.page.evaluate("() => window.answered")

    def assert_well(self, turn: int) -> None:
        """Nothing ran, nothing was asked elsewhere, and another head can be chosen."""
        assert not self.page.evaluate(CANARIES)
        thumbnail = self.page.locator(".hl-thumbnail").nth(turn % 5)
        thumbnail.click()
        expect(thumbnail).to_have_attribute("aria-selected", "true")
        assert not self.trouble


def as_reference(watched: Watched, text: str, _: int) -> None:
    open_panel(watched.page, "Step")
    box = watched.page.get_by_label("Your own translation")
    watched.page.evaluate(TYPE, [".hl-box", json.dumps(text)])
    box.press("Enter")
    expect(watched.page.locator(".hl-status.hl-is-busy")).to_have_count(0)


def as_target(watched: Watched, text: str, _: int) -> None:
    assert watched.page.evaluate(ASK, [json.dumps(text), ["do"]])
    for field in ("forced", "ids"):
        do = "translate" if field == "forced" else "target"
        assert watched.page.evaluate(ASK, [json.dumps(text), [field], do])


def as_model(watched: Watched, text: str, _: int) -> None:
    assert watched.page.evaluate(ASK, [json.dumps(text), ["model"], "score"])


def as_link(watched: Watched, text: str, turn: int) -> None:
    word = LINK_WORDS[turn // 4 % len(LINK_WORDS)]
    given = {"model": "tiny", "kind": "cross", word: text.encode("utf-8", "replace").decode()}
    watched.open(urlencode(given) if turn % 8 else text.encode("utf-8", "replace").decode())
    assert not watched.page.evaluate(CANARIES)
    watched.translate(GOOD)


WAYS = (as_reference, as_target, as_model, as_link)


@pytest.fixture(scope="module")
def hostile_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_them(tmp_path_factory.mktemp("models")) as server:
        yield f"http://127.0.0.1:{server.visitor.port}/"


@pytest.fixture
def watched(browser: Browser, hostile_address: str) -> Iterator[Watched]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
    yield Watched(page, hostile_address)
    page.close()


@pytest.mark.parametrize(
    "texts",
    [hostile.some(1)[::8], pytest.param(hostile.STRINGS, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_no_text_runs_and_the_page_lives_on(watched: Watched, texts: list[str]) -> None:
    """Each text as the sentence and, in turn, as a reference, a target, a model and a link."""
    for turn, text in enumerate(texts):
        watched.translate(text)
        watched.assert_well(turn)
        WAYS[turn % len(WAYS)](watched, text, turn)
        watched.assert_well(turn + 1)


@pytest.mark.parametrize(
    "texts", [hostile.some(1), pytest.param(hostile.STRINGS, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_an_exported_file_of_hostile_tokens_runs_its_own_scripts_alone(
    browser: Browser, tmp_path: Path, texts: list[str]
) -> None:
    """A script that gets in all the same is stopped by the policy."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    path = tmp_path / "attention_maps.html"
    for start in range(0, len(texts), TOKENS):
        tokens = [normalise(text) for text in texts[start : start + TOKENS]]
        translation = random_translation(tokens, tokens, layers=1, heads=2)
        write(encode(translation, tokens[0], tokens[-1]), path)
        page.goto(path.as_uri())
        expect(page.locator(".hl-chip")).to_have_count(2 * len(tokens) + 3)
        page.evaluate(BREAK_IN, [hostile.payloads.SET])
        assert not page.evaluate(CANARIES)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert {url for url in requests if not url.startswith("data:")} == {path.as_uri()}
    page.close()


def test_a_model_with_a_hostile_name_is_text_in_picker_and_messages(watched: Watched) -> None:
    page = watched.page
    expect(page.locator("#hl-problems")).to_contain_text(f"{BROKEN} is left out: ")
    watched.translate(GOOD)
    page.get_by_label("Model").select_option(value=NAME)
    page.wait_for_function(
        "title => Headlight.viewer.state().record.model.title.startsWith(title)", arg=TITLE
    )
    watched.assert_well(1)
    watched.open(urlencode({"model": NAME, "text": GOOD}))
    assert page.evaluate("() => Headlight.viewer.state().record.model.name") == NAME
    watched.assert_well(1)
    page.locator("#hl-export").click()
    expect(page.locator("#hl-export-menu")).to_contain_text(NAME[:20])
    watched.assert_well(2)
