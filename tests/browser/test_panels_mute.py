"""The mute panel: muted heads, what they change, and which of all heads matter."""

from __future__ import annotations

import pytest
import torch
from playwright.sync_api import Page, expect

from model.instruments import ablate, mean_baseline, sentence_baseline
from model.results import Head
from tests.browser.conftest import Show, draw
from tests.browser.inspector import (
    DIFFERENT,
    FAIL,
    HOLD,
    KEEP,
    RELEASE,
    TEXT,
    open_panel,
    signed,
    status,
    tiny,
)
from tests.browser.screen import cell, choose

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_tiny")]

RESULT = tiny().translate(TEXT)


@pytest.fixture
def page(show: Show) -> Page:
    return show(RESULT, model="tiny")


def mutes(page: Page) -> list[list]:
    return page.evaluate("viewer.state().mutes")


def head_that_matters() -> Head:
    """Return a head that changes the words when it is muted."""
    for kind, layers in (("cross", 4), ("decoder", 4), ("encoder", 2)):
        for layer in range(layers):
            for head in range(3):
                if tiny().mute(TEXT, [Head(kind, layer, head)]).ablated.text != RESULT.text:
                    return Head(kind, layer, head)
    raise AssertionError("no head changes the words")


def test_a_muted_head_is_struck_out_and_the_translation_changes(page: Page):
    head = head_that_matters()
    choose(page, head.kind.capitalize(), head.layer + 1, head.head + 1)
    panel = open_panel(page, "What if")
    page.evaluate(KEEP)
    panel.get_by_role("button", name=f"Head {head.head + 1}", exact=True).click()
    expected = tiny().mute(TEXT, [head])
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    expect(panel.locator("del")).to_have_text([text for text, changed in expected.original_words if changed])
    expect(panel.locator("ins")).to_have_text([text for text, changed in expected.ablated_words if changed])
    assert panel.locator("ins").count() > 0
    changes = panel.get_by_label("Change of the log-probability of each token").locator(".hl-number")
    expect(changes).to_have_text([signed(value, 2) for value in expected.differences])
    expect(panel.locator(".hl-outcome strong")).to_have_text(signed(sum(expected.differences)))
    bars = panel.locator(".hl-token-columns .hl-signed-bar.hl-less")
    expect(bars).to_have_count(sum(value < 0 for value in expected.differences))
    panel.get_by_role("button", name="Clear all").click()
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(0)
    expect(panel.locator("ins")).to_have_count(0)
    assert page.evaluate(DIFFERENT) == []


@pytest.mark.slow
def test_a_layer_a_column_and_a_selection_at_once(page: Page):
    choose(page, "Cross", 2, 3)
    panel = open_panel(page, "What if")
    panel.get_by_role("button", name="All of layer 2").click()
    assert mutes(page) == [["cross", 1, 0], ["cross", 1, 1], ["cross", 1, 2]]
    expect(panel.get_by_role("button", name="All of layer 2")).to_have_attribute("aria-pressed", "true")
    panel.get_by_role("button", name="All of layer 2").click()
    assert mutes(page) == []
    panel.get_by_role("button", name="Head 3 of each layer").click()
    assert mutes(page) == [["cross", layer, 2] for layer in range(4)]
    panel.get_by_role("button", name="Unmute Cross 1.3").click()
    assert mutes(page) == [["cross", layer, 2] for layer in range(1, 4)]
    panel.get_by_role("button", name="Clear all").click()
    page.get_by_role("gridcell", name="layer 4, head 1", exact=True).click(modifiers=["Shift"])
    panel.get_by_role("button", name="The 2 chosen").click()
    assert mutes(page) == [["cross", 1, 2], ["cross", 3, 0]]
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(2)


