"""The panel Examples: what a head does over many sentences, added up in the browser."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
import torch
from playwright.sync_api import Page, expect

import app
from model.analysis.examples import Survey, survey
from tests.browser.conftest import Show, Visit
from tests.browser.inspector import HOLD, RELEASE, TEXT, number, open_panel, status, tiny
from tests.browser.screen import choose

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_tiny")]

RESULT = tiny().translate(TEXT)
WORDS = ("Hund", "Katze", "Haus", "Tisch", "Wald")
SENTENCES = [f"Ein {word} läuft {number}." for number in range(9) for word in WORDS]  # three requests
LAYER, HEAD = 1, 2


def survey_of(sentences: list[str]) -> Survey:
    return survey(tiny().translate(text).attention for text in sentences)


@pytest.fixture
def page(show: Show) -> Page:
    page = show(RESULT, model="tiny")
    choose(page, "Cross", LAYER + 1, HEAD + 1)
    open_panel(page, "Examples").get_by_label("Your text").fill("\n".join(SENTENCES))
    return page


def test_parts_of_the_sentences_add_up_to_all_of_them(page: Page, asked: list):
    page.get_by_role("button", name="Read them").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("45 of 45 sentences read.")
    assert [len(each["sentences"]) for each in asked] == [20, 20, 5]
    found = survey_of(SENTENCES)
    head = found.kinds["cross"].heads[LAYER][HEAD]
    hits = page.get_by_label("Strongest cells").locator("li")
    expect(hits.locator(".hl-number")).to_have_text([number(hit.weight) for hit in head.hits])
    roles = page.get_by_label("Roles", exact=True).locator("li")
    expect(roles.locator(".hl-number")).to_have_text([str(count) for _, count in head.roles.most_common()])
    alike = page.get_by_label("Heads most alike").locator("li")
    width = len(found.kinds["cross"].heads[LAYER])
    own = LAYER * width + HEAD
    distances = found.kinds["cross"].distances[own] / found.kinds["cross"].rows
    distances[own] = torch.inf
    nearest = distances.topk(3, largest=False)
    expect(alike.locator(".hl-number")).to_have_text(list(map(number, nearest.values.tolist())))
    layer, other = divmod(nearest.indices[0].item(), width)
    alike.first.get_by_role("button").click()
    expect(page.locator(".hl-centre h2")).to_have_text(f"Cross · layer {layer + 1} · head {other + 1}")


# The server says that it has read five sentences of each request.
REPORT = """() => {
  const { ask } = viewer.client;
  viewer.client.ask = (request, showPosition, signal) => {
    showPosition(['{done} of {count} sentences', { done: 5, count: request.sentences.length }]);
    return ask(request, showPosition, signal);
  };
}"""


@pytest.mark.slow
def test_cancel_keeps_what_was_read_and_all_sentences_are_counted(page: Page):
    page.evaluate(HOLD)
    page.evaluate(REPORT)
    page.get_by_role("button", name="Read them").click()
    page.wait_for_function("window.held.length === 1")
    page.evaluate(RELEASE)
    expect(page.get_by_role("tabpanel")).to_contain_text("20 of 45 sentences read.")
    page.wait_for_function("window.held.length === 1")
    expect(status(page)).to_contain_text("25 of 45 sentences")
    page.get_by_role("button", name="Cancel").click()
    page.evaluate(RELEASE)
    expect(page.get_by_role("tabpanel")).to_contain_text("20 of 45 sentences read.")
    expect(page.get_by_label("Strongest cells").locator("li").first).to_be_visible()


def test_one_line_is_a_text_of_sentences(page: Page, asked: list):
    page.get_by_label("Your text").fill("Ein Hund läuft. Wo ist er? Im Wald!")
    page.get_by_role("button", name="Read them").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("3 of 3 sentences read.")
    assert asked[-1]["sentences"] == ["Ein Hund läuft.", "Wo ist er?", "Im Wald!"]


@pytest.mark.slow
def test_a_hit_opens_its_sentence_with_the_cell_pinned(visit: Visit):
    service = app.create({"tiny": tiny()})
    # This model has no examples, so that the page translates nothing before it is given a sentence.
    view = f"kind=cross&layer={LAYER + 1}&head={HEAD + 1}&panel=examples"
    page = visit(f"{service.launch()}#{urlencode({'text': TEXT})}&{view}", waits=False)
    page.get_by_label("Your text").fill("\n".join(SENTENCES[:5]))
    page.get_by_role("button", name="Read them").click()
    hit = survey_of(SENTENCES[:5]).kinds["cross"].heads[LAYER][HEAD].hits[0]
    page.get_by_label("Strongest cells").get_by_role("link").first.click()
    page.wait_for_function(
        "text => Headlight.viewer.state().record.source_text === text", arg=SENTENCES[hit.sentence]
    )
    expect(page.locator(".hl-value")).to_have_text(number(hit.weight))
    assert page.evaluate("Headlight.viewer.state().pin") == {"row": hit.row, "column": hit.column}
    expect(page.get_by_label("Strongest cells")).to_be_visible()
    service.stop()
