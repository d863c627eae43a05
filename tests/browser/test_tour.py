"""The tour: offered once, five steps with the model that reverses words, everything restored at the end."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import TRANSLATORS, Show
from tests.browser.inspector import DIFFERENT, FAIL, KEEP, status
from tests.browser.screen import FIRST, choose

pytestmark = pytest.mark.browser


@pytest.fixture
def page(show: Show) -> Page:
    page = show(TRANSLATORS["de-en"].translate(FIRST))
    choose(page, "Encoder", 2, 3)
    page.keyboard.press("m")
    expect(page.locator(".hl-panel-head strong")).to_be_visible()
    return page


def start(page: Page) -> None:
    """Start the tour from the help."""
    page.evaluate(KEEP)
    page.keyboard.press("?")
    page.get_by_role("button", name="Take the tour").click()
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_five_steps_and_everything_is_restored(page: Page):
    former = page.evaluate_handle("viewer.state().muted")
    page.evaluate("location.hash += '&only=2'")  # which would change what the tour shows
    # The answer about this row alone has arrived.
    page.wait_for_function("former => viewer.state().muted && viewer.state().muted !== former", arg=former)
    assert page.evaluate("viewer.state().instead.row") == 1
    start(page)
    card = page.get_by_label("Tour")
    word = TRANSLATORS["reverse"].translate("umbrella")
    seen = []
    for step in range(1, 6):
        expect(card).to_contain_text(f"{step} of 5")
        expect(page.locator(".hl-toured")).to_have_count(1)
        assert page.evaluate("viewer.state().instead.row") is None
        seen.append(page.locator(".hl-toured").get_attribute("aria-label"))
        expect(page.locator(".hl-translation")).to_have_text(word.text)
        expect(page.locator(".hl-analysed")).to_contain_text("“umbrella” · the tour · Reversed words · 0.8 M")
        button = card.get_by_role("button", name="Next" if step < 5 else "Done")
        expect(button).to_be_focused()
        if step == 3:
            expect(page.locator(".hl-value")).to_be_visible()
        if step == 4:
            expect(page.locator(".hl-panel-cell .hl-sum")).to_be_visible()
        if step == 5:
            expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(4)
            expect(page.locator(".hl-panel-mute .hl-outcome h3")).to_have_text("With 4 heads muted")
        button.click()
    assert seen == ["Tokens", "Heads", "Matrix", "Inspector", "Inspector"]
    expect(card).to_be_hidden()
    expect(page.locator(".hl-toured")).to_have_count(0)
    assert page.evaluate(DIFFERENT) == []
    expect(page.get_by_role("tab", name="Head")).to_have_attribute("aria-selected", "true")


def test_the_page_stays_usable_and_escape_ends_the_tour(page: Page):
    start(page)
    card = page.get_by_label("Tour")
    card.get_by_role("button", name="Next").click()
    page.get_by_role("gridcell", name="layer 1, head 2", exact=True).click()
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 1 · head 2")
    card.get_by_role("button", name="Back").click()
    expect(card).to_contain_text("1 of 5")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    assert page.evaluate(DIFFERENT) == []


def test_leaving_the_record_ends_the_tour(page: Page):
    start(page)
    page.get_by_role("button", name="Back to the model’s translation").click()
    expect(page.get_by_label("Tour")).to_be_hidden()


def test_without_the_model_the_tour_says_so(page: Page):
    page.evaluate(FAIL, "There is no model 'reverse'; choose one of: de-en.")
    start(page)
    expect(status(page)).to_contain_text("There is no model 'reverse'")
    expect(page.get_by_label("Tour")).to_be_hidden()


def test_it_is_offered_until_the_person_answers(browser: Browser, address: str):
    context = browser.new_context()
    page = context.new_page()
    for _ in range(2):
        page.goto(address)
        page.locator(".hl-thumbnail").first.wait_for()
        expect(page.get_by_label("Tour")).to_contain_text("New here? Take a two-minute tour.")
    page.get_by_role("button", name="No, thanks").click()
    page.reload()
    page.locator(".hl-thumbnail").first.wait_for()
    expect(page.get_by_label("Tour")).to_be_hidden()
    context.close()


def test_a_browser_that_stores_nothing_can_take_it(browser: Browser, address: str):
    page = browser.new_page()
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused'); } })"
    )
    page.goto(address)
    page.locator(".hl-thumbnail").first.wait_for()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_label("Tour")).to_contain_text("1 of 5")
    page.close()
    assert not [each for each in trouble if "refused" not in each]


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (960, 600), (380, 780)])
def test_the_offer_covers_nothing(browser: Browser, address: str, width: int, height: int):
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(address)
    expect(page.get_by_label("Tour")).to_be_visible()
    offer = page.locator(".hl-tour").bounding_box()
    assert offer
    for part in page.locator(".hl-strip, .hl-heads, .hl-centre, .hl-inspector, .hl-keys").all():
        box = part.bounding_box()
        assert box is None or box["y"] >= offer["y"] + offer["height"]
    page.close()
