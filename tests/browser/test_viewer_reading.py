"""The viewer for every reader: languages, contrast, phones, reduced motion, labels of forced tokens."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import TRANSLATORS, Show
from tests.browser.inspector import TEXT, tiny
from tests.browser.screen import FIRST, cell, point, readout, resize

pytestmark = pytest.mark.browser

RESULT = TRANSLATORS["de-en"].translate(FIRST)


def test_forced_tokens_are_labelled(show: Show):
    ids = RESULT.ids[:2]
    page = show(TRANSLATORS["de-en"].translate(FIRST, forced=ids))
    expect(page.locator(".hl-forced")).to_have_text(["dER", "KLEINE"])
    expect(page.get_by_role("button", name="KLEINE, forced")).to_be_visible()
    expect(page.locator(".hl-given")).to_have_text("first 2 tokens given")


def lefts(page: Page, side: str) -> list[float]:
    chips = page.locator(f".hl-chip[data-side={side}]")
    return chips.evaluate_all("all => all.map((one) => one.getBoundingClientRect().left)")


@pytest.mark.parametrize(
    ("text", "backwards"), [("שלום עולם טוב", True), ("مرحبا يا عالم", True), ("日本 語 です", False)]
)
def test_tokens_follow_the_direction_of_their_language(show: Show, text: str, backwards: bool):
    page = show(TRANSLATORS["de-en"].translate(text))
    assert lefts(page, "source") == sorted(lefts(page, "source"), reverse=backwards)
    expect(page.locator(".hl-column-label").first).to_have_text(text.split()[0])
    point(page, 0, 0)
    assert text.split()[0] in readout(page)


def test_the_pieces_of_a_merged_word_have_no_gap(show: Show):
    page = show(tiny().translate(TEXT), model="tiny")
    page.keyboard.press("w")
    gaps = page.locator(".hl-whole .hl-continues").evaluate_all(
        """all => all.map((one) => {
          const [own, former] = [one, one.previousElementSibling].map((chip) =>
            chip.querySelector('bdi').getBoundingClientRect());
          return own.left - former.right;
        })"""
    )
    assert len(gaps) > 5
    assert max(map(abs, gaps)) < 0.5


def ratio(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    less, more = sorted((luminance(one), luminance(other)))
    return (more + 0.05) / (less + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(show: Show, scheme: str):
    page = show(RESULT, scheme=scheme)
    page.mouse.click(*cell(page, 1, 1))
    found = page.evaluate(
        """() => {
          const ground = (one) => {
            for (let node = one; node; node = node.parentElement) {
              const colour = getComputedStyle(node).backgroundColor;
              if (!/, 0\\)$/.test(colour)) return colour;
            }
          };
          const isText = (node) => node.nodeType === 3 && node.textContent.trim();
          const texts = [...document.querySelectorAll('.headlight *')].filter((one) =>
            [...one.childNodes].some(isText) && one.offsetParent && !one.closest(':disabled'));
          const said = (one) => one.textContent.slice(0, 30);
          const ink = (one) => getComputedStyle(one).color;
          return texts.map((one) => [one.className, said(one), ink(one), ground(one)]);
        }"""
    )
    assert len(found) > 60
    poor = [one for one in found if ratio(one[2], one[3]) < 4.5]
    assert not poor, json.dumps(poor, indent=1)


def test_on_a_phone_one_column_holds_all_and_the_readout_never_covers_the_heading(show: Show):
    page = show(RESULT, width=380)
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    panels = [
        page.locator(name).bounding_box()
        for name in (".hl-strip", ".hl-short", ".hl-centre", ".hl-heads", ".hl-inspector")
    ]
    tops = [box["y"] for box in panels if box]
    assert tops == sorted(tops)
    assert len(set(tops)) == len(panels)
    page.locator(".hl-toolbar .hl-menu > summary").click()
    slider = page.get_by_label("Share of each row that is shown").bounding_box()
    assert slider is not None
    assert slider["width"] >= 64, "too short to move"
    page.locator(".hl-toolbar .hl-menu > summary").click()
    resize(page, 380, 600)
    overlaps = page.evaluate(
        """() => {
          const all = ['.hl-centre > .hl-bar', '.hl-matrix-footer'];
          const [heading, readout] = all.map((one) => document.querySelector(one));
          const top = heading.getBoundingClientRect().top + scrollY;
          return [-599, -560, -500, -400, 0, 200].map((from) => {
            scrollTo(0, top + from);
            return heading.getBoundingClientRect().bottom - readout.getBoundingClientRect().top;
          });
        }"""
    )
    assert max(overlaps) <= 0


def test_the_help_lists_the_keys_also_on_a_phone(show: Show):
    page = show(RESULT, width=380)
    expect(page.locator(".hl-hint").first).to_be_hidden()
    page.get_by_role("button", name="How to read this").click()
    expect(page.get_by_role("list", name="Keys").get_by_role("listitem")).to_have_count(12)
    page.get_by_role("button", name="Close").click()
    resize(page, 1440, 900)
    page.get_by_role("button", name="How to read this").click()
    expect(page.get_by_role("list", name="Keys").get_by_role("listitem")).to_have_count(12)


def test_reduced_motion_turns_animations_off(page: Page):
    page.emulate_media(reduced_motion="reduce")
    durations = page.locator(".headlight *").evaluate_all(
        """all => all.map((one) => getComputedStyle(one))
             .map(({ transitionDuration, animationName }) => transitionDuration + animationName)"""
    )
    assert set(durations) == {"0snone"}
