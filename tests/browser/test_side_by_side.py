"""Two sides: two sentences, two models and two training steps next to each other, or as a difference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from model.results import Translation
from tests.browser.conftest import TRANSLATORS, Show
from tests.browser.inspector import FAIL, number, open_panel, signed
from tests.browser.screen import view
from tests.browser.test_panels_training import (
    SENTENCES,
    STEPS,
    answer_with,
    recorded,
    training,
    training_step,
)

OF_TRAINING = f"“{SENTENCES[0]}” · training, step"

pytestmark = pytest.mark.browser

TEXT = "Der Hund schläft heute hier."
OTHER = "Der Hund schläft morgen hier."
FAR = "Guten Tag"
RESULT = TRANSLATORS["de-en"].translate(TEXT)
BESIDE = TRANSLATORS["de-en"].translate(OTHER)


def open_bar(page: Page) -> Locator:
    page.get_by_role("button", name="Side by side").click()
    return page.get_by_label("Side by side", exact=True)


def beside_sentence(page: Page, text: str) -> None:
    box = page.get_by_label("Another sentence", exact=True)
    box.fill(text)
    box.press("Enter")


def second(page: Page, panel: str) -> Locator:
    """A panel of B: Tokens, Heads or Matrix."""
    return page.get_by_label(f"{panel} of B", exact=True)


def first(page: Page, panel: str) -> Locator:
    return page.get_by_label(panel, exact=True)


def point(panel: Locator, row: int, column: int) -> None:
    """Point at a cell of a matrix; rows and columns count from 0."""
    box = panel.locator(".hl-field canvas").bounding_box()
    assert box is not None
    rows, columns = (panel.locator(f".hl-{side}-label").count() for side in ("row", "column"))
    x, y = (column + 0.5) * box["width"] / columns, (row + 0.5) * box["height"] / rows
    panel.page.mouse.move(box["x"] + x, box["y"] + y)


def value(result: Translation, head: tuple[int, int], row: int, column: int) -> float:
    """A weight of cross-attention; layers and heads count from 1."""
    layer, place = head
    return round(float(result.attention.cross[layer - 1, place - 1, row, column]) * 65535) / 65535


@pytest.fixture
def page(show: Show) -> Page:
    """Two sentences that differ in one word."""
    page = show(RESULT)
    open_bar(page)
    beside_sentence(page, OTHER)
    choose_head(page, 2, 3)
    return page


def choose_head(page: Page, layer: int, head: int, side: str = "Heads") -> None:
    page.get_by_label(side, exact=True).get_by_role("gridcell", name=f"layer {layer}, head {head}").click()


def test_the_difference_is_that_of_the_weights(page: Page, tmp_path: Path) -> None:
    expect(first(page, "Matrix").locator("h2")).to_have_text("A − B · Cross · layer 2 · head 3")
    expect(second(page, "Matrix")).to_have_count(0)
    expect(first(page, "Matrix").locator(".hl-facts")).to_contain_text("each value: A minus B")
    for row, column in ((0, 0), (1, 2), (4, 1)):
        difference = value(RESULT, (2, 3), row, column) - value(BESIDE, (2, 3), row, column)
        point(first(page, "Matrix"), row, column)
        expect(first(page, "Matrix").locator(".hl-readout .hl-value")).to_have_text(
            re.compile(rf"\+?{re.escape(signed(difference).lstrip('+'))}")
        )
    readout, facts = (first(page, "Matrix").locator(f".hl-{name}") for name in ("readout", "facts"))
    point(first(page, "Matrix"), 3, 0)
    difference = value(RESULT, (2, 3), 3, 0) - value(BESIDE, (2, 3), 3, 0)
    expect(readout).to_contain_text(f"HEUTE ≠ MORGEN ← Der difference {signed(difference)}")
    expect(facts).not_to_contain_text("dotted")
    differing = [side(page, "Tokens").locator(".hl-differs") for side in (first, second)]
    for chips, words in zip(differing, (["heute", "HEUTE"], ["morgen", "MORGEN"]), strict=True):
        expect(chips).to_have_text(words)
    beside_sentence(page, "Der Hund schläft hier.")
    expect(facts).to_contain_text("dotted: no counterpart in B")
    point(first(page, "Matrix"), 3, 0)
    expect(readout).to_contain_text("has no counterpart in B")
    for chips, words in zip(differing, (["heute", "HEUTE"], []), strict=True):
        expect(chips).to_have_text(words)
    first(page, "Matrix").locator(".hl-matrix").focus()  # the box of the sentence takes letters
    picture(page, tmp_path / "dotted.svg")
    fills = {node.get("fill") for node in ElementTree.parse(tmp_path / "dotted.svg").iter()}
    assert "url(#dots)" in fills
    assert "url(#hatch)" not in fills  # the mask forbids no cell of cross-attention
    page.get_by_role("button", name="Close").click()
    expect(differing[0]).to_have_count(0)


def test_the_heads_are_ranked_by_how_much_they_differ(page: Page) -> None:
    panel = open_panel(page, "Head")
    ranked = panel.locator("section", has_text="Heads that differ most").locator("li")
    expect(ranked).to_have_count(8)
    names, values = [], []
    for line in ranked.all():
        *name, value = line.inner_text().split("\n")
        names.append("".join(name))
        values.append(float(value))
    # One word replaces another in its place, so every row and column has a counterpart.
    differences = {
        f"{kind.capitalize()}, layer {layer + 1}, head {head + 1}": float(
            (ours[layer, head] - theirs[layer, head]).abs().sum() / 2 / len(ours[layer, head])
        )
        for kind in ("encoder", "decoder", "cross")
        for ours, theirs in ((getattr(RESULT.attention, kind), getattr(BESIDE.attention, kind)),)
        for layer in range(4)
        for head in range(8)
    }
    assert values == pytest.approx([differences[name] for name in names], abs=1e-4)
    assert values == pytest.approx(sorted(differences.values(), reverse=True)[:8], abs=1e-4)
    ranked.first.get_by_role("button").click()
    kind, layer, head = re.findall(r"^\w+|\d+", names[0])
    expect(first(page, "Matrix").locator("h2")).to_have_text(f"A − B · {kind} · layer {layer} · head {head}")
    page.get_by_role("button", name="Close").click()
    expect(panel.get_by_text("Heads that differ most")).to_have_count(0)


@pytest.mark.slow
def test_next_to_each_other_each_side_has_its_own_numbers(page: Page) -> None:
    page.get_by_role("button", name="Next to each other").click()
    for panel, title in ((first(page, "Matrix"), "A"), (second(page, "Matrix"), "B")):
        expect(panel.locator("h2")).to_have_text(f"{title} · Cross · layer 2 · head 3")
    point(second(page, "Matrix"), 2, 1)
    for panel, result in ((first(page, "Matrix"), RESULT), (second(page, "Matrix"), BESIDE)):
        expect(panel.locator(".hl-readout .hl-value")).to_have_text(number(value(result, (2, 3), 2, 1)))
    lit = first(page, "Tokens").locator(".hl-chip.hl-lit"), second(page, "Tokens").locator(".hl-chip.hl-lit")
    for chips in lit:
        expect(chips).to_have_text(["Hund", "SCHLÄFT"])
    point(second(page, "Matrix"), 3, 1)  # the word in the place of another one
    expect(lit[0]).to_have_text(["Hund", "HEUTE"])
    expect(lit[1]).to_have_text(["Hund", "MORGEN"])


def test_colours_mean_the_same_on_both_sides(page: Page) -> None:
    """The marks of the heads, once they are measured, and matrices of values without a bound."""
    open_panel(page, "What if").get_by_role("button", name="Try all 96 heads").click()
    for side in (first(page, "Heads"), second(page, "Heads")):
        expect(side.get_by_text("Marks:")).to_be_visible()
    view(page, "Norm")
    sides = (first(page, "Matrix"), second(page, "Matrix"))
    ends = [side.locator(".hl-matrix-footer .hl-legend-row") for side in sides]
    expect(ends[0]).not_to_have_text("01")
    expect(ends[1]).to_have_text(ends[0].text_content() or "")


def test_a_choice_on_either_side_is_one_for_both(page: Page) -> None:
    page.get_by_role("button", name="Next to each other").click()
    choose_head(page, 4, 8, "Heads of B")
    second(page, "Heads").get_by_role("button", name="Decoder").click()
    titles = [panel.locator("h2") for panel in (first(page, "Matrix"), second(page, "Matrix"))]
    for title, side in zip(titles, "AB", strict=True):
        expect(title).to_have_text(f"{side} · Decoder · layer 4 · head 8")
    page.keyboard.press("a")
    view(page, "Norm")
    for title in titles:
        expect(title).to_contain_text("average of its heads")
    expect(page.locator(".hl-readout").nth(1)).to_contain_text("norm")
    first(page, "Tokens").get_by_role("button", name="Word links").click()
    expect(first(page, "Tokens").get_by_role("button", name="Word links")).to_be_visible()
    expect(second(page, "Tokens").get_by_role("button", name="Word links")).to_be_hidden()


def test_each_side_is_named_and_sentences_with_little_in_common_have_no_difference(page: Page) -> None:
    for panel, side, text in ((first(page, "Tokens"), "A", TEXT), (second(page, "Tokens"), "B", OTHER)):
        title = "de-en" if side == "A" else TRANSLATORS["de-en"].title
        expect(panel.locator(".hl-analysed")).to_have_text(f"{side} · “{text}” · {title}")
    expect(first(page, "Heads").locator("h2")).to_have_text("Heads A")
    expect(second(page, "Heads").locator("h2")).to_have_text("Heads B")
    expect(page.get_by_label("Inspector").locator(".hl-status")).to_have_text(
        "About A: the model’s own translation"
    )
    beside_sentence(page, FAR)
    expect(page.locator(".hl-beside-notice")).to_contain_text("too few tokens")
    expect(second(page, "Matrix")).to_be_visible()
    expect(page.get_by_role("button", name="Difference")).to_be_disabled()


def test_a_link_opens_both_sides(page: Page, show: Show) -> None:
    page.get_by_role("button", name="Next to each other").click()
    point(second(page, "Matrix"), 2, 1)
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(5, 5)
    address = page.evaluate("location.hash")
    again = show(RESULT, address=address[1:])
    for side in (first, second):
        here, there = (side(each, "Matrix").locator(".hl-readout") for each in (page, again))
        expect(there).to_have_text(here.inner_text())
    expect(again.get_by_label("Another sentence", exact=True)).to_have_value(OTHER)
    assert again.evaluate("location.hash") == address
    again.get_by_role("button", name="Close").click()
    expect(second(again, "Matrix")).to_have_count(0)
    again.go_back()
    expect(second(again, "Matrix").locator("h2")).to_have_text("B · Cross · layer 2 · head 3")
    assert again.evaluate("location.hash") == address


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {"beside": "step", "with": "../1"},
        {"beside": "nothing", "with": "x"},
        {"beside": "sentence"},
        {"beside": "model", "with": "x" * 256},
    ],
)
def test_an_invalid_part_of_a_link_is_ignored(show: Show, parameters: dict[str, str]) -> None:
    page = show(RESULT, address=urlencode({"kind": "cross", "layer": 2, "head": 3, **parameters}))
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · head 3")
    expect(page.locator(".hl-beside-bar")).to_have_count(0)


@pytest.mark.slow
def test_a_picture_holds_both_sides(page: Page, tmp_path: Path) -> None:
    texts = picture(page, tmp_path / "one.svg")
    assert "A − B · Cross · layer 2 · head 3" in texts
    assert any(text.startswith("B: ") and BESIDE.source_text in text for text in texts)
    page.get_by_role("button", name="Next to each other").click()
    texts = picture(page, tmp_path / "two.svg")
    assert {"A · Cross · layer 2 · head 3", "B · Cross · layer 2 · head 3"} <= set(texts)


def picture(page: Page, path: Path) -> list[str]:
    """The texts of the SVG that the menu saves."""
    page.keyboard.press("e")
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG picture").click()
    download.value.save_as(path)
    page.keyboard.press("Escape")
    words = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    return [re.sub("[\u2068\u2069]", "", word.text or "") for word in words]


def test_nothing_is_there_until_it_is_asked_for_and_what_fails_can_be_asked_again(
    show: Show, asked: list
) -> None:
    page = show(RESULT)
    for hidden in (".hl-beside-bar", ".hl-strip:nth-child(2)", ".hl-heads ~ .hl-heads"):
        expect(page.locator(hidden)).to_have_count(0)
    bar = open_bar(page)
    expect(bar).to_contain_text("Choose a second view, B")
    assert [one["do"] for one in asked if one["do"] != "training"] == []
    bar.get_by_role("button", name="Close").click()
    expect(bar).to_have_count(0)
    assert "beside" not in page.evaluate("location.hash")
    open_bar(page)
    page.evaluate("window.working = window.askBackend")
    page.evaluate(FAIL, "The server is full.")
    beside_sentence(page, OTHER)
    expect(page.locator(".hl-beside-notice")).to_have_text("The server is full.")
    expect(second(page, "Tokens")).to_have_count(0)
    page.evaluate("window.askBackend = window.working")
    page.get_by_label("Another sentence", exact=True).press("Enter")
    expect(second(page, "Tokens")).to_be_visible()


@pytest.mark.slow
def test_two_steps_of_the_training(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, "training", training)
    answer_with(monkeypatch, "training_step", training_step)
    page = show(RESULT)
    open_bar(page)
    page.get_by_label("Another training step").select_option("10")
    expect(first(page, "Tokens").locator(".hl-analysed")).to_contain_text(f"A · {OF_TRAINING} {STEPS[-1]}")
    expect(second(page, "Tokens").locator(".hl-analysed")).to_contain_text(f"B · {OF_TRAINING} 10 ·")
    choose_head(page, 2, 3)
    point(first(page, "Matrix"), 1, 0)
    difference = value(recorded(1000, 0), (2, 3), 1, 0) - value(recorded(10, 0), (2, 3), 1, 0)
    expect(first(page, "Matrix").locator(".hl-readout .hl-value")).to_contain_text(number(difference))
    page.get_by_label("Saved step of the training").fill("1")
    expect(first(page, "Tokens").locator(".hl-analysed")).to_contain_text(f"A · {OF_TRAINING} {STEPS[1]}")
    open_panel(page, "Training").get_by_label("Sentence", exact=True).select_option("1")
    expect(second(page, "Tokens").locator(".hl-translation")).to_have_text("GUTEN TAG IHR ALLE")
    address = page.evaluate("location.hash")
    again = show(RESULT, address=address[1:])
    expect(second(again, "Tokens").locator(".hl-analysed")).to_contain_text(
        f"B · “{SENTENCES[1]}” · training, step 10 ·"
    )
    assert again.evaluate("location.hash") == address
    again.get_by_role("button", name="Back to the model’s translation").click()
    expect(second(again, "Tokens")).to_have_count(0)
    expect(again.locator(".hl-beside-notice")).to_contain_text("Choose a step again")


@pytest.mark.slow
def test_on_a_phone_one_is_below_the_other(show: Show) -> None:
    page = show(RESULT, width=380)
    open_bar(page)
    beside_sentence(page, OTHER)
    page.get_by_role("button", name="Next to each other").click()
    for panel in ("Tokens", "Heads", "Matrix"):
        boxes = [side(page, panel).bounding_box() for side in (first, second)]
        assert boxes[0]["x"] == boxes[1]["x"]
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
        assert boxes[1]["x"] + boxes[1]["width"] <= 380
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


@pytest.mark.slow
def test_the_second_side_follows_the_theme(page: Page) -> None:
    canvas = second(page, "Heads").locator(".hl-picture canvas").first
    light = canvas.evaluate("canvas => canvas.toDataURL()")
    page.emulate_media(color_scheme="dark")
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_function(
        "([canvas, light]) => canvas.toDataURL() !== light", arg=[canvas.element_handle(), light]
    )


@pytest.fixture(scope="module")
def whole(browser: Browser, address: str) -> Iterator[Page]:
    """The whole page, which has other models."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(10_000)
    page.goto(f"{address}#{urlencode({'model': 'de-en', 'text': TEXT})}")
    page.locator(".hl-thumbnail").first.wait_for()
    yield page
    page.close()


