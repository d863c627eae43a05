"""Word links in the strip: those of the model, the person's own, and the error between them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Show
from tests.browser.inspector import TEXT, number, status, tiny
from tests.browser.screen import point
from viz.instruments import link_values

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_tiny")]

RESULT = tiny().score(TEXT, "A small dog runs.")  # several words; the model itself says a single one
GOLD = "0-0 1p1 2-1"


@pytest.fixture
def page(show: Show) -> Page:
    page = show(RESULT, model="tiny")
    page.get_by_role("button", name="Word links").click()
    expect(page.locator(".hl-ways")).to_be_visible()
    return page


def drawn(page: Page, selector: str = ".hl-link") -> list[str]:
    paths = page.locator(f".hl-arcs {selector}").all()
    return sorted(path.get_attribute("data-link") or "" for path in paths)


def written(links: list[list[int]]) -> list[str]:
    return sorted(f"{source}-{target}" for source, target in links)


def test_the_strip_shows_the_links_of_each_way_and_their_coverage(page: Page):
    found = link_values(tiny(), TEXT, RESULT.ids)
    best, average = found["methods"]
    coverage = page.get_by_label("Coverage")
    values = [number(value, 2) for value in found["coverage"]]
    expect(coverage.locator("li .hl-number")).to_have_text(values)
    linked = {source for source, _ in best["links"]}
    expect(coverage.locator(".hl-unlinked")).to_have_count(len(found["source_words"]) - len(linked))
    assert drawn(page) == written(best["links"])
    page.get_by_role("button", name="both directions joined").click()
    assert drawn(page) == written(best["grown"])
    page.get_by_role("button", name="Average of all heads of Cross").click()
    assert drawn(page) == written(average["links"])
    page.get_by_role("button", name="Word links").click()
    expect(page.locator(".hl-link")).to_have_count(0)
    expect(page.locator(".hl-arcs path").first).to_be_attached()


def test_own_links_have_an_error(page: Page, asked: list):
    page.get_by_label("Your own word links").fill(GOLD)
    page.keyboard.press("Enter")
    expect(page.locator(".hl-ways")).to_contain_text("Your links")
    found = link_values(tiny(), TEXT, RESULT.ids, gold=GOLD)
    best, average = found["methods"]
    errors = [best["errors"]["links"], best["errors"]["grown"], average["errors"]["links"]]
    expect(page.locator(".hl-ways .hl-number")).to_have_text([f"AER {number(error)}" for error in errors])
    links, gold = written(best["links"]), written(found["gold"])
    assert drawn(page, ".hl-link-extra") == [link for link in links if link not in gold]
    assert drawn(page, ".hl-link-missing") == [link for link in gold if link not in links]
    page.get_by_role("button", name="Your links").click()
    assert drawn(page) == gold
    assert asked[-1]["gold"] == GOLD
    address = page.evaluate("location.hash")
    assert "ask=links" in address
    assert "linkedBy=own" in address


def test_wrong_links_are_one_sentence_and_can_be_mended(page: Page):
    page.get_by_label("Your own word links").fill("0:1")
    page.keyboard.press("Enter")
    expect(status(page)).to_contain_text("is not a valid link")
    page.get_by_label("Your own word links").fill("0-0")
    step = page.evaluate("viewer.state().step")
    point(page, 2, 0)  # another step, for which the panel is drawn again
    assert page.evaluate("viewer.state().step") != step
    page.keyboard.press("Enter")
    expect(page.locator(".hl-ways .hl-number")).to_have_count(3)


def test_links_can_be_drawn_in_the_strip(page: Page, asked: list):
    page.get_by_role("button", name="Draw them").click()
    box = page.get_by_label("Your own word links")
    draw_link(page, "source", 0)
    expect(page.locator(".hl-chip.hl-lit")).to_have_text(word_of(page, "source", 0))
    expect(page.locator(".hl-question [role=status]")).to_contain_text("Choose the word of the translation")
    draw_link(page, "target", 1)
    expect(box).to_have_value("0-1")
    found = link_values(tiny(), TEXT, RESULT.ids, gold="0-1")
    error = found["methods"][0]["errors"]["links"]
    expect(page.locator(".hl-ways .hl-number").first).to_have_text(f"AER {number(error)}")
    draw_link(page, "source", 2)
    draw_link(page, "target", 0)
    expect(box).to_have_value("0-1 2-0")
    draw_link(page, "source", 0)
    draw_link(page, "target", 1)  # the same link again: it is removed
    expect(box).to_have_value("2-0")
    assert page.evaluate("viewer.state().pin") is None
    page.keyboard.press("Escape")
    page.locator(".hl-chip[data-side=source]").first.click()
    expect(box).to_have_value("2-0")
    assert "gold=2-0" in page.evaluate("location.hash")


def draw_link(page: Page, side: str, word: int) -> None:
    """Click the first token of a word."""
    page.locator(f".hl-chip[data-side={side}][data-place='{places_of(side, word)[0]}']").click()


def places_of(side: str, word: int) -> list[int]:
    """The chips of a word; the first one of the translation is the start token."""
    record = RESULT.attention
    tokens = record.source if side == "source" else (record.read[0], *record.predicted)
    return [place for place, token in enumerate(tokens) if token.word == word]


def word_of(page: Page, side: str, word: int) -> list[str]:
    chips = page.locator(f".hl-chip[data-side={side}]").all_inner_texts()
    return [chips[place] for place in places_of(side, word)]
