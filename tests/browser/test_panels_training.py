"""The training panel: the curves of the training run, and the attention at saved steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from model.analysis.definitions import ROLE_DEFINITIONS
from model.results import Translation
from tests.browser.conftest import TRANSLATORS, Show, Visit
from tests.browser.inspector import DIFFERENT, FAIL, HOLD, KEEP, RELEASE, open_panel, status
from tests.browser.screen import choose, point
from tests.viz.fakes import FakeTranslator, random_translation
from viz.about import NO_TRAINING
from viz.payload import encode_measures
from viz.server.handlers import HANDLERS
from viz.server.handlers.records import payload_of
from viz.server.handlers.registry import Work
from viz.server.validation import TrainingSentenceRequest, TrainingStepRequest

pytestmark = pytest.mark.browser

STEPS = [0, 1, 10, 100, 1000]
SENTENCES = ["Ein Hund", "Guten Tag ihr alle"]
CURVES = [
    *({"step": step, "train/loss": 9 - step / 200} for step in range(50, 1001, 50)),
    {"step": 500, "validation/loss": 7.25, "validation/bleu": 12.5},
    {"step": 1000, "validation/loss": 5.5, "validation/bleu": 31.25},
]


ALIGNS = next(one.least for one in ROLE_DEFINITIONS.values() if one.measure == "focus")
LAST_RUN = "This is the record of the last of several runs."


def recorded(step: int, sentence: int) -> Translation:
    words = SENTENCES[sentence].split()
    found = random_translation(words, [word.upper() for word in words], seed=step + 1)
    return replace(found, source=replace(found.source, text=SENTENCES[sentence]), n_forced=len(words) + 1)


def training(*_: Any) -> dict[str, Any]:
    sentences = [{"source": text, "target": text.upper()} for text in SENTENCES]
    return {"curves": CURVES, "steps": STEPS, "sentences": sentences, "notice": ""}


def training_step(translator: FakeTranslator, request: TrainingStepRequest) -> dict[str, Any]:
    return payload_of(translator, request, recorded(request.step, request.sentence))


@pytest.fixture(autouse=True)
def _with_training(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, "training", training)
    answer_with(monkeypatch, "training_step", training_step)


def answer_with(monkeypatch: pytest.MonkeyPatch, name: str, work: Work) -> None:
    monkeypatch.setitem(HANDLERS, name, replace(HANDLERS[name], work=work))


def to_step(page: Page, place: int) -> None:
    page.get_by_label("Saved step of the training").fill(str(place))


def test_the_curves_are_those_of_the_run(page: Page, asked: list):
    assert asked == []
    panel = open_panel(page, "Training")
    expect(panel.locator("figcaption").first).to_have_text("Lossstep 1000: training 4.00, validation 5.50")
    expect(panel.locator("figcaption").last).to_have_text("BLEUstep 1000: BLEU 31.3")
    assert panel.locator(".hl-curve").first.get_attribute("d").count("L") == 19
    expect(panel.get_by_label("Saved step of the training")).to_be_visible()
    expect(panel.get_by_text(LAST_RUN)).to_be_hidden()
    expect(panel).to_contain_text("the loss of validation without both")
    panel.locator(".hl-chart").last.scroll_into_view_if_needed()
    box = panel.locator(".hl-chart").last.bounding_box()
    page.mouse.move(box["x"] + 45, box["y"] + 40)
    expect(panel.locator("figcaption").last).to_have_text("BLEUstep 500: BLEU 12.5")
    open_panel(page, "Head")
    open_panel(page, "Training")
    assert [each["do"] for each in asked] == ["training"]


def test_a_record_says_what_its_parts_are_and_what_it_lacks(page: Page, monkeypatch: pytest.MonkeyPatch):
    """Another vocabulary, other languages, a model that was trained before, broken lines."""
    parts = [{"last": 100, "title": "English → French"}, {"last": 500, "title": ""}]
    broken = "3 lines of this training's log cannot be read; the curves leave them out."
    more = {"earlier": parts, "begins_trained": True, "notice": broken}
    answer_with(monkeypatch, "training", lambda *_: training() | more)
    panel = open_panel(page, "Training")
    expect(panel.get_by_text(LAST_RUN)).to_be_visible()
    expect(panel).to_contain_text(broken)
    expect(panel).to_contain_text("Step 1000 of 1000")
    notes = panel.locator("p", has_text="Up to step")
    expect(notes.first).to_have_text(
        "Up to step 100 (dashed line) the model learned English → French. The losses and scores before and "
        "after cannot be compared."
    )
    expect(notes.last).to_have_text(
        "Up to step 500 (dashed line) the model split some words into other pieces. The losses before and "
        "after cannot be compared."
    )
    for chart in panel.locator(".hl-chart").all():
        expect(chart.locator(".hl-curve-end")).to_have_count(2)


def test_the_slider_shows_the_head_as_it_was_and_leaving_restores_everything(page: Page, asked: list):
    choose(page, "Cross", 2, 3)
    panel = open_panel(page, "Training")
    expect(panel).to_contain_text("Step 1000 of 1000")
    expect(panel.locator(".hl-step-picture")).to_be_hidden()  # it is for small screens
    page.evaluate(KEEP)
    for place in (1, 3, 1):
        to_step(page, place)
        expect(panel).to_contain_text(f"Step {STEPS[place]} of 1000")
        page.locator(".hl-field").scroll_into_view_if_needed()
        point(page, 1, 0)
        weight = float(recorded(STEPS[place], 0).attention.cross[1, 2, 1, 0])
        expect(page.locator(".hl-value")).to_have_text(f"{weight:.4f}")
    expect(panel.locator("figcaption").first).to_contain_text("step 1: not yet measured")
    title = TRANSLATORS["de-en"].title
    expect(page.locator(".hl-analysed")).to_have_text(f"“{SENTENCES[0]}” · training, step 1 · {title}")
    assert page.evaluate("document.body.classList.contains('hl-elsewhere')")
    assert [each["step"] for each in asked[1:]] == [1, 100], "a step that was shown is not asked for again"
    page.mouse.move(0, 0)
    expect(status(page)).to_contain_text("training, step 1")
    page.get_by_role("button", name="Back to the model’s translation").click()
    assert page.evaluate(DIFFERENT) == []
    expect(page.locator(".hl-analysed")).to_have_text("")
    assert not page.evaluate("document.body.classList.contains('hl-elsewhere')")
    expect(panel).to_contain_text("Step 1000 of 1000")


@pytest.mark.slow
def test_the_curve_of_a_head_says_when_it_got_its_role(
    page: Page, asked: list, monkeypatch: pytest.MonkeyPatch
):
    def heads(_: FakeTranslator, request: TrainingSentenceRequest) -> dict[str, Any]:
        return {"steps": [encode_measures(recorded(step, request.sentence).attention) for step in STEPS]}

    answer_with(monkeypatch, "training_heads", heads)
    choose(page, "Cross", 2, 3)
    panel = open_panel(page, "Training")
    panel.get_by_role("button", name="Show how it got its role").click()
    found = [encode_measures(recorded(step, 0).attention) for step in STEPS]
    role = found[-1]["roles"]["cross"][1][2]
    first = next(step for step, one in zip(STEPS, found, strict=True) if one["roles"]["cross"][1][2] == role)
    assert role != "mixed"
    expect(panel).to_contain_text(f"At step {first} the head counts as “{role}”")
    aligns = [max(map(max, one["measures"]["cross"]["focus"])) >= ALIGNS for one in found]
    since = max((place + 1 for place, each in enumerate(aligns) if not each), default=0)
    later = f"from step {STEPS[since]} on" if since < len(STEPS) else "At the last step no head"
    said = "at every saved step" if since == 0 else later
    expect(panel).to_contain_text(said)
    focus = found[-1]["measures"]["cross"]["focus"][1][2]
    expect(panel.locator("figcaption").last).to_contain_text(f"source focus {focus:.2f}")
    choose(page, "Encoder", 1, 1)
    expect(panel).to_contain_text("Encoder · layer 1 · head 1")
    assert [each["do"] for each in asked].count("training_heads") == 1


@pytest.mark.slow
def test_another_sentence_of_the_training(page: Page):
    panel = open_panel(page, "Training")
    to_step(page, 2)
    panel.get_by_label("Sentence").select_option(label=SENTENCES[1])
    expect(page.locator(".hl-chip[data-side=source]")).to_have_count(5)
    expect(panel).to_contain_text("Step 10 of 1000")
    to_step(page, 3)
    expect(panel).to_contain_text("Step 100 of 1000")
    expect(page.locator(".hl-chip[data-side=source]")).to_have_count(5)


def test_a_pin_stays_when_the_step_changes(page: Page):
    choose(page, "Cross", 1, 1)
    panel = open_panel(page, "Training")
    to_step(page, 1)
    expect(panel).to_contain_text("Step 1 of 1000")
    page.evaluate("viewer.state()")
    page.keyboard.press("Escape")
    page.locator(".hl-row-label").first.click()
    to_step(page, 2)
    expect(panel).to_contain_text("Step 10 of 1000")
    expect(page.locator(".hl-row-label.hl-lit")).to_have_attribute("data-row", "0")


def test_only_the_last_of_quick_moves_is_shown(page: Page):
    panel = open_panel(page, "Training")
    expect(panel).to_contain_text("Step 1000 of 1000")
    page.evaluate(HOLD)
    for place in (1, 2, 3):
        to_step(page, place)
    page.evaluate(RELEASE)
    expect(panel).to_contain_text("Step 100 of 1000")
    expect(page.get_by_label("Saved step of the training")).to_have_value("3")


@pytest.mark.slow
def test_play_runs_through_the_steps_to_the_end(page: Page, asked: list):
    panel = open_panel(page, "Training")
    to_step(page, 2)
    expect(panel).to_contain_text("Step 10 of 1000")
    panel.get_by_role("button", name="Play").click()
    expect(panel.get_by_role("button", name="Stop")).to_be_visible()
    expect(panel.get_by_role("button", name="Play")).to_be_visible()
    expect(panel).to_contain_text("Step 1000 of 1000")
    assert [each["step"] for each in asked[1:]] == [10, 100, 1000]


def test_stop_ends_its_own_run_and_not_the_next_one(page: Page):
    panel = open_panel(page, "Training")
    to_step(page, 1)
    expect(panel).to_contain_text("Step 1 of 1000")
    page.evaluate("() => { window.pauses = []; window.setTimeout = (wake) => pauses.push(wake); }")
    for name, shown in (("Play", 10), ("Stop", 10), ("Play", 100)):
        panel.get_by_role("button", name=name).click()
        expect(panel).to_contain_text(f"Step {shown} of 1000")
    page.evaluate("pauses.splice(0).forEach((wake) => wake())")
    expect(panel).to_contain_text("Step 1000 of 1000")


def test_play_is_hidden_for_people_who_prefer_reduced_motion(page: Page, show: Show):
    page.emulate_media(reduced_motion="reduce")
    expect(open_panel(page, "Training").get_by_label("Saved step of the training")).to_be_visible()
    expect(page.get_by_role("button", name="Play")).to_be_hidden()


def test_nothing_else_can_be_asked_of_a_model_in_training(page: Page, asked: list):
    open_panel(page, "Training")
    to_step(page, 1)
    expect(status(page)).to_contain_text("training, step 1")
    panel = open_panel(page, "What if")
    expect(panel).to_contain_text("a model in training")
    expect(panel.get_by_role("button", name="All of layer")).to_be_disabled()
    page.keyboard.press("m")
    expect(status(page)).to_contain_text(
        "Not available for a model in training: only its attention was saved."
    )
    expect(page.locator(".hl-muted")).to_have_count(0)
    page.get_by_role("button", name="Close").click()
    expect(status(page)).to_contain_text("training, step 1")
    expect(open_panel(page, "Step")).to_contain_text("a model in training")
    assert {each["do"] for each in asked} == {"training", "training_step"}


def test_a_training_record_that_could_not_be_read_can_be_requested_again(page: Page):
    page.evaluate("() => { window.answering = window.askBackend; }")
    page.evaluate(FAIL, "The server does not answer.")
    panel = open_panel(page, "Training")
    expect(status(page)).to_contain_text("The server does not answer.")
    page.evaluate("() => { window.askBackend = window.answering; }")
    panel.get_by_role("button", name="Read it").click()
    expect(panel).to_contain_text("Step 1000 of 1000")


def test_a_missing_training_record_is_reported_and_not_requested_again(
    page: Page, asked: list, monkeypatch: pytest.MonkeyPatch
):
    nothing: dict[str, Any] = {"curves": [], "steps": [], "sentences": [], "notice": NO_TRAINING}
    answer_with(monkeypatch, "training", lambda *_: nothing)
    panel = open_panel(page, "Training")
    expect(panel).to_have_text("This model came without a record of its training.")
    expect(panel.get_by_role("button")).to_have_count(0)
    open_panel(page, "Head")
    expect(open_panel(page, "Training")).to_have_text("This model came without a record of its training.")
    assert [each["do"] for each in asked] == ["training"]


@pytest.mark.slow
def test_on_a_phone_with_a_chapter_open_the_slider_and_the_head_are_in_sight_together(
    visit: Visit, address: str
):
    page = visit(f"{address}#learn=5", 390, 844)
    page.get_by_role("button", name="Often nothing").click()  # the guess, which hides the page until then
    panel = open_panel(page, "Training")
    slider, picture = page.get_by_label("Saved step of the training"), panel.locator(".hl-step-picture")
    to_step(page, 1)
    expect(picture).to_be_visible()
    slider.evaluate("slider => slider.scrollIntoView({ block: 'start' })")
    sheet = page.get_by_role("complementary", name="Learn").bounding_box()
    assert sheet is not None
    for box in (slider.bounding_box(), picture.bounding_box()):
        assert box is not None
        assert box["y"] > -1  # a page scrolls by whole pixels
        assert box["y"] + box["height"] <= sheet["y"], "the chapter covers the slider or the head"
