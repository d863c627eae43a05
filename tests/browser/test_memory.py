"""The kind Decoder of a model that keeps a running memory in place of self-attention, as Firefox's does."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from model.importing.importer import read_checkpoint
from model.translator import Translator
from tests.browser.conftest import TRANSLATORS, Show
from tests.browser.inspector import open_panel
from tests.browser.screen import cell, choose, point, readout
from tests.model.importing.test_firefox import write

pytestmark = pytest.mark.browser

TEXT = "▁a ▁b ▁c"


@pytest.fixture
def translator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Translator:
    found = Translator(read_checkpoint(str(write(tmp_path / "enpt").parent)), "firefox")
    monkeypatch.setitem(TRANSLATORS, "firefox", found)
    return found


@pytest.fixture
def page(show: Show, translator: Translator) -> Page:
    return show(translator.translate(TEXT), "firefox", address="kind=decoder&layer=1&head=3")


def test_the_decoder_is_said_to_keep_a_memory_and_the_other_kinds_are_as_ever(page: Page) -> None:
    said = page.locator(".hl-memory")
    expect(said).to_contain_text("This decoder has no self-attention; it keeps a running memory.")
    expect(said).to_contain_text("Firefox rounds further")
    expect(page.locator(".hl-panel-head .hl-role")).to_have_text("Memory")
    expect(page.get_by_text("Do the weights tell the truth?")).to_be_hidden()
    expect(page.locator(".hl-measures")).to_have_count(0)
    choose(page, "Cross", 1, 1)
    expect(said).to_be_hidden()
    expect(page.get_by_text("Do the weights tell the truth?")).to_be_visible()
    expect(page.locator(".hl-measures")).to_have_count(1)


def test_what_a_row_lacks_comes_from_nothing_and_nothing_is_scaled_up(
    page: Page, translator: Translator
) -> None:
    weights = translator.translate(TEXT).attention.decoder[0, 2]
    masses = page.locator(".hl-mass")
    nothing = [1 - float(row.sum()) for row in weights]
    assert nothing[0] > 0.1
    expect(masses).to_have_text([f"{max(0.0, share):.2f}" for share in nothing])
    point(page, 1, 1)
    assert f"{weights[1, 1].item():.4f}" in readout(page)
    assert f"from nothing {nothing[1]:.4f}" in readout(page)
    assert "entropy" not in readout(page)
    page.keyboard.press("s")
    point(page, 1, 0)  # <s> has no column any more
    assert f"{weights[1, 1].item():.4f}" in readout(page)
    assert f"from nothing {nothing[1]:.4f} · hidden {weights[1, 0].item():.4f}" in readout(page)


def test_what_needs_queries_and_keys_is_not_offered(page: Page) -> None:
    page.mouse.click(*cell(page, 2, 1))
    panel = open_panel(page, "Cell")
    expect(panel).to_contain_text("So there is no query and no key")
    expect(panel.get_by_text("Why does it look there?")).to_have_count(0)
    expect(panel.get_by_text("What does it write from there?")).to_have_count(0)
