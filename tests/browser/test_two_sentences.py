"""Two sentences that differ in a word: which parts of the model decide between their words."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Show
from tests.browser.inspector import ask, signed, tiny
from tests.browser.test_side_by_side import beside_sentence, first, open_bar, second
from viz.instruments import contribution_values

pytestmark = pytest.mark.browser


@pytest.mark.usefixtures("with_tiny")
def test_the_parts_that_decide_between_the_words_of_both_sides(show: Show) -> None:
    """The lead of A's word in A and of B's word in B, added part by part."""
    texts = ("Ein kleiner Hund läuft.", "Ein kleiner Hund läuft!")
    one, two = (tiny().translate(text) for text in texts)
    step = next(place for place, ids in enumerate(zip(one.ids, two.ids, strict=False)) if len(set(ids)) > 1)
    page = show(one, "tiny")
    open_bar(page)
    beside_sentence(page, texts[1])
    expect(second(page, "Tokens")).to_be_visible()
    first(page, "Tokens").locator(".hl-chip[data-side=target]").nth(step + 1).click()
    page.get_by_role("button", name="More about this step").click()
    parts = ask(page, "Step", "Why this word?")
    opposite = parts.get_by_label("Compared with").locator("option").nth(1)
    parts.get_by_label("Compared with").select_option(opposite.get_attribute("value"))
    expect(parts).to_contain_text("What decides between")
    state = "(({ answers, beside }) => [answers, beside.answers])(viewer.state())"
    asked = [each["contributions"]["question"] for each in page.evaluate(state)]
    assert [(each["word"], each["other"]) for each in asked] == [
        (one.ids[step], two.ids[asked[1]["step"]]),
        (two.ids[asked[1]["step"]], one.ids[step]),
    ]
    leads = [
        contribution_values(tiny(), text, result.ids, each["step"], each["word"], each["other"])
        for text, result, each in zip(texts, (one, two), asked, strict=True)
    ]
    lines = parts.locator(".hl-shares").first.locator(".hl-number")
    fed = sum(sum(lead["decoder"]["feed_forward"]) for lead in leads)
    expect(lines.nth(4)).to_have_text(signed(fed, 2))
    expect(lines.last).to_have_text(signed(sum(lead["logit"] for lead in leads), 2))
