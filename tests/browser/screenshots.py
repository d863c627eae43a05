"""Take the pictures of the page in the README and the docs: `make screenshots`.

They show the shipped models, and the shipped de-en exported to transformers and imported from there. With
names, only these pictures are taken: `python -m tests.browser.screenshots print dark`.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

import app
from model import Translator
from model.importing.exporting import export
from model.importing.importer import import_model
from model.storage.checkpoint import load
from tests.browser.conftest import FLAGS, chromium
from tests.browser.screen import cell, view

TARGET = Path(__file__).parents[2] / "assets" / "screenshots"


MOMENTS = (0, 50, 150, 300, 600)  # steps of the playground
IMPORTED = "de-en-transformers"
SENTENCE = "Der kleine Hund läuft heute durch den Schnee."


class Picture(NamedTuple):
    """A state of the page, and how a person gets there."""

    reach: Callable[[Page], None]
    width: int = 1440
    height: int = 900
    scheme: str = "light"
    model: str = "de-en"


def a_pinned_word(page: Page) -> None:
    expect(page.get_by_text("Marks:")).to_be_visible(timeout=60_000)
    page.locator(".hl-chip[data-side=target]").nth(3).click()
    page.get_by_role("tab", name="Head").click()


def a_cell_explained(page: Page) -> None:
    page.mouse.click(*cell(page, 2, 2))
    page.get_by_role("tab", name="Cell").click()
    expect(page.locator(".hl-inspector")).to_contain_text("softmax")


def a_muted_layer(page: Page) -> None:
    page.get_by_role("tab", name="What if").click()
    expect(page.get_by_text("Marks:")).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Decoder", exact=True).click()
    page.get_by_role("gridcell", name="layer 2, average of its heads").click()
    page.keyboard.press("m")
    expect(page.locator(".hl-inspector")).to_contain_text("changes by")
    page.locator(".hl-panel-mute").evaluate("panel => panel.scrollTo(0, 0)")


def two_heads_compared(page: Page) -> None:
    view(page, "Compare")
    page.get_by_role("gridcell", name="layer 2, head 2", exact=True).click()


def on_paper(page: Page) -> None:
    expect(page.get_by_text("Marks:")).to_be_visible(timeout=60_000)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")


PICTURES = {
    "light": Picture(a_pinned_word),
    "dark": Picture(a_pinned_word, scheme="dark"),
    "phone": Picture(a_pinned_word, 380, 1400),
    "print": Picture(on_paper, 1064, 718),  # A4 across without its margins, and room for a scroll bar
    "cell": Picture(a_cell_explained, scheme="dark"),
    "mute": Picture(a_muted_layer),
    "compare": Picture(two_heads_compared),
    "imported": Picture(a_pinned_word, model=IMPORTED),
    "imported-dark": Picture(a_pinned_word, scheme="dark", model=IMPORTED),
    "imported-phone": Picture(a_pinned_word, 380, 1400, model=IMPORTED),
}


def imported_model() -> Translator:
    """The shipped de-en, exported to transformers and imported from there."""
    with tempfile.TemporaryDirectory() as folder:
        origin, directory = Path(folder) / IMPORTED, Path(folder) / "imported"
        export(load(app.MODELS / "de-en"), "transformers", origin)
        import_model(str(origin), directory)
        return Translator.load(directory)


def save(picture: bytes, path: Path) -> None:
    """Save a picture with 256 colours, which is half its size."""
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(256, kmeans=2).save(path, optimize=True)
    print(path)


def playground_series(page: Page, url: str) -> None:
    """Save the matrices of one training at five moments."""
    page.goto(f"{url}#playground=reverse")
    steps = page.locator(".hl-play-bar .hl-role")
    taken = 0
    for moment in MOMENTS:
        one_more = "(button, times) => { for (let count = 0; count < times; count += 1) button.click(); }"
        page.get_by_role("button", name="One step", exact=True).evaluate(one_more, moment - taken)
        expect(steps).to_contain_text(f"Step {moment} ·", timeout=120_000)
        taken = moment
        save(page.locator(".hl-play-matrices").screenshot(), TARGET / f"playground-{moment}.png")


def main(names: Collection[str]) -> None:
    """Serve the page, open it in each size and theme, go to each state, and save the picture."""
    translators, problems = app.load(app.MODELS)
    chosen = {name: picture for name, picture in PICTURES.items() if not names or name in names}
    if any(picture.model == IMPORTED for picture in chosen.values()):
        translators[IMPORTED] = imported_model()
    service = app.create(translators, problems)
    url = service.launch()
    TARGET.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        for name, picture in chosen.items():
            size = {"width": picture.width, "height": picture.height}
            view = browser.new_page(viewport=size, color_scheme=picture.scheme)
            view.goto(f"{url}#model={picture.model}&text={SENTENCE}" if picture.model == IMPORTED else url)
            view.locator(".hl-thumbnail").first.wait_for()
            picture.reach(view)
            view.mouse.move(0, 0)
            view.evaluate("scrollTo(0, 0)")
            save(view.screenshot(), TARGET / f"{name}.png")
        if not names:
            playground_series(browser.new_page(viewport={"width": 1360, "height": 900}), url)
        browser.close()
    service.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
