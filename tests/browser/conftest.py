"""The page with translators that need no model, in a real Chromium."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

import app
from model import Translator
from model.results import Translation
from tests.browser.inspector import tiny
from tests.browser.static_site import Visitor, is_outside, served, translators, write
from tests.viz.fakes import FakeTranslator, fake_summary
from viz.payload import encode, to_json
from viz.server.backend import Backend
from viz.server.handlers.registry import HANDLERS
from viz.viewer import script, style

expect.set_options(timeout=30_000)  # a failure waits so long, and a busy machine may need it
ARTIFACTS = Path(__file__).parents[1] / "artifacts"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
Scheme = Literal["light", "dark"]
EMPTY = Path(__file__).parent / "empty.html"  # a file, whose storage is that of all files
TRANSLATORS = {
    "de-en": FakeTranslator("de-en", "German → English · 9.4 M · BLEU 41.2"),
    "reverse": FakeTranslator("reverse", "Reversed words · 0.8 M", layers=2, heads=4, language="word"),
    "large": FakeTranslator("large", "12 layers, 16 heads", layers=12, heads=16),
    "smallest": FakeTranslator("smallest", "1 layer, 1 head", layers=1, heads=1),
}


def chromium() -> str | None:
    """Return the path of a browser, or None for Playwright's own."""
    return os.environ.get("HEADLIGHT_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


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


@pytest.fixture(scope="session", autouse=True)
def summary_of_fakes() -> Iterator[None]:
    """A fake translator has no weights that could be measured, so what mattered is made up."""
    real = HANDLERS["summary"]

    def work(translator: Translator, request: Any) -> Mapping[str, object]:
        if isinstance(translator, FakeTranslator):
            return fake_summary(translator, request.text, request.ids)
        return real.work(translator, request)

    HANDLERS["summary"] = replace(real, work=work)
    yield
    HANDLERS["summary"] = real


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    service = app.create(TRANSLATORS)
    url = service.launch()
    yield url
    service.stop()


@pytest.fixture(scope="session")
def models() -> dict[str, Translator]:
    """The models of the page without a server; it opens with the first."""
    return translators("reverse", "de-en")


@pytest.fixture(scope="session")
def static_folder(models: dict[str, Translator], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the page without a server, which takes seconds to write."""
    return write(tmp_path_factory.mktemp("static") / "site", models)


@pytest.fixture(scope="session")
def static(static_folder: Path) -> Iterator[str]:
    """The address of the page without a server."""
    with served(static_folder) as url:
        yield url


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    """The test fails if a script fails, breaks the policy of the page, or loads from elsewhere."""
    visitor = Visitor(browser)
    yield visitor
    visitor.close()
    assert not visitor.trouble


class Tabs:
    """Pages that many tests use: a new page starts two processes of the browser and loads all scripts anew.

    `visit` takes back what the test before has changed. A test that adds scripts to every document, or
    needs a page beside the first one, opens its own.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.pages: dict[tuple[str, int], Page] = {}  # by the language of the browser, and a number
        self.trouble: list[str] = []  # scripts that fail, and requests to elsewhere
        self.answer: Callable[[dict[str, Any]], Any] = dict  # what answers the viewer of `show`

    def visit(
        self,
        url: str,
        width: int = 1440,
        height: int = 900,
        scheme: Scheme = "light",
        locale: str = "en-US",
        waits: bool = True,
        number: int = 0,
    ) -> Page:
        """Open an address as a person does who was never there, and wait for the heads.

        Pages of other numbers stay open beside it.
        """
        page = self.pages.get((locale, number))
        if page is None or page.is_closed():
            page = self.pages[locale, number] = self.browser.new_page(locale=locale)
            page.expose_function("askBackend", self._answer)
            page.on("pageerror", lambda error: self.trouble.append(str(error)))
            page.on("request", lambda one: self.trouble.append(one.url) if is_outside(one.url) else None)
        page.unroute_all(behavior="ignoreErrors")
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, reduced_motion="no-preference", forced_colors="none")
        page.set_default_timeout(10_000)
        page.mouse.move(0, 0)
        self._leave(page, url)
        page.evaluate("localStorage.clear()")
        page.goto(url)
        if waits:
            page.locator(".hl-thumbnail").first.wait_for(state="attached")  # a guess of Learn hides it
        return page

    def leave(self) -> None:
        """Show nothing in any page: one of Gradio's draws 60 frames a second for ever."""
        for page in self.pages.values():
            if not page.is_closed() and page.url != "about:blank":
                page.unroute_all(behavior="ignoreErrors")
                self._leave(page, page.url)

    def _leave(self, page: Page, url: str) -> None:
        """Go to a place that shows nothing and has the storage of an address."""
        place = urljoin(url, "healthz") if url.startswith("http") else EMPTY.as_uri()
        if page.url != place:
            with suppress(Error):  # a server that a test has stopped
                page.goto(place)

    def _answer(self, request: dict[str, Any]) -> Any:
        return self.answer(request)


@pytest.fixture(scope="session")
def tabs(browser: Browser) -> Tabs:
    return Tabs(browser)


Visit = Callable[..., Page]


@pytest.fixture
def visit(tabs: Tabs) -> Iterator[Visit]:
    """The test fails if a script fails or loads from elsewhere."""
    tabs.trouble.clear()
    yield tabs.visit
    tabs.leave()
    assert not tabs.trouble


@pytest.fixture
def opened(visit: Visit, address: str) -> Page:
    """The page with its first example drawn, as on a first visit."""
    return visit(address)


BARE = """<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">
<body class="headlight-file"><main class="headlight"></main><script>
const dark = matchMedia('(prefers-color-scheme: dark)');
document.body.classList.toggle('dark', dark.matches);
window.silent = []; // requests that get no answer
const ask = async (request) => {
  if (silent.includes(request.do)) return null;
  const { answer, error } = await askBackend(request);
  if (error) throw new Error(error);
  return answer;
};
const about = ABOUT;
window.viewer = Headlight.mount(document.querySelector('.headlight'), { address: true, ask, about });
</script>"""
Show = Callable[..., Page]


@pytest.fixture
def asked() -> list[dict[str, Any]]:
    """The requests that the viewer of `show` sends."""
    return []


@pytest.fixture
def show(visit: Visit, tabs: Tabs, tmp_path: Path, asked: list[dict[str, Any]]) -> Show:
    """A function that shows a translation in the viewer alone, with a backend but without Gradio.

    `address` is what follows the # of the link, `about` what is known of the models. In short sends its
    request only if `summary` says so.
    """
    backend = Backend(TRANSLATORS)
    numbers = count()

    def answer(request: dict[str, Any]) -> Any:
        asked.append(request)
        return json.loads(to_json(backend.answer(request)))

    def shown(
        translation: Translation,
        model: str = "de-en",
        address: str = "",
        width: int = 1440,
        scheme: Scheme = "light",
        about: Mapping[str, Any] | None = None,
        summary: bool = False,
    ) -> Page:
        known = json.dumps(about or {}).replace("<", "\\u003c")
        look = style("viewer.css", "panels.css", "media.css")
        text = BARE.replace("<body", f"<style>{look}</style><script>{script()}</script><body", 1)
        number = next(numbers)
        file = tmp_path / f"viewer-{number}.html"
        file.write_text(text.replace("ABOUT", known), "utf-8")
        page = visit(f"{file.as_uri()}#{address}", width, scheme=scheme, waits=False, number=number)
        if not summary:
            page.evaluate("window.silent = ['summary']")
        draw(page, translation, model)
        return page

    tabs.answer = answer
    return shown


@pytest.fixture
def page(show: Show) -> Page:
    """The viewer of `show` with the translation of the first example."""
    return show(TRANSLATORS["de-en"].translate(app.EXAMPLES["de-en"][0]))


@pytest.fixture
def with_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds a small model, which answers what the other translators do not know."""
    monkeypatch.setitem(TRANSLATORS, "tiny", tiny())


def draw(page: Page, translation: Translation, model: str = "de-en") -> None:
    """Give the viewer of `show` another translation."""
    page.evaluate("json => viewer.show(JSON.parse(json))", to_json(encode(translation, model)))
