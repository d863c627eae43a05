"""The page in other languages: nothing is left out, nothing moves, and the choice stays in the link."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Show, Visit, draw
from tests.browser.inspector import TEXT, tiny
from tests.browser.screen import cell
from tests.viz.texts import all_texts, script_texts
from viz.viewer import catalogues

pytestmark = pytest.mark.browser
GERMAN = catalogues()["de"]
SIZES = [(1440, 900), (1280, 720), (960, 600), (390, 844)]  # the third is the first at 150 %
WHOLE_TEXTS = r"""() => {
  const quoted = 'bdi, option, kbd, .hl-number, .hl-translation, .hl-analysed, #hl-brand, #hl-examples, '
    + '#hl-model, #hl-language, .hl-call, .hl-words, [dir=auto], [lang=en], h2:has(~ div .hl-about), '
    + '.hl-version, footer, .hl-address, .hl-paper svg';
  const isShown = (node) => node.checkVisibility({ visibilityProperty: true });
  // Outside the brackets there may be names of heads, numbers and signs, but no word.
  const rest = (text) => {
    let depth = 0;
    return [...text].filter((one) => {
      if (one === '⟦') depth += 1;
      if (one === '⟧') depth -= 1;
      return depth === 0 && one !== '⟧';
    }).join('');
  };
  const words = (text) => text.match(/\p{L}{2,}/gu) ?? [];
  const ofSentence = [...document.querySelectorAll('bdi, .hl-hit-sentence')];
  const tokens = new Set(ofSentence.flatMap((one) => words(one.textContent)));
  const isLeftOut = (text) => words(rest(text)).some((word) => !tokens.has(word));
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const blocks = new Set();
  while (walker.nextNode()) {
    const { parentElement: parent } = walker.currentNode;
    if (!parent.closest('script, style, noscript') && !parent.closest(quoted) && isShown(parent))
      blocks.add(parent.closest('p, li, button, h2, h3, h4, summary, label, dt, dd, td, th, div') ?? parent);
  }
  for (const block of blocks) {
    const copy = block.cloneNode(true);
    for (const one of copy.querySelectorAll(quoted + ', script, style')) one.remove();
    const own = copy.querySelector('p, li, button, h2, h3, div, section, table') ? '' : copy.textContent;
    if (isLeftOut(own)) found.push(own);
  }
  for (const name of ['title', 'aria-label', 'placeholder'])
    for (const node of document.querySelectorAll(`[${name}]`))
      if (!node.closest('iframe, .hl-call, .hl-translation') && isShown(node)
          && isLeftOut(node.getAttribute(name)))
        found.push(`${name}: ${node.getAttribute(name)}`);
  return found;
}"""


def open_tab(place: int) -> Callable[[Page], None]:
    return lambda page: page.locator(".hl-panel-tabs [role=tab]").nth(place).click()


def explain_a_cell(page: Page) -> None:
    page.mouse.click(*cell(page, 2, 2))
    open_tab(1)(page)
    page.locator(".hl-vectors").wait_for()


def ask_all(place: int) -> Callable[[Page], None]:
    """Open every question of a tab and wait for the answers."""

    def reach(page: Page) -> None:
        open_tab(place)(page)
        questions = page.locator(".hl-panel-body:not([hidden]) .hl-question")
        for question in questions.all():
            question.locator("summary").first.click()
            # The finder draws at once; nobody has measured the heads of the small model, which is a sentence.
            usual = ".hl-answer:not(.hl-stale) > :not(p)"
            there = {"finder": ".hl-finder-picture", "corpus": ".hl-answer:not(.hl-stale) > p"}
            name = question.get_attribute("data-question") or "finder"
            expect(question.locator(there.get(name, usual)).first).to_be_visible()

    return reach


def draw_the_beam_tree(page: Page) -> None:
    page.locator(".hl-hypotheses ~ div .hl-act").click()
    page.locator(".hl-tree").wait_for()


def compare_a_head(page: Page) -> None:
    page.locator(".hl-toolbar .hl-menu > summary").click()
    page.locator("[data-value=difference]").click()
    expect(page.locator(".hl-facts")).not_to_be_empty()


def open_beside(page: Page) -> None:
    page.keyboard.press("Escape")
    page.locator(".hl-beside-tab").click()
    page.locator(".hl-beside-bar").wait_for()


def open_about(page: Page) -> None:
    page.keyboard.press("Escape")
    page.locator("#hl-about").click()
    page.locator(".hl-about").first.wait_for()


def mute_a_head(page: Page) -> None:
    page.keyboard.press("m")
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    open_tab(3)(page)
    page.locator(".hl-words ins, .hl-words span").first.wait_for()


def open_learn(page: Page) -> None:
    page.locator("#hl-learn").click()
    page.locator(".hl-learn .hl-answers").nth(4).wait_for()


def open_chapter(page: Page) -> None:
    page.locator(".hl-turning button").last.click()
    page.locator(".hl-learn .hl-answers:only-of-type button").first.click()
    page.locator(".hl-tasks li").first.wait_for()


def open_sheet(page: Page) -> None:
    page.locator(".hl-lesson .hl-button").first.click()
    page.locator(".hl-paper").wait_for()


def close_sheet(page: Page) -> None:
    page.keyboard.press("Escape")
    page.locator(".hl-paper").wait_for(state="detached")


def show_an_error(page: Page) -> None:
    page.locator(".hl-learn header button:last-child").click()
    page.locator(".hl-learn").wait_for(state="hidden")  # after the sentence from before is translated again
    box = page.locator("#hl-sentence :is(input, textarea)")
    box.fill("")
    box.press("Enter")
    expect(page.get_by_role("alert").filter(visible=True)).not_to_be_empty()


def open_export(page: Page) -> None:
    page.locator("#hl-export").click()
    page.locator("#hl-export-menu").wait_for()


def open_help(page: Page) -> None:
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()


# One after the other on one page, as in test_accessibility.py, but without a name in English.
STATES: dict[str, Callable[[Page], None]] = {
    "first": lambda page: page.locator("[data-fact=heads]").wait_for(),
    "decoder": lambda page: page.locator("[data-kind=decoder]").click(),
    "cell": explain_a_cell,
    "step": open_tab(2),
    "beam tree": draw_the_beam_tree,
    "compare": compare_a_head,
    "mute": mute_a_head,
    "training": open_tab(4),
    "examples": open_tab(5),
    "learn": open_learn,
    "chapter": open_chapter,
    "teachers": lambda page: page.locator(".hl-learn > .hl-actions:last-child button").click(),
    "sheet": open_sheet,
    "after": close_sheet,
    "options": lambda page: page.locator("#hl-options-button").click(),
    "error": show_an_error,
    "export": open_export,
    "help": open_help,
    "about": open_about,
    "side by side": open_beside,
}


def pseudo() -> dict[str, object]:
    """A catalogue in which every text is in brackets, and longer."""
    _, counted = script_texts()
    longer = {text: f"⟦{text}{' ~' * (len(text) // 10)}⟧" for text in all_texts()}
    return {text: {"other": one} if text in counted else one for text, one in longer.items()}


def test_no_text_is_left_out_of_the_catalogues(browser: Browser, address: str):
    # The pseudo-language takes the place of German as soon as the page speaks.
    use = f"""let used;
      Object.defineProperty(window, 'Headlight', {{
        get: () => used,
        set: (found) => {{
          const useLanguages = () => found.speak('de', {json.dumps(pseudo())});
          used = {{ ...found, useLanguages }};
        }},
      }});"""
    page = browser.new_page(viewport={"width": 1440, "height": 900}, locale="de-AT")
    page.add_init_script(use)
    page.goto(address)
    page.locator(".hl-thumbnail").first.wait_for()
    found = []
    for name, reach in STATES.items():
        reach(page)
        found += [f"{name}: {text}" for text in page.evaluate(WHOLE_TEXTS)]
    page.close()
    assert not found, "\n".join(dict.fromkeys(found))


@pytest.mark.slow
@pytest.mark.usefixtures("with_tiny")
def test_no_answer_of_an_instrument_is_left_out_of_the_catalogues(show: Show):
    result = tiny().translate(TEXT)
    page = show(result, model="tiny")
    page.evaluate(
        """(texts) => {
          Headlight.speak('de', texts);
          window.viewer = Headlight.mount(document.querySelector('.headlight'), { ask, about });
        }""",
        pseudo(),
    )
    draw(page, result, "tiny")
    page.locator(".hl-thumbnail").first.wait_for()
    found = []
    for reach in (explain_a_cell, ask_all(1), ask_all(2), ask_all(0)):
        reach(page)
        found += page.evaluate(WHOLE_TEXTS)
    assert not found, "\n".join(dict.fromkeys(found))


def test_a_browser_in_german_gets_german_with_its_numbers_and_errors(visit: Visit, address: str):
    page = visit(address, locale="de-AT")
    assert page.locator("html").get_attribute("lang") == "de"
    expect(page.get_by_role("button", name="Übersetzen")).to_be_visible()
    open_tab(2)(page)
    expect(page.locator(".hl-result-facts")).to_have_text(re.compile(r"log p −\d+,\d\d"))
    page.mouse.move(*cell(page, 1, 1))
    expect(page.locator(".hl-readout .hl-value")).to_contain_text("0,")
    title = "Deutsch → Englisch · 9,4 M · BLEU 41,2"
    expect(page.locator("#hl-model option").first).to_have_text(title)
    box = page.get_by_label("Satz", exact=True)
    box.fill(" ")
    box.press("Enter")
    alert = page.locator("#hl-message [role=alert]")
    expect(alert).to_have_text(GERMAN["There is nothing to translate; type a sentence."])
    page.get_by_role("button", name="Über", exact=True).click()
    expect(page.locator(".hl-help[open] h2")).to_have_text(title)
    assert "lang=" not in page.url


def test_the_chosen_language_stays_with_the_view_and_the_link(visit: Visit, address: str):
    page = visit(address)
    page.keyboard.press("m")
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    heading = page.locator(".hl-centre h2")
    assert heading.inner_text().startswith("Cross · layer")
    page.get_by_label("Language", exact=True).select_option("Français")
    expect(page.get_by_label("Langue", exact=True)).to_have_value("fr")
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    assert heading.inner_text().startswith("Croisée · couche")
    assert "lang=fr" in page.url
    page.evaluate("location.hash = location.hash.replace('lang=fr', 'lang=it')")
    expect(page.get_by_label("Lingua", exact=True)).to_have_value("it")
    page.goto(f"{address}healthz")
    page.goto(address)  # remembered
    expect(page.get_by_label("Langue", exact=True)).to_have_value("fr")


@pytest.mark.slow
def test_a_sentence_that_is_not_translated_yet_survives_the_choice_of_a_language(visit: Visit, address: str):
    page = visit(address)
    page.keyboard.press("m")
    page.get_by_label("Sentence", exact=True).fill("Eben erst getippt.")
    page.get_by_label("Language", exact=True).select_option("Français")
    expect(page.get_by_label("Phrase", exact=True)).to_have_value("Eben erst getippt.")
    page.wait_for_url("**text=Eben+erst+getippt.**")
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Phrase", exact=True)).to_have_value("Eben erst getippt.")


@pytest.mark.slow
def test_a_refused_sentence_keeps_the_panels_when_the_language_changes(visit: Visit, address: str):
    page = visit(address)
    before = page.locator(".hl-translation").inner_text()
    page.keyboard.press("1")
    long = " ".join(["lang"] * 200)
    page.get_by_label("Sentence", exact=True).fill(long)
    page.get_by_label("Sentence", exact=True).press("Enter")
    expect(page.get_by_role("alert").filter(visible=True)).to_have_count(1)
    page.get_by_label("Language", exact=True).select_option("Français")
    expect(page.get_by_label("Phrase", exact=True)).to_have_value(long)
    expect(page.get_by_role("alert").filter(visible=True)).to_have_count(1)
    expect(page.locator(".hl-translation")).to_have_text(before)
    expect(page.locator(".hl-centre h2")).to_contain_text("Encodeur")


def test_a_link_in_german_opens_in_german(visit: Visit, address: str):
    page = visit(f"{address}#lang=de")
    expect(page.get_by_role("tab", name="Kopf")).to_be_visible()
    assert page.evaluate("localStorage.getItem('headlight.language')") is None
    page.keyboard.press("1")
    page.wait_for_url("**lang=de**")


@pytest.mark.slow
def test_an_unknown_language_is_english(visit: Visit, address: str):
    page = visit(f"{address}#lang=xx", locale="ja-JP")
    assert page.locator("html").get_attribute("lang") == "en"
    assert "lang=" not in page.url


# On a phone, the sentences of In short take the lines that they need, and the rest begins where they end.
BOXES = """async () => {
  for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
  const { bottom, height } = document.querySelector('.hl-short').getBoundingClientRect();
  const moved = (top) => (innerWidth < 600 && top >= bottom ? top - height : top);
  return ['.hl-strip', '.hl-heads', '.hl-centre', '.hl-inspector'].map((name) => {
    const { left, top, width } = document.querySelector(name).getBoundingClientRect();
    return [name, Math.round(left), Math.round(moved(top)), Math.round(width)];
  });
}"""
CUT = """() => [...document.querySelectorAll('button, .hl-bar, .hl-toolbar, #hl-top, .hl-panel-tabs')]
  .filter((node) => node.checkVisibility({ visibilityProperty: true }))
  .filter((node) => node.scrollWidth > node.clientWidth + 1 && !node.closest('.hl-scroll, #hl-examples'))
  .filter((node) => getComputedStyle(node).overflowX !== 'auto')
  .map((node) => `${node.id || node.className}: ${node.textContent.slice(0, 60)}`)"""


ANIMATED = """() => [...document.querySelectorAll('button')].filter((node) => {
  const { transitionProperty: property, transitionDuration: duration } = getComputedStyle(node);
  return /all|width|flex/.test(property) && parseFloat(duration) > 0;
}).map((node) => node.id || node.className)"""


# What lies over something else in the panel of heads.
OVER = """() => {
  const boxOf = (node) => node.getBoundingClientRect();
  const below = boxOf(document.querySelector('.hl-overview'));
  const bar = [...document.querySelectorAll('.hl-heads > .hl-bar > *')];
  return bar.filter((one) => boxOf(one).bottom > below.top + 4).map((one) => one.textContent);
}"""


@pytest.mark.slow
def test_with_learn_open_in_french_every_menu_has_its_place(visit: Visit, address: str):
    page = visit(address, locale="fr-FR")
    assert page.evaluate(OVER) == []
    open_learn(page)
    assert page.evaluate(OVER) == []
    page.locator(".hl-turning button").last.click()
    page.wait_for_function("() => Headlight.viewer.state().record.source_text === 'umbrella'")
    assert page.evaluate(OVER) == []


def test_on_a_phone_the_menu_over_the_matrix_is_not_cut(visit: Visit, address: str):
    page = visit(f"{address}#lang=de", 390, 844)  # whose words are the longest
    page.locator(".hl-toolbar .hl-menu summary").click()
    box = page.locator(".hl-toolbar .hl-sheet").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["de-DE", pytest.param("fr-FR", marks=pytest.mark.slow)])
def test_longer_words_move_no_panel_and_are_not_cut(visit: Visit, address: str, locale: str):
    def look(size: tuple[int, int]) -> list[object]:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        return page.evaluate(BOXES)

    page = visit(address)
    expected = [look(size) for size in SIZES]
    page = visit(address, locale=locale)
    assert page.evaluate(ANIMATED) == [], "these are cut while their width changes"
    for size, found in zip(SIZES, expected, strict=True):
        assert look(size) == found
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(CUT) == []
