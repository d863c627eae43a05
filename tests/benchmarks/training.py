"""Training speed compared with other trainers: `make bench-training ARGS="--data DIR"`.

Every race is between two trainers on the same sentence pairs, tokenised in the run, with a model of
the same shape. They take turns of about a second, so that a machine that slows down slows both; the
first turn warms up. Nothing passes or fails here. If other programs use the machine, the figures
vary, because the threads of a step wait for each other; the ratios vary less.

- tokens/s: target tokens with </s>, without padding. pairs/s: the same over the corpus's mean number
  of target tokens, so that turns with short sentences do not look faster.
- in products: time inside torch's matrix products, fused attention among them, in one more turn
  under the profiler, over that turn's time.
- of bfloat16, or of float32 where the processor is faster with it: operations of the model's matrix
  products, forward and backward, counted from shapes for real tokens alone, over what large matrices reach
  between the turns.

Ours is Headlight's unchanged trainer: batches of 4,096 tokens by length, bfloat16 if it is faster, clipping.
How fair the comparison is:

- The seeds' way updates the weights after every 32 or 8 sentences, ours after some hundred: it does more
  updates in an epoch, ours gets through the epoch sooner.
- Hugging Face's trainer has batches of 64 sentences grouped by length, about its best size here
  (of 16 to 256), and the same label smoothing, dropout and clipping as ours. Its bfloat16 is autocast
  too. Its model has its norms after the sub-layers and so two fewer.
- All use the same threads, and the setting of the memory allocator that Headlight's trainer makes.

Experiments on two cores with the default shape and 4,096 tokens a batch, and their results:

- kept: projection and loss in chunks (318 to 108 ms a step), one exponential for loss and softmax and the
  same memory for all chunks (to 74); dropout from 16-bit draws (8.3 to 3.0 ms a call); explicit instead of
  fused attention (backward 50 to 10 ms for 4,096 tokens of 12 to 50 a sentence); freed memory kept by
  glibc (a sixth of the step); ReLU in place on a flat projection, for on a view autograd copies the
  gradient (about 25 of 400 ms).
- dropped: the residual stream in bfloat16 (2 %, not worth its rounding); batches of 2,048 and 1,024 tokens
  (5,190 and 4,015 target tokens/s against 6,150: about 105 ms of a step do not depend on its size);
  huge pages (GLIBC_TUNABLES=glibc.malloc.hugetlb=1, 5 %, but only the environment can set it).
- kept: even widths and rows in sixteens, so that 33 instead of 100 sizes of product occur: 4,500 to 5,500
  tokens/s became 5,000 to 6,100, for 2.3 % more padding (multiples of four: 12 % padding, no faster).
- dropped: torch.compile of each layer with dynamic shapes (over a minute to begin, no faster).
- open: one batch over and over runs at 7,700 to 8,150 tokens/s: every new shape makes oneDNN build its
  products anew and breaks up the heap, which grows to 3.5 GB. An allocator with size classes would help.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import datasets
import tyro

from model.errors import UserError
from tests.benchmarks.marian import run_marian
from tests.benchmarks.pairs import Pairs
from tests.benchmarks.previous import release
from tests.benchmarks.race import Race, Work
from tests.benchmarks.seeds import SEED_000, SEEDS_001_004, WAY_000, WAY_001_004, SeedSettings, SeedTraining
from tests.training.tiny import as_lists
from training.config import TrainConfig
from training.corpus.loading import Place
from training.evaluation.metrics import TrainingWindow
from training.hardware import bfloat16_pays
from training.trainer import Trainer

DEFAULT = TrainConfig("default", "The default shape", "de", "en")
# Runs in the release's own tree: takes a step for each line it reads, and answers with the step's work.
PROGRAM = """
import sys
sys.modules["tests.benchmarks.marian"] = type(sys)("marian")  # the peers are not needed
sys.modules["tests.benchmarks.marian"].run_marian = None
from pathlib import Path
import datasets
from tests.benchmarks.training import DEFAULT, Ours
datasets.disable_progress_bars()
ours = Ours(DEFAULT, Path(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    print(*ours.step(), flush=True)
"""


class Ours:
    """Headlight's trainer, one step at a time."""

    def __init__(self, config: TrainConfig, data: Path) -> None:
        with tempfile.TemporaryDirectory() as output:
            self.trainer = Trainer(config, [data], Path(output) / "run")
            self.trainer.prepare()
        train = self.trainer.train
        self.pairs = Pairs(as_lists(train.source), as_lists(train.target), self.trainer.model.config)
        self.places = itertools.cycle([Place(0, 1, rows) for rows in self.trainer.batches.epoch(0)])
        self.window = TrainingWindow()

    def step(self) -> Work:
        """One update."""
        place = next(self.places)
        self.trainer._step([self.trainer.loader.load(place)], self.window)
        return self.pairs.work(place.rows.tolist())

    def race(self, peer: str, turns: int) -> Race:
        """A race against a peer on the same pairs."""
        return Race(peer, self.step, self.pairs.tokens_per_pair, turns)


class PreviousTrainer:
    """The previous release's trainer at the default shape, on the same data, in a process of its own."""

    def __init__(self, data: Path, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(data.resolve())],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        while self._line() != "ready":
            pass

    def step(self) -> Work:
        """One update."""
        assert self.process.stdin is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        tokens, flops = self._line().split()
        return Work(int(tokens), int(flops))

    def _line(self) -> str:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise RuntimeError("the previous release has ended")
        return line.strip()

    def __enter__(self) -> PreviousTrainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def race_seed(peer: str, config: TrainConfig, way: SeedSettings, data: Path, turns: int) -> None:
    """Race ours against the way of a seed, with the shape of the seed."""
    print(f"\n{config.title}")
    ours = Ours(config, data)
    race = ours.race(peer, turns)
    seed = SeedTraining(ours.pairs.model, way, ours.pairs)
    race.begin()
    while race.after_step(seed.step()):
        pass
    print(race.table())


def race_previous(data: Path, turns: int, commit: str) -> None:
    """Race ours against the previous release, with the default shape; only our products are counted."""
    with release(commit) as folder:
        if folder is None:
            return
        print(f"\n{DEFAULT.title}")
        race = Ours(DEFAULT, data).race("previous release", turns)
        with PreviousTrainer(data, folder) as previous:
            race.begin()
            while race.after_step(previous.step()):
                pass
    print(race.table())


def race_marian(data: Path, turns: int) -> None:
    """Race ours against Hugging Face's trainer, with the default shape."""
    print(f"\n{DEFAULT.title}")
    ours = Ours(DEFAULT, data)
    for bfloat16 in (False, True) if bfloat16_pays() else (False,):
        race = ours.race(f"Hugging Face, {'bfloat16' if bfloat16 else 'float32'}", turns)
        run_marian(race, ours.pairs, DEFAULT.label_smoothing, bfloat16)
        print(race.table())


def main(data: Path, previous: str = "") -> None:
    """Print how fast Headlight trains compared with the seeds' way and Hugging Face's trainer.

    Args:
        data: Folder with train.de and train.en, one sentence a line, such as Multi30k.
        previous: Commit of the previous release, which is raced too.
    """
    datasets.disable_progress_bars()
    warnings.filterwarnings("ignore", "enable_nested_tensor")  # nn.Transformer of pre-norm layers
    try:
        race_seed("Seed 000's way", SEED_000, WAY_000, data, turns=8)
        race_seed("Seeds 001's and 004's way", SEEDS_001_004, WAY_001_004, data, turns=2)
        if previous:
            race_previous(data, 8, previous)
        race_marian(data, turns=8)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    tyro.cli(main)
