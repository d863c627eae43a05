"""The menu Export of the page with a server: files of the record on screen, and the calls that give it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Visit
from tests.browser.inspector import open_panel, status
from tests.browser.screen import choose, taken_away, translate
from viz.payload import decode

pytestmark = pytest.mark.browser


def test_the_record_can_be_taken_away_as_json_and_npz(opened: Page, tmp_path: Path):
    expected = translate(opened, "Guten Tag!")
    record = decode(json.loads(taken_away(opened, "JSON", tmp_path).read_text("utf-8")))
    assert record.ids == expected.ids
    with np.load(taken_away(opened, "NPZ", tmp_path)) as arrays:
        np.testing.assert_array_equal(arrays["cross"], expected.attention.cross.numpy())


def test_the_menu_never_offers_the_files_of_the_sentence_before(opened: Page, tmp_path: Path):
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route) if '"do":"export"' in (route.request.post_data or "") else route.fallback()

    button = opened.get_by_role("button", name="JSON")
    taken_away(opened, "JSON", tmp_path)
    expected = translate(opened, "Guten Tag!")
    opened.route("**/component_server**", hold)
    opened.get_by_role("button", name="Export").click()
    expect(button).to_be_disabled()
    opened.get_by_role("button", name="Export").click()  # closes the menu, and asks nothing
    expect(button).to_be_hidden()
    opened.get_by_role("button", name="Export").click()
    opened.wait_for_function("document.querySelectorAll('#hl-export-calls .hl-call').length === 0")
    expect(button).to_be_disabled()
    opened.unroute("**/component_server**")
    opened.keyboard.press("Escape")
    record = decode(json.loads(taken_away(opened, "JSON", tmp_path).read_text("utf-8")))
    assert record.ids == expected.ids
    assert len(held) == 2


def test_the_files_hold_the_translation_with_muted_heads_while_it_is_shown(
    opened: Page, visit: Visit, tmp_path: Path
):
    choose(opened, "Cross", 1, 2)
    opened.keyboard.press("m")
    open_panel(opened, "What if").get_by_role("button", name="Show its attention").click()
    expect(opened.locator(".hl-translation")).to_contain_text("silent")
    shown = opened.locator(".hl-translation").inner_text()
    payload = json.loads(taken_away(opened, "JSON", tmp_path).read_text("utf-8"))
    assert payload["text"] == shown
    assert payload["muted"]["heads"] == [["cross", 0, 1]]
    path = taken_away(opened, "HTML", tmp_path)
    assert path.stem.endswith("-muted")
    file = visit(path.as_uri(), number=1)
    expect(file.locator(".hl-translation")).to_have_text(shown)
    expect(status(file)).to_contain_text("with 1 head muted")
    expect(file.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    expect(open_panel(file, "What if").get_by_role("button", name="Clear all")).to_be_disabled()


def test_the_calls_in_the_menu_name_the_sentence_as_text(opened: Page):
    text = "<b>'it\"s'</b> $(x)"
    translate(opened, text)
    opened.get_by_role("button", name="Export").click()
    menu = opened.locator("#hl-export-menu")
    expect(menu).to_contain_text(f"text={text!r}")
    expect(menu).to_contain_text("/gradio_api/call/attention")
    assert menu.locator("b").count() == 0
    opened.locator("#hl-brand").click()
    expect(menu).to_be_hidden()