@pytest.mark.slow
def test_two_models_of_different_sizes(whole: Page) -> None:
    open_bar(whole)
    models = whole.get_by_label("Another model", exact=True)
    names = models.locator("option").evaluate_all("all => all.map((one) => one.value)")
    assert sorted(names) == ["", "large", "reverse", "smallest"]
    assert names[-1] == "reverse"  # it reads another language
    models.select_option("large")
    expect(second(whole, "Tokens").locator(".hl-analysed")).to_have_text(
        f"B · “{TEXT}” · 12 layers, 16 heads"
    )
    choose_head(whole, 2, 3)
    large = TRANSLATORS["large"].translate(TEXT)
    point(first(whole, "Matrix"), 1, 2)
    difference = value(RESULT, (2, 3), 1, 2) - value(large, (2, 3), 1, 2)
    expect(first(whole, "Matrix").locator(".hl-readout .hl-value")).to_contain_text(number(difference))
    for panel in ("Tokens", "Heads", "Matrix"):
        assert ends_above(first(whole, panel), 900)
    pages = whole.get_by_label("Heads of B", exact=True).get_by_role("group", name="Pages of the heads")
    pages.get_by_role("button").nth(4).click()  # two layers a page
    choose_head(whole, 9, 12, "Heads of B")
    expect(second(whole, "Matrix").locator("h2")).to_have_text("B · Cross · layer 9 · head 12")
    expect(first(whole, "Matrix").locator("h2")).to_have_text("A · Cross · layer 2 · head 3")
    for panel in ("Tokens", "Heads", "Matrix"):
        assert ends_above(second(whole, panel), 900)
    notice = whole.locator(".hl-beside-notice")
    expect(notice).to_contain_text("A has no head 9.12: it has 4 × 8")
    models.select_option("smallest")
    expect(notice).to_contain_text("B has no head 2.3: it has 1 × 1")
    expect(second(whole, "Matrix").locator("h2")).to_have_text("B · Cross · layer 1 · head 1")
    export = whole.locator("#hl-export")
    export.click()
    expect(whole.get_by_text("The files hold A alone")).to_be_visible()
    export.click()
    whole.get_by_label("Side by side", exact=True).get_by_role("button", name="Close").click()
    export.click()
    expect(whole.get_by_role("button", name="Copy link")).to_be_visible()
    expect(whole.get_by_text("The files hold A alone")).to_have_count(0)


def ends_above(panel: Locator, height: float) -> bool:
    """Whether the page need not be scrolled to see all of the panel."""
    box = panel.bounding_box()
    return box is not None and box["y"] + box["height"] <= height
