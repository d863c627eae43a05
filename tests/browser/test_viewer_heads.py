"""Heads in the overview: chosen together, ordered by a measure, named by their role, muted, tinted."""

from __future__ import annotations

import pytest
import torch
from playwright.sync_api import Page, expect

from model.analysis.definitions import ROLES
from model.analysis.measures import head_roles, measure_heads
from tests.browser.conftest import TRANSLATORS, Show
from tests.browser.screen import FIRST, choose, point, view

pytestmark = pytest.mark.browser

RESULT = TRANSLATORS["de-en"].translate(FIRST)
RECORD = RESULT.attention
MEASURES = measure_heads(RECORD)


def thumbnail(page: Page, layer: int, head: int):
    return page.get_by_role("gridcell", name=f"layer {layer}, head {head}", exact=True)


def test_shift_click_shows_heads_together_and_a_click_shows_one(page: Page):
    choose(page, "Cross", 1, 2)
    thumbnail(page, 3, 4).click(modifiers=["Shift"])
    thumbnail(page, 4, 8).click(modifiers=["Shift"])
    expect(page.locator(".hl-thumbnail[aria-selected=true]")).to_have_count(3)
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · average of 3 heads")
    point(page, 2, 5)
    weights = torch.stack([RECORD.cross[0, 1], RECORD.cross[2, 3], RECORD.cross[3, 7]])[:, 2, 5]
    expect(page.locator(".hl-value")).to_have_text(f"{weights.mean().item():.4f}")
    view(page, "Largest of the heads")
    point(page, 2, 5)
    expect(page.locator(".hl-value")).to_have_text(f"{weights.max().item():.4f}")
    thumbnail(page, 4, 8).click(modifiers=["Shift"])
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · largest of 2 heads")
    thumbnail(page, 2, 2).click()
    expect(page.locator(".hl-thumbnail[aria-selected=true]")).to_have_count(1)


def test_the_last_picture_chooses_its_layer_and_the_corner_all_heads(page: Page):
    choose(page, "Cross", 1, 5)
    thumbnail(page, 3, 5).click(modifiers=["Shift"])
    expect(page.locator(".hl-facts")).to_have_text("layer.head 1.5, 3.5")
    page.get_by_role("gridcell", name="layer 2, average of its heads").click()
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · average of its heads")
    page.get_by_role("button", name="average of all heads of all layers").click()
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · average of all 32 heads")
    point(page, 4, 3)
    mean = RESULT.attention.cross[:, :, 4, 3].mean().item()
    assert float(page.locator(".hl-value").inner_text()) == pytest.approx(mean, abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("Cross", "confidence"),
        pytest.param("Decoder", "entropy", marks=pytest.mark.slow),
        pytest.param("Encoder", "sinks", marks=pytest.mark.slow),
    ],
)
def test_heads_are_sorted_by_the_measures_of_the_model(page: Page, kind: str, option: str):
    choose(page, kind, 1, 1)
    page.get_by_label("Order of the heads").select_option(option)
    found = MEASURES[kind.lower()]
    values = {"confidence": found.confidence, "entropy": found.entropy, "sinks": found.sink_mass}[option]
    best = int(values.flatten().argmax())
    layer, head = divmod(best, values.shape[1])
    expect(page.locator(".hl-thumbnail").first).to_have_attribute(
        "aria-label", f"layer {layer + 1}, head {head + 1}"
    )
    assert f"{values.max().item():.4f}" in (page.locator(".hl-thumbnail").first.get_attribute("title") or "")
    page.get_by_label("Order of the heads").select_option("")
    expect(page.locator(".hl-thumbnail").first).to_have_attribute("aria-label", "layer 1, head 1")


def test_the_legend_names_roles_and_a_measure_without_meaning_for_the_kind_is_disabled(page: Page):
    roles = head_roles(MEASURES["cross"])
    names = {ROLES[role] for role in roles.flatten().tolist()}
    page.get_by_text("Signs").click()
    assert set(page.locator(".hl-roles li[title]").all_inner_texts()) == names
    assert thumbnail(page, 2, 3).get_attribute("title") == ROLES[int(roles[1, 2])]
    focus = page.get_by_label("Order of the heads").locator("option[value=focus]")
    expect(focus).to_be_enabled()
    page.keyboard.press("2")
    expect(focus).to_be_disabled()


