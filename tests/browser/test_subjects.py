"""Names and numbers on the page are of the thing that they are said of."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.inspector import open_panel
from tests.browser.screen import view

pytestmark = pytest.mark.browser


def test_confidence_counts_the_rows_of_its_mean(page: Page):
    rows = page.evaluate("viewer.state().record.tokens.predicted.length")
    measures = open_panel(page, "Head").locator(".hl-measures")
    measures.locator("summary").first.click()
    for name, count in (("confidence", rows - 1), ("entropy", rows)):
        one = measures.locator(f"[data-name={name}]")
        one.locator("summary").click()
        expect(one).to_contain_text(f"Measured over {count} queries.")


def test_a_handout_names_value_switches_sentence_and_address(visit: Visit, address: str):
    page = visit(address)
    view(page, "Colour by row")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    notes = page.locator(".hl-handout")
    record = page.evaluate("Headlight.viewer.state().record")
    for text in ("weight · Colour by row", record["source_text"], record["text"], page.url):
        expect(notes).to_contain_text(text)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(notes).to_be_hidden()
