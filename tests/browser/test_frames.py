"""The page inside other sites' frames, as a Space shows it, and its policy in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

import app
from tests.browser.conftest import TRANSLATORS
from tests.browser.screen import FIRST

pytestmark = pytest.mark.browser

FRIEND, FOREIGN = "http://friend.example", "http://foreign.example"


@pytest.fixture(scope="module")
def framed() -> Iterator[str]:
    service = app.create(TRANSLATORS, origins=[FRIEND])
    yield service.launch()
    service.stop()


def frame_of(browser: Browser, site: str, address: str) -> Page:
    """A page of another site that shows the address in a frame."""
    page = browser.new_page()
    body = f'<!doctype html><iframe src="{address}" width="1200" height="900"></iframe>'
    page.route(f"{site}/**", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(f"{site}/")
    return page


def test_only_named_sites_show_the_page_in_a_frame(browser: Browser, framed: str):
    page = frame_of(browser, FRIEND, framed)
    shown = page.frame_locator("iframe").locator(".hl-translation")
    expect(shown).to_have_text(TRANSLATORS["de-en"].translate(FIRST).text, timeout=20_000)
    page.close()
    refusals: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: refusals.append(message.text))
    body = f'<!doctype html><iframe src="{framed}"></iframe>'
    page.route(f"{FOREIGN}/**", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(f"{FOREIGN}/", wait_until="load")
    page.wait_for_timeout(500)
    assert any("frame-ancestors" in text for text in refusals), refusals
    page.close()


def test_the_page_keeps_to_its_own_policy(browser: Browser, framed: str):
    """Else a part of the page would be missing without a sign of it."""
    told: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: told.append(message.text))
    page.goto(framed)
    page.locator(".hl-thumbnail").first.wait_for()
    page.get_by_role("button", name="Export").click()
    expect(page.get_by_role("button", name="(JSON)")).to_be_enabled()
    page.close()
    assert not [text for text in told if "Content Security Policy" in text]
