"""The whole matrix is in sight, in every window; the magnifier shows what small cells cannot."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import TRANSLATORS, Show, Visit, draw
from tests.browser.screen import FIRST, FRAMES, choose, point, readout, resize, view

pytestmark = pytest.mark.browser

LONG = " ".join(f"Wort{number}" for number in range(49))
# What is cut off or covered: the last row by the window, by the readout or by the scrolling area.
SIGHT = """() => {
  const box = (name) => document.querySelector(name).getBoundingClientRect();
  const scroll = document.querySelector('.hl-matrix');
  const field = box('.hl-field canvas');
  return {
    scrolls: scroll.scrollHeight > scroll.clientHeight || scroll.scrollWidth > scroll.clientWidth,
    covered: Math.max(0, field.bottom - box('.hl-matrix-footer').top, field.bottom - innerHeight),
    empty: innerHeight - box('.hl-centre').bottom,
    cell: [field.width, field.height].map((length, side) =>
      length / document.querySelectorAll(side ? '.hl-row-label' : '.hl-column-label').length),
  };
}"""


def seen_at(page: Page, width: int, height: int) -> dict:
    resize(page, width, height)
    page.locator(".hl-centre").evaluate("node => node.scrollIntoView()")
    return seen_in(page)


def seen_in(page: Page) -> dict:
    """Return what is in sight once the matrix has been fitted."""
    page.evaluate(FRAMES)
    return page.evaluate(SIGHT)


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1280, 720)])
def test_no_row_is_covered_on_a_first_visit(visit: Visit, address: str, width: int, height: int):
    """Nothing has been scrolled; the columns end with the window."""
    page = visit(address, width, height)
    seen = seen_in(page)
    assert (seen["scrolls"], seen["covered"]) == (False, 0)
    assert seen["empty"] >= 0


def test_every_row_is_in_sight_in_every_window(show: Show):
    page = show(TRANSLATORS["de-en"].translate(FIRST))
    for width, height in ((1440, 900), (853, 480), (1280, 720), (1920, 1080), (390, 844)):
        seen = seen_at(page, width, height)
        assert (seen["scrolls"], seen["covered"]) == (False, 0), (width, height)
        if width == 1920:
            assert seen["empty"] < 120
    draw(page, TRANSLATORS["de-en"].translate(LONG))
    for width, height in ((1440, 900), (1920, 1080)):
        seen = seen_at(page, width, height)
        assert (seen["scrolls"], seen["covered"]) == (False, 0), (width, height)
        assert 4 <= min(seen["cell"]) < 14
    assert seen_at(page, 390, 844)["scrolls"]  # too narrow for 4 pixels a cell
    expect(page.locator(".hl-extent")).to_contain_text("of 50")


@pytest.mark.slow
def test_small_cells_have_a_magnifier_and_can_be_made_large(show: Show):
    result = TRANSLATORS["de-en"].translate(LONG)
    page = show(result)
    choose(page, "Cross", 2, 3)
    names = page.locator(".hl-row-label:not(.hl-skipped)")
    assert 5 < names.count() < 49
    point(page, 7, 10)
    magnifier = page.locator(".hl-magnifier")
    expect(magnifier).to_contain_text("wORT7 ← Wort10")
    expect(page.locator(".hl-row-label.hl-lit .hl-name")).to_be_visible()
    assert f"{result.attention.cross[1, 2, 7, 10].item():.4f}" in readout(page)
    page.mouse.move(5, 5)
    expect(magnifier).to_be_hidden()
    page.keyboard.press("f")
    extent = page.locator(".hl-extent")
    expect(extent).to_contain_text("rows 1–")
    expect(extent).to_contain_text("of 50")
    assert "size=scroll" in page.evaluate("location.hash")
    page.locator(".hl-matrix").evaluate("node => node.scrollTo(0, 9999)")
    expect(extent).to_contain_text("–50 of 50")
    point(page, 49, 1)
    expect(magnifier).to_be_hidden()
    view(page, "Whole matrix")
    expect(extent).to_have_text("")
