"""Which value a cell shows: weights, norms, losses, differences; merged, renormalised and pale cells."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

from model.results import Token, Translation
from tests.browser.conftest import TRANSLATORS, Show, draw
from tests.browser.inspector import TEXT as TINY
from tests.browser.inspector import number, tiny
from tests.browser.screen import FIRST, choose, drawn, point, readout, view
from tests.browser.test_viewer_save import saved
from viz.instruments import leave_one_out_values

pytestmark = pytest.mark.browser

# What each button of the values shows, and its unit.
LABELS = {
    "Remove a word": ("loss", "nat"),
    "Weight": ("weight", ""),
    "Norm": ("norm", ""),
    "Norm share": ("share of the norm", ""),
    "Compare": ("difference", ""),
}
TEXT = FIRST.replace(
    ".", " ."
)  # as the fake translator repeats it, so that answers are about the same weights
RESULT = TRANSLATORS["de-en"].translate(TEXT)
RECORD = RESULT.attention


@pytest.fixture
def page(show: Show) -> Page:
    page = show(RESULT)
    choose(page, "Cross", 2, 3)
    return page


def mode(page: Page, name: str) -> None:
    if name in ("Weight", "Remove a word"):
        page.get_by_role("button", name=name, exact=True).click()
    else:
        view(page, name)


def value(page: Page) -> str:
    return page.locator(".hl-value").inner_text()


def test_norms_come_from_the_server_and_are_requested_once(page: Page, asked: list[dict]):
    mode(page, "Norm")
    point(page, 4, 3)
    expect(page.locator(".hl-readout")).to_contain_text(" norm ")
    norms = TRANSLATORS["de-en"].norm_weights(TEXT, RESULT.ids).cross[1, 2]
    assert value(page) == f"{norms[4, 3].item():.4f}"
    mode(page, "Weight")
    mode(page, "Norm")
    choose(page, "Encoder", 1, 1)
    assert [request["do"] for request in asked] == ["transformed_norm"]


@pytest.mark.usefixtures("with_tiny")
def test_a_loss_is_that_of_a_translation_without_a_source_word(show: Show):
    result = tiny().translate(TINY)
    found = leave_one_out_values(tiny(), TINY, result.ids)
    page = show(result, "tiny", address="kind=encoder&layer=1&head=1")
    mode(page, "Remove a word")
    expect(page.locator(".hl-centre h2")).to_have_text("Loss without each source word")
    point(page, 2, 1)
    expect(page.locator(".hl-readout")).to_contain_text("of its log p")
    assert value(page) == number(found["losses"][1][2])
    page.keyboard.press("w")
    words = [token.word for token in result.attention.source]
    long = next(word for word in words if word is not None and words.count(word) > 1)
    group = found["groups"].index([place for place, word in enumerate(words) if word == long])
    rows = [token.word for token in result.attention.predicted]
    steps = [step for step, word in enumerate(rows) if word == rows[0]]
    point(page, 0, long)
    assert value(page) == number(sum(found["losses"][group][step] for step in steps))
    choose(page, "Cross", 2, 1)
    expect(page.get_by_role("button", name="Weight", exact=True)).to_have_attribute("aria-pressed", "true")


@pytest.mark.usefixtures("with_tiny")
def test_every_value_names_itself_wherever_its_numbers_are(show: Show, tmp_path: Path):
    """The button, the readout, the colours (also in print), the table, the SVG, the link, the pinned cell."""
    page = show(tiny().translate(TINY), "tiny", address="kind=cross&layer=1&head=1&row=2&column=2")
    row, column = (
        token.text
        for token in (
            tiny().translate(TINY).attention.predicted[1],
            tiny().translate(TINY).attention.source[1],
        )
    )
    view(page, "Read as a table")
    for button in page.locator(".hl-toolbar [data-value]").all():
        name = button.text_content() or ""
        mode(page, name)
        expect(button).to_have_attribute("aria-pressed", "true")
        assert button.get_attribute("title")
        if button.get_attribute("data-value") == "difference":
            expect(page.locator(".hl-facts")).to_have_text("choose a second head to compare")
            page.keyboard.press("ArrowRight")
        name, unit = LABELS[name]
        page.mouse.move(5, 5)
        legend = page.locator(".hl-matrix-footer .hl-legend-row")
        expect(legend).to_have_text(re.compile(rf"^{name} .*{unit}$"))
        expect(page.locator(".hl-table caption")).to_have_text(re.compile(rf" · {name}$"))
        said = readout(page)
        assert (f" {unit} of its log p" if unit else f" {name} ") in said
        assert row in said
        assert column in said
        drawing = saved(page, "SVG picture", tmp_path).read_text("utf-8")
        assert f">{name} " in drawing
        assert escape(said, quote=False) in drawing
        again = show(tiny().translate(TINY), "tiny", address=page.evaluate("location.hash.slice(1)"))
        expect(again.locator(f"[data-value={button.get_attribute('data-value')}]")).to_have_attribute(
            "aria-pressed", "true"
        )
        expect(again.locator(".hl-readout")).to_have_text(said)


@pytest.mark.usefixtures("with_tiny")
def test_shares_of_norms_are_those_of_python(show: Show, asked: list[dict]):
    result = tiny().translate(TINY)
    page = show(result, "tiny", address="kind=cross&layer=2&head=2")
    shares = tiny().norm_weights(TINY, result.ids).row_shares()
    mode(page, "Norm")
    mode(page, "Norm share")
    for kind in ("Encoder", "Cross", "Decoder"):
        page.get_by_role("button", name=kind, exact=True).click()
        point(page, 1, 1)
        wanted = getattr(shares, kind.lower())
        layer, head = page.evaluate("[viewer.state().layer, viewer.state().head]")
        assert float(value(page)) == pytest.approx(wanted[layer, head, 1, 1].item(), abs=1e-4)
    assert [request["do"] for request in asked] == ["transformed_norm"], "both values are made of one answer"


def test_a_failed_request_for_values_keeps_the_weights_and_says_why(page: Page):
    page.evaluate("askBackend = async () => ({ error: 'The server is away; try again.' })")
    mode(page, "Norm")
    expect(page.get_by_text("The server is away; try again.")).to_be_visible()
    expect(page.get_by_role("button", name="Weight", exact=True)).to_have_attribute("aria-pressed", "true")
    point(page, 4, 3)
    assert value(page) == f"{RECORD.cross[1, 2, 4, 3].item():.4f}"


def test_compare_shows_the_difference_between_two_heads(page: Page):
    point(page, 4, 3)
    weight = value(page)
    mode(page, "Compare")
    point(page, 4, 3)
    assert value(page) == weight, "with nothing to compare with, there are weights and no zeros"
    page.mouse.move(5, 5)
    assert readout(page).startswith("Now choose the second head")
    expect(page.locator(".hl-facts")).to_have_text("choose a second head to compare")
    choose(page, "Cross", 4, 1)
    point(page, 4, 3)
    difference = (RECORD.cross[3, 0, 4, 3] - RECORD.cross[1, 2, 4, 3]).item()
    assert value(page) == f"{difference:+.4f}".replace("-", "−")
    expect(page.locator(".hl-facts")).to_have_text("each value: this view minus Cross · layer 2 · head 3")
    mode(page, "Compare")
    point(page, 4, 3)
    assert value(page) == f"{RECORD.cross[3, 0, 4, 3].item():.4f}"


@pytest.mark.slow
def test_another_translation_is_compared_at_the_tokens_in_common(page: Page):
    mode(page, "Compare")
    other = TRANSLATORS["de-en"].translate(TEXT.replace("kleine", "grosse"))
    draw(page, other)
    point(page, 0, 0)
    for row in (0, 1):
        point(page, row, 0)
        difference = (other.attention.cross[1, 2, row, 0] - RECORD.cross[1, 2, row, 0]).item()
        assert value(page) == f"{difference:+.4f}".replace("-", "−")
    assert readout(page).startswith("dER → GROSSE ≠ KLEINE ← Der ")
    draw(page, TRANSLATORS["de-en"].translate(f"Heute {TEXT}"))
    point(page, 0, 0)
    assert "has no counterpart in Cross · layer 2 · head 3 of “" in readout(page)


def test_hidden_specials_scale_up_the_rest_and_their_share_is_written(page: Page):
    view(page, "Hide <s> and </s>")
    rows, mass = RECORD.cross[1, 2, :-1], RECORD.cross[1, 2, :-1, -1]
    expect(page.locator(".hl-column-label")).to_have_count(len(RECORD.source) - 1)
    expect(page.locator(".hl-mass").nth(4)).to_have_text(f"{mass[4].item():.2f}")
    expect(page.locator(".hl-facts")).to_have_text(
        f"hidden {mass.mean().item():.4f} of a row on average, the rest scaled up"
    )
    point(page, 4, 3)
    assert float(value(page)) == pytest.approx((rows[4, 3] / (1 - mass[4])).item(), abs=1e-4)
    assert f"hidden {mass[4].item():.4f}" in readout(page)


def merged(translation: Translation) -> Translation:
    """The same with its second and third source tokens, and target tokens, as one word."""

    def together(tokens: tuple[Token, ...], first: int) -> tuple[Token, ...]:
        second = replace(tokens[first + 1], word=tokens[first].word)
        return (*tokens[: first + 1], second, *tokens[first + 2 :])

    record = translation.attention
    joined = replace(
        record,
        source=together(record.source, 1),
        read=together(record.read, 2),
        predicted=together(record.predicted, 1),
    )
    return replace(translation, attention=joined)


def test_merged_words_sum_keys_and_average_queries(show: Show):
    page = show(merged(RESULT))
    choose(page, "Cross", 2, 3)
    page.keyboard.press("w")
    expect(page.locator(".hl-column-label").nth(1)).to_have_text("kleineHund")
    expect(page.locator(".hl-row-label").nth(1)).to_have_text("dER→KLEINEhUND")
    point(page, 1, 1)
    block = RECORD.cross[1, 2, 1:3, 1:3]
    assert float(value(page)) == pytest.approx(block.sum(1).mean().item(), abs=1e-4)
    expect(page.locator(".hl-chip.hl-lit")).to_have_text(["kleine", "Hund", "KLEINE", "hUND"])
    page.keyboard.press("w")
    expect(page.locator(".hl-column-label").nth(1)).to_have_text("kleine")


@pytest.mark.slow
def test_the_threshold_pales_small_cells_and_keeps_their_values(page: Page):
    full = drawn(page)
    page.locator(".hl-toolbar .hl-menu > summary").click()
    page.get_by_label("Share of each row that is shown").fill("60")
    page.keyboard.press("Escape")
    assert drawn(page) != full
    row = RECORD.cross[1, 2, 4]
    column = int(row.argmin())
    point(page, 4, column)
    assert value(page) == f"{row[column].item():.4f}"
    page.locator(".hl-toolbar .hl-menu > summary").click()
    page.get_by_label("Share of each row that is shown").fill("100")
    page.mouse.move(5, 5)
    assert drawn(page) == full


def darkest(page: Page, row: int) -> bool:
    """Whether some cell of the row has the darkest colour of the lamp."""
    return page.locator(".hl-field canvas").evaluate(
        """(canvas, row) => {
          const height = canvas.height / document.querySelectorAll('.hl-row-label').length;
          const pixels = canvas.getContext('2d').getImageData(0, row * height + 3, canvas.width, 1).data;
          const colour = (_, at) => pixels.slice(4 * at, 4 * at + 3).join();
          return Array.from({ length: canvas.width }, colour).includes('43,15,0');
        }""",
        row,
    )


@pytest.mark.slow
def test_colour_by_row_gives_each_row_its_own_darkest(page: Page):
    row = int(RECORD.cross[1, 2].amax(-1).argmin())
    assert RECORD.cross[1, 2, row].max() < 0.95
    assert not darkest(page, row)
    view(page, "Colour by row")
    assert darkest(page, row)


@pytest.mark.slow
def test_the_key_n_cycles_through_the_values_that_the_kind_has(show: Show):
    page = show(RESULT)
    choose(page, "Encoder", 2, 3)
    pressed = page.locator(".hl-toolbar [data-value][aria-pressed=true]")
    for name in ("Norm", "Norm share", "Weight"):
        page.keyboard.press("n")
        expect(pressed).to_have_text(name)


@pytest.mark.slow
def test_the_arcs_show_the_values_of_the_matrix(page: Page):
    end = page.locator(".hl-chip[data-side=source]").last
    assert torch.argmax(RECORD.cross[1, 2], -1).eq(len(RECORD.source) - 1).any()
    end.hover()
    assert page.locator(".hl-arcs path.hl-lit").count() >= 1
    page.keyboard.press("s")
    page.locator(".hl-chip[data-side=source]").first.hover()
    end.hover()
    expect(page.locator(".hl-arcs path.hl-lit")).to_have_count(0)
    assert readout(page) == "This token is hidden."
