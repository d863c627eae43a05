"""Heads over a corpus: the card of a head, the head finder, and how many heads can go."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Page, expect

from model.analysis.corpus import HEADS, save_heads
from model.instruments import make_lens, measure_corpus, translate_corpus
from model.results import KINDS
from tests.browser.conftest import TRANSLATORS, Show
from tests.browser.inspector import TEXT, ask, number, open_panel, tiny
from tests.browser.screen import choose
from tests.model.helpers import SENTENCES
from tests.numerics import EXACT
from viz.about import study_of
from viz.instruments import lens_values

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_tiny")]

RESULT = tiny().translate(TEXT)
MEASURED = measure_corpus(tiny(), SENTENCES)
REMOVAL = {
    "score": "BLEU",
    "choosing": 4,
    "reporting": 8,
    "curves": {
        group: {
            "heads": [["cross", 1, 2], ["cross", 0, 1]],
            "points": [[0, 0.0, 0.0, 30.0], [1, 0.1, 0.05, 29.0], [2, 0.4, 0.3, 21.5]],
        }
        for group in ("all", *KINDS)
    },
}
LAYER, HEAD = 1, 2


@pytest.fixture
def page(show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """The head with the model's file."""
    save_heads(MEASURED | {"removal": REMOVAL}, tmp_path)
    monkeypatch.setattr(TRANSLATORS["tiny"], "directory", tmp_path)
    assert (tmp_path / HEADS).is_file()
    page = show(RESULT, model="tiny", about={"tiny": {"study": study_of(TRANSLATORS["tiny"])}})
    choose(page, "Encoder", LAYER + 1, HEAD + 1)
    return page


def test_the_card_has_the_figures_and_the_sentences_of_the_file(page: Page):
    panel = open_panel(page, "Head")
    panel.get_by_text("What does it do over many sentences?").click()
    card = MEASURED["heads"]["encoder"][LAYER][HEAD]
    share = int(100 * card["explained"] + 1e-6)  # rounded down, as beside the role
    expect(panel.locator(".hl-explained .hl-number")).to_have_text(f"{share} %")
    role, evidence = card["nearest"]
    if MEASURED["roles"]["encoder"][LAYER][HEAD] == "mixed":
        expect(panel.locator(".hl-explained")).to_contain_text(f"mixed, nearest: {role}")
    if role != "separator sink":
        expect(panel).to_contain_text(
            f"In {int(100 * evidence + 1e-6)} % of the rows its strongest weight is there"
        )
    sinks = round(100 * MEASURED["measures"]["encoder"]["sinks"][LAYER][HEAD])
    expect(panel).to_contain_text(f"final punctuation get {sinks} % of all its weight")
    assert panel.locator(".hl-histogram").count() == 3
    for name, picture in zip(
        ("distances", "largest", "entropies"), panel.locator(".hl-histogram").all(), strict=True
    ):
        most = max(card[name])
        heights = [float(bar.get_attribute("height") or 0) for bar in picture.locator("rect + rect").all()]
        assert heights == pytest.approx([40 * count / most for count in card[name]], abs=0.05 + EXACT)
    words = panel.locator(".hl-most-read").first.locator("bdi")
    expect(words).to_have_text([word for word, *_ in card["to"]])
    cells = [cell for _, cells in card["intervals"] for cell in cells]
    links = panel.locator("a.hl-hit")
    expect(links.locator(".hl-number")).to_have_text([f"{cell[3]:.2f}" for cell in cells])
    expect(panel).to_contain_text("Not the best cases alone")
    for link, (sentence, row, column, *_) in zip(links.all(), cells, strict=True):
        address = {
            name: values[0] for name, values in parse_qs((link.get_attribute("href") or "")[1:]).items()
        }
        assert address["text"] == MEASURED["sentences"][sentence]
        assert (address["row"], address["column"]) == (str(row + 1), str(column + 1))
        assert (address["kind"], address["layer"], address["head"]) == ("encoder", "2", "3")
        assert (address["beam"], address["ask"]) == ("4", "corpus")
    assert "ask=corpus" in page.url  # the address of the view has the card