def test_the_muted_translation_shows_its_own_attention(page: Page):
    head = head_that_matters()
    choose(page, head.kind.capitalize(), head.layer + 1, head.head + 1)
    panel = open_panel(page, "What if")
    page.keyboard.press("m")
    expect(panel.locator("ins").first).to_be_visible()
    page.evaluate(KEEP)
    panel.get_by_role("button", name="Show its attention").click()
    muted = tiny().mute(TEXT, [head]).ablated
    expect(page.locator(".hl-chip[data-side=target]")).to_have_count(len(muted.ids) + 1)
    expect(status(page)).to_contain_text("with 1 head muted")
    expect(panel.locator("ins").first).to_be_visible()
    panel.get_by_role("button", name="Show it without muting").click()
    assert page.evaluate(DIFFERENT) == []
    expect(status(page)).to_have_text("the model’s own translation, without muting")
    panel.get_by_role("button", name="Show its attention").click()
    panel.get_by_role("button", name="Clear all").click()
    expect(status(page)).to_have_text("")
    expect(page.locator(".hl-chip[data-side=target]")).to_have_count(len(RESULT.ids) + 1)


@pytest.mark.slow
def test_forced_tokens_stay_when_a_head_is_muted(page: Page):
    head = Head("cross", 0, 0)
    choose(page, "Cross", 1, 1)
    step = open_panel(page, "Step")
    place = next(at for at, one in enumerate(RESULT.alternatives[0]) if one.token.id != RESULT.ids[0])
    other = RESULT.alternatives[0][place].token
    step.locator(".hl-next li").nth(place).get_by_role("button").click()
    expect(status(page)).to_contain_text("forced")
    forced = tiny().translate(TEXT, forced=[other.id])
    page.keyboard.press("m")
    panel = open_panel(page, "What if")
    expected = tiny().mute(TEXT, [head], target=forced.ids, forced=[other.id])
    assert expected.ablated.ids[0] == other.id
    expect(panel.locator("ins")).to_have_text([text for text, changed in expected.ablated_words if changed])
    expect(panel.locator(".hl-outcome")).to_contain_text("1 forced token stays.")
    panel.get_by_role("button", name="Show its attention").click()
    expect(page.locator(".hl-chip[data-side=target]")).to_have_count(len(expected.ablated.ids) + 1)
    expect(page.locator(".hl-given")).to_have_text("first token given")
    panel.get_by_role("button", name="Show it without muting").click()
    expect(page.locator(".hl-chip[data-side=target]")).to_have_count(len(forced.ids) + 1)


@pytest.mark.slow
def test_an_own_translation_stays_when_a_head_is_muted(page: Page, asked: list):
    choose(page, "Cross", 1, 1)
    step = open_panel(page, "Step")
    page.get_by_label("Your own translation").fill("door")
    step.get_by_role("button", name="Score it").click()
    step.get_by_role("button", name="Show its attention").click()
    expect(status(page)).to_contain_text("your own translation")
    page.keyboard.press("m")
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    expect(open_panel(page, "What if").locator(".hl-outcome")).to_contain_text("All tokens are given")
    assert asked[-1]["forced"] == list(tiny().score(TEXT, "door").ids)


def test_a_mute_that_fails_is_undone(page: Page):
    sentence = "The server does not answer. Is the page still running?"
    choose(page, "Cross", 1, 1)
    panel = open_panel(page, "What if")
    page.keyboard.press("m")
    expect(panel.locator(".hl-outcome strong")).to_be_visible()
    page.evaluate(FAIL, sentence)
    choose(page, "Cross", 1, 2)
    page.keyboard.press("m")
    expect(status(page)).to_contain_text(sentence)
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    assert mutes(page) == [["cross", 0, 0]]
    expect(panel.locator(".hl-outcome:not(.hl-stale) h3")).to_have_text("With 1 head muted")
    panel.get_by_role("button", name="Clear all").click()
    page.keyboard.press("m")
    expect(status(page)).to_contain_text(sentence)
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(0)
    expect(panel.locator(".hl-outcome")).to_contain_text("No head is muted.")


