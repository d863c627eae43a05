"""Print what imported models of three families take, and their answers compared with `transformers`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
import tyro
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from model.decoding.kernels.compilation import COMPILATION
from model.decoding.options import SearchOptions
from model.translator import Translator
from tests.benchmarks.imported import memory
from tests.model.importing.checkpoints import timed_import
from tests.model.importing.families import write_mbart, write_nllb, write_t5

TEXT = "Der kleine Hund läuft."
TOKENS = 12  # of the translation


class Shape(NamedTuple):
    """A checkpoint to measure, and the code of the target language before a sentence."""

    write: Callable[[Path], None]
    code: str = ""


SHAPES = {
    "NLLB-200-distilled": Shape(partial(write_nllb, size=256_206, layers=12, width=1024), "eng_Latn"),
    "mBART-50": Shape(partial(write_mbart, size=250_054, layers=12, width=1024), "en_XX"),
    "T5-small": Shape(partial(write_t5, size=32_128, layers=6, width=512)),
}


def main(shape: str = "", times: int = 5, answer: str = "") -> None:
    """Measure with random weights in 16 bits.

    Args:
        shape: one of those above; all of them by default.
        times: how often the answer is measured; the median is printed.
        answer: of the model in this directory only, by the program that wrote it; used by itself.
    """
    if answer:
        measure = ours if Path(answer).name == "imported" else theirs
        measure(Path(answer), SHAPES[shape].code, times)
        return
    for name in [shape] if shape else SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            hub, imported = Path(folder) / "hub", Path(folder) / "imported"
            SHAPES[name].write(hub)
            seconds, megabytes = timed_import(hub, imported)
            print(f"{name}: imported in {seconds:.0f} s, at most {megabytes:,.0f} MB of memory", flush=True)
            for directory in (imported, hub):  # each in a process of its own, because of the memory
                command = [sys.executable, "-m", "tests.benchmarks.families", "--answer", str(directory)]
                subprocess.run([*command, "--shape", name, "--times", str(times)], check=True)


def ours(directory: Path, code: str, times: int) -> None:
    """Headlight's answer with every weight."""
    SearchOptions.limit = lambda *_: TOKENS  # type: ignore[method-assign]
    started = time.perf_counter()
    translator = Translator.load(directory)
    opened = time.perf_counter() - started
    COMPILATION.ready(600)
    text = f">>{code}<< {TEXT}" if code else TEXT
    report("Headlight", opened, lambda: translator.translate(text), times)


def theirs(directory: Path, code: str, times: int) -> None:
    """The answer of `generate`, and the pass that returns the weights."""
    started = time.perf_counter()
    model = AutoModelForSeq2SeqLM.from_pretrained(
        directory, attn_implementation="eager", dtype=torch.float32
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    opened = time.perf_counter() - started
    inputs = tokenizer(TEXT, return_tensors="pt")
    first = tokenizer.convert_tokens_to_ids(code) if code else None

    def answer() -> None:
        with torch.inference_mode():
            ids = model.generate(
                **inputs, forced_bos_token_id=first, max_new_tokens=TOKENS, min_new_tokens=TOKENS, num_beams=1
            )
            model(**inputs, decoder_input_ids=ids[:, :-1], output_attentions=True)

    report("transformers", opened, answer, times)


def report(name: str, opened: float, answer: Callable[[], object], times: int) -> None:
    answer()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        answer()
        found.append(time.perf_counter() - started)
    print(
        f"{name}: opened in {opened:.0f} s, {TOKENS} tokens with every weight in "
        f"{statistics.median(found):.2f} s, {memory():,.0f} MB of memory",
        flush=True,
    )


if __name__ == "__main__":
    tyro.cli(main)