def test_the_lens_that_is_right_more_often_comes_first_and_the_page_says_why(page: Page):
    translator = TRANSLATORS["tiny"]
    assert translator.directory
    make_lens(translator, translate_corpus(translator, SENTENCES), translator.directory)
    found = lens_values(translator, TEXT, RESULT.ids)
    worth = {way: found["measured"]["decoder"][way] for way in ("jacobian", "direct")}
    first = "Jacobian lens" if sum(worth["jacobian"]) > sum(worth["direct"]) else "Logit lens"
    lens = ask(page, "Step", "What would it say after each layer?")
    tabs = lens.get_by_role("group", name="Which lens").get_by_role("button")
    expect(tabs.first).to_have_text(first)
    expect(lens).to_contain_text(f"So the {first.replace('Logit', 'logit')} comes first.")
    for name, answer in (("Jacobian lens", found["jacobian"]), ("Logit lens", found)):
        tabs.filter(has_text=name).click()
        expect(tabs.filter(has_text=name)).to_have_attribute("aria-pressed", "true")
        for step in range(len(RESULT.ids)):
            cells = lens.locator("tbody tr").nth(step).locator(".hl-layer-word .hl-number")
            expect(cells).to_have_text(
                [number(math.exp(layer[step][0]), 2) for layer in answer["log_probabilities"]]
            )
    tabs.filter(has_text="Encoder").click()
    for row in range(len(RESULT.attention.source)):
        cells = lens.locator("tbody tr").nth(row).locator(".hl-number")
        expect(cells).to_have_text([number(layer[row], 2) for layer in found["encoder"]])
    tabs.first.focus()
    page.keyboard.press("Enter")
    expect(tabs.first).to_be_focused()
    expect(tabs.first).to_have_attribute("aria-pressed", "true")


def test_a_head_is_saved_as_tables(page: Page):
    panel = open_panel(page, "Head")
    panel.get_by_text("What does it do over many sentences?").click()
    for what, name in (("CSV of this sentence", "sentence"), ("CSV over the corpus", "corpus")):
        with page.expect_download() as download:
            panel.get_by_role("button", name=what).click()
        assert download.value.suggested_filename == f"headlight-tiny-encoder-2-3-{name}.csv"
        rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8"))))
        if name == "sentence":
            weights = RESULT.attention.encoder[LAYER, HEAD]
            assert len(rows) == weights.numel()
            for row in rows:
                exact = float(weights[int(row["row"]) - 1, int(row["column"]) - 1])
                assert float(row["weight"]) == pytest.approx(exact, abs=0.5e-4 + EXACT)
        else:
            card = MEASURED["heads"]["encoder"][LAYER][HEAD]
            found = [float(row["value"]) for row in rows if row["figure"] == "distance"]
            assert found == card["distances"]
            assert sum(row["figure"] == "row" for row in rows) == sum(
                len(cells) for _, cells in card["intervals"]
            )


def test_the_finder_lists_all_heads_and_chooses_one(page: Page):
    panel = open_panel(page, "Head")
    panel.get_by_text("Find a head").click()
    lines = panel.locator(".hl-finder-list button")
    expect(lines).to_have_count(sum(len(rows) * len(rows[0]) for rows in MEASURED["roles"].values()))
    values = sorted(
        (value for kind in KINDS for row in MEASURED["measures"][kind]["sinks"] for value in row),
        reverse=True,
    )
    expect(lines.first.locator(".hl-number")).to_contain_text(f"{values[0]:.2f}")
    expect(panel.locator(".hl-finder-mark")).to_have_count(len(values))
    expect(panel.locator(".hl-finder-picture")).to_be_in_viewport(ratio=1)
    lines.first.focus()
    page.keyboard.press("Enter")
    expect(lines.first).to_have_attribute("aria-pressed", "true")
    panel.get_by_label("Upwards").select_option("focus")  # only cross-attention has it
    heads = MEASURED["roles"]["cross"]
    expect(lines).to_have_count(len(heads) * len(heads[0]))
    panel.get_by_label("Over").select_option("sentence")
    expect(lines).to_have_count(len(heads) * len(heads[0]))


