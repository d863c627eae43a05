"""Print what an imported model of OPUS-MT's size takes: import, opening, and each request of the page."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tyro
from playwright.sync_api import Browser, sync_playwright

import app
from model.decoding.kernels.compilation import COMPILATION
from model.decoding.options import SearchOptions
from model.translator import Translator
from tests.browser.conftest import FLAGS, chromium
from tests.browser.screen import enter_to_picture
from tests.model.importing.checkpoints import pickle_weights, timed_import, write_opus, write_tc_big
from viz.server.backend import Backend

NAME = "opus-mt-de-en"
WORDS = ("Der", "kleine", "Hund", "läuft", "heute", "sehr", "schnell", "durch", "den", "Schnee")


def main(layers: int = 6, heads: int = 8, lengths: tuple[int, ...] = (12, 60), times: int = 3) -> None:
    """Measure with random weights, which translate into as many tokens as the source has.

    Args:
        layers: of the encoder, and as many of the decoder.
        heads: of each layer.
        lengths: tokens of the sentences.
        times: how often each request is made; the median is printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        directory = measure_import(Path(folder) / NAME, partial(write_opus, layers=layers, heads=heads), NAME)
        size = sum(path.stat().st_size for path in directory.iterdir())
        before, started = memory(), time.perf_counter()
        translator = Translator.load(directory)
        print(f"directory: {size / 1e6:.0f} MB, opened in {time.perf_counter() - started:.1f} s")
        COMPILATION.ready(300)  # else it takes a core while the first requests are measured
        for length in lengths:
            measure(translator, length, times)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
            opened, entered = first_picture(browser, translator)
            browser.close()
        print(f"\npage with a sentence of 12 tokens: opened and drawn in {opened:,.0f} ms")
        print(f"from Enter to the next picture: {statistics.median(entered):,.0f} ms")
        print(f"memory of the model and its answers: {memory() - before:,.0f} MB\n")
        measure_import(Path(folder) / "largest", write_tc_big, "tc-big")


def measure_import(folder: Path, write_checkpoint: Callable[[Path], Any], name: str) -> Path:
    """Print what the import of a checkpoint takes, of both kinds; the imported model."""
    folder.mkdir()
    model = write_checkpoint(folder / "hub")
    for kind in ("16-bit safetensors", "32-bit pickle"):
        if kind == "32-bit pickle":
            pickle_weights(folder / "hub", model)
        seconds, megabytes = timed_import(folder / "hub", folder / kind)
        print(f"{name}, {kind}: imported in {seconds:.1f} s, at most {megabytes:,.0f} MB of memory")
    return folder / kind


def measure(translator: Translator, length: int, times: int) -> None:
    """Print how long each request takes for a sentence of this many tokens."""
    SearchOptions.limit = lambda *_: length  # type: ignore[method-assign]
    backend, config = Backend({NAME: translator}), translator.checkpoint.model.config
    common = {"model": NAME, "text": sentence(translator, length), "beam_size": 1, "length_penalty": 1.0}
    record = backend.answer(common | {"do": "translate", "forced": []})["answer"]
    ids = [token["id"] for token in record["tokens"]["predicted"]]
    heads = [
        [kind, layer, head]
        for kind in ("encoder", "decoder", "cross")
        for layer in range(getattr(config, f"n_{'encoder' if kind == 'encoder' else 'decoder'}_layers"))
        for head in range(config.n_heads)
    ]
    cell = {"kind": "cross", "layer": 3, "head": 2, "row": 3, "column": 3}
    export = {"heads": [], "address": "http://127.0.0.1:7860", "forced": ids}
    requests: dict[str, dict[str, Any]] = {
        "translate": {"forced": []},
        "translate, beam 4": {"forced": [], "beam_size": 4},
        "target": {"ids": ids},
        "mute": {"ids": ids, "heads": heads},
        "cell": {"ids": ids, **cell},
        "transformed_norm": {"ids": ids},
        "beams": {"beam_size": 4},
        "export": export,
        "lens": {"ids": ids},
        "contributions": {"ids": ids, "step": 3, "word": ids[3]},
        "score_split": {"ids": ids, **cell},
        "writing": {"ids": ids, **cell},
        "mute, another sentence": {"ids": ids, "heads": heads, "baseline": "sentence", "other": WORDS[0]},
        "removal": {"ids": ids, "kind": "cross", "layer": 3, "row": 3, "step": 3},
        "links": {"ids": ids, "gold": "0-0"},
        "importance": {"ids": ids},
    }
    print(f"\n{len(record['tokens']['source'])} source tokens, {len(ids)} target tokens, {len(heads)} heads")
    print("| request | ms | answer, kB |\n|---|---|---|")
    for name, fields in requests.items():
        repeats = 1 if name == "importance" else times
        found = []
        for _ in range(repeats):
            started = time.perf_counter()
            answer = backend.answer(common | {"do": name.partition(",")[0]} | fields)
            found.append(1000 * (time.perf_counter() - started))
        size = len(json.dumps(answer)) / 1000
        print(f"| {name} | {statistics.median(found):,.0f} | {size:,.0f} |", flush=True)


def first_picture(browser: Browser, translator: Translator, times: int = 5) -> tuple[float, list[float]]:
    """Milliseconds until the opened page has drawn 12 tokens, and each time from Enter to another 12."""
    SearchOptions.limit = lambda *_: 12  # type: ignore[method-assign]
    service, words = app.create({NAME: translator}), sentence(translator, 12).split()
    texts = [" ".join(words[place:] + words[:place]) for place in range(times + 1)]
    page, address = browser.new_page(), service.launch()
    started = time.perf_counter()
    page.goto(f"{address}#text={texts[0]}")
    page.locator(".hl-thumbnail").first.wait_for()
    opened = 1000 * (time.perf_counter() - started)
    entered = [enter_to_picture(page, text) for text in texts[1:]]
    assert page.locator(".hl-chip[data-side=target]").count() == 1 + 12  # the first is <s>
    page.close()
    service.stop()
    return opened, entered


def sentence(translator: Translator, length: int) -> str:
    """Words that make this many tokens, or a few fewer."""
    text = WORDS[0]
    for place in range(1, length):
        longer = f"{text} {WORDS[place % len(WORDS)]}"
        if len(translator.checkpoint.source_tokenizer.encode(longer)) < length:
            text = longer
    return text


def memory() -> float:
    """Megabytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    tyro.cli(main)
