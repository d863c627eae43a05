"""Print the speed of the model in the page without a server, in Chromium on a core: `make bench-browser`."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from pathlib import Path

import torch
import tyro
from playwright.sync_api import Browser, Page, sync_playwright

from app import MODELS
from model import Translator
from tests.benchmarks.onnx_web import step_times
from tests.benchmarks.playground import report_playground
from tests.browser.conftest import FLAGS, chromium
from tests.browser.static_site import await_viewer, served, write

SENTENCE = "Der kleine Hund schläft heute unter dem alten Tisch im Garten."  # 15 tokens in English
SHORT = "Der kleine Hund schläft heute unter dem alten Tisch."  # 12 tokens in English
COMMON = {"model": "de-en", "beam_size": 1, "length_penalty": 1.0}
REQUEST = {**COMMON, "do": "translate", "text": SENTENCE, "forced": []}
# Milliseconds of one request, asked `times` times, with the answers' own timings and their numbers of tokens.
ASK = """async ([request, times]) => {
  const found = [];
  for (let count = 0; count < times; count += 1) {
    const started = performance.now();
    const text = `${request.text}${' '.repeat(count % 2)}`; // the engine keeps its last reading
    const answer = await Headlight.viewer.ask({ ...request, text });
    const timings = answer.timings ?? {};
    found.push({ ms: performance.now() - started, timings, tokens: answer.tokens?.predicted.length ?? 0 });
  }
  return found;
}"""
# Milliseconds from Enter until the frame with the new picture has been drawn.
ENTER = """async ([text, times]) => {
  const [box, button] = ['#hl-sentence input', '#hl-translate'].map((name) => document.querySelector(name));
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const found = [];
  for (let count = 0; count < times; count += 1) {
    const before = Headlight.viewer.state().record;
    box.value = `${text}${' '.repeat(count % 2)}`;
    const started = performance.now();
    button.click();
    while (Headlight.viewer.state().record === before) await new Promise((done) => setTimeout(done));
    await frame();
    found.push(performance.now() - started);
  }
  return found;
}"""

# The text of the Worker is a Blob with a type; other Blobs of the page have none.
PREPEND = """window.Blob = class extends Blob {
  constructor(parts, options) {
    super(options?.type === 'text/javascript' ? [BEFORE, ...parts] : parts, options);
  }
};"""


def main(times: int = 15, core: int = 0) -> None:
    """Measure the shipped model de-en.

    Args:
        times: how often each thing is measured; the median counts.
        core: the processor's core that the browser runs on.
    """
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    translator = Translator.load(MODELS / "de-en")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        with served(write(Path(folder) / "site", {"de-en": translator})) as url:
            measure(browser, url, translator, times)
            report_playground(browser, url, report)
        (other := Path(folder) / "onnx").mkdir()
        record = translator.translate(SENTENCE).attention
        shape = (len(record.predicted), len(record.source), times)
        found = step_times(browser, translator, other, shape)
        report(f"ONNX Runtime Web, float32: a target token ({shape[0]} tokens)", found)
        browser.close()


def opened(browser: Browser, url: str, before: str = "") -> Page:
    """The page with its model loaded, after the browser has compiled what is hot.

    `before` is run in the Worker before the engine.
    """
    page = browser.new_page()
    page.add_init_script(PREPEND.replace("BEFORE", json.dumps(before)))
    page.goto(url)
    page.set_default_timeout(60_000)
    await_viewer(page)
    page.evaluate(ASK, [REQUEST, 3])
    return page


def measure(browser: Browser, url: str, translator: Translator, times: int) -> None:
    """Print a line for each thing that the page does, and for products in JavaScript."""
    page = opened(browser, url)
    report_translation(page, times)
    tokens = page.evaluate(ASK, [REQUEST, 1])[0]["tokens"]
    report(f"Enter to picture ({tokens} tokens)", page.evaluate(ENTER, [SENTENCE, times + 3])[3:])
    ids = list(translator.translate(SHORT).ids)
    question = {**COMMON, "do": "importance", "text": SHORT, "ids": ids}
    page.evaluate(ASK, [question, 1])
    importance = [each["ms"] for each in page.evaluate(ASK, [question, max(3, times // 5)])]
    report(f"importance of all heads ({len(ids)} tokens)", importance)
    page.close()
    page = opened(browser, url, "delete globalThis.WebAssembly;")
    report_translation(page, times, "without WebAssembly: ")
    page.close()


def report_translation(page: Page, times: int, condition: str = "") -> None:
    """Print the time of a target token and of the encoder."""
    found = page.evaluate(ASK, [REQUEST, times])
    tokens = found[0]["tokens"]
    per_token = [(each["timings"]["search"] + each["timings"]["record"]) / tokens for each in found]
    report(f"{condition}a target token, every weight ({tokens} tokens)", per_token)
    report(f"{condition}the encoder", [each["timings"]["encode"] for each in found])


def report(what: str, milliseconds: list[float]) -> None:
    """Print the median and the range."""
    least, median, most = min(milliseconds), statistics.median(milliseconds), max(milliseconds)
    print(f"{what:65} {median:8.1f} ms  ({least:.1f} to {most:.1f})", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
