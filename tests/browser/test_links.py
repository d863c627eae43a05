"""The address, the history of the browser, and the list of models: what is shown is what was asked."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

import app
from tests.browser.conftest import TRANSLATORS, Show, draw
from tests.browser.inspector import HOLD, RELEASE, open_panel, status
from tests.browser.screen import FIRST, choose, submit, translate, view

pytestmark = pytest.mark.browser

OTHER = "Guten Tag, Welt!"
RESULT = TRANSLATORS["de-en"].translate(FIRST)


@pytest.fixture(scope="module")
def page(browser: Browser, address: str) -> Iterator[Page]:
    """One page for all tests of this file, each of which opens an address of its own."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(10_000)
    page.goto(address)
    page.locator(".hl-thumbnail").first.wait_for()
    yield page
    page.close()


def go(page: Page, **parameters: object) -> None:
    """Open a link in the tab that is on the page already."""
    page.evaluate("hash => { location.hash = hash; }", urlencode(parameters))


def text_of(model: str, text: str) -> str:
    return TRANSLATORS[model].translate(text).text


def test_leaving_the_list_of_models_changes_nothing(page: Page):
    go(page, model="de-en", text=FIRST)
    box, models = page.get_by_label("Sentence"), page.get_by_label("Model")
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Translate while typing").uncheck()
    box.fill("Was ich gerade")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or ""))
    models.click()
    page.keyboard.press("Escape")
    models.select_option("de-en")
    models.focus()
    page.keyboard.press("Tab")
    box.press("End")
    box.press_sequentially(" schreibe")
    page.wait_for_timeout(300)
    expect(box).to_have_value("Was ich gerade schreibe")
    expect(page.locator(".hl-translation")).to_have_text(text_of("de-en", FIRST))
    assert not [body for body in asked if '"do":"translate"' in body]
    expect(page.get_by_role("listbox").filter(visible=True)).to_have_count(0)


def test_a_model_of_the_same_language_keeps_the_sentence(page: Page):
    go(page, model="de-en", text=FIRST)
    expect(page.locator(".hl-translation")).to_have_text(text_of("de-en", FIRST))
    page.get_by_label("Sentence").fill(OTHER)
    page.get_by_label("Model").select_option("smallest")
    page.wait_for_function("Headlight.viewer.state().record.model.name === 'smallest'")
    expect(page.locator(".hl-translation")).to_have_text(text_of("smallest", OTHER))
    page.get_by_label("Model").select_option("reverse")
    example = app.EXAMPLES["reverse"][0]
    expect(page.locator(".hl-translation")).to_have_text(text_of("reverse", example))
    expect(page.get_by_role("button", name=app.EXAMPLES["reverse"][1], exact=True)).to_be_visible()
    page.get_by_label("Model").select_option("de-en")
    expect(page.get_by_label("Sentence")).to_have_value(OTHER)
    expect(page.locator(".hl-translation")).to_have_text(text_of("de-en", OTHER))


def test_a_link_is_followed_though_the_view_changes_at_the_same_moment(page: Page):
    go(page, model="de-en", text=FIRST)
    page.evaluate(
        """() => {
          location.hash = '#model=de-en&text=Guten+Tag';
          document.querySelectorAll('.hl-thumbnail')[5].click();
        }"""
    )
    expect(page.locator(".hl-translation")).to_have_text(text_of("de-en", "Guten Tag"))


def test_a_link_in_the_same_tab_loads_all_that_it_says(page: Page):
    go(page, model="de-en", text=FIRST)
    expect(page.locator(".hl-translation")).to_have_text(text_of("de-en", FIRST))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(str(request.post_data)))
    go(page, model="reverse", text=OTHER, kind="cross", layer=2, head=3, panel="cell", row=3, column=2)
    expect(page.locator(".hl-translation")).to_have_text(text_of("reverse", OTHER))
    expect(page.get_by_label("Sentence")).to_have_value(OTHER)
    expect(page.get_by_label("Model")).to_have_value("reverse")
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · head 3")
    assert page.evaluate("Headlight.viewer.state().pin") == {"row": 2, "column": 1}
    expect(page.locator(".hl-panel-cell .hl-sum")).to_be_visible()
    assert len([body for body in asked if '"do":"cell"' in body]) == 1  # the same is not asked twice
    assert "text=Guten+Tag" in page.evaluate("location.hash")
    go(page, model="nobody", text=OTHER)
    expect(page.get_by_role("alert").filter(visible=True)).to_have_text(
        "The link asks for the model “nobody”, which is not here."
    )
    page.wait_for_function("Headlight.viewer.state().record.model.name === 'de-en'")


def test_back_and_forward_go_through_the_translations(page: Page):
    go(page, model="de-en", text=FIRST, kind="cross", layer=2, head=2)
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · head 2")
    before = page.evaluate("history.length")
    choose(page, "Encoder", 3, 4)
    translate(page, OTHER)
    choose(page, "Cross", 1, 1)
    page.get_by_role("button", name="Translate").click()
    page.wait_for_timeout(200)
    assert page.evaluate("history.length") == before + 1
    page.go_back()
    expect(page.locator(".hl-translation")).to_have_text(text_of("de-en", FIRST))
    expect(page.get_by_label("Sentence")).to_have_value(FIRST)
    expect(page.locator(".hl-centre h2")).to_have_text("Encoder · layer 3 · head 4")
    page.go_forward()
    expect(page.locator(".hl-translation")).to_have_text(text_of("de-en", OTHER))
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 1 · head 1")