def test_a_muted_head_is_struck_out_until_it_is_unmuted(page: Page):
    choose(page, "Cross", 2, 3)
    page.keyboard.press("m")
    muted = thumbnail(page, 2, 3)
    assert "muted" in (muted.get_attribute("title") or "")
    line = "one => getComputedStyle(one, '::after').content"
    assert muted.evaluate(line) != "none"
    assert thumbnail(page, 2, 4).evaluate(line) == "none"
    page.keyboard.press("m")
    assert muted.evaluate(line) == "none"


def test_importance_colours_heads_and_sorts_them(show: Show):
    page = show(RESULT)
    choose(page, "Encoder", 1, 1)
    page.get_by_role("tab", name="What if").click()
    page.get_by_role("button", name="Try all 96 heads").click()
    expect(page.get_by_text("Marks:")).to_be_visible()
    colour = "one => getComputedStyle(one.querySelector('.hl-mark')).backgroundColor"
    marked = thumbnail(page, 4, 8).evaluate(colour)
    assert marked != thumbnail(page, 1, 1).evaluate(colour)
    choose(page, "Encoder", 1, 2)  # a choice is written into the address
    again = show(RESULT, address=page.evaluate("location.hash")[1:])
    expect(again.get_by_text("Marks:")).to_be_visible()
    assert thumbnail(again, 4, 8).evaluate(colour) == marked
    page.get_by_label("Order of the heads").select_option("importance")
    expect(page.locator(".hl-thumbnail").first).to_have_attribute("aria-label", "layer 4, head 8")


def test_many_layers_are_pages_that_follow_the_chosen_head(show: Show):
    page = show(TRANSLATORS["large"].translate(FIRST), "large")
    page.get_by_role("button", name="layers 1 to 2").click()
    choose(page, "Cross", 1, 2)
    pages = page.get_by_role("group", name="Pages of the heads").get_by_role("button")
    expect(pages).to_have_text(["1–2", "3–4", "5–6", "7–8", "9–10", "11–12"])
    chosen = page.locator(".hl-thumbnail[aria-selected=true]")
    page.get_by_role("button", name="layers 5 to 6").click()  # turning a page chooses no head
    expect(thumbnail(page, 5, 16)).to_be_visible()
    expect(chosen).to_have_count(0)
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 1 · head 2")
    expect(pages.first).to_have_attribute("data-chosen", "")
    expect(page.locator(".hl-thumbnail[tabindex='0']")).to_have_count(1)
    page.keyboard.press("ArrowRight")  # back to the chosen head
    expect(chosen).to_have_attribute("aria-label", "layer 1, head 3")
    chosen.focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    expect(chosen).to_have_attribute("aria-label", "layer 3, head 3")
    expect(chosen).to_be_focused()
    expect(pages.nth(1)).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Order of the heads").select_option("entropy")
    expect(pages.first).to_have_attribute("aria-pressed", "true")  # the first by the measure
    expect(page.locator(".hl-thumbnail")).to_have_count(24)
    expect(pages.last).to_have_attribute("aria-label", "heads 169 to 192 in this order")


@pytest.mark.parametrize(("model", "layers", "heads"), [("large", 2, 16), ("smallest", 1, 1)])
def test_any_number_of_layers_and_heads_fits(show: Show, model: str, layers: int, heads: int):
    page = show(TRANSLATORS[model].translate(FIRST), model)
    expect(page.locator(".hl-thumbnail")).to_have_count(layers * (heads + 1))
    last, panel = page.locator(".hl-thumbnail").last.bounding_box(), page.locator(".hl-heads").bounding_box()
    assert last
    assert panel
    assert last["x"] + last["width"] <= panel["x"] + panel["width"]
    assert last["width"] >= 14
