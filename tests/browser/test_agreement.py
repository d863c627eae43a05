"""Every panel speaks of what is on screen: this translation, these heads, what they give, these words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from model.analysis.alignment import best_links
from model.instruments import mean_baseline, sentence_baseline
from model.results import Head, Translation
from tests.browser.conftest import TRANSLATORS, Show, Visit, draw
from tests.browser.inspector import TEXT, number, open_panel, signed, status, tiny
from tests.browser.screen import cell, choose, view
from viz.instruments import link_values

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_tiny")]

RESULT = tiny().score(TEXT, "A small dog runs.")  # several words; the model itself says a single one
OTHER = "Die Tür ist heiß."
EVERYDAY = [OTHER, "Ein Hund"]
GOLD = "0-0 1p1 2-1"


@pytest.fixture
def page(show: Show) -> Page:
    return show(RESULT, model="tiny", about={"tiny": {"everyday": EVERYDAY}})


# Word links


def with_taught(head: Head) -> Translation:
    return replace(RESULT, attention=replace(RESULT.attention, taught=(head.layer, head.head)))


def test_own_links_are_those_of_one_translation(page: Page, asked: list):
    page.get_by_role("button", name="Word links").click()
    box = page.get_by_label("Your own word links")
    box.fill(GOLD)
    box.press("Enter")
    expect(page.locator(".hl-ways")).to_contain_text("AER")
    draw(page, tiny().score(OTHER, "The door is hot."), "tiny")
    expect(page.locator(".hl-ways .hl-number")).to_have_count(0)
    expect(box).to_have_value("")
    assert "gold" not in asked[-1]
    assert "gold" not in page.evaluate("location.hash")


def test_the_links_of_a_taught_head_say_how_they_were_found(page: Page):
    best = best_links(RESULT.attention).head
    assert best is not None
    page.get_by_role("button", name="Word links").click()
    draw(page, with_taught(best), "tiny")
    ways = page.locator(".hl-ways button")
    name = f"{best.layer + 1}.{best.head + 1}"
    expect(ways).to_have_text(
        [
            f"Clearest head of Cross, head {name}, which was taught to align",
            "The same head, both directions joined",
            "Average of all heads of Cross",
        ]
    )
    other = Head("cross", (best.layer + 1) % 4, best.head)
    draw(page, with_taught(other), "tiny")
    taught = f"Head {other.layer + 1}.{other.head + 1}, which was taught to align, both directions joined"
    expect(ways).to_have_count(4)
    expect(ways.last).to_have_text(taught)
    ways.last.click()
    found = link_values(tiny(), TEXT, RESULT.ids, other)["methods"][2]["grown"]
    expect(page.locator(".hl-link")).to_have_count(len(found))


@pytest.mark.slow
def test_a_difference_to_heads_of_another_translation_names_it(page: Page):
    choose(page, "Cross", 2, 3)
    view(page, "Compare")
    choose(page, "Cross", 1, 1)
    facts = page.locator(".hl-facts")
    expect(facts).to_contain_text("minus Cross · layer 2 · head 3")
    draw(page, tiny().score(OTHER, "The door is hot."), "tiny")
    expect(facts).to_contain_text("minus Cross · layer 2 · head 3 of “A small dog runs.”")


# Muted heads


def test_heads_are_tried_with_what_muted_heads_give(page: Page, asked: list):
    panel = open_panel(page, "What if")
    gives = panel.get_by_label("What muted heads give")
    for baseline, outputs in (
        ("zero", None),
        ("mean", mean_baseline(tiny(), EVERYDAY).outputs),
        ("sentence", sentence_baseline(tiny(), OTHER).outputs),
    ):
        gives.select_option(baseline)
        if baseline == "sentence":
            expect(panel.get_by_role("button", name="Try all 30 heads")).to_be_disabled()
            panel.get_by_label("Text to patch from").fill(OTHER)
            page.keyboard.press("Enter")
        panel.get_by_role("button", name="Try all 30 heads").click()
        values = tiny().importance(TEXT, RESULT.ids, outputs)
        least = sorted(round(float(value), 6) for kind in values for value in kind.flatten())
        expect(panel.locator(".hl-most .hl-number")).to_have_text([signed(value) for value in least[:5]])
        assert asked[-1].get("baseline", "zero") == baseline
    expect(panel).to_contain_text(f"if one head gives what it gives for “{OTHER}”, in all rows.")
    page.get_by_label("Order of the heads").select_option("importance")
    gives.select_option("mean")  # the numbers of another baseline are gone from every panel
    expect(page.get_by_label("Order of the heads")).to_have_value("")


def test_the_tab_step_says_what_muting_makes_of_its_word(page: Page):
    choose(page, "Cross", 1, 1)
    panel = open_panel(page, "Step")
    page.locator(".hl-chip[data-side=target]").nth(2).click()
    page.keyboard.press("m")
    change = tiny().mute(TEXT, [Head("cross", 0, 0)], target=RESULT.ids).differences[1]
    before = RESULT.log_probabilities[1]
    word = RESULT.attention.predicted[1].text
    expect(panel).to_contain_text(
        f"These numbers are those without muting. With 1 head muted, “{word}” has "
        f"{number(math.exp(before + change))} instead of {number(math.exp(before))}."
    )
    expect(status(page)).to_contain_text("without muting")
    panel.get_by_role("button", name="Show it with muting").click()
    expect(panel).not_to_contain_text("without muting")
    muted = tiny().mute(TEXT, [Head("cross", 0, 0)], target=RESULT.ids, forced=RESULT.ids).ablated
    chances = [number(math.exp(one.log_probability)) for one in muted.alternatives[1]]
    expect(panel.locator(".hl-next .hl-number").first).to_have_text(chances[0])
    # What the model would compute with all heads is not said about the translation without some.
    page.mouse.click(*cell(page, 1, 1))
    expect(open_panel(page, "Cell")).to_contain_text("Not available with heads muted.")
    view(page, "Norm")
    expect(status(page)).to_contain_text("Not available with heads muted.")


def test_an_unsure_translation_after_a_forced_word_does_not_accuse_the_language(show: Show):
    page = show(tiny().translate(TEXT), model="tiny")
    notices = page.locator(".hl-notices")
    expect(notices).to_contain_text("it reads German")
    open_panel(page, "Step").locator(".hl-next .hl-choice").first.click()
    expect(notices).to_contain_text("After your change, the model is unsure of this translation.")
    expect(notices).not_to_contain_text("it reads German")


# Words


def test_merged_words_are_explained_by_a_pair_of_pieces_that_is_named(page: Page):
    choose(page, "Cross", 3, 2)
    view(page, "Join word pieces")
    page.mouse.click(*cell(page, 1, 1))
    panel = open_panel(page, "Cell")
    record = RESULT.attention
    places = [
        [place for place, one in enumerate(side) if one.word == 1]
        for side in (record.predicted, record.source)
    ]
    assert min(map(len, places)) > 1, "words of several pieces"
    rows, columns = places
    pairs = {(row, column): float(record.cross[2, 1, row, column]) for row in rows for column in columns}
    (row, column), weight = max(pairs.items(), key=lambda one: one[1])
    title = panel.locator(".hl-role").first
    expect(title).to_contain_text(f"{record.predicted[row].text} ← {record.source[column].text}")
    expect(title.locator(".hl-number")).to_have_text(f"weight {number(weight)}")
    merged = record.cross[:, :, rows][..., columns].sum(-1).mean(-1)
    expect(panel).to_contain_text("explained here is the strongest pair of pieces")
    shown = page.locator(".hl-readout .hl-value")
    assert float(shown.inner_text()) == pytest.approx(float(merged[2, 1]), abs=1e-4)
    expect(panel).to_contain_text(f"There, this cell has {shown.inner_text()}.")
    ranked = sorted(merged.flatten().tolist(), reverse=True)[:8]
    expect(panel).to_contain_text("The weights are those of whole words.")
    read = panel.locator(".hl-readers .hl-number").all_inner_texts()
    assert [float(text) for text in read] == pytest.approx(ranked, abs=1e-4)  # a digit, and codes of weights
    view(page, "Hide <s> and </s>")
    words = [place for place, one in enumerate(record.source) if one.word is not None]
    scaled = merged[2, 1] / record.cross[2, 1][rows][:, words].sum(-1).mean()
    expect(panel).to_contain_text("The matrix leaves out special tokens")
    assert float(shown.inner_text()) == pytest.approx(float(scaled), abs=1e-4)
    expect(panel).to_contain_text(f"There, this cell has {shown.inner_text()}.")
    expect(panel.locator(".hl-readers [aria-pressed=true] .hl-number")).to_have_text(shown.inner_text())


# Pins


def follow(page: Page, place: int) -> None:
    """Remove a word of the sentence, as a click on it does, and follow it."""
    page.locator(f".hl-chip[data-side=source][data-place='{place}']").click()
    page.get_by_role("button", name="Follow it").click()


@pytest.mark.slow
def test_a_token_on_each_side_is_a_cell(page: Page):
    choose(page, "Cross", 1, 1)
    page.locator(".hl-chip[data-side=target][data-place='2']").click()
    page.keyboard.press("Escape")
    page.locator(".hl-chip[data-side=target][data-place='2']").click()
    follow(page, 1)
    pin = page.evaluate("viewer.state().pin")
    assert pin["column"] == 1
    assert pin["row"] is not None
    page.mouse.move(0, 0)
    expect(page.locator(".hl-band-cell.hl-pinned")).to_be_visible()
    follow(page, 2)
    assert page.evaluate("viewer.state().pin") == pin | {"column": 2}
    page.get_by_role("button", name="Follow it").click()
    assert page.evaluate("viewer.state().pin") == pin | {"column": None}


# The whole page


def test_the_calls_of_the_menu_export_keep_the_forced_word(opened: Page):
    open_panel(opened, "Step").locator(".hl-next .hl-choice").first.click()
    expect(opened.locator(".hl-given")).to_have_text("first token given")
    opened.keyboard.press("m")
    expect(opened.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    forced = opened.evaluate("Headlight.viewer.state().record.tokens.predicted[0].id")
    opened.keyboard.press("e")
    python, shell = (opened.locator("#hl-export-menu .hl-call").nth(place) for place in (0, 1))
    expect(python).to_contain_text("/mute")
    expect(python).to_contain_text(f"forced=[{forced}]")
    expect(shell).to_contain_text(f"[{forced}]]")


def test_a_chapter_is_about_the_model_and_the_view_that_it_needs(
    visit: Visit, address: str, monkeypatch: pytest.MonkeyPatch
):
    page = visit(address)
    view(page, "Join word pieces")
    page.get_by_role("button", name="Learn", exact=True).click()
    page.get_by_role("button", name="Next", exact=True).click()
    expect(page.locator(".hl-translation")).to_have_text(TRANSLATORS["reverse"].translate("umbrella").text)
    assert page.evaluate("Headlight.viewer.state().words") is False
    learn = page.get_by_role("complementary", name="Learn")
    page.evaluate("""localStorage.setItem('headlight.learned', '{"guesses": {"5": 0, "6": 0}}')""")
    own = TRANSLATORS["de-en"]._translation
    for text, taught in (("Ein Hund schläft.", (2, 3)), ("Ein Hund läuft.", None)):
        monkeypatch.setattr(
            TRANSLATORS["de-en"],
            "_translation",
            lambda *given, taught=taught: replace(
                found := own(*given), attention=replace(found.attention, taught=taught)
            ),
        )
        page.goto("about:blank")  # a chapter is drawn once for a model
        page.goto(f"{address}#model=de-en&text={text}&learn=5")
        expect(page.locator(".hl-translation")).to_have_text(text.swapcase().replace(".", " ."))
        named = learn.get_by_text("was taught in training which words belong together: layer 3, head 4.")
        expect(named).to_have_count(1 if taught else 0)
        learn.get_by_role("button", name="Next").click()
        expect(learn).to_contain_text("Here the training does not say what a head should do.")
        other = learn.get_by_text("The training of “de-en” was different: it taught one head")
        expect(other).to_have_count(1 if taught else 0)
