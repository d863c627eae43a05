"""axe-core finds no serious violation in any main state of the page, light and dark, and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.screen import cell

pytestmark = pytest.mark.browser
SERIOUS = {"serious", "critical"}


def open_tab(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("tab", name=name).click()


def explain_a_cell(page: Page) -> None:
    page.mouse.click(*cell(page, 2, 2))
    open_tab("Cell")(page)


def mute_a_head(page: Page) -> None:
    page.keyboard.press("m")
    expect(page.locator(".hl-thumbnail.hl-muted")).to_have_count(1)
    open_tab("What if")(page)


def open_options(page: Page) -> None:
    page.get_by_role("button", name="Options").click()


def open_export(page: Page) -> None:
    page.get_by_role("button", name="Export").click()


def open_help(page: Page) -> None:
    page.keyboard.press("Escape")  # closes the menu Export
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()


def open_learn(page: Page) -> None:
    page.get_by_role("button", name="Learn", exact=True).click()
    learn = page.get_by_role("complementary", name="Learn")
    learn.get_by_role("button", name="Next", exact=True).click()
    expect(page.get_by_label("Sentence")).to_have_value("umbrella")
    learn.locator(".hl-letters button, .hl-answers button").first.click()
    expect(learn).to_contain_text("Try it")


def ask_for_the_dialog(page: Page) -> None:
    page.get_by_role("button", name="For teachers").click()


def open_sheet(page: Page) -> None:
    page.get_by_role("dialog", name="For teachers").get_by_role("button", name="Sheet to print").click()
    expect(page.locator(".hl-paper")).to_be_visible()


def close_sheet(page: Page) -> None:
    page.keyboard.press("Escape")
    expect(page.locator(".hl-paper")).to_have_count(0)


def show_an_error(page: Page) -> None:
    page.get_by_role("complementary", name="Learn").get_by_role("button", name="Close").click()
    page.locator(".hl-learn").wait_for(state="hidden")  # after the sentence from before is translated again
    page.get_by_label("Sentence").fill("")
    page.get_by_label("Sentence").press("Enter")
    expect(page.get_by_role("alert").filter(visible=True)).not_to_be_empty()


def show_two_sides(page: Page) -> None:
    page.keyboard.press("Escape")  # closes the help
    page.get_by_role("button", name="Side by side").click()
    page.get_by_label("Another sentence", exact=True).fill("Guten Tag")
    page.get_by_label("Another sentence", exact=True).press("Enter")
    expect(page.get_by_label("Matrix of B", exact=True)).to_be_visible()


# One after the other on one page, because loading it takes the most time.
STATES = {
    "first": lambda page: None,
    "decoder": lambda page: page.get_by_role("button", name="Decoder", exact=True).click(),
    "cell": explain_a_cell,
    "step": open_tab("Step"),
    "mute": mute_a_head,
    "training": open_tab("Training"),
    "examples": open_tab("Examples"),
    "learn": open_learn,
    "teachers": ask_for_the_dialog,
    "sheet": open_sheet,
    "after": close_sheet,
    "options": open_options,
    "error": show_an_error,
    "export": open_export,
    "help": open_help,
    "side by side": show_two_sides,
}
VIOLATIONS = {"resultTypes": ["violations"]}  # what passes is not described, which takes long
# A colour in transition is neither that of the state before nor that of the state after.
STILL = "*, ::before, ::after { transition: none !important }"
LOOKS = {"light": (1440, 900), "dark": (1440, 900), "phone": (390, 844), "contrast": (1440, 900)}


def test_no_serious_violation_in_the_main_states(visit: Visit, address: str):
    assert_no_violation(visit, address, "light", ["first", "cell", "learn", "teachers", "sheet"])


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_no_serious_violation_in_any_state(visit: Visit, address: str, look: str):
    assert_no_violation(visit, address, look, STATES)


def assert_no_violation(visit: Visit, address: str, look: str, states: Iterable[str]) -> None:
    found = []
    page = visit(address, *LOOKS[look], "dark" if look == "dark" else "light")
    page.emulate_media(forced_colors="active" if look == "contrast" else "none")
    page.add_style_tag(content=STILL)
    for name in states:
        STATES[name](page)
        for violation in Axe().run(page, options=VIOLATIONS).response["violations"]:
            if violation["impact"] in SERIOUS:
                places = [
                    f"{node['target']} {node['any'][0]['message'] if node['any'] else ''}"
                    for node in violation["nodes"]
                ]
                found.append(f"{name}: {violation['help']}: {places[:4]}")
    assert not found, "\n".join(found)
