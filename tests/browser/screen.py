"""Helpers that act like a person at the page."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from model.results import Translation
from tests.browser.conftest import TRANSLATORS

FIRST = "Der kleine Hund schläft heute unter dem alten Tisch."

FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"

# Puts into `drawn` the milliseconds from the next key until the frame with the new picture has been drawn.
WATCH = """() => {
  const before = Headlight.viewer.state().record;
  const later = () => new Promise((done) => setTimeout(done));
  window.drawn = new Promise((done) => {
    const watch = async () => {
      const started = performance.now();
      while (Headlight.viewer.state().record === before) await later();
      await new Promise((next) => requestAnimationFrame(next));
      await later();
      done(performance.now() - started);
    };
    addEventListener('keydown', watch, { once: true, capture: true });
  });
}"""


def translate(page: Page, text: str) -> Translation:
    """Type a sentence, press Enter, wait until its tokens are drawn; return the translation."""
    expected = TRANSLATORS["de-en"].translate(text)
    submit(page, text)
    expect(page.locator(".hl-translation")).to_have_text(expected.text)
    return expected


def submit(page: Page, text: str) -> None:
    page.get_by_label("Sentence").fill(text)
    page.get_by_label("Sentence").press("Enter")


def enter_to_picture(page: Page, text: str) -> float:
    """Type a sentence and press Enter; milliseconds until its picture is drawn."""
    page.get_by_label("Sentence", exact=True).fill(text)
    page.evaluate(WATCH)
    page.get_by_label("Sentence", exact=True).press("Enter")
    return float(page.evaluate("window.drawn"))


def choose(page: Page, kind: str, layer: int, head: int) -> None:
    """Choose a head; layers and heads count from 1."""
    page.locator(f".hl-tab[data-kind={kind.lower()}]").click()
    page.get_by_role("gridcell", name=f"layer {layer}, head {head}", exact=True).click()


def view(page: Page, name: str) -> None:
    """Choose an entry of the menu over the matrix, and close the menu."""
    menu = page.locator(".hl-toolbar .hl-menu")
    menu.locator("summary").click()
    menu.get_by_role("button", name=name, exact=True).click()
    if menu.get_attribute("open") is not None:
        menu.locator("summary").click()


def resize(page: Page, width: int, height: int) -> None:
    """Change the window, and wait until what follows the size of an element is drawn."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate(FRAMES)


def cell(page: Page, row: int, column: int) -> tuple[float, float]:
    """Return where a cell of the matrix is; rows and columns count from 0."""
    box = page.locator(".hl-field canvas").bounding_box()
    rows = page.locator(".hl-row-label").count()
    columns = page.locator(".hl-column-label").count()
    assert box is not None
    return (box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows)


def point(page: Page, row: int, column: int) -> None:
    page.mouse.move(*cell(page, row, column))


def readout(page: Page) -> str:
    return page.locator(".hl-readout").inner_text()


def drawn(page: Page) -> str:
    """Return the pixels of the matrix, to tell whether it changed."""
    return str(page.locator(".hl-field canvas").evaluate("canvas => canvas.toDataURL()"))


def taken_away(page: Page, kind: str, folder: Path) -> Path:
    page.get_by_role("button", name="Export").click()
    expect(page.get_by_role("button", name="Copy link")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name=f"works offline ({kind})" if kind == "HTML" else f"({kind})").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    page.keyboard.press("Escape")
    expect(page.locator("#hl-export-menu")).to_be_hidden()
    return path
