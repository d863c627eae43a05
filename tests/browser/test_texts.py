"""What the page says: scales are named, things that open look it, and texts fit the device."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import TRANSLATORS, Visit
from tests.browser.inspector import open_panel
from tests.browser.screen import FIRST, cell, choose, point, readout, view

pytestmark = pytest.mark.browser

RESULT = TRANSLATORS["de-en"].translate(FIRST)


@pytest.mark.slow
def test_values_and_bars_say_what_they_are(page: Page):
    choose(page, "Cross", 2, 3)
    point(page, 3, 2)
    assert "entropy" in readout(page)
    view(page, "Average of the heads")
    point(page, 3, 2)
    assert "entropy" in readout(page)
    view(page, "Largest of the heads")
    point(page, 3, 2)
    assert "entropy" not in readout(page)
    choose(page, "Cross", 2, 3)
    page.mouse.click(*cell(page, 3, 2))
    products = open_panel(page, "Cell")
    expect(products).to_contain_text(
        re.compile(r"The longest bar is [\d.]+; other heads have other scales\.")
    )
    page.keyboard.press("m")
    muted = open_panel(page, "What if")
    expect(muted).to_contain_text("The longest bar is 0.50 nats; other heads have other scales.")
    expect(open_panel(page, "Step")).to_contain_text("in nats: 1 nat is a factor of 2.72. The score")
    head = open_panel(page, "Head")
    head.get_by_text("Measures", exact=True).click()
    measure = head.locator(".hl-measure summary").first
    arrow = "node => getComputedStyle(node, '::before').rotate"
    assert measure.evaluate(arrow) == "none"
    measure.click()
    assert measure.evaluate(arrow) == "90deg"


def test_the_orders_are_not_cut(page: Page):
    order = page.get_by_label("Order of the heads")
    for label in order.locator("option").all_inner_texts():
        room = order.evaluate(
            """(list, label) => {
              const pen = document.createElement('canvas').getContext('2d');
              pen.font = getComputedStyle(list).font;
              return list.clientWidth - pen.measureText(label).width;
            }""",
            label,
        )
        assert room >= 0, label


@pytest.mark.slow
def test_the_focus_has_one_colour(opened: Page):
    colours = set()
    for _ in range(12):
        opened.keyboard.press("Tab")
        colours.add(
            opened.evaluate(
                """() => {
                  const node = document.activeElement;
                  const box = node.matches('#hl-sentence *') ? node.closest('.input-container') : node;
                  const { outlineColor, outlineStyle, borderColor } = getComputedStyle(box);
                  return outlineStyle === 'none' ? borderColor : outlineColor;
                }"""
            )
        )
    assert colours == {"rgb(29, 95, 209)"}


def test_on_a_phone_the_texts_say_tap(browser: Browser, address: str):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(address)
    page.locator(".hl-thumbnail").first.wait_for()
    expect(page.locator(".hl-readout")).to_contain_text("Tap a cell")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    words = page.locator(".hl-strip-scroll")
    page.get_by_title("More words").tap()  # a phone has no scroll bar that tells of them
    page.wait_for_function("() => document.querySelector('.hl-strip-scroll').scrollLeft > 0")
    words.evaluate("node => node.scrollTo(node.scrollWidth, 0)")
    expect(page.get_by_title("More words")).to_be_hidden()
    for name in ("Cell", "Step", "What if"):
        open_panel(page, name)
    one = page.get_by_role("gridcell", name="Cross, layer 2, head 3:")
    one.tap()
    expect(page.locator(".hl-map-readout")).to_contain_text(one.get_attribute("aria-label") or "")
    page.get_by_role("button", name="How to read this").click()
    said = page.locator(".headlight").last.evaluate("node => node.textContent")
    assert "Tap" in said
    assert not re.findall(r"\b(?:[Cc]lick|Point at)\b[^.]*\.", said)
    context.close()


def test_no_role_is_cut_on_a_phone_held_sideways(visit: Visit, address: str):
    page = visit(address, 844, 390, locale="de-DE")
    over = """() => {
      const most = document.querySelector('.hl-heads').getBoundingClientRect().right;
      const ends = (one) => Math.max(...[...one.childNodes].map((node) => {
        const range = document.createRange();
        range.selectNodeContents(node);
        return range.getBoundingClientRect().right;
      }));
      const roles = [...document.querySelectorAll('.hl-roles li')];
      return roles.filter((one) => ends(one) > most).map((one) => one.textContent);
    }"""
    expect(page.locator(".hl-roles li").first).to_be_attached()
    assert page.evaluate(over) == []
