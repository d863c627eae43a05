"""The keyboard: every key does one thing at once, unless a text field has the focus."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import TRANSLATORS, Show
from tests.browser.inspector import open_panel
from tests.browser.screen import FIRST, choose, readout

pytestmark = pytest.mark.browser

RESULT = TRANSLATORS["de-en"].translate(FIRST)
RECORD = RESULT.attention


def test_keys_move_head_layer_kind_and_cell(page: Page):
    choose(page, "Cross", 2, 3)
    title = page.locator(".hl-centre h2")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(title).to_have_text("Cross · layer 3 · head 4")
    expect(page.get_by_role("gridcell", name="layer 3, head 4", exact=True)).to_be_focused()
    page.keyboard.press("1")
    expect(title).to_have_text("Encoder · layer 3 · head 4")
    page.locator(".hl-matrix").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".hl-value")).to_have_text(f"{RECORD.encoder[2, 3, 0, 0].item():.4f}")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    expect(page.locator(".hl-value")).to_have_text(f"{RECORD.encoder[2, 3, 1, 1].item():.4f}")
    expect(page.locator("[aria-live=polite].hl-unseen")).to_contain_text(
        "Encoder, layer 3, head 4. kleine ← kleine"
    )
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Cell")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_keys_act_at_once_and_wherever_the_focus_is_except_in_a_text_field(opened: Page):
    title = opened.locator(".hl-centre h2")
    assert opened.evaluate("document.activeElement === document.body")
    to_first = ["ArrowUp"] * 3 + ["ArrowLeft"] * 7  # from any of the 4 layers and 8 heads
    for key in ("1", *to_first, "ArrowDown", "ArrowRight", "ArrowRight"):
        opened.keyboard.press(key)
    expect(title).to_have_text("Encoder · layer 2 · head 3")
    opened.get_by_role("button", name="Options").focus()
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("3")
    expect(title).to_have_text("Cross · layer 2 · head 2")
    opened.locator(".hl-toolbar .hl-menu > summary").click()
    threshold = opened.get_by_label("Share of each row that is shown")
    threshold.focus()
    opened.keyboard.press("ArrowLeft")
    expect(threshold).to_have_value("99")
    opened.keyboard.press("2")
    expect(title).to_have_text("Decoder · layer 2 · head 2")
    opened.get_by_label("Sentence").focus()
    for key in ("ArrowLeft", "1", "a"):
        opened.keyboard.press(key)
    expect(title).to_have_text("Decoder · layer 2 · head 2")


def test_the_focus_stays_on_a_control_that_is_drawn_again(page: Page):
    choose(page, "Cross", 2, 3)
    last = len(RECORD.predicted)
    after = open_panel(page, "Step").get_by_role("button", name="step after")
    after.focus()
    for step in range(2, last + 1):
        page.keyboard.press("Enter")
        expect(page.get_by_text(f"step {step} of {last}", exact=True)).to_be_visible()
    expect(
        page.get_by_role("button", name="step before")
    ).to_be_focused()  # the nearest: there is no step after
    assert page.evaluate("viewer.state().pin.column") is None
    layer = open_panel(page, "What if").get_by_role("button", name="All of layer 2")
    layer.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".hl-outcome")).to_contain_text("changes by")
    expect(layer).to_be_focused()


def test_arrows_move_between_the_tokens(page: Page):
    title = page.locator(".hl-centre h2").inner_text()
    page.locator(".hl-chip[data-side=source]").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".hl-chip[data-side=source]").nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".hl-struck")).to_have_text("Hund")
    page.get_by_role("button", name="Follow it").focus()
    page.keyboard.press("Enter")
    assert "Hund is read most by" in readout(page)
    assert page.locator(".hl-centre h2").inner_text() == title


@pytest.mark.slow
def test_the_strip_scrolls_to_a_pinned_token(show: Show):
    page = show(TRANSLATORS["de-en"].translate(" ".join(f"Wort{number}" for number in range(40))))
    page.keyboard.press("3")
    last = page.locator(".hl-chip[data-side=source]").last
    expect(last).not_to_be_in_viewport()
    page.locator(".hl-matrix").focus()
    for _ in range(41):
        page.keyboard.press("Shift+ArrowRight")
    expect(last).to_be_in_viewport()
