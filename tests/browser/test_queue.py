"""Many at the page: who waits knows for how many, and who goes takes what was asked along."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import ARTIFACTS, TRANSLATORS
from tests.browser.screen import FIRST, submit, translate

pytestmark = pytest.mark.browser


def test_slow_questions_do_not_hold_up_quick_ones_or_a_translation(
    opened: Page, monkeypatch: pytest.MonkeyPatch
):
    released = threading.Event()
    monkeypatch.setattr(TRANSLATORS["de-en"], "importance", lambda *_: released.wait(60))
    slow = {"model": "de-en", "text": FIRST, "beam_size": 1, "length_penalty": 1, "do": "importance"}
    opened.evaluate(
        """(request) => {
          window.answered = 0;
          const count = () => { window.answered += 1; };
          for (let i = 0; i < 2; i += 1) Headlight.viewer.ask(request).then(count, count);
        }""",
        slow,
    )
    quick = opened.evaluate(
        "(request) => Headlight.viewer.ask(request)", {**slow, "do": "translate", "forced": []}
    )
    assert quick["source_text"] == FIRST
    translate(opened, "Guten Tag!")
    assert opened.evaluate("window.answered") == 0
    released.set()
    opened.wait_for_function("window.answered === 2")


def test_a_cancelled_request_that_is_asked_again_has_another_ticket(opened: Page):
    """Else a cancellation that comes late would cancel the second one."""
    calls = opened.evaluate(
        """async () => {
          const calls = [];
          const server = {
            ask: ({ ticket }) => { calls.push(['ask', ticket]); return new Promise(requestAnimationFrame); },
            cancel: (ticket) => { calls.push(['cancel', ticket]); },
          };
          const [ask, aborting] = [Headlight.asker(server), new AbortController()];
          const first = ask({ do: 'cell' }, null, aborting.signal);
          aborting.abort();
          await Promise.all([first, ask({ do: 'cell' })]);
          return calls;
        }"""
    )
    assert calls == [["ask", 1], ["cancel", 1], ["ask", 2]]


IN_QUEUE = {"model": "de-en", "beam_size": 1, "length_penalty": 1, "do": "translate", "forced": []}


def ask_to_translate(page: Page, text: str):
    page.evaluate("(request) => void Headlight.viewer.ask(request)", {**IN_QUEUE, "text": text})


@pytest.mark.slow
def test_who_waits_sees_the_place_in_the_queue(
    opened: Page, browser: Browser, address: str, monkeypatch: pytest.MonkeyPatch
):
    other = browser.new_page()
    other.goto(address)
    other.locator(".hl-thumbnail").first.wait_for()
    begun, released = threading.Semaphore(0), threading.Event()
    whole = TRANSLATORS["de-en"].translate

    def wait_and_translate(*args, **options):
        begun.release()
        return released.wait(60) and whole(*args, **options)

    monkeypatch.setattr(TRANSLATORS["de-en"], "translate", wait_and_translate)
    place = opened.locator("#hl-queue-position")
    try:
        for text in ("eins", "zwei"):  # one for each worker
            ask_to_translate(opened, text)
            assert begun.acquire(timeout=30)
        ask_to_translate(opened, "drei")
        ask_to_translate(other, "vier")
        submit(opened, "Wer wartet noch?")
        expect(place).to_have_text("number 3 in the queue")
        other.close()  # and with it goes what it had asked
        expect(place).to_have_text("number 2 in the queue")
        opened.screenshot(path=ARTIFACTS / "queue.png")
    finally:
        released.set()
    expect(opened.locator(".hl-translation")).to_have_text("wER WARTET NOCH ?")
    expect(place).to_have_text("")


def test_a_long_translation_can_be_cancelled(opened: Page, monkeypatch: pytest.MonkeyPatch):
    released, before = threading.Event(), opened.locator(".hl-translation").inner_text()
    whole = TRANSLATORS["de-en"].translate
    monkeypatch.setattr(
        TRANSLATORS["de-en"], "translate", lambda *a, **k: released.wait(60) and whole(*a, **k)
    )
    try:
        submit(opened, "Das dauert.")
        opened.get_by_role("button", name="Cancel").click()
        expect(opened.get_by_role("button", name="Cancel")).to_be_hidden()
    finally:
        released.set()
    expect(opened.locator(".hl-translation")).to_have_text(before)
    translate(opened, "Es geht weiter.")
