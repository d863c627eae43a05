"""The step panel: forced tokens, the beam tree, and the person's own translation."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import TRANSLATORS, Show, draw
from tests.browser.inspector import DIFFERENT, KEEP, TEXT, chips, number, open_panel, status, tiny
from tests.browser.screen import FIRST, choose, point

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("with_tiny")]

RESULT = tiny().translate(TEXT)
TREE = tiny().translate(TEXT, beam_size=4, n_best=4, tree=True)


@pytest.fixture
def page(show: Show) -> Page:
    return show(RESULT, model="tiny")


def texts(tokens) -> list[str]:
    return [token.text.strip() or "␣" for token in tokens]


def expect_chips(page: Page, tokens) -> None:
    expect(page.locator(".hl-chip[data-side=target]")).to_have_count(len(tokens) + 1)
    assert [chip.strip() for chip in chips(page)] == texts(tokens)


def pruned(step: int) -> int:
    """Return the place in the tree of the first hypothesis that this step pruned."""
    return next(at for at, one in enumerate(TREE.beam_tree) if one.status == "pruned" and one.step == step)


def test_the_likeliest_tokens_of_each_step(page: Page, show: Show):
    panel = open_panel(page, "Step")
    for step in (1, 2):
        panel.get_by_role("button", name="step after").click()
        expect(panel).to_contain_text(f"step {step + 1} of {len(RESULT.ids)}")
        chances = [number(pow(2.718281828459045, one.log_probability)) for one in RESULT.alternatives[step]]
        expect(panel.locator(".hl-next .hl-number")).to_have_text(chances)
    expect(page.locator(".hl-row-label.hl-lit")).to_have_attribute("data-row", "2")
    panel.get_by_role("button", name="step before").click()
    expect(panel).to_contain_text(f"step 2 of {len(RESULT.ids)}")
    page.get_by_role("button", name="Encoder", exact=True).click()
    panel.get_by_role("button", name="step after").click()
    expect(panel).to_contain_text(f"step 3 of {len(RESULT.ids)}")
    again = show(RESULT, model="tiny", address=page.evaluate("location.hash.slice(1)"))
    expect(again.get_by_role("tabpanel")).to_contain_text(f"step 3 of {len(RESULT.ids)}")


def test_forcing_a_token_continues_from_there_and_back_restores_everything(page: Page, asked: list):
    choose(page, "Cross", 2, 3)
    panel = open_panel(page, "Step")
    panel.get_by_role("button", name="step after").click()
    page.evaluate(KEEP)
    place = next(at for at, one in enumerate(RESULT.alternatives[1]) if one.token.id != RESULT.ids[1])
    other = RESULT.alternatives[1][place].token
    panel.locator(".hl-next li").nth(place).get_by_role("button").click()
    forced = tiny().translate(TEXT, forced=[RESULT.ids[0], other.id])
    expect_chips(page, forced.attention.predicted)
    expect(status(page)).to_contain_text("at step 2")
    expect(panel).to_contain_text("its token was given")
    assert asked[-1]["forced"] == [RESULT.ids[0], other.id]
    expect(page.locator(".hl-centre h2")).to_have_text("Cross · layer 2 · head 3")
    point(page, 1, 1)
    expect(page.locator(".hl-value")).to_have_text(number(float(forced.attention.cross[1, 2, 1, 1])))
    page.mouse.move(0, 0)
    page.get_by_role("button", name="Back to the model’s translation").click()
    expect_chips(page, RESULT.attention.predicted)
    assert page.evaluate(DIFFERENT) == []


def test_a_new_sentence_closes_the_view(page: Page):
    panel = open_panel(page, "Step")
    panel.locator(".hl-next .hl-choice").first.click()
    expect(status(page)).to_contain_text("forced")
    other = tiny().translate("Die Äpfel kosten 2,50 Euro")
    draw(page, other, "tiny")
    expect(status(page)).to_have_text("")
    expect_chips(page, other.attention.predicted)


def test_the_beam_tree_holds_everything_that_was_considered(page: Page, asked: list):
    panel = open_panel(page, "Step")
    panel.get_by_role("button", name="Draw the beam tree").click()
    nodes = panel.locator(".hl-node")
    expect(nodes).to_have_count(len(TREE.beam_tree))
    assert asked[-1] == {"do": "beams", "model": "tiny", "text": TEXT, "beam_size": 4, "length_penalty": 1}
    for fate in ("kept", "finished", "pruned"):
        count = sum(node.status == fate for node in TREE.beam_tree)
        assert count > 0
        expect(panel.locator(f".hl-node.hl-node-{fate}")).to_have_count(count)
    place = pruned(step=2)
    node = TREE.beam_tree[place]
    nodes.nth(place).hover()
    facts = f"step 3, pruned: {node.reason}. log p {number(node.log_probability)}, score {number(node.score)}"
    expect(panel.locator(".hl-reason")).to_contain_text(facts)
    found = [f"score {number(one.score)}" for one in TREE.hypotheses]
    scores = panel.locator(".hl-hypotheses .hl-number")
    expect(scores).to_have_text(found)
    assert "log p divided by the length penalty" in (scores.first.get_attribute("title") or "")


def test_without_its_tree_a_list_has_the_best_hypothesis_alone(page: Page):
    """A search stops when no other can win, so its further hypotheses need not be the next best."""
    panel = open_panel(page, "Step")
    choices = panel.locator(".hl-hypotheses .hl-choice")
    expect(choices).to_have_count(1)
    expect(choices).to_have_attribute("aria-pressed", "true")
    panel.get_by_role("button", name="Draw the beam tree").click()
    expect(choices).to_have_count(len(TREE.hypotheses))
    panel.locator(".hl-next .hl-choice").first.click()
    expect(status(page)).to_contain_text("forced")
    expect(choices).to_have_count(1)  # the forced translation's
    expect(choices).to_have_attribute("aria-pressed", "true")
    forced = page.evaluate("viewer.state().record.text")
    expect(choices.locator("[dir=auto]")).to_have_text(forced)


def test_each_hypothesis_shows_its_own_attention(page: Page):
    panel = open_panel(page, "Step")
    panel.get_by_role("button", name="Draw the beam tree").click()
    place = pruned(step=2)
    path, at = [], place
    while at is not None:
        path.insert(0, TREE.beam_tree[at].token.id)
        at = TREE.beam_tree[at].parent
    page.evaluate(KEEP)
    panel.locator(".hl-node").nth(place).click()
    shown = tiny().score(TEXT, path)
    expect_chips(page, shown.attention.predicted)
    choose(page, "Decoder", 1, 1)
    point(page, 2, 1)
    expect(page.locator(".hl-value")).to_have_text(number(float(shown.attention.decoder[0, 0, 2, 1])))
    expect(panel.locator(".hl-node")).to_have_count(len(TREE.beam_tree))
    page.mouse.move(0, 0)
    page.get_by_role("button", name="Back to the model’s translation").click()
    assert page.evaluate(DIFFERENT) == []


@pytest.mark.slow
def test_arrows_move_through_the_tree(page: Page):
    panel = open_panel(page, "Step")
    panel.get_by_role("button", name="Draw the beam tree").click()
    title = page.locator(".hl-centre h2").inner_text()
    panel.locator(".hl-node").first.focus()
    page.keyboard.press("ArrowDown")
    expect(panel.locator(".hl-node").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    child = next(at for at, one in enumerate(TREE.beam_tree) if one.parent == 0)
    expect(panel.locator(".hl-node").nth(child)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(panel.locator(".hl-node").first).to_be_focused()
    expect(page.locator(".hl-centre h2")).to_have_text(title)


def test_an_own_translation_is_compared_with_the_models(page: Page):
    panel = open_panel(page, "Step")
    own = tiny().score(TEXT, "door")
    panel.get_by_label("Your own translation").fill("door")
    page.keyboard.press("Enter")
    scored = panel.locator(".hl-scored")
    expect(scored).to_contain_text(f"the model’slog p {number(sum(RESULT.log_probabilities))}")
    expect(scored).to_contain_text(f"yourslog p {number(sum(own.log_probabilities))}")
    for side, record in (("the model’s", RESULT), ("yours", own)):
        numbers = scored.get_by_label(f"Log-probability of each token, {side}").locator(".hl-number")
        expect(numbers).to_have_text([number(value, 2) for value in record.log_probabilities])
    assert not set(texts(own.attention.predicted)[:-1]) & set(texts(RESULT.attention.predicted))
    expect(scored).to_contain_text("no token in common")
    expect(scored).to_contain_text("The translation can be right all the same")
    expect(scored.get_by_role("button", name="Difference in the matrix")).to_be_disabled()
    page.evaluate(KEEP)
    scored.get_by_role("button", name="Show its attention").click()
    expect_chips(page, own.attention.predicted)
    page.get_by_role("button", name="Back to the model’s translation").click()
    assert page.evaluate(DIFFERENT) == []


@pytest.mark.slow
def test_the_difference_to_an_own_translation_at_common_tokens(page: Page):
    text = f"snow {RESULT.text[:12]}"
    own = tiny().score(TEXT, text)
    place = texts(own.attention.predicted).index(texts(RESULT.attention.predicted)[0])
    differences = RESULT.attention.cross[:, :, 0] - own.attention.cross[:, :, place]
    layer, head, column = np.unravel_index(differences.abs().numpy().argmax(), differences.shape)
    choose(page, "Cross", layer + 1, head + 1)
    panel = open_panel(page, "Step")
    panel.get_by_label("Your own translation").fill(text)
    panel.get_by_role("button", name="Score it").click()
    panel.get_by_role("button", name="Difference in the matrix").click()
    expect(page.locator(".hl-centre h2")).to_have_text(f"Cross · layer {layer + 1} · head {head + 1}")
    point(page, 0, int(column))
    difference = float(differences[layer, head, column])
    shown = page.locator(".hl-value").inner_text().replace("−", "-")
    assert abs(float(shown) - difference) < 1e-4
    assert place > 0
    assert abs(difference) > 0.001


def test_letters_typed_into_the_box_are_not_commands(show: Show):
    page = show(TRANSLATORS["de-en"].translate(FIRST))
    title = page.locator(".hl-centre h2").inner_text()
    open_panel(page, "Step").get_by_label("Your own translation").press_sequentially("1man")
    expect(page.locator(".hl-centre h2")).to_have_text(title)
    assert page.evaluate("viewer.state().mutes.length") == 0
