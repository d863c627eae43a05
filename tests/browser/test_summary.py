"""In short: each sentence agrees with the instrument that it opens, and nothing is said without a measure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from playwright.sync_api import Locator, Page, expect

from model.results import Head, Token
from tests.browser.conftest import TRANSLATORS, Show, draw
from tests.browser.inspector import TEXT, open_panel, tiny
from tests.browser.screen import FIRST, view
from viz.summary import summary_values

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_tiny")]
RESULT = tiny().translate(TEXT)


def sentence(page: Page, name: str) -> Locator:
    return page.locator(f".hl-summary [data-fact='{name}']")


@pytest.fixture
def page(show: Show) -> Page:
    """In short about a translation by a random model, which hesitates everywhere."""
    page = show(RESULT, "tiny", address="kind=encoder&layer=1&head=1", summary=True)
    sentence(page, "unsure").wait_for()
    page.locator(".hl-summary-all").click()
    return page


def test_a_word_that_had_little_probability_opens_its_step(page: Page):
    chances = [math.exp(value) for value in RESULT.log_probabilities]
    words = [not token.special for token in RESULT.attention.predicted]
    least = min((chance, step) for step, chance in enumerate(chances) if words[step])
    entry = sentence(page, "unsure").locator("li").first
    expect(entry).to_contain_text(f" {100 * least[0]:.{1 if least[0] < 0.01 else 0}f} %")
    entry.get_by_role("button").first.click()
    expect(page.locator(".hl-panel-step")).to_contain_text(f"step {least[1] + 1} of {len(chances)}")
    expect(page.locator(".hl-next .hl-taken")).to_contain_text(f"{least[0]:.4f}")
    rival = next(one for one in RESULT.alternatives[least[1]] if one.token.id != RESULT.ids[least[1]])
    entry.get_by_role("button").last.click()
    expect(page.locator(".hl-status")).to_contain_text(f"at step {least[1] + 1}")
    ids = page.evaluate("viewer.state().record.tokens.predicted.map(({ id }) => id)")
    assert ids[: least[1] + 1] == [*RESULT.ids[: least[1]], rival.token.id]
    expect(
        page.locator(".hl-summary li").first
    ).to_be_visible()  # about the translation that is now on screen


def test_the_numbers_are_those_of_the_instruments_that_the_sentences_open(page: Page, asked: list[dict]):
    measured = summary_values(tiny(), TEXT, RESULT.ids)
    lines = sentence(page, "unsure").locator("li")
    for line, one in zip(lines.all(), measured["rivals"], strict=True):
        forced = tiny().translate(TEXT, forced=[*RESULT.ids[: one["step"]], one["id"]])
        assert one["text"] in forced.text  # the word that a click on it brings
        expect(line.get_by_role("button").last).to_contain_text(one["text"])
    heads = sentence(page, "heads").locator("li")
    expect(heads).to_have_count(3)
    for line, one in zip(heads.all(), measured["heads"], strict=True):
        head = Head(*one["head"])
        factor = math.exp(-measured["importance"][head.kind][head.layer][head.head])
        times = "more than 1000" if factor > 1000 else f"{factor:.{1 if factor < 10 else 0}f}"
        expect(line).to_contain_text(f"{times} times")
        expect(line).to_contain_text(tiny().mute(TEXT, [head], target=RESULT.ids).ablated.text)
    heads.first.get_by_role("button").click()
    expect(page.locator(".hl-panel-mute")).to_be_visible()
    assert page.evaluate("viewer.state().mutes") == [measured["heads"][0]["head"]]
    open_panel(page, "Step").locator("[data-question=lens] summary").click()
    expect(page.locator("[data-question=lens] .hl-layers")).to_be_visible()
    assert {one["do"] for one in asked} <= {"summary", "mute"}, "the lens has its answer already"


def test_the_word_that_another_depends_on_opens_its_cell(page: Page):
    depends = sentence(page, "depends")
    text = depends.inner_text()
    quoted = depends.locator(".hl-quoted")  # stays on one line with its marks
    assert all(one.startswith("“") and one.endswith("”") for one in quoted.all_inner_texts())
    assert text.count("“") == quoted.count()
    depends.get_by_role("button").click()
    expect(page.locator(".hl-toolbar [data-value=leave_one_out]")).to_have_attribute("aria-pressed", "true")
    readout = page.locator(".hl-readout")
    expect(readout).to_contain_text("of its log p")
    if "comes first" in text and " still " not in text:
        expect(readout).to_contain_text("likeliest is")
    else:
        expect(readout).to_contain_text("stays the likeliest")


def test_a_click_on_a_word_of_the_sentence_removes_it(page: Page, asked: list[dict]):
    before = page.evaluate(SEEN)
    chips = page.locator(".hl-chip[data-side=source]")
    source = RESULT.attention.source
    places = [place for place, token in enumerate(source) if token.word == source[words_of(source)[1]].word]
    chips.nth(places[-1]).click()
    expected = tiny().translate(TEXT, hidden=places).text
    line = page.locator(".hl-removed")
    expect(line).to_contain_text(f"Without “{TEXT.split()[1]}” the translation is")
    expect(line).to_contain_text("the same" if expected == RESULT.text else expected)
    expect(page.locator(".hl-struck")).to_have_count(len(places))
    assert [one["places"] for one in asked if one["do"] == "remove_word"] == [places]
    assert page.evaluate(SEEN) == before  # nothing else changes
    assert f"without={places[0] + 1}" in page.evaluate("location.hash")
    line.get_by_role("button", name="Follow it").click()
    assert page.evaluate("viewer.state().pin.column") == places[0]
    chips.nth(places[0]).click()
    expect(line).to_be_hidden()
    expect(page.locator(".hl-struck")).to_have_count(0)


def test_a_click_on_a_word_of_the_translation_offers_others_in_place(page: Page):
    chip = page.locator(".hl-chip[data-side=target]").nth(2)
    chip.click()
    menu = page.get_by_role("dialog", name="Instead of")
    words = [one.token.text.strip() for one in RESULT.alternatives[1] if one.token.id != RESULT.ids[1]]
    assert menu.locator(".hl-choice bdi").all_inner_texts() == words
    expect(page.get_by_role("tab", name="Head")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    assert page.evaluate("viewer.state().pin") is None
    chip.click()
    menu.locator(".hl-choice").first.click()
    expect(page.locator(".hl-status")).to_contain_text("at step 2")
    expect(menu).to_be_hidden()


NAMES = ["kind", "layer", "head", "valueName", "pin", "words", "mutes", "panel"]
SEEN = f"JSON.stringify({NAMES}.map((name) => viewer.state()[name]))"


def test_in_short_gives_back_the_view_that_it_changed(page: Page, asked: list[dict]):
    """Whichever sentences were chosen; and no link has what they opened."""
    before, link = page.evaluate(SEEN), page.evaluate("location.hash")
    status = page.locator(".hl-status")
    sentence(page, "depends").get_by_role("button").click()
    expect(status).to_contain_text("Opened from the sentences under the translation")
    expect(page.locator(".hl-removed")).to_contain_text("the translation is")
    sentence(page, "heads").get_by_role("button").first.click()
    expect(page.locator(".hl-panel-mute")).to_be_visible()
    assert page.evaluate(SEEN) != before
    assert page.evaluate("location.hash") == link
    status.get_by_role("button", name="Back to the view from before").click()
    assert page.evaluate(SEEN) == before
    expect(status).not_to_contain_text("Opened from the sentences under the translation")
    sentence(page, "depends").get_by_role("button").click()
    view(page, "Norm")  # the person's own choice stays
    expect(status).not_to_contain_text("Opened from the sentences under the translation")
    assert page.evaluate("[viewer.state().valueName, viewer.state().words]") == ["transformed_norm", False]
    sentence(page, "heads").get_by_role("button").first.click()
    draw(page, tiny().translate("Eine Frau liest."), "tiny")
    assert page.evaluate("[viewer.state().valueName, viewer.state().mutes]") == ["transformed_norm", []]


def words_of(tokens: Sequence[Token]) -> list[int]:
    """The place of the first token of each word."""
    first: dict[int | None, int] = {}
    for place, token in enumerate(tokens):
        first.setdefault(token.word, place)
    return [place for word, place in first.items() if word is not None]


def test_a_translation_with_muted_heads_has_its_record_alone(page: Page, asked: list[dict]):
    sentence(page, "heads").get_by_role("button").first.click()
    page.get_by_role("button", name="Show its attention").click()
    expect(page.locator(".hl-summary-notes")).to_contain_text("Go back to the translation without muting")
    expect(sentence(page, "unsure")).to_be_visible()
    expect(sentence(page, "heads")).to_have_count(0)
    assert [one["do"] for one in asked].count("summary") == 1


def test_a_failed_answer_leaves_what_the_record_holds(show: Show):
    page = show(TRANSLATORS["de-en"].translate(FIRST))
    page.evaluate("askBackend = async () => ({ error: 'The server is away; try again.' })")
    page.evaluate("window.silent = []")
    draw(page, TRANSLATORS["de-en"].translate("Guten Tag!"))
    expect(page.locator(".hl-status")).to_contain_text("The server is away; try again.")
    expect(page.locator(".hl-summary-notes")).to_contain_text("There is no answer.")
    expect(page.locator(".hl-summary li").first).to_be_visible()
