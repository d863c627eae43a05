"""The inspector: its tabs, its head card, and its requests to the server."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from model.analysis.definitions import ROLES
from model.analysis.measures import head_roles, measure_heads
from model.analysis.pooling import nearest_role
from tests.browser.conftest import TRANSLATORS, Show, draw
from tests.browser.inspector import FAIL, HOLD, RELEASE, number, open_panel, status
from tests.browser.screen import FIRST, choose
from tests.viz.fakes import random_translation
from viz.export import document
from viz.payload import encode

pytestmark = pytest.mark.browser

RESULT = TRANSLATORS["de-en"].translate(FIRST)
MEASURES = measure_heads(RESULT.attention)
PANELS = ("Head", "Cell", "Step", "What if", "Training", "Examples")


def test_one_panel_is_open_and_arrows_in_the_tabs_change_only_the_panel(page: Page):
    title = page.locator(".hl-centre h2").inner_text()
    page.get_by_role("tab", name="Head").focus()
    for name in (*PANELS[1:], PANELS[0]):
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", selected=True)).to_have_text(name)
        expect(page.get_by_role("tab", name=name)).to_be_focused()
        expect(page.get_by_role("tabpanel")).to_have_count(1)
    page.keyboard.press("End")
    expect(page.get_by_role("tab", selected=True)).to_have_text("Examples")
    expect(page.locator(".hl-centre h2")).to_have_text(title)


@pytest.mark.slow
def test_no_panel_changes_the_height_of_the_screen(page: Page):
    def boxes():
        return [page.locator(f".hl-{name}").bounding_box() for name in ("heads", "centre", "inspector")]

    before = boxes()
    for name in PANELS:
        open_panel(page, name)
        assert boxes() == before
    assert before[1]["height"] == before[2]["height"]


def test_the_head_card_shows_the_measures_of_the_model(page: Page):
    for kind, layer, head in (("Cross", 1, 2), ("Encoder", 4, 8), ("Decoder", 3, 1)):
        choose(page, kind, layer, head)
        expect_card(page, kind, (layer - 1, head - 1))


def expect_card(page: Page, kind: str, place: tuple[int, int]) -> None:
    measured, panel = MEASURES[kind.lower()], open_panel(page, "Head")
    expected = {
        "confidence": number(float(measured.confidence[place]), 2),
        "entropy": f"{number(float(measured.entropy[place]), 2)} bit",
        "sinks": number(float(measured.sink_mass[place]), 2),
    }
    for name, text in expected.items():
        expect(panel.locator(f"[data-name={name}] .hl-number")).to_have_text(text)
    offset = int(measured.positional.offset[place])
    sign = "+" if offset > 0 else "−" if offset < 0 else ""
    share = number(float(measured.positional.share[place]), 2)
    expect(panel.locator("[data-name=offset_share] .hl-number")).to_have_text(
        f"{share} at {sign}{abs(offset)}"
    )
    expect(panel.locator("[data-name=focus]")).to_have_count(0 if measured.source_focus is None else 1)
    role = ROLES[int(head_roles(measured)[place])]
    expect(panel.locator(".hl-role")).to_have_text(role[0].upper() + role[1:])


def test_a_mixed_head_names_its_nearest_role(page: Page):
    for kind in ("Cross", "Encoder"):
        measured = MEASURES[kind.lower()]
        layer, head = (head_roles(measured) == ROLES.index("mixed")).nonzero()[0].tolist()
        role, value = nearest_role(measured, layer, head, "mixed")
        choose(page, kind, layer + 1, head + 1)
        panel = open_panel(page, "Head")
        expect(panel.locator(".hl-part").first).to_contain_text(
            f"Role in this sentenceMixednearest: {role} {math.floor(100 * value + 1e-6)} %"
        )


def test_the_definition_of_a_measure_stays_open(page: Page):
    choose(page, "Cross", 1, 2)
    panel = open_panel(page, "Head")
    panel.get_by_text("Measures").click()
    confidence = panel.locator("[data-name=confidence]")
    confidence.locator("summary").click()
    rows = len(RESULT.attention.predicted) - 1  # without the row that writes </s>
    expect(confidence).to_contain_text("Voita et al. 2019")
    expect(confidence).to_contain_text(f"Measured over {rows} queries. All 32 heads:")
    ticks = confidence.locator(".hl-rug-ticks").get_attribute("d")
    assert ticks.count("M") == 32
    mark = confidence.locator(".hl-rug-mark").get_attribute("d")
    page.keyboard.press("Escape")
    choose(page, "Cross", 1, 3)
    expect(confidence).to_contain_text("Voita et al. 2019")
    assert confidence.locator(".hl-rug-mark").get_attribute("d") != mark


def test_several_heads_have_the_mean_of_their_measures(page: Page):
    choose(page, "Cross", 1, 2)
    page.get_by_role("gridcell", name="layer 3, head 4", exact=True).click(modifiers=["Shift"])
    value = (MEASURES["cross"].confidence[0, 1] + MEASURES["cross"].confidence[2, 3]) / 2
    panel = open_panel(page, "Head")
    expect(panel.locator("[data-name=confidence] .hl-number")).to_have_text(number(float(value), 2))
    expect(panel).to_contain_text("Mean of 2 heads")
    page.keyboard.press("a")
    value = MEASURES["cross"].confidence[2].mean()
    expect(panel).to_contain_text("mean of 8 heads")
    expect(panel.locator("[data-name=confidence] .hl-number")).to_have_text(number(float(value), 2))


def test_opening_panels_and_choosing_heads_sends_no_request(page: Page, asked: list):
    for name in ("Head", "Step", "What if"):
        open_panel(page, name)
        choose(page, "Encoder", 2, 3)
        page.locator(".hl-field").hover()
        page.locator(".hl-field").click()
        choose(page, "Cross", 1, 2)
    assert asked == []


def test_an_open_request_is_shown_and_can_be_cancelled(page: Page):
    page.evaluate(HOLD)
    panel = open_panel(page, "What if")
    page.keyboard.press("m")
    expect(status(page)).to_contain_text("Translating with heads muted")
    page.get_by_role("button", name="Cancel").click()
    expect(status(page)).to_have_text("the model’s own translation, without muting")
    page.evaluate(RELEASE)
    assert page.evaluate("viewer.state().muted") is None
    expect(panel.locator("ins")).to_have_count(0)


def test_a_late_answer_about_the_previous_sentence_is_ignored(page: Page):
    page.evaluate(HOLD)
    open_panel(page, "What if").get_by_role("button", name="Try all").click()
    draw(page, TRANSLATORS["de-en"].translate("Guten Tag."))
    expect(status(page)).to_have_text("")
    page.evaluate(RELEASE)
    assert page.evaluate("viewer.state().importance") is None


def test_only_the_answer_to_the_newest_request_of_a_name_is_shown(page: Page):
    page.evaluate(HOLD)
    panel = open_panel(page, "What if")
    page.keyboard.press("m")
    panel.get_by_role("button", name="All of layer").click()
    page.evaluate(RELEASE)
    expect(panel.locator(".hl-outcome h3")).to_have_text("With 8 heads muted")
    assert page.evaluate("viewer.state().muted.heads.length") == 8


def test_an_error_is_one_sentence_and_keeps_the_last_result(page: Page):
    panel = open_panel(page, "What if")
    page.keyboard.press("m")
    expect(panel.locator("ins")).to_have_text("silent")
    page.evaluate(FAIL, "The model is asleep; wake it.")
    panel.get_by_role("button", name="Try all").click()
    expect(status(page)).to_contain_text("The model is asleep; wake it.")
    expect(panel.locator("ins")).to_have_text("silent")
    page.get_by_role("button", name="Close").click()
    expect(status(page)).to_have_text("the model’s own translation, without muting")


def test_a_token_of_markup_stays_text_in_every_panel(show: Show):
    nasty = ["<script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>"]
    page = show(random_translation(nasty, nasty))
    for name in PANELS[:3]:
        open_panel(page, name)
    expect(page.get_by_role("tabpanel")).to_be_visible()
    open_panel(page, "Step")
    expect(page.locator(".hl-panel-step .hl-next bdi").first).to_have_text(nasty[0])
    assert page.evaluate("window.hacked") is None
    assert page.locator(".hl-inspector script, .hl-inspector img").count() == 0


@pytest.mark.slow
def test_an_exported_file_says_what_needs_the_app(browser: Browser, tmp_path: Path):
    path = tmp_path / "attention_maps.html"
    path.write_text(document(encode(RESULT, "de-en")), "utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    page.locator(".hl-thumbnail").first.wait_for()
    expect(open_panel(page, "Head")).to_contain_text("confidence")
    for name in PANELS[1:]:
        open_panel(page, name)
        expect(page.get_by_text("This file has no model. Its first line leads to Headlight")).to_have_count(1)
    expect(page.locator(".hl-file-head")).to_contain_text("translate the sentence in Headlight")
    page.close()


@pytest.mark.parametrize(
    ("model", "tokens"), [("smallest", 1), pytest.param("large", 60, marks=pytest.mark.slow)]
)
def test_panels_of_any_size(show: Show, model: str, tokens: int):
    words = [f"w{number}" for number in range(tokens)]
    size = TRANSLATORS[model].layers, TRANSLATORS[model].heads
    page = show(random_translation(words, words, *size), model, width=380)
    for name in PANELS[:4]:
        open_panel(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
