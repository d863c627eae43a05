"""The playground in a real Chromium: what is kept, links with a step, own pairs and challenges."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.test_playground import (
    SMALL,
    expect_step,
    picture,
    playground,
    press,
    step_of,
    train,
    wait_for_step,
)

pytestmark = pytest.mark.browser


def test_what_was_trained_is_not_lost_without_a_word(visitor, static):
    page = visitor.visit(static + SMALL)
    expect_step(page, 0)
    playground(page).get_by_label("Heads").select_option("4")  # nothing is trained yet
    expect_step(page, 0)
    train(page, 5)
    with page.expect_download():  # it comes after the steps that the pause had to wait for
        press(page, "Save the model")
    steps = step_of(page)
    playground(page).get_by_label("Width").select_option("64")
    question = page.get_by_role("dialog", name="Begin a new training?")
    expect(question).to_contain_text(f"of {steps} steps will be lost")
    question.get_by_role("button", name="Keep this training").click()
    expect_step(page, steps)
    expect(playground(page).get_by_label("Width").locator("option:checked")).to_have_text("16")
    expect(page).to_have_url(re.compile(f"heads=4&width=16.*step={steps}"))
    press(page, "Close")
    page.get_by_role("button", name="Learn", exact=True).click()
    learn = page.get_by_role("complementary", name="Learn")
    learn.get_by_role("button", name="How heads form").click()
    expect_step(page, steps)  # the chapter takes the training that is there
    learn.get_by_role("button", name="Close").click()
    expect(learn).to_be_hidden()
    expect_step(page, steps)  # and leaves it
    playground(page).get_by_label("Width").select_option("64")
    question.get_by_role("button", name="Begin anew").click()
    expect_step(page, 0)


def test_a_link_carries_the_step(visitor, static):
    page = visitor.visit(f"{static}{SMALL}&step=12")
    expect_step(page, 12)
    expect(playground(page).get_by_role("button", name="Start", exact=True)).to_be_visible()
    before = picture(page)
    expect(page).to_have_url(re.compile("step=12"))
    page.reload()
    expect_step(page, 12)
    assert picture(page) == before


def test_a_decoder_that_reads_only_the_last_state(visitor, static):
    page = visitor.visit(f"{static}#playground=reverse&last2=1&step=3")
    second = playground(page).get_by_role("region", name="B · The decoder reads: only the last state")
    expect(second).to_contain_text("Step 3")
    # No directory of a model can say it, so elsewhere it would read the whole word.
    expect(second.get_by_role("button", name="Save the model")).to_be_disabled()
    expect(second.get_by_role("button", name="Open in the viewer")).to_be_disabled()
    expect(playground(page)).to_contain_text("Unseen words right by letters, %")
    expect(playground(page)).to_contain_text(re.compile(r"\d+ letters: A \d+, B \d+"))
    weights = """(canvas) => {
      const { width, height } = canvas;
      const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
      const at = (x) => data.slice(4 * (Math.floor(height / 2) * width + x)).slice(0, 3).join();
      return [1, 7, 15].map((part) => at(Math.floor((part * width) / 16))); // of 8 columns
    }"""
    first, middle, last = second.locator("canvas").first.evaluate(weights)
    assert first == middle != last


def test_pairs_of_the_person_are_a_task(visitor, static):
    page = visitor.visit(static + SMALL)
    expect_step(page, 0)
    own = playground(page).locator(".hl-own-pairs")
    own.get_by_text("Own pairs", exact=True).click()
    box = own.get_by_role("textbox", name="Own pairs")
    problem = own.get_by_role("alert")
    for text, sentence in (
        ("Hund;Hunde", "These are 1 different pairs; the playground needs at least 20."),
        ("Hund;Hunde\nKatze", "Line 2 does not have two columns"),
        (f"Hund;{'e' * 41}", "Line 1 has a column of more than 40 characters."),
        ("a,b\na,c", "Line 2 has another answer for “a” than a line before it."),
    ):
        box.fill(text)
        own.get_by_role("button", name="Train with these pairs").click()
        expect(problem).to_contain_text(sentence)
    box.fill("\n".join(f"Tag {number}\tTage {number}" for number in range(40)))
    own.get_by_role("button", name="Train with these pairs").click()
    expect(playground(page).get_by_label("Task").locator("option:checked")).to_have_text("Own pairs")
    expect(playground(page).get_by_role("button", name="Pause")).to_be_in_viewport()
    wait_for_step(page, 5)
    press(page, "Pause")
    expect(playground(page).locator("tbody th").first).to_have_text(re.compile(r"Tag \d+"))
    assert "Tage" not in page.url
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    expect(playground(page).get_by_role("alert").first).to_contain_text("no link holds them")


def test_a_challenge_has_a_goal_a_record_and_no_hints(visitor, static):
    page = visitor.visit(static + SMALL)
    expect_step(page, 0)
    hint = playground(page).get_by_text("At 0.1 it does not learn to spell backwards.")
    expect(hint).to_be_visible()
    playground(page).get_by_role("button", name="Take it on").nth(2).click()
    expect(playground(page).locator(".hl-goal")).to_contain_text("Change a single switch")
    expect(hint).to_be_hidden()
    playground(page).get_by_label("Positions").select_option("off")
    page.evaluate("location.hash = location.hash.replace(/&step=\\d+/, '') + '&step=300'")
    expect(playground(page).locator(".hl-challenges")).to_contain_text("Found so far: 1")
    page.reload()
    expect(playground(page).locator(".hl-challenges")).to_contain_text("Found so far: 1")