@pytest.mark.slow
def test_a_mute_that_is_cancelled_is_undone(page: Page):
    open_panel(page, "What if")
    page.evaluate(HOLD)
    page.keyboard.press("m")
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    page.get_by_role("button", name="Cancel").click()
    page.evaluate(RELEASE)
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(0)
    assert mutes(page) == []


@pytest.mark.slow
def test_a_new_sentence_is_muted_too(page: Page, asked: list):
    panel = open_panel(page, "What if")
    choose(page, "Cross", 1, 1)
    page.keyboard.press("m")
    expect(panel.locator(".hl-outcome strong")).to_be_visible()
    other = tiny().translate("Die Äpfel kosten 2,50 Euro")
    draw(page, other, "tiny")
    change = sum(tiny().mute(other.source_text, [Head("cross", 0, 0)]).differences)
    expect(panel.locator(".hl-outcome strong")).to_have_text(signed(change))
    assert [each["text"] for each in asked] == [TEXT, other.source_text]


def test_the_head_map_has_a_value_for_each_head_and_chooses_one(page: Page):
    panel = open_panel(page, "What if")
    panel.get_by_role("button", name="Try all 30 heads").click()
    values = tiny().importance(TEXT, RESULT.ids)  # the server sends 6 digits, the page shows 4
    for kind in ("encoder", "decoder", "cross"):
        grid = panel.get_by_role("grid", name=f"{kind.capitalize()} heads")
        for (layer, head), value in zip(
            torch.cartesian_prod(torch.arange(len(getattr(values, kind))), torch.arange(3)).tolist(),
            getattr(values, kind).flatten().tolist(),
            strict=True,
        ):
            name = f"{kind.capitalize()}, layer {layer + 1}, head {head + 1}: {signed(round(value, 6))}"
            expect(grid.get_by_role("gridcell", name=name, exact=True)).to_have_count(1)
    order = sorted(round(float(value), 6) for kind in values for value in kind.flatten())
    expect(panel.locator(".hl-most .hl-number")).to_have_text([signed(value) for value in order[:5]])
    cells = panel.get_by_role("grid", name="Encoder heads").get_by_role("gridcell")
    cells.nth(4).hover()
    expect(panel.locator(".hl-map-readout")).to_contain_text("Encoder, layer 2, head 2:")
    cells.nth(4).click()
    expect(page.locator(".hl-centre h2")).to_have_text("Encoder · layer 2 · head 2")
    encoder = panel.get_by_role("grid", name="Encoder heads")
    expect(encoder.get_by_role("gridcell", selected=True)).to_have_count(1)


def test_what_each_head_matters_is_still_known_after_another_sentence_was_tried(page: Page):
    panel = open_panel(page, "What if")
    panel.get_by_role("button", name="Try all 30 heads").click()
    listed = panel.locator(".hl-most .hl-number")
    expect(listed).to_have_count(5)
    without = listed.all_inner_texts()
    gives = panel.get_by_label("What muted heads give")
    gives.select_option("sentence")
    panel.get_by_label("Text to patch from").fill("Die Tür ist heiß.")
    page.keyboard.press("Enter")
    expect(listed).to_have_count(0)
    gives.select_option("zero")
    expect(listed).to_have_text(without)
    gives.select_option("sentence")
    panel.get_by_role("button", name="Try all 30 heads").click()
    expect(listed).not_to_have_text(without)
    gives.select_option("zero")
    expect(listed).to_have_text(without)


EVERYDAY = ["Ein Hund läuft.", "Die Äpfel kosten 2,50 Euro"]


@pytest.fixture
def with_sample(show: Show) -> Page:
    return show(RESULT, model="tiny", about={"tiny": {"everyday": EVERYDAY}})


