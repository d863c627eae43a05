"""The cell panel: its numbers are in the model's tensors."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from model.results import Head
from tests.browser.conftest import Show
from tests.browser.inspector import TEXT, ask, number, open_panel, signed, tiny
from tests.browser.screen import cell, choose
from viz.instruments import score_values, writing_values

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_tiny")]

RESULT = tiny().translate(TEXT)


@pytest.fixture
def page(show: Show) -> Page:
    return show(RESULT, model="tiny")


def pin(page: Page, row: int, column: int) -> None:
    page.mouse.click(*cell(page, row, column))


# Kind, layer, head, row and column.
CELLS = [
    ("Encoder", 2, 3, 1, 4),
    *(
        pytest.param(place, marks=pytest.mark.slow)
        for place in (("Cross", 3, 2, 2, 1), ("Decoder", 4, 1, 3, 2))
    ),
]
Cell = tuple[str, int, int, int, int]


@pytest.mark.parametrize("place", CELLS)
def test_a_cell_is_explained_by_the_numbers_of_the_model(page: Page, place: Cell):
    kind, layer, head, row, column = place
    choose(page, kind, layer, head)
    pin(page, row, column)
    assert_numbers(page, *place)
    assert_parts_of_the_score(page, *place)
    assert_words_written(page, *place)


def assert_numbers(page: Page, kind: str, layer: int, head: int, row: int, column: int) -> None:
    panel = open_panel(page, "Cell")
    weight = float(getattr(RESULT.attention, kind.lower())[layer - 1, head - 1, row, column])
    real = tiny().cell(TEXT, RESULT.ids, Head(kind.lower(), layer - 1, head - 1), row, column)
    expect(panel.locator(".hl-role .hl-number")).to_have_text(f"weight {number(weight)}")
    values = panel.locator(".hl-sum dd")
    expect(values.nth(0)).to_have_text(number(float(real.products.sum())))
    expect(values.nth(1)).to_have_text(number(real.score))
    expect(values.nth(3)).to_have_text(number(weight))
    expect(panel.locator(".hl-softmax .hl-this .hl-number").last).to_have_text(number(weight))
    norm, norms = float(real.norms[column]), float(real.norms.sum())
    expect(panel).to_contain_text(f"norm of weight × f(x){number(norm)}")
    expect(panel).to_contain_text(
        f"share of the row’s total, {number(norms)}{number(100 * norm / norms, 1)} %"
    )
    heads = getattr(RESULT.attention, kind.lower())[:, :, row, column].flatten().tolist()
    readers = panel.locator(".hl-readers .hl-number").all_inner_texts()
    assert [float(text) for text in readers] == pytest.approx(sorted(heads, reverse=True)[:8], abs=1e-4)
    place = 1 + sum(other > weight for other in heads)
    expect(panel).to_contain_text(f"The head on screen is number {place}.")
    panel.get_by_text("All numbers").click()
    triples = zip(real.query.tolist(), real.key.tolist(), real.products.tolist(), strict=True)
    texts = [f"{number(query)} × {number(key)} = {number(product)}" for query, key, product in triples]
    expect(panel.locator(".hl-all-numbers li")).to_have_text(texts)


def test_pointing_at_a_dimension_reads_its_numbers(page: Page):
    choose(page, "Cross", 1, 1)
    pin(page, 0, 0)
    panel = open_panel(page, "Cell")
    real = tiny().cell(TEXT, RESULT.ids, Head("cross", 0, 0), 0, 0)
    box = panel.locator(".hl-vectors").bounding_box()
    width = len(real.query)
    page.mouse.move(box["x"] + 2.5 * box["width"] / width, box["y"] + 30)
    product = (
        f"{number(float(real.query[2]))} × {number(float(real.key[2]))} = {number(float(real.products[2]))}"
    )
    expect(panel.locator(".hl-dimension")).to_have_text(f"3 of {width}: {product}")


def test_only_the_open_panel_sends_a_request_and_only_for_a_pinned_cell(page: Page, asked: list):
    choose(page, "Cross", 1, 1)
    pin(page, 0, 0)
    assert asked == []
    panel = open_panel(page, "Cell")
    expect(panel.locator(".hl-sum")).to_be_visible()
    page.mouse.move(*cell(page, 2, 1))
    open_panel(page, "Head")
    open_panel(page, "Cell")
    assert len(asked) == 1
    score = tiny().cell(TEXT, RESULT.ids, Head("cross", 0, 1), 0, 0).score
    choose(page, "Cross", 1, 2)
    expect(panel.locator(".hl-sum dd").nth(1)).to_have_text(number(score))
    assert [(each["do"], each["head"]) for each in asked] == [("cell", 0), ("cell", 1)]


def test_a_cell_without_query_and_key_says_why(page: Page, asked: list):
    panel = open_panel(page, "Cell")
    expect(panel).to_have_text("Click a cell of the matrix to see how its weight is computed.")
    choose(page, "Decoder", 1, 1)
    pin(page, 1, 3)
    expect(panel).to_contain_text("The mask forbids this cell")
    page.keyboard.press("a")
    expect(panel).to_contain_text("choose one head")
    assert asked == []


def group(part: dict) -> str:
    """Return the line of the small matrix that a part is in."""
    layer = (part["layer"] or 0) + 1
    names = {"head": f"{part['kind'].capitalize()} {layer}", "feed forward": f"Feed-fwd {layer}"}
    return {**names, "bias": "biases"}.get(part["name"], part["name"])


def assert_parts_of_the_score(page: Page, kind: str, layer: int, head: int, row: int, column: int) -> None:
    why = ask(page, "Cell", "Why does it look there?")
    asked = kind.lower(), layer - 1, head - 1, row, column
    found = score_values(tiny(), TEXT, RESULT.ids, *asked)
    expect(why.locator(".hl-fact .hl-number")).to_have_text(number(found["score"]))
    cells: dict[str, float] = {}
    for query, values in zip(found["query_parts"], found["matrix"], strict=True):
        for key, value in zip(found["key_parts"], values, strict=True):
            name = f"{group(query)} × {group(key)}"
            cells[name] = cells.get(name, 0) + value
    names = [cell.get_attribute("aria-label") or "" for cell in why.locator(".hl-map-cell").all()]
    assert [name.split(": ")[0] for name in names] == list(cells)
    values = [float(name.split(": ")[1].replace("−", "-")) for name in names]
    assert values == pytest.approx(list(cells.values()), abs=1.1e-4)  # a sum of rounded numbers
    assert sum(cells.values()) == pytest.approx(found["score"], abs=1e-4)
    largest = sorted((abs(value) for line in found["matrix"] for value in line), reverse=True)[:5]
    pairs = why.get_by_label("Strongest pairs").locator(".hl-number").all_inner_texts()
    assert [abs(float(text.replace("−", "-"))) for text in pairs] == pytest.approx(largest, abs=0.0051)


def assert_words_written(page: Page, kind: str, layer: int, head: int, row: int, column: int) -> None:
    what = ask(page, "Cell", "What does it write from there?")
    asked = kind.lower(), layer - 1, head - 1, row, column
    found = writing_values(tiny(), TEXT, RESULT.ids, *asked)
    for name in ("up", "down"):
        numbers = what.get_by_label(f"Words pushed {name}").locator(".hl-number")
        expect(numbers).to_have_text([signed(change, 2) for _, change in found[name]])
    expect(what.locator(".hl-fact .hl-number")).to_have_text([number(found["norm"]), number(found["weight"])])
    expect(what.get_by_text("source language")).to_have_count(int(kind == "Encoder"))
