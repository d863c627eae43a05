"""Learn: chapters that a link opens, tasks that the page checks, and the picture of the whole network."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

from model.results import Translation
from tests.browser.conftest import TRANSLATORS, Visit
from tests.browser.inspector import open_panel
from tests.browser.screen import FIRST, cell, choose, submit

pytestmark = pytest.mark.browser
TITLES = [
    "What attention is",
    "Query, key and value",
    "Three kinds of attention",
    "How a translation is chosen",
    "What heads do, and what they do not",
    "How heads form",
]


@pytest.fixture
def page(opened: Page) -> Page:
    return opened


def visit_with(known: str, visit: Visit, address: str) -> Page:
    """The page of a person who has done something of the course before."""
    page = visit(f"{address}healthz", waits=False)
    page.evaluate("known => localStorage.setItem('headlight.learned', known)", known)
    page.goto(address)
    page.locator(".hl-thumbnail").first.wait_for()
    return page


def learn(page: Page) -> Locator:
    return page.get_by_role("complementary", name="Learn")


def answers(page: Page) -> Locator:
    return learn(page).locator(".hl-answers").last.get_by_role("button")


def guess(page: Page) -> None:
    """Answer what the chapter asks before it shows anything."""
    expect(learn(page)).to_contain_text("Guess first")
    answers(page).first.click()
    expect(learn(page)).to_contain_text("Try it")


def open_chapter(page: Page, number: int) -> Locator:
    """Open a chapter by its link and guess; return the panel."""
    page.evaluate(f"location.hash += '&learn={number}'")
    expect(learn(page)).to_contain_text(f"{number} of 6")
    if number <= 2:  # it brings a word, whose letters it asks about
        page.wait_for_function("() => Headlight.viewer.state().record.model.name === 'reverse'")
    guess(page)
    return learn(page)


def begin(page: Page) -> None:
    """Go to the first chapter as a person does who leaves the five questions out."""
    page.get_by_role("button", name="Learn", exact=True).click()
    learn(page).get_by_role("button", name="Next", exact=True).click()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value("umbrella")


def task(page: Page, number: int) -> Locator:
    return learn(page).locator(".hl-tasks > li").nth(number - 1)


def test_nothing_of_learn_is_on_screen_until_a_chapter_that_exists_is_asked_for(page: Page):
    before = page.locator(".hl-columns").bounding_box()
    expect(learn(page)).to_be_hidden()
    for value in ("0", "9", "1.5", "<b>"):
        page.evaluate("value => { location.hash += '&learn=' + encodeURIComponent(value); }", value)
        page.wait_for_function("() => !location.hash.includes('learn')")
        expect(learn(page)).to_be_hidden()
    page.get_by_role("button", name="Learn", exact=True).click()
    expect(learn(page).get_by_role("heading", name="Five questions before")).to_be_visible()
    learn(page).get_by_role("button", name="Close").click()
    expect(learn(page)).to_be_hidden()
    assert page.locator(".hl-columns").bounding_box() == before


@pytest.mark.slow
def test_the_first_chapters_bring_their_own_word(page: Page):
    begin(page)
    expect(page.locator(".hl-translation")).to_have_text(TRANSLATORS["reverse"].translate("umbrella").text)
    page.go_back()
    expect(page.locator(".hl-translation")).to_have_text(TRANSLATORS["de-en"].translate(FIRST).text)


@pytest.mark.slow
def test_a_word_typed_before_the_chapters_own_is_answered_keeps_the_chapter(page: Page):
    page.route("**/component_server**", lambda _: None)
    with page.expect_request(lambda request: "umbrella" in str(request.post_data)):
        begin(page)
    with page.expect_request(lambda request: "window" in str(request.post_data)):
        submit(page, "window")
    page.unroute("**/component_server**")  # lets what was held go on
    expect(page.locator(".hl-translation")).to_have_text(TRANSLATORS["reverse"].translate("window").text)
    expect(learn(page).get_by_role("heading", name=TITLES[0])).to_be_visible()


@pytest.mark.slow
def test_closing_gives_the_visitors_sentence_back(page: Page):
    submit(page, "Ein Hund läuft.")
    own = TRANSLATORS["de-en"].translate("Ein Hund läuft.").text
    expect(page.locator(".hl-translation")).to_have_text(own)
    begin(page)
    submit(page, "window")
    expect(page.locator(".hl-translation")).to_have_text(TRANSLATORS["reverse"].translate("window").text)
    learn(page).get_by_role("button", name="Close").click()
    expect(page.locator(".hl-translation")).to_have_text(own)
    expect(page.get_by_label("Sentence")).to_have_value("Ein Hund läuft.")
    expect(learn(page)).to_be_hidden()


def test_a_chapter_begins_with_nothing_but_its_sentence_and_its_tab(page: Page):
    page.evaluate("location.hash += '&ask=lens&only=2&panel=training'")
    page.wait_for_function("() => Headlight.viewer.state().questions.length === 1")
    open_chapter(page, 1)
    page.get_by_role("list", name="Chapters").get_by_role("button", name=TITLES[0]).click()
    expect(page.get_by_label("Sentence")).to_have_value("umbrella")
    page.wait_for_function("() => Headlight.viewer.state().record.source_text === 'umbrella'")
    state = page.evaluate("Headlight.viewer.state()")
    assert (state["questions"], state["ablation"]["row"]) == ([], None)
    expect(page.get_by_role("tab", name="Head")).to_have_attribute("aria-selected", "true")


@pytest.mark.slow
def test_closing_keeps_a_sentence_of_ones_own(page: Page):
    open_chapter(page, 3)
    submit(page, "Ein Hund läuft.")
    own = TRANSLATORS["de-en"].translate("Ein Hund läuft.").text
    expect(page.locator(".hl-translation")).to_have_text(own)
    learn(page).get_by_role("button", name="Close").click()
    expect(learn(page)).to_be_hidden()
    expect(page.locator(".hl-translation")).to_have_text(own)


def test_the_list_of_chapters_says_what_is_done(visit: Visit, address: str):
    known = '{"tasks": ["1.1", "1.2", "2.1"], "understood": ["1"], "before": {"0": 0}}'
    page = visit_with(known, visit, address)
    open_chapter(page, 2)
    entries = page.get_by_role("list", name="Chapters").get_by_role("listitem")
    texts = [entries.nth(place).locator(".hl-number").inner_text() for place in range(4)]
    assert texts == ["✓ Done", "✓ Understood", "1 of 2", ""]


def test_what_another_program_has_stored_is_no_progress(visit: Visit, address: str):
    """Other texts: tests/viz/viewer/progress.test.mjs."""
    page = visit_with('{"tasks": 1, "understood": ["<b>"], "guesses": {"1": {}}}', visit, address)
    page.evaluate("location.hash += '&learn=3'")
    expect(learn(page)).to_contain_text("Guess first")
    assert learn(page).locator(".hl-number").all_inner_texts() == [""] * 8


def test_on_a_phone_a_chapter_folds_and_leaves_the_page_in_sight(visit: Visit, address: str):
    page = visit(f"{address}#model=reverse&text=umbrella&learn=1", 390, 844)
    guess(page)
    whole, matrix = learn(page).bounding_box(), page.locator(".hl-centre").bounding_box()
    assert whole is not None
    assert matrix is not None
    assert matrix["y"] >= 0, "the matrix begins above the window"
    assert matrix["y"] + matrix["height"] <= whole["y"], "the chapter covers the matrix"
    learn(page).get_by_role("button", name="Fold").click()
    folded = learn(page).bounding_box()
    assert folded is not None
    assert folded["height"] < whole["height"] / 4
    expect(learn(page).get_by_role("heading")).to_have_count(0)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    last = page.get_by_role("button", name="How to read this").bounding_box()
    assert last is not None
    assert last["y"] + last["height"] <= folded["y"], "the end of the page is not below the chapter"
    learn(page).get_by_role("button", name="Unfold").click()
    assert learn(page).bounding_box() == whole


def test_the_list_and_the_buttons_lead_to_every_chapter(page: Page):
    open_chapter(page, 1)
    for number, title in enumerate(TITLES[1:], 2):
        learn(page).get_by_role("button", name="Next", exact=True).click()
        expect(learn(page).get_by_role("heading", level=2)).to_have_text(title)
        expect(learn(page)).to_contain_text(f"{number} of 6")
        assert f"learn={number}" in page.evaluate("location.hash")
        if number < len(TITLES):
            expect(learn(page).get_by_role("button", name="Next", exact=True)).to_be_focused()
    learn(page).get_by_role("button", name="Next", exact=True).click()
    expect(learn(page).get_by_role("heading", level=2)).to_have_text("What you have learned")
    expect(learn(page).get_by_role("button", name="Next", exact=True)).to_be_disabled()
    learn(page).get_by_role("list", name="Chapters").get_by_role("button", name=TITLES[1]).click()
    expect(learn(page).get_by_role("heading", level=2)).to_have_text(TITLES[1])


def test_a_teacher_sends_a_link_to_a_chapter_with_a_sentence(visit: Visit, address: str):
    text = "Ein Hund läuft."
    view = visit(f"{address}#v=2&model=de-en&text={quote(text)}&learn=5")
    expect(learn(view).get_by_role("heading", name=TITLES[4])).to_be_visible()
    expect(view.locator(".hl-translation")).to_have_text(TRANSLATORS["de-en"].translate(text).text)


def test_a_chapter_keeps_the_visitors_own_sentence(page: Page):
    submit(page, "Ein Hund läuft.")
    expect(page.locator(".hl-translation")).to_have_text(
        TRANSLATORS["de-en"].translate("Ein Hund läuft.").text
    )
    open_chapter(page, 3)
    learn(page).get_by_role("button", name="Next", exact=True).click()
    expect(learn(page)).to_contain_text("4 of 6")
    expect(page.get_by_label("Sentence")).to_have_value("Ein Hund läuft.")


# Tasks


def test_a_word_of_ones_own_is_a_task(page: Page):
    begin(page)
    guess(page)
    page.get_by_role("button", name="lantern").click()
    expect(page.locator(".hl-translation")).to_have_text(TRANSLATORS["reverse"].translate("lantern").text)
    expect(task(page, 2)).not_to_contain_text("Done")
    submit(page, "window")
    expect(task(page, 2)).to_contain_text("Done")


def test_a_masked_cell_is_a_task_and_stays_done(page: Page):
    open_chapter(page, 3)
    choose(page, "Decoder", 1, 1)
    page.mouse.click(*cell(page, 3, 1))
    expect(task(page, 1)).not_to_contain_text("Done")
    page.mouse.click(*cell(page, 1, 3))
    expect(task(page, 1)).to_contain_text("Done")
    page.keyboard.press("Escape")
    page.reload()
    learn(page).wait_for()
    expect(task(page, 1)).to_contain_text("Done")


def test_a_head_that_reads_the_previous_token_is_shown_by_a_pin(
    visit: Visit, address: str, monkeypatch: pytest.MonkeyPatch
):
    own = TRANSLATORS["de-en"]._translation

    def reading_the_previous_token(*given: Any) -> Translation:
        found = own(*given)
        steps = found.attention.decoder.shape[-1]
        found.attention.decoder[0, 0] = torch.eye(steps).roll(-1, 1).tril() + torch.eye(steps)[0].diag()
        return found

    monkeypatch.setattr(TRANSLATORS["de-en"], "_translation", reading_the_previous_token)
    view = visit(f"{address}#model=de-en&text={quote('Ein alter Hund')}&learn=3")
    guess(view)
    choose(view, "Decoder", 1, 1)  # as the task before asks
    expect(open_panel(view, "Head")).to_contain_text("Previous token")
    view.mouse.click(*cell(view, 1, 3))
    expect(task(view, 1)).to_contain_text("Done")
    expect(task(view, 2)).not_to_contain_text("Done")
    view.mouse.click(*cell(view, 2, 1))
    expect(task(view, 2)).to_contain_text("Done")


def test_forcing_a_word_is_a_task(page: Page):
    open_chapter(page, 4)
    page.get_by_role("tab", name="Step").click()
    expect(task(page, 1)).not_to_contain_text("Done")
    page.locator(".hl-next .hl-choice").last.click()
    expect(task(page, 1)).to_contain_text("Done")


def test_the_head_that_aligns_best_is_found_by_its_measure(page: Page):
    open_chapter(page, 5)
    focus = page.evaluate("() => Headlight.viewer.state().record.measures.cross.focus")
    best = max((value, layer, head) for layer, row in enumerate(focus) for head, value in enumerate(row))
    other = min((value, layer, head) for layer, row in enumerate(focus) for head, value in enumerate(row))
    choose(page, "Cross", other[1] + 1, other[2] + 1)
    page.keyboard.press("m")
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    expect(task(page, 1)).not_to_contain_text("Done")
    choose(page, "Cross", best[1] + 1, best[2] + 1)
    page.keyboard.press("m")
    expect(task(page, 1)).to_contain_text("Done")


def test_the_most_important_head_is_found_by_muting_it(page: Page):
    open_chapter(page, 5)
    page.wait_for_function("() => Headlight.viewer.state().importance !== null")
    expect(task(page, 2)).not_to_contain_text("Done")  # the page measures it unasked, not the person
    least = page.evaluate(
        """() => {
          const { changes } = Headlight.viewer.state().importance;
          const heads = Object.entries(changes).flatMap(([kind, layers]) =>
            layers.flatMap((row, layer) => row.map((value, head) => [value, kind, layer, head])));
          return heads.reduce((one, two) => (two[0] < one[0] ? two : one)).slice(1);
        }"""
    )
    page.evaluate("head => Headlight.viewer.client.store.change({ mutes: [head] })", least)
    expect(task(page, 2)).to_contain_text("Done")


def test_only_a_training_without_positions_ticks_the_last_task(page: Page):
    open_chapter(page, 6)
    played = {"settings": {"task": "copy", "positions": False}, "steps": 300, "share": 0.2}
    with_positions = {**played, "settings": {"task": "copy", "positions": True}}
    for trainings in ([{**played, "steps": 299}], [with_positions], [with_positions, played]):
        page.evaluate("played => Headlight.viewer.client.store.change({ played })", trainings)
        expect(task(page, 2)).not_to_contain_text("Done")
    page.evaluate("played => Headlight.viewer.client.store.change({ played })", [played])
    expect(task(page, 2)).to_contain_text("Done")
    expect(task(page, 1)).not_to_contain_text("Done")


# The picture


def test_the_chapter_about_the_three_kinds_opens_the_routes_of_a_word(page: Page):
    open_chapter(page, 2)
    learn(page).get_by_role("button", name="Next", exact=True).click()
    guess(page)
    picture = learn(page).locator("[data-question=routes]")
    expect(picture).to_have_attribute("open", "")
    expect(picture).to_contain_text("Which way did this word come?")
    assert learn(page).evaluate("(panel) => panel.scrollTop") == 0, "the chapter opens below its title"
    for _ in range(3):  # no later chapter explains a word of this one
        learn(page).get_by_role("button", name="Next", exact=True).click()
        guess(page)
        expect(picture).to_be_hidden()


@pytest.mark.slow
def test_on_a_phone_the_chapter_leaves_room_for_the_page(visit: Visit, address: str):
    view = visit(f"{address}#learn=3", 390, 844)
    expect(learn(view).get_by_role("heading", name=TITLES[2])).to_be_visible()
    guess(view)
    expect(learn(view).locator("[data-question=routes]")).to_have_attribute("open", "")
    box = learn(view).bounding_box()
    assert box is not None
    assert box["height"] < 0.5 * 844
    assert view.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_chapter_keeps_the_edge_of_a_phone_free(visit: Visit, static: str):
    view = visit(static, 390, 844)
    brand = view.locator("#hl-brand")
    before = brand.bounding_box()
    view.evaluate("location.hash += '&learn=7'")
    expect(learn(view)).to_be_visible()
    assert brand.bounding_box() == before