@pytest.mark.parametrize("is_typed", [False, True])
def test_back_takes_the_place_of_a_translation_that_is_not_there_yet(page: Page, is_typed: bool):
    go(page, model="de-en", text=FIRST, kind="cross", layer=1, head=1)
    expect(page.locator(".hl-translation")).to_have_text(text_of("de-en", FIRST))
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 1 · head 1")
    if is_typed:  # only a link gives the sentence on screen another entry of the history
        go(page, model="de-en", text=FIRST, kind="cross", layer=2, head=2)
        expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · head 2")
    page.route("**/component_server**", lambda _: None)
    with page.expect_request(lambda request: "Welt" in str(request.post_data)):
        submit(page, OTHER) if is_typed else go(page, model="de-en", text=OTHER)
    page.go_back()
    expect(page.get_by_label("Sentence")).to_have_value(FIRST)
    page.unroute("**/component_server**")  # lets what was held go on
    page.wait_for_function("Headlight.viewer.state().translating === null")
    expect(page.locator(".hl-translation")).to_have_text(text_of("de-en", FIRST))
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 1 · head 1")


def reopened(page: Page, show: Show) -> Page:
    """Open the address of a page in another one, and check that it stays as it is."""
    hash_ = page.evaluate("location.hash")
    again = show(RESULT, address=hash_[1:])
    expect(status(again)).to_have_text(status(page).inner_text().replace("\n", ""))
    expect(again.locator(".hl-translation")).to_have_text(page.locator(".hl-translation").inner_text())
    expect(again.locator(".hl-centre h2")).to_have_text(page.locator(".hl-centre h2").inner_text())
    assert again.evaluate("location.hash") == hash_
    return again


def test_the_head_of_a_link_comes_back_after_the_average(show: Show):
    page = show(RESULT, address="kind=cross&layer=2&head=3")
    page.keyboard.press("a")
    expect(page.locator(".hl-centre h2")).to_contain_text("average")
    page.keyboard.press("a")
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · head 3")


def test_a_link_holds_forced_tokens_and_what_is_muted_then(show: Show):
    page = show(RESULT)
    panel = open_panel(page, "Step")
    panel.locator(".hl-next .hl-choice").first.click()
    expect(status(page)).to_contain_text("forced “perhaps” at step 1")
    choose(page, "Cross", 2, 3)
    page.keyboard.press("m")
    open_panel(page, "What if").get_by_role("button", name="Show its attention").click()
    expect(status(page)).to_contain_text("forced “perhaps” at step 1, with 1 head muted")
    again = reopened(page, show)
    again.get_by_role("button", name="Show it without muting").click()
    expect(again.locator(".hl-given")).to_have_text("first token given")
    again.get_by_role("button", name="Back to the model’s translation").click()
    expect(again.locator(".hl-translation")).to_have_text(RESULT.text)
    expect(again.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · head 3")


def test_what_the_person_does_while_a_link_opens_stays(show: Show):
    page = show(RESULT)
    page.evaluate(HOLD)
    go(page, kind="cross", layer=1, head=1, panel="head", words="merged", forced=perhaps(page))
    page.wait_for_function("window.held.length === 1")
    choose(page, "Cross", 2, 2)
    page.get_by_role("tab", name="Step").click()
    page.evaluate(RELEASE)
    expect(status(page)).to_contain_text("forced “perhaps” at step 1")
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · head 2")
    expect(page.get_by_role("tab", name="Step")).to_have_attribute("aria-selected", "true")
    assert page.evaluate("viewer.state().words")
    go(page, kind="cross", layer=1, head=1, panel="head", forced=perhaps(page), mute="cross.1.1")
    page.wait_for_function("window.held.length === 1")
    other = TRANSLATORS["de-en"].translate(OTHER)
    draw(page, other)
    choose(page, "Encoder", 3, 4)
    page.evaluate(RELEASE)
    expect(page.locator(".hl-translation")).to_have_text(other.text)
    expect(page.locator(".hl-centre h2")).to_have_text("Encoder · layer 3 · head 4")


def perhaps(page: Page) -> int:
    """The likeliest other first word."""
    alternatives = page.evaluate("viewer.state().home.record.alternatives[0]")
    return next(one["id"] for one in alternatives if one["text"].strip() == "perhaps")


@pytest.mark.slow
def test_a_link_holds_a_hypothesis_an_own_translation_and_a_comparison(show: Show):
    page = show(RESULT)
    panel = open_panel(page, "Step")
    panel.get_by_role("button", name="Draw the beam tree").click()
    panel.locator(".hl-hypotheses .hl-choice").nth(1).click()
    expect(status(page)).to_contain_text("hypothesis “")
    reopened(page, show).close()
    panel.get_by_label("Your own translation").fill("dER hUND")
    panel.get_by_role("button", name="Score it").click()
    panel.get_by_role("button", name="Show its attention").click()
    expect(status(page)).to_contain_text("your own translation")
    again = reopened(page, show)
    expect(again.locator(".hl-scored")).to_contain_text("yours")
    again.close()
    page.get_by_role("button", name="Back to the model’s translation").click()
    choose(page, "Cross", 2, 3)
    view(page, "Compare")
    choose(page, "Cross", 4, 1)
    facts = page.locator(".hl-facts").inner_text()
    expect(reopened(page, show).locator(".hl-facts")).to_have_text(facts)
