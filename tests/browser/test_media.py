"""The page on paper and in a system's high-contrast colours."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visit
from tests.browser.test_accessibility import mute_a_head, open_learn, open_tab

pytestmark = pytest.mark.browser

# What is on the sheet: of the classes of the page, those that are seen; and how far they reach.
ON_PAPER = """() => {
  const seen = (one) => one.checkVisibility({ visibilityProperty: true });
  const found = [...document.querySelectorAll('.headlight *, #hl-top *')].filter(seen);
  return {
    buttons: found.filter((one) => one.matches(BUTTONS)).map((one) => one.textContent),
    right: Math.max(...found.map((one) => one.getBoundingClientRect().right)),
    top: Math.min(...found.map((one) => one.getBoundingClientRect().top)),
    bottom: Math.max(...found.map((one) => one.getBoundingClientRect().bottom)),
  };
}""".replace(
    "BUTTONS", "'button:not(.hl-chip, .hl-thumbnail, .hl-line, .hl-term, .hl-summary button)'"
)  # these are the data and words
SHEET = {"width": 1047, "height": 718}  # CSS pixels of A4 across, without its margins


def test_the_view_prints_on_one_sheet_with_the_tasks_of_the_chapter(visit: Visit, address: str):
    page = visit(address, scheme="dark")
    for name in ("the view", "the chapter"):
        pages = re.findall(rb"/Type /Page\b", page.pdf(prefer_css_page_size=True, print_background=True))
        assert len(pages) == 1, name
        assert page.evaluate("[Headlight.viewer.state().theme, document.body.className]")[0] == "dark", (
            "put back"
        )
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("Headlight.viewer.state().theme") == "light"
        for part in (".hl-translation", ".hl-arcs path", ".hl-thumbnail", ".hl-field canvas"):
            expect(page.locator(part).first).to_be_visible()
        found = page.evaluate(ON_PAPER)
        assert found["buttons"] == []
        assert found["right"] <= SHEET["width"]
        assert found["bottom"] - found["top"] <= SHEET["height"]
        if name == "the chapter":
            expect(page.locator(".hl-tasks > li")).to_have_count(2)
            expect(page.locator(".hl-tasks > li").last).to_be_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        if name == "the view":
            open_learn(page)
            page.wait_for_function("() => Headlight.viewer.state().record.source_text === 'umbrella'")


def test_the_menu_export_prints(visit: Visit, address: str):
    page = visit(address)
    page.evaluate("window.print = () => { window.printed = true; }")
    page.get_by_role("button", name="Export").click()
    page.get_by_role("button", name="Print or PDF").click()
    assert page.evaluate("window.printed")


@pytest.mark.slow
def test_a_phone_prints_what_a_desktop_prints(visit: Visit, address: str):
    page = visit(address)
    drawn = """() => {
      dispatchEvent(new Event('beforeprint'));
      const paths = [...document.querySelectorAll('.hl-arcs path')].map((one) => one.getAttribute('d'));
      const boxes = ['.hl-strip-body', '.hl-field', '.hl-heads'].map((one) => {
        const { width, height } = document.querySelector(one).getBoundingClientRect();
        return [width, height];
      });
      dispatchEvent(new Event('afterprint'));
      return [paths, boxes];
    }"""
    on_desktop = page.evaluate(drawn)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate(drawn) == on_desktop


def looks(part: Locator) -> list[str]:
    """What tells the eye that something is chosen, where colours are the system's."""
    return part.evaluate("""(node) => {
      const { backgroundColor, color, outlineStyle, outlineWidth } = getComputedStyle(node);
      const { content, backgroundColor: bar } = getComputedStyle(node, '::after');
      return [backgroundColor, color, outlineStyle, outlineWidth, content, content === 'none' ? '' : bar];
    }""")


# What is done first, what is chosen, and something of its kind that is not.
CHOICES: list[tuple[Callable[[Page], object], str, str]] = [
    (
        lambda page: None,
        ".hl-thumbnail[aria-selected=true] .hl-picture",
        ".hl-thumbnail:not([aria-selected=true]) .hl-picture",
    ),
    (lambda page: None, "[data-kind][aria-pressed=true]", "[data-kind]:not([aria-pressed=true])"),
    (lambda page: None, "[data-value][aria-pressed=true]", "[data-value]:not([aria-pressed=true])"),
    (open_tab("Step"), "[role=tab][aria-selected=true]", "[role=tab]:not([aria-selected=true])"),
    (mute_a_head, ".hl-thumbnail.hl-muted", ".hl-thumbnail:not(.hl-muted)"),
    (open_learn, ".hl-choice[aria-current]", ".hl-chapters .hl-choice:not([aria-current])"),
]


def test_in_high_contrast_every_choice_has_a_mark(visit: Visit, address: str):
    page = visit(address)
    page.emulate_media(forced_colors="active")
    for reach, chosen, other in CHOICES:
        reach(page)
        page.mouse.move(0, 0)
        assert looks(page.locator(chosen).first) != looks(page.locator(other).first), chosen
