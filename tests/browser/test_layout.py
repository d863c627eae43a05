"""The box of every panel follows from the window alone, not from the sentence, the tab or the font."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import FLAGS, TRANSLATORS, Visit, chromium
from tests.browser.screen import FIRST, resize, submit, translate

pytestmark = pytest.mark.browser

PANELS = [
    *("#hl-top", "#hl-sentence-row", "#hl-examples", "#hl-message"),
    *(".hl-strip", ".hl-result", ".hl-strip-scroll"),
    *(".hl-heads", ".hl-heads > .hl-bar"),
    *(".hl-short", ".hl-centre", ".hl-centre > .hl-bar", ".hl-arcs-meaning", ".hl-matrix-footer"),
    *(".hl-inspector", ".hl-panel-tabs", ".hl-status", ".hl-panel-body:not([hidden])"),
]
SLOW = [(390, 844), (1280, 720), (1920, 1080)]
WINDOWS = [(1440, 900), *(pytest.param(*size, marks=pytest.mark.slow) for size in SLOW)]
SENTENCES = ["Ja!", FIRST, " ".join(f"Wort{number}" for number in range(45))]

# Two fonts of different widths and heights. Letter spacing and metrics make them differ on a machine that has
# neither family.
FAMILY = ":root, .dark { --hl-font: %s, sans-serif !important; --font: var(--hl-font) !important; }"
FONTS = {
    "wide": FAMILY % '"DejaVu Sans"',
    "narrow": FAMILY % "Narrow"
    + """
      @font-face {
        font-family: Narrow;
        src: local("Liberation Sans Narrow"), local("Liberation Sans"), local("DejaVu Sans");
        ascent-override: 120%;
        descent-override: 40%;
      }
      * { letter-spacing: -0.06em; }""",
}
SET_FONT = """async (css) => {
  document.querySelector('#font')?.remove();
  const style = Object.assign(document.createElement('style'), { id: 'font', textContent: css });
  document.head.append(style);
  document.body.getBoundingClientRect(); // asks for the font
  await document.fonts.ready;
  return document.querySelector('#hl-brand').getBoundingClientRect().width;
}"""
# After each click: the box of each panel, and what sticks out of its panel or is cut off in a button.
LOOK = """async ([panels, steps]) => {
  const frame = () => new Promise(requestAnimationFrame);
  const fits = (one) => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight;
  const boxOf = (panel) => {
    const { x, y, width, height } = document.querySelector(panel).getBoundingClientRect();
    return [x, y + scrollY, width, height];
  };
  const seen = [];
  for (const selector of steps) {
    if (selector) document.querySelector(selector).click();
    await frame();
    await frame(); // what follows the size of an element is drawn
    const outside = [...document.querySelectorAll('.hl-columns > .hl-panel, .hl-strip, .hl-tab')]
      .filter((one) => one.checkVisibility() && !fits(one))
      .map((one) => `${one.className} ${one.textContent.slice(0, 20)}`);
    const boxes = Object.fromEntries(panels.map((panel) => [panel, boxOf(panel)]));
    seen.push({ after: selector, boxes, outside });
  }
  return seen;
}"""
KINDS = [f"[data-kind={kind}]" for kind in ("encoder", "decoder", "cross")]
TABS = [f"[role=tab][id$={tab}-tab]" for tab in ("cell", "step", "mute", "training", "examples", "head")]
PIN, LAYER, SPECIALS = ".hl-row-label", ".hl-thumbnail[data-head='']", ".hl-toolbar [title*=leave]"
COMPARE, WEIGHT, TABLE = "[data-value=difference]", "[data-value=weight]", ".hl-sheet > :last-child"
SOURCE = ".hl-chip[data-side=source]"
VIEWS = [
    *TABS,
    PIN,
    LAYER,
    SPECIALS,
    COMPARE,
    TABLE,
    TABLE,
    WEIGHT,
    SPECIALS,
    PIN,
    ".hl-thumbnail",
    SOURCE,
    SOURCE,
]


@pytest.mark.parametrize(("width", "height"), WINDOWS)
def test_no_result_view_or_font_moves_a_panel(visit: Visit, address: str, width: int, height: int):
    page, before = empty(visit, address, width, height)
    widths = set()
    for name, css in FONTS.items():
        widths.add(page.evaluate(SET_FONT, css))
        for sentence in SENTENCES if name == "wide" else SENTENCES[-1:]:
            translate(page, sentence)
            for seen in look(page, KINDS if sentence != SENTENCES[-1] else KINDS + VIEWS):
                assert (seen["boxes"], seen["outside"]) == (before, []), (name, sentence, seen["after"])
        submit(page, "")
        expect(page.get_by_role("alert").filter(visible=True)).to_have_count(1)
        assert look(page)[0]["boxes"] == before, (name, "error")
    assert len(widths) == len(FONTS), "the fonts have the same width, so they test nothing"


def empty(visit: Visit, address: str, width: int, height: int) -> tuple[Page, dict[str, list[float]]]:
    """Open the page; return its boxes before the first result, which is held back until then."""
    page = visit(f"{address}healthz", width, height, waits=False)
    page.route("**/component_server**", lambda _: None)
    with page.expect_request("**/component_server**"):
        page.goto(address)
    page.locator(".headlight.hl-empty .hl-centre").wait_for()
    before = look(page)[0]["boxes"]
    page.unroute("**/component_server**")  # the request that waits is sent
    page.locator(".hl-thumbnail").first.wait_for()
    return page, before


def look(page: Page, steps: Sequence[str | None] = (None,)) -> list[dict[str, Any]]:
    """Click one thing after the other; return what LOOK sees after each."""
    return page.evaluate(LOOK, [PANELS, list(steps)])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["large", "smallest"])
def test_no_size_of_model_moves_a_panel(visit: Visit, address: str, model: str):
    page, before = empty(visit, address, 1440, 900)
    page.get_by_label("Model").select_option(label=TRANSLATORS[model].title)
    page.wait_for_function("name => Headlight.viewer.state().record.model.name === name", arg=model)
    seen = look(page)[0]
    assert (seen["boxes"], seen["outside"]) == (before, [])


def test_letters_of_twice_the_size_scroll_only_downwards(visit: Visit, address: str, static: str) -> None:
    """At 200 % a window of 1280 pixels has the room of 640, a phone of 390 that of 195."""
    for url, locale in ((address, "en-US"), (static, "en-US"), (static, "de-DE")):
        page = visit(url, 640, 422, locale=locale)
        for width in (640, 195):
            resize(page, width, 422)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (url, locale)


@pytest.fixture(scope="module")
def large_letters(browser: Browser) -> Iterator[Browser]:
    """A browser whose letters are set to 24 px in place of 16."""
    flags = [*FLAGS, "--blink-settings=defaultFontSize=24"]
    path = chromium()
    opened = browser.browser_type.launch(
        executable_path=path, args=flags, ignore_default_args=["--hide-scrollbars"]
    )
    yield opened
    opened.close()


SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
LETTERS = "(one) => Number.parseFloat(getComputedStyle(one).fontSize)"


USUAL_LETTERS = {".hl-translation": 18, ".hl-chip": 14, ".hl-soft": 13, "#hl-sentence input": 16}


def test_everything_grows_with_the_letters_of_the_browser(
    large_letters: Browser, address: str, static: str
) -> None:
    for url, locale in ((static, "fr-FR"), (static, "it-IT"), (address, "en-US")):
        page = large_letters.new_page(locale=locale)
        page.goto(url)
        page.locator(".hl-thumbnail").first.wait_for()
        for width, height in ((1280, 800), (390, 844)):
            resize(page, width, height)
            assert page.evaluate(SIDEWAYS) <= 0, (locale, width)  # French and Italian have the longest words
            if url == address:
                expect_large_letters(page)
        page.close()


def expect_large_letters(page: Page) -> None:
    for place, usual in USUAL_LETTERS.items():
        found = page.locator(place).locator("visible=true").first.evaluate(LETTERS)
        assert found == pytest.approx(usual * 24 / 16), place
    label = page.locator(".hl-row-label:not(.hl-skipped)").first
    assert label.evaluate("(one) => one.clientHeight >= Number.parseFloat(getComputedStyle(one).fontSize)")
    for name in ("Cell", "Step", "What if", "Training", "Examples"):
        page.get_by_role("tab", name=name).click()
        assert page.evaluate(SIDEWAYS) <= 0, name
    page.get_by_role("button", name="Learn").click()
    page.locator(".hl-learn").wait_for()
    assert page.evaluate(SIDEWAYS) <= 0
    page.locator(".hl-learn").get_by_role("button", name="Close").click()


COLLECT = """window.shifts = 0;
new PerformanceObserver((list) => {
  for (const { value } of list.getEntries()) window.shifts += value;
}).observe({ type: 'layout-shift', buffered: true });"""
GOOD_SHIFT = 0.1  # of all shifts together: https://web.dev/articles/cls


def test_the_page_does_not_jump_while_it_loads(browser: Browser, address: str):
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script(COLLECT)
    page.goto(address)
    page.locator(".hl-thumbnail").first.wait_for()
    assert page.evaluate("shifts") < GOOD_SHIFT
    page.close()
