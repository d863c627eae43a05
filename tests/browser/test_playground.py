"""The playground in a real Chromium: training, its address, the slider, two trainings, the saved model."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from model import Translator
from model.decoding.options import PAGE_BEAM
from tests.browser.conftest import Visit
from tests.browser.static_site import served, translators, write

pytestmark = pytest.mark.browser
SMALL = "#playground=copy&width=16"
WORDS = ("lantern", "notebook", "umbrella")


OF_REVERSE = [True, True, True, False, False, False, True, True]  # pages of Learn that need no other model


def playground(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Playground")


def press(page: Page, name: str) -> None:
    playground(page).get_by_role("button", name=name, exact=True).click()


def step_of(page: Page) -> int:
    text = playground(page).locator(".hl-play-bar .hl-role").first.text_content() or ""
    found = re.match(r"Step (\d+)", text)
    assert found, text
    return int(found[1])


def expect_step(page: Page, number: int) -> None:
    expect(playground(page).locator(".hl-play-bar .hl-role").first).to_contain_text(f"Step {number} ·")


def train(page: Page, steps: int) -> None:
    """Train for at least this many steps."""
    press(page, "Start")
    wait_for_step(page, steps)
    press(page, "Pause")


def wait_for_step(page: Page, least: int) -> None:
    shown = "Number(document.querySelector('.hl-play-bar .hl-role')?.textContent.match(/\\d+/)?.[0])"
    page.wait_for_function(f"(least) => {shown} >= least", arg=least)


def picture(page: Page, place: int = 0) -> str:
    """What a matrix looks like."""
    return str(playground(page).locator("canvas").nth(place).evaluate("(canvas) => canvas.toDataURL()"))


def test_a_model_trains_and_can_be_looked_back_at(visitor, static):
    page = visitor.visit(static + SMALL)
    expect_step(page, 0)
    before = picture(page)
    press(page, "One step")
    expect_step(page, 1)
    train(page, 20)
    assert picture(page) != before
    last = step_of(page)
    assert last >= 20
    slider = playground(page).get_by_label("Back through the training")
    slider.focus()
    slider.press("Home")
    expect_step(page, 0)
    assert picture(page) == before
    slider.press("End")
    with page.expect_download():  # it comes after the steps that the pause had to wait for
        press(page, "Save the model")
    assert step_of(page) >= last
    last = step_of(page)
    slider.focus()
    slider.press("Home")
    expect_step(page, 0)
    slider.press("End")
    expect_step(page, last)
    press(page, "Start again")
    expect_step(page, 0)
    assert picture(page) == before, "the same seed begins with the same weights"


@pytest.mark.slow
def test_the_address_holds_every_switch(visitor, static):
    page = visitor.visit(
        f"{static}#playground=sort&layers=2&heads=4&width=64&positions=0&mask=0&rate=0.003&seed=4"
    )
    expect_step(page, 0)
    chosen = {
        label: playground(page).get_by_label(label).locator("option:checked").inner_text()
        for label in ("Layers", "Heads", "Width", "Positions", "Seed")
    }
    assert chosen == {"Layers": "2", "Heads": "4", "Width": "64", "Positions": "off", "Seed": "4"}
    assert playground(page).locator("canvas").count() == 3 * 2 * 4
    playground(page).get_by_label("Width").select_option("16")
    expect(page).to_have_url(re.compile("width=16"))
    expect(page).to_have_url(re.compile("playground=sort&layers=2&heads=4"))
    page.reload()
    expect_step(page, 0)
    expect(playground(page).get_by_label("Width").locator("option:checked")).to_have_text("16")


def test_what_an_address_asks_for_in_vain_is_usual(visitor, static):
    page = visitor.visit(f"{static}#playground=none&heads=3&width=1e9&seed=-1&rate=NaN")
    expect_step(page, 0)
    assert playground(page).locator("canvas").count() == 3 * 2


@pytest.mark.slow
def test_reduced_motion_redraws_once_a_second(visitor, static):
    page = visitor.visit(static + SMALL)
    expect_step(page, 0)
    page.emulate_media(reduced_motion="reduce")
    page.clock.install(time=0)
    page.clock.pause_at(1000)  # of the page; the Worker trains on
    press(page, "Start")
    page.wait_for_function("() => Headlight.viewer.state().played[0].steps >= 20")
    expect_step(page, 0)
    page.clock.fast_forward(1000)
    expect(playground(page).locator(".hl-play-bar .hl-role")).not_to_contain_text("Step 0 ·")
    press(page, "Pause")


@pytest.mark.slow
def test_two_trainings_step_together(visitor, static):
    page = visitor.visit(static + SMALL)
    expect_step(page, 0)
    press(page, "A second one side by side")
    expect(playground(page).get_by_role("region", name="B · Positions: off", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("positions2=0"))
    train(page, 10)
    texts = playground(page).locator(".hl-play-bar .hl-role").all_inner_texts()
    steps = [text.split(" · ")[0] for text in texts]
    assert len(steps) == 2
    assert steps[0] == steps[1]
    assert texts[0] != texts[1], "without positions another loss"


@pytest.mark.slow
def test_a_word_of_the_person_is_written_at_any_moment(visitor, static):
    page = visitor.visit(static + SMALL)
    expect_step(page, 0)
    row = playground(page).locator("tbody tr").last
    row.get_by_role("textbox").fill("Lamp")
    expect(row.locator("td").first).to_have_text("lamp")
    expect(row.locator("td").nth(1)).not_to_be_empty()
    row.get_by_role("textbox").fill("läm")
    expect(row.locator("td").nth(1)).to_contain_text("does not know all of these letters")


@pytest.mark.slow
def test_a_saved_model_opens_in_python(visitor, static, tmp_path):
    page = visitor.visit(static + SMALL)
    expect_step(page, 0)
    train(page, 30)
    translator = saved(page, tmp_path)
    written = playground(page).locator("tbody tr td:nth-child(3)").all_inner_texts()
    expected = [translator.translate(word).text for word in WORDS]
    assert [text.removesuffix(" ✓") for text in written[:3]] == expected


def saved(page: Page, folder: Path) -> Translator:
    """Save the model of the playground and read it in Python."""
    with page.expect_download() as download:
        press(page, "Save the model")
    archive = Path(download.value.path()).read_bytes()
    zipfile.ZipFile(io.BytesIO(archive)).extractall(folder)
    (model,) = folder.iterdir()
    return Translator.load(model)


def open_in_viewer(page: Page, folder: Path) -> None:
    """Train on, open the model at its last step, and come back to its training."""
    train(page, step_of(page) + 30)  # the log has a line each 25 steps, and two points make a curve
    translator = saved(page, folder)
    word = playground(page).locator("tbody th").first.inner_text()
    title = page.locator("#hl-model select option:checked")
    former = title.text_content() or ""
    progress = playground(page).locator(".hl-play-bar .hl-role").first.inner_text()
    press(page, "Open in the viewer")
    expect(playground(page)).to_be_hidden()
    expect(title).to_contain_text("Playground")
    expect(title).not_to_have_text(former)
    steps = int(re.findall(r"\d+", title.inner_text())[-1])
    # The playground writes greedily, a new page with a beam.
    written = translator.translate(word, PAGE_BEAM).text
    expect(page.locator(".hl-translation")).to_have_text(written or "(nothing)")
    page.get_by_role("tab", name="Training").click()
    expect(page.get_by_text(f"Step {steps} of {steps}", exact=True)).to_be_visible()
    expect_share(page, progress)
    page.get_by_role("button", name="Playground", exact=True).click()
    expect_step(page, steps)


def expect_share(page: Page, progress: str) -> None:
    """The tab Training says what the playground said, under the same name, on an axis of per cent."""
    share = re.search(r"(\d+) % of unseen words", progress)
    panel = page.get_by_role("tabpanel", name="Training")
    chart = panel.locator("figure").filter(has_text="Unseen words right, %")
    shown = re.findall(r"[\d.]+", chart.locator("figcaption").inner_text())[-1]
    assert share, progress
    assert abs(float(shown) - int(share[1])) <= 0.5
    assert max(map(float, chart.locator("text").all_text_contents()[:3])) == 100


def test_a_model_opens_in_the_viewer_and_again_when_it_is_trained_further(visitor, static, tmp_path):
    page = visitor.visit(static + SMALL)
    expect_step(page, 0)
    open_in_viewer(page, tmp_path)
    open_in_viewer(page, tmp_path)


def expect_answers(page: Page) -> None:
    """The engine in the page answers for its own models."""
    page.get_by_role("tab", name="Step").click()
    page.get_by_text("Why this letter?").click()
    expect(page.get_by_role("tabpanel", name="Step")).to_contain_text("The largest parts")


def test_the_page_with_a_server_has_the_playground(visit: Visit, address: str, tmp_path: Path):
    page = visit(address + SMALL, waits=False)
    expect_step(page, 0)
    open_in_viewer(page, tmp_path)
    press(page, "Close")
    expect_answers(page)
    model = page.locator("#hl-model select")
    page.evaluate("location.hash = 'model=reverse&text=Hund'")
    page.wait_for_function("() => Headlight.viewer.state().record.model.name === 'reverse'")
    expect(model).to_have_value("reverse")
    page.go_back()
    expect(model).to_have_value("playground-copy")


# A busy browser tells of a new address only after the page has gone on.
HOLD_BACK = """() => {
  window.late = [];
  window.addEventListener('hashchange', (event) => {
    if (!event.isTrusted) return;
    event.stopImmediatePropagation();
    window.late.push(new HashChangeEvent('hashchange', event));
  }, true);
}"""


def test_an_opened_model_stays_in_a_busy_browser(visit: Visit, address: str):
    page = visit(address)
    page.get_by_role("button", name="Playground", exact=True).click()
    expect_step(page, 0)
    page.evaluate(HOLD_BACK)
    press(page, "Open in the viewer")
    opened = re.compile("model=playground-")
    expect(page).to_have_url(opened)
    page.evaluate("late.forEach((event) => window.dispatchEvent(event))")
    expect(page).to_have_url(opened)
    expect(page.locator("#hl-model select option:checked")).to_contain_text("Playground")


@pytest.mark.slow
def test_closing_leads_back_to_the_view(visitor, static):
    page = visitor.visit(static)
    expect(page.locator(".hl-translation")).not_to_be_empty()
    view = page.url
    page.get_by_role("button", name="Playground", exact=True).click()
    expect_step(page, 0)
    expect(page.get_by_role("button", name="Learn", exact=True)).to_be_hidden()
    press(page, "Close")
    expect(playground(page)).to_be_hidden()
    expect(page.get_by_role("button", name="Learn", exact=True)).to_be_visible()
    assert page.url == view


def test_the_first_picture_does_not_wait_for_the_playground(visitor, static):
    page = visitor.page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(static)
    expect(page.locator(".hl-translation")).not_to_be_empty()
    assert not [url for url in asked if "playground" in url]
    page.get_by_role("button", name="Playground", exact=True).click()
    expect_step(page, 0)
    assert [url for url in asked if "playground" in url]


def test_a_link_shows_the_playground_before_the_first_translation(visit: Visit, address: str):
    page = visit(f"{address}healthz", 1440, 900, waits=False)
    page.route("**/component_server**", lambda _: None)
    with page.expect_request("**/component_server**"):
        page.goto(f"{address}{SMALL}")
    expect(playground(page).locator("canvas").first).to_be_visible()
    expect(page.locator(".headlight.hl-empty")).to_be_attached()
    page.unroute("**/component_server**")  # the request that waits is sent
    expect(page.locator(".headlight.hl-empty")).to_have_count(0)


# Its latest Worker, which a page does not give away otherwise.
NAME_WORKER = """window.Worker = class extends Worker {
  constructor(...inputs) {
    super(...inputs);
    window.latestWorker = this;
  }
};"""


def test_a_playground_that_fails_says_so_and_starts_again(visitor, static):
    page = visitor.page()
    page.add_init_script(NAME_WORKER)
    page.route("**/engine.deflate*", lambda route: route.abort())
    page.goto(static + SMALL)
    problem = playground(page).get_by_role("alert")
    expect(problem).to_contain_text("could not be loaded")
    page.unroute_all()
    press(page, "Start again")
    expect_step(page, 0)
    expect(problem).to_be_hidden()
    page.evaluate("latestWorker.dispatchEvent(new Event('error'))")
    expect(problem).to_contain_text("The training failed")
    press(page, "Start")
    expect(playground(page).get_by_role("button", name="Start", exact=True)).to_be_visible()
    page.evaluate("window.former = latestWorker")
    press(page, "Start again")
    page.wait_for_function("() => latestWorker !== former")
    expect(problem).to_be_hidden()
    train(page, 1)


@pytest.mark.slow
def test_one_file_has_the_playground_inside(visitor, tmp_path):
    folder = write(tmp_path / "single", translators("reverse"), single=True)
    page = visitor.visit(f"{(folder / 'headlight.html').as_uri()}{SMALL}")
    expect_step(page, 0)
    train(page, 3)


def test_learn_stays_closed_in_the_playground(visitor, static):
    page = visitor.visit(f"{static}{SMALL}&learn=6")
    learn = page.get_by_role("complementary", name="Learn")
    learn.get_by_role("button", name="Close").click()
    expect(learn).to_be_hidden()
    press(page, "Close")
    page.get_by_role("button", name="Playground", exact=True).click()
    expect_step(page, 0)
    expect(learn).to_be_hidden()
    assert "learn" not in page.url
    page.reload()
    expect_step(page, 0)
    page.wait_for_function("() => Headlight.viewer.state().record")
    expect(learn).to_be_hidden()


@pytest.mark.slow
def test_the_last_chapter_of_learn_trains(visitor, tmp_path):
    folder = write(tmp_path / "site", translators("reverse"))
    with served(folder) as url:
        train_in_the_last_chapter(visitor.visit(url))


def train_in_the_last_chapter(page: Page) -> None:
    expect(page.locator(".hl-translation")).not_to_be_empty()
    page.get_by_role("button", name="Learn", exact=True).click()
    learn = page.get_by_role("complementary", name="Learn")
    chapters = learn.get_by_role("list", name="Chapters")
    expect(chapters.get_by_role("button")).to_have_count(len(OF_REVERSE))
    assert [each.is_enabled() for each in chapters.get_by_role("button").all()] == OF_REVERSE
    expect(learn).to_contain_text("The grey chapters need a model that this page does not have.")
    chapters.get_by_role("button", name="How heads form").click()
    expect_step(page, 0)
    expect(learn).to_contain_text("6 of 6")
    learn.locator(".hl-answers button").first.click()
    playground(page).get_by_label("Width").select_option("16")
    playground(page).get_by_label("Positions").select_option("off")
    expect(page).to_have_url(re.compile("positions=0.*learn=6"))
    expect(learn).not_to_contain_text("Done")
    train(page, 300)
    expect(learn.get_by_role("listitem").filter(has_text="Switch positions off")).to_contain_text("Done")
    expect(chapters.get_by_role("listitem").nth(6)).to_contain_text("1 of 2")
    learn.get_by_role("button", name="Back").click()
    expect(playground(page)).to_be_hidden()
    expect(learn).to_contain_text("2 of 6")  # the chapters between need a translator
