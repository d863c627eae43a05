"""The instruments of the panels Step and Head: every number on screen is the tensor's."""

from __future__ import annotations

import math
from statistics import mean
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Show
from tests.browser.inspector import FAIL, HOLD, RELEASE, TEXT, ask, number, open_panel, signed, status, tiny
from tests.browser.screen import choose
from viz.instruments import contribution_values, lens_values, removal_values

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_tiny")]

RESULT = tiny().translate(TEXT)
STEP = 1
HALF_A_DIGIT = 0.005  # of a number with two decimals
LENS, WHY = "What would it say after each layer?", "Why this word?"


@pytest.fixture
def page(show: Show) -> Page:
    return show(RESULT, model="tiny")


def test_the_lens_has_the_word_of_each_layer_and_step(page: Page):
    found = lens_values(tiny(), TEXT, RESULT.ids)
    lens = ask(page, "Step", LENS)
    for step in range(len(RESULT.ids)):
        cells = lens.locator("tbody tr").nth(step).get_by_role("button")
        chances = [number(math.exp(layer[step][0]), 2) for layer in found["log_probabilities"]]
        expect(cells.locator(".hl-number")).to_have_text(chances)
        leads = found["leads_from"][step]
        expect(lens.locator("tbody tr").nth(step).locator(".hl-leads")).to_have_count(
            0 if leads is None else len(found["words"]) - leads
        )
    cell = lens.get_by_role("button", name="layer 2, step 3:")
    cell.click()
    five = lens.get_by_label("after layer 2").locator(".hl-number")
    expect(five).to_have_text([number(math.exp(chance)) for chance in found["log_probabilities"][1][2]])
    lens.get_by_role("button", name="layer 2, step 3:").click()
    expect(five).to_have_count(0)


def test_the_parts_of_a_word_sum_to_its_logit(page: Page):
    panel = open_panel(page, "Step")
    panel.get_by_role("button", name="step after").click()
    why = ask(page, "Step", WHY)
    word = RESULT.ids[STEP]
    found = contribution_values(tiny(), TEXT, RESULT.ids, STEP, word)
    expect(why.locator(".hl-total .hl-number")).to_have_text(signed(found["logit"], 2))
    parts = [
        float(text.replace("−", "-"))
        for text in why.locator(".hl-shares").first.locator("li:not(.hl-total) .hl-number").all_inner_texts()
    ]
    assert sum(parts) == pytest.approx(found["logit"], abs=0.04)
    expect_largest(why, found["decoder"])
    expect_map(why, found["decoder"]["heads"] | {"encoder": found["encoder"]["heads"]["encoder"]})
    why.get_by_role("button", name="Through all layers").click()
    expect_map(why, found["gradient"])
    why.get_by_role("grid", name="Decoder heads").get_by_role("gridcell").nth(4).click()
    expect(page.locator(".hl-centre h2")).to_have_text("Decoder · layer 2 · head 2")


def expect_largest(why: Locator, found: dict[str, Any]) -> None:
    """The ten largest parts of the word by their size, with the layer of each feed-forward network."""
    parts = {f"feed-forward, layer {number}": value for number, value in enumerate(found["feed_forward"], 1)}
    for kind in ("decoder", "cross"):
        for layer, row in enumerate(found["heads"][kind], 1):
            parts |= {f"{kind.capitalize()} {layer}.{head}": value for head, value in enumerate(row, 1)}
    listed = why.get_by_role("list", name="The largest parts").get_by_role("listitem")
    expect(listed).to_have_count(10)
    shown = [each.locator("span").all_inner_texts() for each in listed.all()]
    values = [float(texts[-1].replace("−", "-")) for texts in shown]
    assert [abs(value) for value in values] == sorted(map(abs, values), reverse=True)
    named = [texts[0] for texts in shown if texts[0] in parts]
    assert [texts[-1] for texts in shown if texts[0] in parts] == [signed(parts[name], 2) for name in named]
    missing = [abs(value) for name, value in parts.items() if name not in named]
    assert max(missing, default=0) <= abs(values[-1]) + HALF_A_DIGIT


def expect_map(why: Locator, values: dict[str, list[list[float]]]) -> None:
    """Every head in the grids, and the five that count most in a list."""
    order = sorted(
        (value for kind in values.values() for row in kind for value in row), key=abs, reverse=True
    )
    expect(why.locator(".hl-most .hl-number")).to_have_text([signed(value) for value in order[:5]])
    for kind, layers in values.items():
        cells = why.get_by_role("grid", name=f"{kind.capitalize()} heads").get_by_role("gridcell")
        names = [cell.get_attribute("aria-label") or "" for cell in cells.all()]
        assert [name.split(": ")[1] for name in names] == [signed(value) for row in layers for value in row]


def test_one_word_and_not_the_other(page: Page, asked: list):
    why = ask(page, "Step", WHY)
    other = next(one.token.id for one in RESULT.alternatives[0] if one.token.id != RESULT.ids[0])
    why.get_by_label("Compared with").select_option(str(other))
    found = contribution_values(tiny(), TEXT, RESULT.ids, 0, RESULT.ids[0], other)
    expect(why.locator(".hl-total .hl-number")).to_have_text(signed(found["logit"], 2))
    assert asked[-1]["other"] == other
    address = page.evaluate("location.hash")
    assert f"other={other}" in address
    assert "ask=contributions" in address