def test_the_address_has_the_axes_of_the_finder(page: Page, show: Show):
    panel = open_panel(page, "Head")
    panel.get_by_text("Find a head").click()
    panel.get_by_label("Across").select_option("confidence")
    panel.get_by_label("Over").select_option("sentence")
    assert "find=sentence.confidence.sinks" in page.url
    shown = panel.locator(".hl-finder-list button").all_inner_texts()
    panel.get_by_text("Find a head").click()
    expect(panel.locator(".hl-finder-list")).to_be_hidden()
    assert "find=" not in page.url
    other = show(RESULT, "tiny", "kind=encoder&layer=2&head=3&panel=head&find=sentence.confidence.sinks")
    lines = other.get_by_role("tabpanel", name="Head").locator(".hl-finder-list button")
    expect(lines).to_have_count(len(shown))
    assert lines.all_inner_texts() == shown
    unknown = show(RESULT, "tiny", "kind=encoder&layer=2&head=3&panel=head&find=sentence.beauty.sinks")
    expect(unknown.locator(".hl-finder")).not_to_have_attribute("open", "")


def test_a_rectangle_narrows_the_list_and_a_click_chooses_a_point(page: Page):
    panel = open_panel(page, "Head")
    panel.get_by_text("Find a head").click()
    picture = panel.locator(".hl-finder-picture")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert box
    page.mouse.move(box["x"] + 1, box["y"] + 1)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] - 1, steps=3)
    page.mouse.up()
    expect(panel).to_contain_text("heads in the rectangle")
    panel.get_by_role("button", name="Show all").click()
    expect(panel).to_contain_text("heads with both measures")
    mark = panel.locator(".hl-finder-mark").first.bounding_box()
    assert mark
    page.mouse.click(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
    expect(panel.locator(".hl-finder-mark.hl-this")).to_have_count(1)


def test_the_persons_own_sentences_can_take_the_place_of_the_corpus(page: Page):
    panel = open_panel(page, "Examples")
    panel.get_by_label("Your text").fill("\n".join(SENTENCES[:3]))
    panel.get_by_role("button", name="Read them").click()
    expect(panel).to_contain_text("3 of 3 sentences read.")
    panel = open_panel(page, "Head")
    panel.get_by_text("Find a head").click()
    panel.get_by_label("Over").select_option("own")
    panel.get_by_label("Upwards").select_option("entropy")
    own = measure_corpus(
        tiny(), SENTENCES[:3]
    )  # another beam may translate otherwise; encoders read the same
    values = [value for row in own["measures"]["encoder"]["entropy"] for value in row]
    lines = panel.locator(".hl-finder-list li").filter(has_text="Encoder").locator(".hl-number")
    shown = sorted(float(text.split(" · ")[1]) for text in lines.all_inner_texts())
    assert shown == pytest.approx(sorted(values), abs=0.5e-2 + 0.5e-3 + EXACT)  # of two digits and of three


def test_a_model_that_nobody_has_measured_says_how(show: Show):
    page = show(RESULT, model="tiny")
    panel = open_panel(page, "Head")
    panel.get_by_text("What does it do over many sentences?").click()
    expect(panel).to_contain_text("python -m viz study tiny --sentences FILE")


def test_the_heads_that_can_go_are_muted_in_this_sentence(page: Page):
    panel = open_panel(page, "What if")
    panel.get_by_text("How many heads can go?").click()
    slider = panel.get_by_role("slider", name="Heads removed")
    expect(panel.get_by_role("img", name="BLEU with up to 2 heads removed")).to_have_count(1)
    expect(slider).to_have_value("1")
    expect(panel).to_contain_text("Without 1 head: BLEU 29.0 instead of 30.0")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(panel).to_contain_text("Without 2 heads: BLEU 21.5 instead of 30.0")
    panel.get_by_role("button", name="Mute them in this sentence").click()
    expect(panel.locator(".hl-muted-head")).to_have_text(["Cross 2.3 ×", "Cross 1.2 ×"])
