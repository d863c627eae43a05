"""Print what a model of NLLB-200-distilled's shape takes, and its answer compared with `transformers`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import tyro
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from model.decoding.kernels.compilation import COMPILATION
from model.decoding.search import SearchOptions
from model.translator import Translator
from tests.benchmarks.imported import memory
from tests.model.importing.checkpoints import timed_import
from tests.model.importing.families import write_nllb

TEXT, CODE = "Der kleine Hund läuft.", "eng_Latn"
TOKENS = 12  # of the translation


def main(layers: int = 12, width: int = 1024, size: int = 256_206, times: int = 5, answer: str = "") -> None:
    """Measure with random weights in 16 bits.

    Args:
        layers: of the encoder, and as many of the decoder, of 16 heads each.
        width: of the model; its feed-forward networks are four times as wide.
        size: of the vocabulary.
        times: how often the answer is measured; the median is printed.
        answer: of the model in this directory only, by the program that wrote it; used by itself.
    """
    if answer:
        (ours if Path(answer).name == "imported" else theirs)(Path(answer), times)
        return
    with tempfile.TemporaryDirectory() as folder:
        hub, imported = Path(folder) / "hub", Path(folder) / "imported"
        write_nllb(hub, size, layers, width)
        seconds, megabytes = timed_import(hub, imported)
        print(f"imported in {seconds:.0f} s, at most {megabytes:,.0f} MB of memory", flush=True)
        for directory in (imported, hub):  # each in a process of its own, because of the memory
            command = [sys.executable, "-m", "tests.benchmarks.nllb", "--answer", str(directory)]
            subprocess.run([*command, "--times", str(times)], check=True)


def ours(directory: Path, times: int) -> None:
    """Headlight's answer with every weight."""
    SearchOptions.limit = lambda *_: TOKENS  # type: ignore[method-assign]
    started = time.perf_counter()
    translator = Translator.load(directory)
    opened = time.perf_counter() - started
    COMPILATION.ready(600)
    report("Headlight", opened, lambda: translator.translate(f">>{CODE}<< {TEXT}"), times)


def theirs(directory: Path, times: int) -> None:
    """The answer of `generate`, and the pass that returns the weights."""
    started = time.perf_counter()
    model = AutoModelForSeq2SeqLM.from_pretrained(
        directory, attn_implementation="eager", dtype=torch.float32
    ).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    opened = time.perf_counter() - started
    inputs = tokenizer(TEXT, return_tensors="pt")
    code = tokenizer.convert_tokens_to_ids(CODE)

    def answer() -> None:
        with torch.inference_mode():
            ids = model.generate(
                **inputs, forced_bos_token_id=code, max_new_tokens=TOKENS, min_new_tokens=TOKENS, num_beams=1
            )
            model(**inputs, decoder_input_ids=ids[:, :-1], output_attentions=True)

    report("transformers", opened, answer, times)


def report(name: str, opened: float, answer: Callable[[], object], times: int) -> None:
    """Print the median time of the answer and the memory of the process."""
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