@pytest.mark.slow
def test_a_head_gives_its_mean_instead(with_sample: Page, asked: list):
    page = with_sample
    choose(page, "Cross", 1, 2)
    panel = open_panel(page, "What if")
    page.keyboard.press("m")
    panel.get_by_label("What muted heads give").select_option("mean")
    expected = ablate(tiny(), TEXT, [Head("cross", 0, 1)], mean_baseline(tiny(), EVERYDAY))
    outcome = panel.locator(".hl-outcome:not(.hl-stale)")
    expect(outcome.locator("h3")).to_have_text("With 1 head set to the mean")
    expect(outcome.locator("strong")).to_have_text(signed(sum(expected.differences)))
    expect(outcome).to_contain_text("Each head gives its mean over 2 sentences of the project")
    assert [(each["do"], each.get("baseline")) for each in asked] == [("mute", None), ("mute", "mean")]
    panel.get_by_label("What muted heads give").select_option("zero")
    zero = sum(tiny().mute(TEXT, [Head("cross", 0, 1)]).differences)
    expect(outcome.locator("strong")).to_have_text(signed(zero))
    expect(outcome).to_contain_text("The output of these heads is zero, in all rows.")


@pytest.mark.slow
def test_a_head_gives_what_it_gives_for_another_sentence_in_one_row(with_sample: Page):
    page, other = with_sample, "Ein Hund."
    choose(page, "Decoder", 2, 1)
    panel = open_panel(page, "What if")
    page.mouse.click(*cell(page, 1, 0))
    page.keyboard.press("m")
    panel.get_by_label("What muted heads give").select_option("sentence")
    expect(panel.locator(".hl-outcome")).to_contain_text("Type another sentence above.")
    panel.get_by_label("Text to patch from").fill(other)
    page.keyboard.press("Enter")
    baseline, head = sentence_baseline(tiny(), other), Head("decoder", 1, 0)
    outcome = panel.locator(".hl-outcome:not(.hl-stale)")
    for row in (None, 1):
        expected = ablate(tiny(), TEXT, [head], baseline, row)
        expect(outcome.locator("strong")).to_have_text(signed(sum(expected.differences)))
        expect(outcome).to_contain_text(f"“{other}” (“{baseline.translation}”)")
        panel.get_by_role("button", name="Only in row").click()
    expect(outcome).to_contain_text("in all rows")


def test_a_row_ends_with_its_sentence(with_sample: Page):
    page = with_sample
    panel = open_panel(page, "What if")
    page.locator(".hl-row-label").nth(1).click()
    only = panel.get_by_role("button", name="Only in row")
    only.click()
    expect(only).to_have_attribute("aria-pressed", "true")
    draw(page, tiny().translate("Ein Hund schläft."), "tiny")
    expect(only).to_have_attribute("aria-pressed", "false")
    only.click()
    page.keyboard.press("m")
    panel.get_by_role("button", name="Clear all").click()
    expect(only).to_have_attribute("aria-pressed", "false")


def test_a_link_opens_what_heads_give_instead(show: Show):
    link = "v=2&model=tiny&kind=cross&layer=1&head=2&panel=mute&mute=cross.1.2"
    link += "&instead=sentence&by=Ein+Hund.&only=2"
    page = show(RESULT, "tiny", link)
    expected = ablate(tiny(), TEXT, [Head("cross", 0, 1)], sentence_baseline(tiny(), "Ein Hund."), 1)
    outcome = page.locator(".hl-outcome:not(.hl-stale)")
    expect(outcome.locator("strong")).to_have_text(signed(sum(expected.differences)))
    assert page.evaluate("location.hash").endswith("only=2&panel=mute")


def test_muting_from_the_first_tab_opens_the_tab_that_shows_what_it_changes(page: Page):
    open_panel(page, "Head")
    page.keyboard.press("m")
    expect(page.get_by_role("tab", name="What if")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".hl-outcome")).to_be_visible()
    open_panel(page, "Step")
    page.keyboard.press("m")
    expect(page.get_by_role("tab", name="Step")).to_have_attribute("aria-selected", "true")
