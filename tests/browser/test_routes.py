"""Routes: the picture has the lines of the answer, and each line through a head opens its cell."""

from __future__ import annotations

import math
import re
from itertools import combinations

import pytest
from playwright.sync_api import Page, expect

from model.results import Head
from tests.browser.conftest import Show
from tests.browser.inspector import TEXT, ask, tiny
from viz.instruments import route_values

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_tiny")]
RESULT = tiny().translate(TEXT)
STEP = 2
FOUND = route_values(tiny(), TEXT, RESULT.ids, STEP)


@pytest.fixture
def page(show: Show) -> Page:
    page = show(RESULT, "tiny", address=f"panel=step&kind=cross&layer=1&head=all&row={STEP + 1}")
    ask(page, "Step", "Which way did this word come?")
    return page


def lines(least: float) -> int:
    return sum(one["flow"] >= least for one in FOUND["connections"])


def test_the_picture_has_a_line_for_each_connection_that_carries_enough(page: Page):
    picture = page.locator(".hl-routes")
    expect(picture.locator(".hl-route")).to_have_count(lines(0.04))
    heads = sum(one["head"] is not None for one in FOUND["connections"] if one["flow"] >= 0.04)
    expect(picture.get_by_role("button")).to_have_count(heads)
    names = picture.locator(".hl-route-head text").all_text_contents()
    assert all(re.fullmatch(r"(Encoder|Decoder|Cross) \d\.\d", name) for name in names), names
    text = RESULT.attention.predicted[STEP].text.strip()
    expect(picture.locator(".hl-route-word")).to_have_text(text)
    page.get_by_label("Lines that carry at least").fill("10")
    expect(picture.locator(".hl-route")).to_have_count(lines(0.1))
    expect(page.locator("[data-question=routes]")).to_contain_text("10 %")
    boxes = [one.bounding_box() for one in picture.locator(".hl-route-head text").all()]
    for one, other in combinations(boxes, 2):
        across = max(one["x"], other["x"]) - min(one["x"] + one["width"], other["x"] + other["width"])
        down = abs(one["y"] - other["y"])
        assert across > 0 or down > one["height"] / 2, "names overlap"  # half of a box is room for letters
    assert "flow=0.1" in page.evaluate("location.hash")
    page.get_by_role("button", name="step after").click()  # another word has its own routes
    text = RESULT.attention.predicted[STEP + 1].text.strip()
    expect(page.locator(".hl-route-word")).to_have_text(text)


def test_a_silenced_head_says_in_the_large_picture_what_it_changed(page: Page):
    page.get_by_role("button", name="Large picture").click()
    large = page.get_by_role("dialog", name="Which way did this word come?")
    expect(large.locator(".hl-route")).to_have_count(lines(0.04))
    box = large.locator("svg").bounding_box()
    assert box is not None
    assert box["width"] > 1000
    line = large.locator("[data-head]").first
    line.focus()
    page.keyboard.press("Enter")
    kind, layer, head = (line.get_attribute("data-head") or "").split(",")
    found = tiny().mute(TEXT, [Head(kind, int(layer), int(head))], target=RESULT.ids)
    factor = math.exp(sum(found.differences))
    outcome = large.get_by_role("status")
    expect(outcome).to_contain_text(f"{factor:.2f} times as likely")
    expect(outcome).to_contain_text(
        "the same translation" if found.ablated.text == RESULT.text else found.ablated.text
    )
    expect(large.locator(".hl-muted").first).to_be_visible()


def test_a_line_lights_its_path_and_opens_the_cell_of_its_head(page: Page):
    first = page.locator(".hl-routes").get_by_role("button").first
    name = first.get_attribute("aria-label")
    first.focus()
    assert page.locator(".hl-route.hl-lit").count() >= 1
    page.keyboard.press("Enter")
    expect(page.locator(".hl-panel-cell")).to_be_visible()
    kind, layer, head = (page.evaluate(f"viewer.state().{each}") for each in ("kind", "layer", "head"))
    assert name.startswith(f"{kind.capitalize()}, layer {layer + 1}, head {head + 1}:")
    pin = page.evaluate("viewer.state().pin")
    assert any(
        (one["kind"], one["layer"], one["head"], one["row"], one["column"])
        == (kind, layer, head, pin["row"], pin["column"])
        for one in FOUND["connections"]
    )