def test_a_link_opens_the_question(show: Show, asked: list):
    page = show(
        RESULT, "tiny", "v=2&model=tiny&kind=cross&layer=1&head=1&row=2&panel=step&ask=lens,contributions"
    )
    expect(page.locator(".hl-question[open]")).to_have_count(2)
    expect(page.locator(".hl-shares").first).to_be_visible()
    assert sorted(one["do"] for one in asked) == ["contributions", "lens"]
    assert next(one for one in asked if one["do"] == "contributions")["step"] == STEP


def test_a_question_follows_the_step_but_not_the_pointer(page: Page, asked: list):
    ask(page, "Step", WHY)
    page.locator(".hl-row-label").nth(2).hover()
    page.locator(".hl-row-label").nth(1).hover()
    page.mouse.move(0, 0)
    expect(page.locator(".hl-answer:not(.hl-stale) .hl-shares").first).to_be_visible()
    page.get_by_role("button", name="step after").click()
    expect(page.locator(".hl-answer:not(.hl-stale) .hl-shares").first).to_be_visible()
    assert [one["step"] for one in asked] == [0, 1, 2]


def verdict(curves: list[dict]) -> str:
    """What the page says of these curves, from a twentieth of the word's own probability on."""
    values = {curve["name"]: curve["probabilities"] for curve in curves}
    start = values["weight"][0]
    everything = [value for one in values.values() for value in one]
    if max(everything) - min(everything) < start / 20:
        return f"stays between {number(min(everything))} and {number(max(everything))}"
    weight, random = (mean(values[name][1:]) for name in ("weight", "random"))
    tells = "tell the truth" if random - weight >= start / 20 else "say little"
    return (
        f"The weights {tells} here: without the cells of the largest weights the word's average probability "
        f"is {number(weight)}; without as many random cells it is {number(random)}."
    )


@pytest.mark.parametrize(
    ("weight", "random"),
    [(0.2, 0.6), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((0.6, 0.5), (0.79, 0.8)))],
)
def test_the_verdict_follows_the_curves(page: Page, weight: float, random: float):
    ends = {"weight": weight, "norm": weight, "random": random}
    found = [{"name": name, "order": [], "probabilities": [0.8, end]} for name, end in ends.items()]
    page.evaluate(
        """(curves) => {
          const backend = window.askBackend;
          window.askBackend = async (request) => {
            const reply = await backend(request);
            return request.do === 'removal' ? { answer: { ...reply.answer, curves } } : reply;
          };
        }""",
        found,
    )
    choose(page, "Cross", 2, 3)
    page.locator(".hl-row-label").nth(1).click()
    chart = ask(page, "Head", "Do the weights tell the truth?")
    expect(chart.locator(".hl-verdict")).to_contain_text(verdict(found))


@pytest.mark.parametrize("kind", ["Cross", pytest.param("Encoder", marks=pytest.mark.slow)])
def test_the_curves_of_removed_cells(page: Page, kind: str):
    choose(page, kind, 2, 3)
    page.locator(".hl-row-label").nth(1).click()
    chart = ask(page, "Head", "Do the weights tell the truth?")
    step = 0 if kind == "Encoder" else 1
    found = removal_values(tiny(), TEXT, RESULT.ids, kind.lower(), 1, 1, step, 2)["curves"]
    key = chart.locator(".hl-chart-key .hl-number")
    expect(chart.locator(".hl-verdict")).to_contain_text(verdict(found))
    expect(chart.locator("figcaption")).to_contain_text("1 cell removed")
    expect(key).to_have_text([number(curve["probabilities"][1]) for curve in found])
    box = chart.locator(".hl-chart").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 40)
    expect(key).to_have_text([number(curve["probabilities"][-1]) for curve in found])
    page.keyboard.press("a")
    whole = removal_values(tiny(), TEXT, RESULT.ids, kind.lower(), 1, 1, step)["curves"]
    expect(chart).to_contain_text("of all heads of this layer")
    page.mouse.move(0, 0)
    expect(key).to_have_text([number(curve["probabilities"][1]) for curve in whole])


def test_an_encoder_row_must_be_chosen(page: Page, asked: list):
    choose(page, "Encoder", 1, 1)
    question = open_panel(page, "Head").locator("[data-question=removal]")
    question.locator("summary").click()
    expect(question).to_contain_text("Choose a source token")
    assert asked == []


@pytest.mark.parametrize("cancelled", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_question_without_an_answer_can_be_asked_again(page: Page, cancelled: bool):
    panel = open_panel(page, "Step")
    question = panel.locator("[data-question=lens]")
    page.evaluate(HOLD) if cancelled else page.evaluate(FAIL, "The server is full.")
    question.locator("summary").click()
    if cancelled:
        page.get_by_role("button", name="Cancel").click()
        page.evaluate(RELEASE)
    else:
        expect(status(page)).to_contain_text("The server is full.")
    expect(question).to_contain_text("There is no answer.")
    expect(question.locator("table")).to_have_count(0)
    expect(question.get_by_role("button", name="Ask again")).to_be_visible()


def test_nothing_is_asked_before_a_question_is_opened(page: Page, asked: list):
    panel = open_panel(page, "Step")
    assert panel.locator(".hl-question[open]").count() == 0
    assert asked == []
