"""Helpers that act like a person at the inspector, and a small real model to ask."""

from __future__ import annotations

from functools import cache

from playwright.sync_api import Locator, Page, expect

from model.translator import Translator
from tests.model.helpers import tiny_checkpoint

TEXT = "Ein kleiner Hund läuft."
# HOLD delays answers until RELEASE; FAIL replaces answers by an error.
HOLD = """() => {
  const backend = window.askBackend;
  window.held = [];
  window.askBackend = (request) => new Promise((done) => window.held.push(() => done(backend(request))));
}"""
RELEASE = "() => Promise.all(window.held.splice(0).map((answer) => answer()))"
FAIL = "(sentence) => { window.askBackend = async () => ({ error: sentence }); }"
KEEP = "() => { window.kept = viewer.state(); }"
# Names of the parts of the state that have changed since KEEP, without the open panel.
DIFFERENT = """() => {
  const now = viewer.state();
  const same = (one, other) => one === other || JSON.stringify(one) === JSON.stringify(other);
  const names = Object.keys({ ...now, ...window.kept }).filter((name) => name !== 'panel');
  return names.filter((name) => !same(now[name], window.kept[name]));
}"""


@cache
def tiny() -> Translator:
    """A random model whose beams, cells and heads are real; 2 and 4 layers of 3 heads."""
    return Translator(tiny_checkpoint(seed=1), "tiny")


def open_panel(page: Page, name: str) -> Locator:
    page.get_by_role("tab", name=name).click()
    panel = page.get_by_role("tabpanel")
    expect(panel).to_have_attribute("aria-labelledby", page.get_by_role("tab", name=name).get_attribute("id"))
    return panel


def ask(page: Page, panel: str, question: str) -> Locator:
    """Open a question of a panel, wait for its answer; return its element."""
    found = open_panel(page, panel).locator(".hl-question").filter(has_text=question)
    found.locator("summary").click()
    expect(found.locator(".hl-answer:not(.hl-stale) > :not(p)").first).to_be_visible()
    return found


def status(page: Page) -> Locator:
    """Return the status line: the open request, an error, or the record that is shown."""
    return page.locator(".hl-status")


def number(value: float, digits: int = 4) -> str:
    """Return a number as the page writes it."""
    return f"{value:.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 4) -> str:
    """Return a number with its sign, as the page writes it; without a sign if it rounds to 0."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return ("−" if value < 0 else "+") + text


def chips(page: Page) -> list[str]:
    """Return the tokens of the translation on screen, without the start token."""
    return page.locator(".hl-chip[data-side=target]").all_inner_texts()[1:]
