"""Times of the instruments as the server answers them: `make bench-instruments`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median
from typing import Any

from model import Translator
from viz.payload import to_json
from viz.server.backend import Backend

TEXT = "Wenn das Wetter morgen schön ist, gehen wir im See schwimmen."
OTHER = "Der Zug nach Hamburg hat zwanzig Minuten Verspätung."
MOST = {  # milliseconds that each may take
    "leave_one_out": 60,
    "routes": 30,
    "summary": 300,
    "lens": 100,
    "contributions": 100,
    "score_split": 50,
    "writing": 50,
    "mute": 120,
    "mute, mean": 120,
    "mute, another sentence": 120,
    "removal": None,
    "links": None,
}
ROUNDS = 15
SENTENCES, CHUNK = 200, 20


def questions(ids: list[int]) -> dict[str, dict[str, Any]]:
    step = len(ids) // 2
    cell = {"ids": ids, "kind": "cross", "layer": 3, "head": 2, "row": step, "column": 4}
    heads = {"do": "mute", "ids": ids, "heads": [["cross", 3, 2]]}
    sample = json.loads(Path("assets/everyday.json").read_text(encoding="utf-8"))["de-en"]
    row = {"kind": "cross", "layer": 3, "row": step, "step": step}
    return {
        "leave_one_out": {"do": "leave_one_out", "ids": ids},
        "routes": {"do": "routes", "ids": ids, "step": step},
        "summary": {"do": "summary", "ids": ids},
        "lens": {"do": "lens", "ids": ids},
        "contributions": {"do": "contributions", "ids": ids, "step": step, "word": ids[step], "other": 500},
        "score_split": {"do": "score_split", **cell},
        "writing": {"do": "writing", **cell},
        "mute": heads,
        "mute, mean": {**heads, "baseline": "mean", "sample": sample},
        "mute, another sentence": {**heads, "baseline": "sentence", "other": OTHER},
        "removal": {"do": "removal", "ids": ids, **row},
        "links": {"do": "links", "ids": ids, "gold": "0-0"},
    }


def ask(backend: Backend, request: dict[str, Any]) -> tuple[float, int]:
    """Milliseconds and bytes of one answer."""
    common = {"model": "de-en", "text": TEXT, "beam_size": 1, "length_penalty": 1}
    started = time.perf_counter()
    answer = backend.answer({**common, **request})
    milliseconds = 1000 * (time.perf_counter() - started)
    if "answer" not in answer:
        raise RuntimeError(answer["error"])
    return milliseconds, len(to_json(answer))


def main() -> None:
    """Print medians."""
    translator = Translator.load("assets/models/de-en")
    backend = Backend({"de-en": translator})
    result = translator.translate(TEXT)
    ids = list(result.ids)
    print(f"{len(result.attention.source)} source tokens, {len(ids)} target tokens; medians of {ROUNDS}")
    print(f"{'instrument':30}{'first ms':>10}{'ms':>8}{'most':>6}{'bytes':>10}")
    for name, request in questions(ids).items():
        first, size = ask(backend, request)
        times = [ask(backend, request)[0] for _ in range(ROUNDS)]
        most = MOST[name] or ""
        print(f"{name:30}{first:10.0f}{median(times):8.1f}{most:>6}{size:10,}")
    own = json.loads(Path("assets/everyday.json").read_text(encoding="utf-8"))["de-en"]
    sentences = (own * SENTENCES)[:SENTENCES]
    started, size = time.perf_counter(), 0
    for start in range(0, SENTENCES, CHUNK):
        size += ask(backend, {"do": "examples", "sentences": sentences[start : start + CHUNK]})[1]
    seconds = time.perf_counter() - started
    print(f"{SENTENCES} sentences of examples: {seconds:.1f} s of at most 15, {size:,} bytes")


if __name__ == "__main__":
    main()
