"""The first screen is calm, and shows word pairs that belong together, for every example of every model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest
from playwright.sync_api import Page, expect

import app
from model import Translator
from model.analysis.alignment import best_links, head_links, target_words
from model.decoding.options import PAGE_BEAM
from model.results import AttentionRecord, Head
from tests.browser.conftest import Show, Visit
from tests.browser.screen import resize
from viz.about import study_of

pytestmark = pytest.mark.browser

EXAMPLES = [(model, text) for model, texts in app.EXAMPLES.items() for text in texts]
LEAST_RIGHT = 0.9  # of the arcs
WROTE = "This head looks up the word just written."
# Of a model of letters: what is about the word that it reads, and the links of whole words.
OF_WORDS = {
    *(
        "In this word",
        "A word that never",
        "opens its word",
        "letter of the word",
        "of this word",
        "Unseen words",
        "it words some",
    ),
    *("Word links", "link the words", "word links", "Join word pieces", "merge sub-words", "belong together"),
    *(
        "Words are counted",
        "both directions joined",
        "Source words: how",
        "Every source word",
        "Words of the",
    ),
}
WORD = re.compile(r"\bwords?\b", re.IGNORECASE)
# What is written in the viewer, also in labels; the dialogs and the list of keys are about every model.
TEXTS = """(root) => {
  const isSkipped = (node) => node.closest('dialog, .hl-keys, .hl-learn');
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode())
    if (!isSkipped(walker.currentNode.parentElement)) texts.push(walker.currentNode.data);
  for (const node of root.querySelectorAll('*'))
    if (!isSkipped(node)) texts.push(...['title', 'aria-label'].map((name) => node.getAttribute(name) ?? ''));
  return [...new Set(texts)];
}"""


@cache
def shipped(model: str) -> Translator:
    """A model of the page; the `show` of the other tests has small ones."""
    return Translator.load(app.MODELS / model)


def links_of(record: AttentionRecord) -> set[tuple[int, int]]:
    """The links of the taught head, if there is one, and those of the sentence."""
    found = [best_links(record)]
    if record.taught is not None:
        found.append(head_links(record, Head("cross", *record.taught)))
    return {link for one in found for link in one.forward | one.grown}


def arcs_of(page: Page, record: AttentionRecord) -> list[tuple[int | None, int | None]]:
    """The words that the arcs on screen join, source and target."""
    drawn = page.locator(".hl-arcs path").evaluate_all("paths => paths.map(({ dataset }) => dataset.ends)")
    rows = target_words(record, shifted=page.locator(".hl-arcs-meaning").inner_text() == WROTE)
    cells = [tuple(map(int, ends.split("-"))) for ends in drawn]
    return [(record.source[column].word, rows[row]) for row, column in cells]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        pytest.param(*each, id=": ".join(each), marks=[] if each[0] == "de-en" else [pytest.mark.slow])
        for each in EXAMPLES
    ],
)
def test_nearly_all_arcs_are_word_links(show: Show, model: str, text: str) -> None:
    result = shipped(model).translate(text, beam_size=PAGE_BEAM)
    record = result.attention
    page = show(result, model)
    expect(page.locator(".hl-arcs path").first).to_be_attached()
    arcs, links = arcs_of(page, record), links_of(record)
    right = [arc for arc in arcs if arc in links or arc == (None, None)]  # the end belongs to the end
    assert len(right) >= LEAST_RIGHT * len(arcs), sorted(set(arcs) - links)
    assert len({source for source, _ in right}) > len({token.word for token in record.source}) / 2


def test_the_page_opens_with_the_taught_head(show: Show) -> None:
    result = shipped("de-en").translate(app.EXAMPLES["de-en"][0])
    page = show(result)
    layer, head = result.attention.taught
    assert page.evaluate("[viewer.state().layer, viewer.state().head]") == [layer, head]
    expect(page.locator(".hl-arcs-meaning")).to_have_text(WROTE)


def test_strip_readout_and_arcs_name_the_word_just_written(show: Show) -> None:
    """A word of the translation is hovered: its row is the one that reads it."""
    result = shipped("de-en").translate("Der kleine Hund schläft heute unter dem alten Tisch.")
    page = show(result)
    words = [token.text for token in result.attention.predicted]
    place = words.index("table")
    page.locator(f".hl-chip[data-side=target][data-place='{place + 1}']").hover()
    expect(page.locator(".hl-readout")).to_contain_text("table → today reads most from Tisch")
    expect(page.locator(".hl-row-label.hl-lit")).to_have_text("table→today")
    page.get_by_role("gridcell", name="layer 4, head 7", exact=True).click()
    expect(page.locator(".hl-arcs-meaning")).to_have_text(
        "Each word is joined with what is read to write it."
    )
    page.locator(f".hl-chip[data-side=target][data-place='{place + 1}']").hover()
    expect(page.locator(".hl-row-label.hl-lit .hl-name")).to_have_text("table")


MOST_WORDS, MOST_CONTROLS = 220, 40  # besides the tokens and the pictures of the heads, which are the data
# What a person sees of the window without scrolling.
COUNT = r"""() => {
  const isSeen = (one) => {
    const { width, height, top, left } = one.getBoundingClientRect();
    const isVisible = one.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    return isVisible && width > 1 && height > 1 && top < innerHeight && left < innerWidth;
  };
  const data = '.hl-chip, .hl-thumbnail, .hl-overview-row > .hl-line, .hl-row-label, .hl-column-label';
  const all = 'button, a[href], input, select, textarea, summary, [role=tab]';
  const controls = [...document.querySelectorAll(all)]
    .filter((one) => isSeen(one) && !one.closest(data));
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const words = [];
  while (walker.nextNode()) {
    const { parentElement: parent, data: text } = walker.currentNode;
    if (parent.closest(`${data}, script, style, noscript, option`) || !isSeen(parent)) continue;
    words.push(...(text.match(/[\p{L}\p{N}]\S*/gu) ?? []));
  }
  return [words, controls.map((one) => one.outerHTML)];
}"""

FOLLOWED = """() => {
  const box = document.querySelector('#hl-sentence :is(input, textarea)');
  return Headlight.viewer.state().record.source_text === box.value;
}"""


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    """The address of the page with shipped models."""
    service = app.create({name: shipped(name) for name in ("de-en", "en-fr", "en-it", "reverse")})
    yield service.launch()
    service.stop()


def test_the_first_screen_has_few_words_and_controls(visit: Visit, real: str) -> None:
    page = visit(real)
    expect(page.locator(".hl-summary > li").nth(2)).to_be_visible()
    words, controls = page.evaluate(COUNT)
    assert len(words) <= MOST_WORDS, words
    assert len(controls) <= MOST_CONTROLS, controls
    for width, height in ((1440, 900), (1366, 768), (1280, 720)):
        resize(page, width, height)
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight"), (
            f"a scroll bar at {height}"
        )


def test_a_phone_shows_what_matters_within_two_screens(visit: Visit, real: str) -> None:
    page = visit(real, 390, 844)
    expect(page.locator(".hl-summary > li").nth(2)).to_be_visible()
    order = ["#hl-learn", ".hl-translation", ".hl-short", ".hl-centre"]
    boxes = [page.locator(name).bounding_box() for name in order]
    tops = [box["y"] for box in boxes if box]
    assert tops == sorted(tops)
    assert tops[1] < 844
    assert boxes[-1]["y"] + boxes[-1]["height"] <= 2 * 844


FIRST_MODELS = [("en-US", "de-en"), ("fr-FR", "en-fr"), ("it-IT", "en-it"), ("de-DE", "de-en")]


@pytest.mark.parametrize(("locale", "model"), FIRST_MODELS)
def test_a_phone_shows_a_readable_translation_and_without_a_word_what_to_do_with_it(
    visit: Visit, real: str, locale: str, model: str
) -> None:
    """A visitor begins with a translation into a language that they can read."""
    page = visit(real, 390, 844, locale=locale)
    assert page.evaluate("Headlight.viewer.state().record.model.name") == model
    assert page.locator("#hl-sentence :is(input, textarea)").input_value() == app.EXAMPLES[model][0]
    page.locator(".hl-chip[data-side=source]").nth(1).click()
    text = page.locator(".hl-removed [role=status]")
    expect(text).to_contain_text(re.compile("[“„«].*[”“»].*[“„«].*[”“»]"))
    assert text.evaluate(
        "(one) => one.scrollHeight <= one.clientHeight && one.scrollWidth <= one.clientWidth"
    )
    for button in page.locator(".hl-removed button").all():
        expect(button).to_be_in_viewport(ratio=1)


@pytest.mark.slow
def test_the_dialog_says_over_how_many_sentences_the_heads_were_measured(visit: Visit, real: str) -> None:
    page, study = visit(real), study_of(shipped("de-en"))
    page.get_by_role("button", name="About", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text(f"measured over {study['sentences']} sentences")


def test_a_model_of_letters_has_letters(visit: Visit, real: str):
    """On every tab and in its instruments, and no longer once another model is chosen."""
    page = visit(f"{real}#model=reverse&text=lantern")
    expect(page.locator(".hl-arcs-meaning")).to_have_text(
        "Each letter is joined with what is read to write it."
    )
    facts = page.locator(".hl-summary > li")
    expect(facts.first).to_be_visible()
    assert not [
        text for text in facts.all_inner_texts() if re.search(r"\b(words?|sentence|translation)\b", text)
    ]
    page.locator(".hl-chip[data-side=source]").nth(2).click()
    expect(page.locator(".hl-struck")).to_have_text("n")
    expect(page.locator(".hl-removed [role=status]")).to_contain_text("Without “n” it writes “")
    for tab in ("head", "step", "mute"):
        page.locator(f"[role=tab][id$={tab}-tab]").click()
        for question in page.locator(".hl-panel-body:not([hidden]) .hl-question > summary").all():
            question.click()
    page.locator("[role=tab][id$=step-tab]").click()
    expect(page.locator("[data-question=routes] svg")).to_be_visible()
    said = page.locator("#hl-viewer .headlight").evaluate(TEXTS)
    assert [one for one in said if WORD.search(one) and not any(part in one for part in OF_WORDS)] == []
    page.get_by_label("Model").select_option("de-en")
    expect(page.locator("[data-value=leave_one_out]")).to_have_text("Remove a word")
    expect(page.locator("[data-question=routes] h3")).to_have_text("Which way did this word come?")


def test_a_notice_is_not_cut(visit: Visit, real: str) -> None:
    page = visit(f"{real}#model=de-en&text=I would like to buy a house near the river.")
    expect(page.locator(".hl-notices")).to_contain_text("the model reads German")
    for width, height in ((1440, 900), (1366, 768), (390, 844)):
        resize(page, width, height)
        fits = "(one) => one.scrollHeight <= one.clientHeight"
        assert page.locator(".hl-result-side").evaluate(fits), f"cut at {height}"


def test_the_translation_follows_the_typing(visit: Visit, real: str) -> None:
    """Once it rests, and as one entry of the history; a switch turns it off."""
    page = visit(real)
    first = page.evaluate("Headlight.viewer.state().record.source_text")
    box = page.locator("#hl-sentence :is(input, textarea)")
    box.press("ControlOrMeta+a")
    for text in ("Ein Hund", " schläft"):
        box.press_sequentially(text)
        page.wait_for_function(FOLLOWED)
    page.go_back()
    page.wait_for_function("(text) => Headlight.viewer.state().record.source_text === text", arg=first)
    page.go_forward()
    page.wait_for_function("Headlight.viewer.state().record.source_text === 'Ein Hund schläft'")
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Translate while typing").uncheck()
    box.press("End")
    box.press_sequentially(" heute")
    box.press("Enter")
    page.wait_for_function("Headlight.viewer.state().record.source_text === 'Ein Hund schläft heute'")
    page.reload()
    expect(page.get_by_label("Translate while typing")).not_to_be_checked()
