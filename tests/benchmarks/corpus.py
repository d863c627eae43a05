"""Time and memory for the preparation of a corpus: `make bench-corpus`.

Makes parallel files of 50 thousand, 500 thousand and 4.5 million pairs (WMT14's size, about 22
words a sentence, words drawn by Zipf's law from 60,000) in a temporary folder that needs 6 GB,
and starts the trainer of the recipe wmt14-de-en on each with an empty cache: reading, cleaning,
splitting, learning the vocabulary, tokenising, and the batches of the first epoch. Prints seconds
and the peak of resident memory of the process and of it together with those that it starts
(shared pages counted once).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

SIZES = (50_000, 500_000, 4_500_000)
SYLLABLES = "ba de ki lo mu na pe ri so tu va we xi yo zu schen ung ver ge heit"
VOCABULARY = 60_000
BLOCK = 50_000  # pairs made at a time


def write_corpus(directory: Path, pairs: int) -> None:
    """Write train.de and train.en: made-up words, each with one fixed translation."""
    random = np.random.default_rng(0)
    made = ["".join(random.choice(SYLLABLES.split(), random.integers(1, 5))) for _ in range(VOCABULARY)]
    words = np.array(made)
    with (directory / "train.de").open("w") as german, (directory / "train.en").open("w") as english:
        for start in range(0, pairs, BLOCK):
            count = min(BLOCK, pairs - start)
            lengths = np.clip(random.lognormal(3, 0.5, count), 3, 70).astype(int)
            ranks = np.minimum((random.pareto(1, lengths.sum()) * 8).astype(int), VOCABULARY - 1)
            ends = lengths.cumsum()
            for end, length in zip(ends, lengths, strict=True):
                chosen = ranks[end - length : end]
                german.write(" ".join(words[chosen]) + " .\n")
                english.write(" ".join(words[(7 * chosen + 3) % VOCABULARY]) + " .\n")


def prepare(directory: Path) -> None:
    """Do what a training run does before its first step."""
    from training.recipes import RECIPES
    from training.trainer import Trainer

    trainer = Trainer(RECIPES["wmt14-de-en"], [directory], directory / "run")
    trainer.prepare()
    print(f"{len(trainer.batches.epoch(0)):,} batches", flush=True)


def peak_memory(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Largest resident memory in GB until the process ends: its own, and all of its tree's."""
    own = tree = 0.0
    while process.poll() is None:
        try:
            root = psutil.Process(process.pid)
            own = max(own, root.memory_info().rss)
            tree = max(tree, sum(p.memory_full_info().pss for p in (root, *root.children(recursive=True))))
        except psutil.NoSuchProcess:  # a process that has just ended
            pass
        time.sleep(0.25)
    return own / 1e9, tree / 1e9


def measure(pairs: int) -> None:
    """Prepare a corpus of this size in a new process and print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_corpus(directory, pairs)
        environment = os.environ | {"HF_HOME": str(directory / "cache")}
        command = [sys.executable, "-m", "tests.benchmarks.corpus", folder]
        started = time.monotonic()
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            own, tree = peak_memory(process)
        seconds = time.monotonic() - started
    if process.returncode:
        sys.exit(f"Preparing {pairs:,} pairs failed.")
    print(
        f"{pairs:9,} pairs {seconds:7.1f} s {1e6 * seconds / pairs:6.1f} us a pair, "
        f"peak {own:.2f} GB, with its processes {tree:.2f} GB",
        flush=True,
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        prepare(Path(sys.argv[1]))
    else:
        for size in SIZES:
            measure(size)
