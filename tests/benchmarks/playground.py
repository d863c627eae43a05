"""How fast the playground trains in Chromium: part of `make bench-browser`."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Browser, Page

SEEDS = range(1, 6)
GOOD = 99  # per cent of unseen words
REACHED = 300_000  # milliseconds until a training is given up
# Milliseconds from Start until the first matrix of a trained step and until GOOD, and the longest time in
# which the page did not answer: between two of its own timers, less their interval.
TRAIN = """async ([good, limit]) => {
  const progress = document.querySelector('.hl-play-bar .hl-role');
  const numbers = () => progress.textContent.match(/[\\d.]+/g).map(Number);
  const [EVERY, frame] = [4, () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))];
  let [last, longest] = [performance.now(), 0];
  const clock = setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, now - last - EVERY);
    last = now;
  }, EVERY);
  const button = document.querySelector('.hl-play-controls .hl-button');
  const started = performance.now();
  button.click();
  while (numbers()[0] === 0) await frame();
  const first = performance.now() - started;
  while (numbers().at(-1) < good && performance.now() - started < limit) await frame();
  const reached = performance.now() - started;
  button.click();
  clearInterval(clock);
  return { first, reached, longest, steps: numbers()[0], rate: (1000 * numbers()[0]) / reached };
}"""


def report_playground(browser: Browser, url: str, report: Callable[[str, list[float]], None]) -> None:
    """Print a line for each thing that is measured over the seeds, with WebAssembly and without."""
    for condition, before in (("", ""), ("without WebAssembly: ", "delete globalThis.WebAssembly;")):
        found = [_train(browser, url, seed, before) for seed in SEEDS]
        report(f"{condition}playground: Start to the first matrix", [each["first"] for each in found])
        report(
            f"{condition}playground: {GOOD} % of unseen words reversed", [each["reached"] for each in found]
        )
        report(f"{condition}playground: longest pause of the page", [each["longest"] for each in found])
        print(f"{condition}steps: {', '.join(str(round(each['steps'])) for each in found)}", flush=True)


def _train(browser: Browser, url: str, seed: int, before: str) -> dict[str, float]:
    page: Page = browser.new_page()
    page.add_init_script(
        f"const Plain = Blob; window.Blob = class extends Plain {{ constructor(parts, options) {{ "
        f"super(options?.type === 'text/javascript' ? [{before!r}, ...parts] : parts, options); }} }};"
    )
    page.goto(f"{url}#playground=reverse&seed={seed}")
    page.locator(".hl-unseen", has_text="Step 0 ·").wait_for()
    page.set_default_timeout(REACHED)
    found: dict[str, float] = page.evaluate(TRAIN, [GOOD, REACHED])
    page.close()
    return found
