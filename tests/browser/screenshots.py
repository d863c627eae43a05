"""Take the README's pictures of the page with the shipped models: `make screenshots`."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import sync_playwright

import app
from tests.browser.conftest import FLAGS, chromium

TARGET = Path(__file__).parents[2] / "assets" / "screenshots"
PICTURES = {"light": (1440, 900, "light"), "dark": (1440, 900, "dark"), "phone": (380, 1400, "light")}


def main() -> None:
    """Serve the page, open it in each size and theme, pin a word of the translation, and save the picture."""
    translators, problems = app.load(app.MODELS)
    page = app.build(translators, problems)
    _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, **app.launch_options())
    TARGET.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        for name, (width, height, scheme) in PICTURES.items():
            view = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            view.goto(url)
            view.locator(".hl-thumbnail").first.wait_for()
            view.locator(".hl-chip").nth(2).click()
            view.mouse.move(0, 0)
            view.screenshot(path=TARGET / f"{name}.png")
            print(TARGET / f"{name}.png")
        browser.close()
    page.close()


if __name__ == "__main__":
    main()
