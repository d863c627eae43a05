"""The course asks: guesses, ticks, the questions before and after, the glossary, and what a teacher gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import TRANSLATORS, Visit
from tests.browser.screen import FIRST, cell, resize
from tests.browser.test_learn import TITLES, answers, guess, learn, open_chapter, page

__all__ = ["page"]  # the fixture
pytestmark = pytest.mark.browser


def choose_answer(page: Page, text: str) -> None:
    answers(page).get_by_text(text, exact=True).click()


def test_the_tick_is_for_the_answer_understood(page: Page):
    page.evaluate("location.hash += '&learn=5'")
    expect(learn(page)).to_contain_text("Guess first")
    expect(page.get_by_role("gridcell")).to_have_count(0)  # nothing reads the picture out, either
    page.keyboard.press("ControlOrMeta+a")
    assert TRANSLATORS["de-en"].translate(FIRST).text not in page.evaluate("getSelection().toString()")
    choose_answer(page, "It always breaks")
    expect(learn(page)).to_contain_text("You guessed “It always breaks”; that is not quite it. Try it below.")
    expect(page.get_by_role("gridcell").first).to_be_visible()
    mark = page.get_by_role("list", name="Chapters").get_by_role("listitem").nth(5).locator(".hl-number")
    expect(mark).to_have_text("")
    choose_answer(page, "Count the words that it reads")
    expect(learn(page)).to_contain_text("✗ Count the words that it reads")
    expect(mark).to_have_text("")
    expect(answers(page).first).to_be_disabled()
    expect(learn(page).get_by_role("status")).to_be_in_viewport(ratio=1)
    learn(page).get_by_role("button", name="Another question").click()
    choose_answer(page, "Often nothing")  # the question of the beginning comes back
    expect(mark).to_have_text("✓ Understood")
    expect(learn(page).locator(".hl-learned")).to_contain_text("where a head looked, not why")
    expect(learn(page).locator(".hl-learned")).to_be_in_viewport(ratio=1)
    page.reload()
    expect(learn(page).locator(".hl-learned")).to_be_visible()


def test_the_first_question_is_about_the_tokens_of_the_word(page: Page):
    page.evaluate("location.hash = '#model=reverse&text=lantern&learn=1'")
    expect(learn(page)).to_contain_text("Guess first")
    tokens = page.evaluate("Headlight.viewer.state().record.tokens.source")
    assert answers(page).all_inner_texts() == [each["text"] for each in tokens if not each["special"]]
    answers(page).last.click()
    expect(learn(page)).to_contain_text("”, and that is right. Its answer begins with the last letter.")
    expect(learn(page).locator("[data-question=routes]")).to_be_hidden()


def answer_all(page: Page, wrong: int) -> None:
    """Answer the five questions on screen, the first ones of them wrong."""
    lists = learn(page).locator(".hl-answers")
    expect(lists).to_have_count(5)
    for place in range(5):
        options = RIGHT_BEFORE if learn(page).get_by_text("Two minutes").count() else RIGHT_AFTER
        right = lists.nth(place).get_by_role("button", name=options[place], exact=True)
        other = lists.nth(place).get_by_role("button").filter(has_not_text=options[place]).first
        (other if place < wrong else right).click()


RIGHT_BEFORE = (
    "0.2",
    "No, that word does not exist yet",
    "Not always",
    "Where it looked; the rest must be tested",
    "Nobody: it forms in the training",
)
RIGHT_AFTER = (
    "0.25",
    "The first three",
    "One that keeps several beginnings",
    "A clear picture does not make a head important",
    "It may do another job each time",
)


def test_five_questions_before_and_five_after_say_what_has_changed(page: Page):
    page.get_by_role("button", name="Learn", exact=True).click()
    answer_all(page, 3)
    expect(learn(page)).to_contain_text("Thank you")
    expect(learn(page)).not_to_contain_text("✓ 0.2")  # nothing is judged yet
    page.evaluate("Headlight.viewer.client.store.change({ learn: 8 })")
    answer_all(page, 0)
    expect(learn(page)).to_contain_text("Before the course 2 of 5, now 5 of 5.")
    learn(page).get_by_role("button", name="Print what I have learned").click()
    paper = page.get_by_role("dialog", name="What I have learned")
    expect(paper).to_contain_text("✓ It may do another job each time")
    expect(paper).to_contain_text("→ 0.2")
    page.keyboard.press("Escape")
    expect(paper).to_be_hidden()


# The glossary


def test_the_glossary_is_reached_by_keyboard_and_by_a_click(page: Page):
    open_chapter(page, 3)
    term = learn(page).get_by_role("button", name="encoder", exact=True)
    expect(term).to_have_count(1)
    term.press("Enter")
    meaning = page.get_by_text("the half of the network that reads your sentence")
    expect(meaning).to_be_visible()
    page.keyboard.press("Escape")
    expect(meaning).to_have_count(0)
    page.get_by_role("button", name="How to read this").click()
    page.get_by_role("dialog", name="How to read this").get_by_role("button", name="token").click()
    expect(page.get_by_text("a piece of text that the model reads or writes at once")).to_be_visible()


# For teachers


def test_a_teachers_link_holds_language_chapter_sentence_and_time(page: Page):
    open_chapter(page, 3)
    learn(page).get_by_role("button", name="For teachers").click()
    dialog = page.get_by_role("dialog", name="For teachers")
    dialog.get_by_label("Sentence").fill("Ein Hund läuft.")
    dialog.get_by_label("Minutes").fill("7")
    dialog.get_by_label("Language").select_option("de")
    dialog.get_by_label("Chapter").select_option("5")
    dialog.get_by_label("Sentence").fill("Ein Hund läuft.")
    link = dialog.get_by_label("Link").input_value()
    page.goto("about:blank")
    page.goto(link)
    panel = page.get_by_role("complementary", name="Lernen")
    expect(panel).to_contain_text("5 von 6")
    expect(panel).to_contain_text("noch 7 Minuten")
    expect(page.get_by_label("Satz", exact=True)).to_have_value("Ein Hund läuft.")
    panel.get_by_role("button", name="Weiter", exact=True).click()
    expect(panel).not_to_contain_text("Minuten")  # the time is for one chapter


def test_a_sheet_has_the_view_the_questions_and_a_key_behind_a_switch(page: Page):
    open_chapter(page, 3)
    for with_key in (False, True):
        learn(page).get_by_role("button", name="For teachers").click()
        dialog = page.get_by_role("dialog", name="For teachers")
        dialog.get_by_label("answer key").set_checked(with_key)
        dialog.get_by_role("button", name="Sheet to print").click()
        paper = page.get_by_role("dialog", name=TITLES[2])
        expect(paper).to_contain_text(TRANSLATORS["de-en"].translate(FIRST).text)
        expect(paper.locator("figure svg")).to_have_count(3)  # one of each kind
        expect(paper.locator("figure svg").last).to_be_visible()
        expect(paper.get_by_role("img", name="The link as a code to scan")).to_be_visible()
        expect(paper.get_by_text("Why?")).to_have_count(2)
        expect(paper.get_by_text("Answer key")).to_have_count(int(with_key))
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        expect(page.locator("body > :visible")).to_have_count(1)  # the sheet alone
        expect(paper.get_by_role("img", name="The link as a code to scan")).to_be_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        paper.get_by_role("button", name="Close").click()


# Tasks


def test_the_tree_of_a_greedy_translation_is_the_task_too(visit: Visit, address: str):
    page = visit(f"{address}#model=de-en&text=Ein+Hund&beam=1&learn=4")
    guess(page)
    learn(page).get_by_role("button", name="Show me where").last.click()
    page.get_by_role("tab", name="Step").click()
    page.locator(".hl-hypotheses ~ div .hl-act").click()
    page.locator(".hl-tree").wait_for()
    expect(learn(page).locator(".hl-tasks > li").nth(1)).to_contain_text("Done")


def test_a_word_for_which_nothing_is_written_is_no_task_done(
    visit: Visit, address: str, monkeypatch: pytest.MonkeyPatch
):
    own = TRANSLATORS["reverse"]._translation
    monkeypatch.setattr(TRANSLATORS["reverse"], "_translation", lambda *given: replace(own(*given), text=""))
    page = visit(f"{address}#model=reverse&text=zzz123&learn=1")
    guess(page)
    expect(page.locator(".hl-translation")).to_have_text("(nothing)")
    expect(learn(page).locator(".hl-tasks > li").nth(1)).not_to_contain_text("Done")


def test_a_link_to_a_model_of_the_playground_says_where_it_is_trained(visit: Visit, address: str):
    page = visit(f"{address}#model=playground-sort&text=lantern")
    expect(page.locator("#hl-message")).to_contain_text("A link of the playground trains it again.")


# The page before it is ready, and small windows


def test_a_click_before_the_first_translation_is_not_lost(visit: Visit, address: str):
    page = visit(f"{address}healthz", 1440, 900, waits=False)
    page.route("**/component_server**", lambda _: None)
    with page.expect_request("**/component_server**"):
        page.goto(address)
    page.get_by_role("button", name="Learn", exact=True).click()
    expect(learn(page)).to_be_hidden()
    page.unroute("**/component_server**")
    expect(learn(page)).to_be_visible()


def test_no_task_is_out_of_reach_in_a_low_or_enlarged_window(visit: Visit, address: str):
    page = visit(f"{address}#learn=6", 844, 390)
    guess(page)
    for width, height in ((844, 390), (720, 450), (390, 844)):  # a phone held sideways, 200 %, a phone
        resize(page, width, height)
        for button in ("Show me where", "Back", "Next"):
            target = learn(page).get_by_role("button", name=button, exact=True).first
            target.scroll_into_view_if_needed()
            box = target.bounding_box()
            assert box is not None
            at = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            hit = page.evaluate("([x, y]) => document.elementFromPoint(x, y)?.textContent", at)
            assert hit == button, (width, height)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("language", ["en", "de", "fr", "it"])
def test_beside_a_chapter_no_tab_and_no_readout_is_cut(visit: Visit, address: str, language: str):
    page = visit(f"{address}#learn=5&lang={language}&row=2&column=2")
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.hl-inspector [role=tab], .hl-matrix-footer > :first-child')]
          .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1
            || one.getBoundingClientRect().right > one.closest('.hl-panel').getBoundingClientRect().right)
          .map((one) => one.textContent)"""
    )
    assert cut == []
    page.mouse.click(*cell(page, 2, 2))
    footer = page.locator(".hl-matrix-footer > :first-child")
    assert footer.evaluate("(one) => one.scrollHeight <= one.clientHeight + 1"), footer.inner_text()
    left = page.locator(".hl-columns").bounding_box()
    panel = page.get_by_role("complementary").bounding_box()
    assert left is not None
    assert panel is not None
    assert left["x"] >= panel["x"] + panel["width"] + 16, "the page touches the chapter"
