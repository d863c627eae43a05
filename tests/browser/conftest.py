"""The page with translators that need no model, in a real Chromium."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

import app
from model.results import Translation
from tests.viz.fakes import FakeTranslator
from viz.payload import encode, to_json
from viz.server.backend import Backend
from viz.viewer import head

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
TRANSLATORS = {
    "de-en": FakeTranslator("de-en", "German → English · 9.4 M · BLEU 41.2"),
    "reverse": FakeTranslator("reverse", "Reversed words · 0.8 M", layers=2, heads=4, language="word"),
    "large": FakeTranslator("large", "12 layers, 16 heads", layers=12, heads=16),
    "smallest": FakeTranslator("smallest", "1 layer, 1 head", layers=1, heads=1),
}


def chromium() -> str | None:
    """Return the path of a browser, or None for Playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("HEADLIGHT_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = chromium()
        if path is None and not Path(playwright.chromium.executable_path).exists():
            reason = "there is no Chromium: install one or set HEADLIGHT_CHROMIUM to its path"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
        # Scroll bars take room, as they do for a person.
        opened = playwright.chromium.launch(
            executable_path=path, args=FLAGS, ignore_default_args=["--hide-scrollbars"]
        )
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    service = app.create(TRANSLATORS)
    url = service.launch()
    yield url
    service.stop()


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """One for many tests, because a context keeps the scripts that it has loaded."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    yield context
    context.close()


@pytest.fixture
def opened(context: BrowserContext, address: str) -> Iterator[Page]:
    """The page with its first example drawn; the test fails if a script fails or loads from elsewhere."""
    page = context.new_page()
    page.goto(f"{address}healthz")
    page.evaluate("localStorage.clear()")  # what the test before has left
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: trouble.append(request.url) if is_outside(request.url) else None)
    page.set_default_timeout(10_000)
    page.goto(address)
    page.locator(".hl-thumbnail").first.wait_for()
    yield page
    page.close()
    assert not trouble


BARE = """<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">
<body class="headlight-file"><main class="headlight"></main><script>
const dark = matchMedia('(prefers-color-scheme: dark)');
document.body.classList.toggle('dark', dark.matches);
const ask = async (request) => {
  const { answer, error } = await askBackend(request);
  if (error) throw new Error(error);
  return answer;
};
window.refuse = (names) => { ask.refuses = names; };
const { about } = window;
window.viewer = Headlight.mount(document.querySelector('.headlight'), { address: true, ask, about });
</script>"""
Show = Callable[..., Page]


@pytest.fixture
def asked() -> list[dict[str, Any]]:
    """The requests that the viewer of `show` sends."""
    return []


@pytest.fixture
def show(browser: Browser, tmp_path: Path, asked: list[dict[str, Any]]) -> Iterator[Show]:
    """A function that shows a translation in the viewer alone, with a backend but without Gradio.

    The test fails if a script fails or loads from elsewhere. `address` is what follows the # of the link,
    `about` what is known of the models.
    """
    trouble: list[str] = []
    pages: list[Page] = []
    backend = Backend(TRANSLATORS)
    file = tmp_path / "viewer.html"
    file.write_text(BARE.replace("<body", head("viewer.css", "panels.css") + "<body", 1), "utf-8")

    def answer(request: dict[str, Any]) -> Any:
        asked.append(request)
        return json.loads(to_json(backend.answer(request)))

    def shown(
        translation: Translation,
        model: str = "de-en",
        address: str = "",
        width: int = 1440,
        scheme: Literal["light", "dark"] = "light",
        about: Mapping[str, Any] | None = None,
    ) -> Page:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        pages.append(page)
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda request: trouble.append(request.url) if is_outside(request.url) else None)
        page.add_init_script("localStorage.setItem('headlight.tour', 'done')")
        page.add_init_script(f"window.about = {json.dumps(about or {})}")
        page.expose_function("askBackend", answer)
        page.goto(f"{file.as_uri()}#{address}")
        draw(page, translation, model)
        return page

    yield shown
    for page in pages:
        page.close()
    assert not trouble


def draw(page: Page, translation: Translation, model: str = "de-en") -> None:
    """Give the viewer of `show` another translation."""
    page.evaluate("json => viewer.show(JSON.parse(json))", to_json(encode(translation, model)))


def is_outside(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:"))
