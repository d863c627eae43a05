"""Decoding speed compared with Hugging Face and CTranslate2: `make bench-decoding`.

All engines have the default shape and random weights. Each runs with one thread and with all threads of
torch, and the faster of the two counts: one sentence has little work for several threads. Sources and
translations have the same number of tokens everywhere; no engine may end a sentence earlier. Search is
greedy. Each engine has its own process, because the idle threads of one engine would slow the next. They
take turns in several rounds; a figure is the median over all timed calls. Nothing passes or fails here,
because machines differ; compare the ratios of one run.

- Hugging Face: MarianMTModel.generate with its cache, attention in eager mode, every weight of every
  step kept as it is computed. Its norms follow the sub-layers; it has two fewer than ours. It returns a
  tuple of tensors for each step; putting them into one tensor is not timed.
- CTranslate2: the weights of our model in float32 and in int8; in float32 it finds the same
  translations (tested). It returns no attention weights, so it does less work than Headlight. It reads
  and writes words, so it looks each up in its vocabulary, which costs microseconds. int8 does less work
  with less exact numbers.
- ONNX Runtime: our model in float32, exported by torch, every weight of every step; see
  `tests/benchmarks/runtime.py`.
- Headlight: all that `Translator.translate` does: the text is tokenised and searched, every weight and the
  likeliest tokens of every step are kept. Without weights, and in batches, it is the search alone, as
  `translate_lines` does it. Its weights come from a model of 8 bits, as the shipped models are.
- The type not chosen: batches in float32 by the kernels where the choice for this processor is bfloat16 by
  torch, or the other way round. It shows what a wrong choice costs.
- Previous release: the same of the commit that --previous names, with that commit's own benchmark.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import NamedTuple

import torch
import tyro

from model.analysis.ablation import importance
from model.decoding import step_decoder
from model.decoding.kernels.compilation import COMPILATION
from model.decoding.search import Candidate
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.storage.checkpoint import SCALES, Checkpoint, ModelInfo, quantise_rows
from model.text.tokenizer import EOS_ID, SPECIALS, Tokenizer
from model.translator import Translator
from tests.benchmarks.previous import release
from tests.model.helpers import LimitedSearch

VOCABULARY = 8000
LENGTHS = (12, 25, 60)  # tokens in, </s> counted, and tokens out
BATCH, BATCH_LENGTH = 128, 25
ROUNDS = 5
WARM_UP_SECONDS, TIMED_SECONDS = 0.3, 0.5  # of each contestant's turn in each round
BEAM = 4
HUGGING_FACE = "Hugging Face generate, every weight"
FLOAT32, INT8 = "CTranslate2 float32, no weights", "CTranslate2 int8, no weights"
SEARCH, RECORD = "Headlight, no weights", "Headlight, every weight"
ABLATION = "Headlight, all heads ablated one by one"
RUNTIME = "ONNX Runtime float32, every weight"
PREVIOUS = "Previous release: "
OTHER_TYPE = "Headlight, the type not chosen"
SINGLE = (HUGGING_FACE, FLOAT32, INT8, RUNTIME, SEARCH, RECORD)
BATCHED = (FLOAT32, INT8, SEARCH, OTHER_TYPE)
IN_PREVIOUS = (SEARCH, RECORD, ABLATION)
EARLIER_NAMES = {ABLATION: "Headlight, all heads muted one by one"}  # of release 0.1
PREVIOUS_SERVES = """
import sys
from multiprocessing.connection import Client
from tests.benchmarks.decoding import serve
serve(sys.argv[2], int(sys.argv[3]), Client(sys.argv[1]))
"""


def words() -> list[str]:
    """As many different words as fill the vocabulary."""
    letters = itertools.product("abcdefghijklmnopqrst", repeat=3)
    return ["".join(word) for word in itertools.islice(letters, VOCABULARY - len(SPECIALS))]


def random_translator() -> Translator:
    """The default shape with random weights; its model never ends a sentence on its own."""
    tokenizer = Tokenizer.train([" ".join(words())], "word", VOCABULARY)
    model = Transformer(ModelConfig(len(tokenizer), len(tokenizer))).eval()
    with torch.no_grad():
        model.output.weight[EOS_ID] = 0.0  # a logit of 0 is never the largest of 8,000 random ones
    with torch.no_grad():  # weights of 8 bits, as the shipped models have
        for parameter in model.parameters():
            if parameter.ndim == 2:
                stored = quantise_rows({"": parameter})
                parameter.copy_(stored[""] * stored[SCALES])
    return Translator(Checkpoint(model, tokenizer, tokenizer, ModelInfo("de", "en", "random")))


class Sentences:
    """Random sentences of one length, ready for every engine."""

    def __init__(self, translator: Translator, count: int, length: int, beam_size: int = 1) -> None:
        tokenizer = translator.checkpoint.source_tokenizer
        some = random.Random(0)
        self.length, self.beam_size = length, beam_size
        self.options = LimitedSearch(beam_size, max_length=length)
        self.texts = [" ".join(some.sample(words(), length - 1)) for _ in range(count)]
        ids = tokenizer.encode_batch(self.texts)
        self.pieces = [tokenizer.pieces(row) for row in ids]
        self.source = torch.tensor([[*row, EOS_ID] for row in ids])
        self.mask = torch.ones_like(self.source)


Work = Callable[[Sentences], object]


def hugging_face(translator: Translator) -> Work:
    """Greedy, with every weight of every step."""
    from tests.benchmarks.marian import marian

    model = marian(translator.checkpoint.model.config, attention="eager").eval()
    model.generation_config.eos_token_id = None  # it never ends a sentence on its own
    return lambda given: model.generate(
        input_ids=given.source,
        attention_mask=given.mask,
        max_new_tokens=given.length,
        num_beams=1,
        do_sample=False,
        use_cache=True,
        output_attentions=True,
        return_dict_in_generate=True,
    )


def ctranslate2(translator: Translator, compute_type: str) -> Work:
    """Greedy, without weights."""
    from tests.benchmarks.engine import engine, specification, translate

    checkpoint = translator.checkpoint
    loaded = engine(specification(checkpoint.model, checkpoint.source_tokenizer), compute_type)
    return lambda given: translate(loaded, given.pieces, given.length, given.beam_size)


def runtime(translator: Translator) -> Work:
    """Greedy, with every weight of every step."""
    from tests.benchmarks.runtime import Runtime

    with torch.no_grad():
        loaded = Runtime(translator.checkpoint.model)
    return lambda given: loaded.translate(given.source, given.length)


def headlight(translator: Translator, given: Sentences) -> list[list[Candidate]]:
    """Ours, greedy, without weights."""
    return translator.inference.search_batch(given.source, given.options)


def headlight_record(translator: Translator, given: Sentences) -> None:
    """Ours, greedy, as `Translator.translate` does it, but to the length that is asked for."""
    for text in given.texts:
        source = translator.source(text)
        encoded = translator.inference.encode(translator._batch(source))
        candidates, steps = translator.inference.search(encoded, given.options)
        ids = candidates[0].ids
        steps = steps or translator.inference.score(encoded, ids)
        translator._translation(source, encoded, ids, 0, steps, given.options, None)


def all_heads(translator: Translator, given: Sentences) -> None:
    """As `Translator.importance` does it, for a target that is the source."""
    importance(translator.inference.model, given.source, given.source)


def work_of(name: str, translator: Translator) -> Work:
    """The work of this contestant; only its own process imports its engine. Raises ValueError for others."""
    if name == HUGGING_FACE:
        return hugging_face(translator)
    if name in (FLOAT32, INT8):
        return ctranslate2(translator, "float32" if name == FLOAT32 else "int8")
    if name == RUNTIME:
        return runtime(translator)
    if name == ABLATION:
        return partial(all_heads, translator)
    if name == OTHER_TYPE:
        pays = step_decoder._bfloat16_pays()
        step_decoder._bfloat16_pays = lambda: not pays  # type: ignore[assignment]
        return partial(headlight, translator)
    if name in (SEARCH, RECORD):
        return partial(headlight if name == SEARCH else headlight_record, translator)
    raise ValueError(f"No contestant is called {name!r}.")


class Case(NamedTuple):
    """A number of sentences, and their number of tokens."""

    sentences: int
    length: int
    beam_size: int = 1


def serve(name: str, threads: int, connection: Connection) -> None:
    """The loop of a contestant's process: receive a case, send the seconds of each call."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    translator = random_translator()
    COMPILATION.ready(timeout=600.0)
    work = work_of(name, translator)
    while (case := connection.recv()) is not None:
        given = Sentences(translator, *case)
        _repeat(work, given, WARM_UP_SECONDS)
        connection.send(_repeat(work, given, TIMED_SECONDS))


class Contestant:
    """One way to decode with a number of threads, in its own process."""

    def __init__(self, name: str, threads: int) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(name, threads, theirs), daemon=True)
        self.process.start()

    def seconds(self, case: Case) -> list[float]:
        """The seconds of each timed call of one turn."""
        self.connection.send(case)
        taken: list[float] = self.connection.recv()
        return taken

    def end(self) -> None:
        """End the process."""
        self.connection.send(None)
        self.process.join()


class PreviousContestant(Contestant):
    """The previous release in its own folder."""

    def __init__(self, folder: Path, name: str, threads: int) -> None:
        theirs = previous_name(folder, name)
        with Listener() as listener:
            command = [sys.executable, "-c", PREVIOUS_SERVES, str(listener.address), theirs, str(threads)]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *_more_packages()])}
            self.child = subprocess.Popen(command, cwd=folder, env=environment)
            self.connection = listener.accept()

    def seconds(self, case: Case) -> list[float]:
        """The seconds of each timed call of one turn; it knows no beams."""
        self.connection.send(tuple(case[:2]))
        taken: list[float] = self.connection.recv()
        return taken

    def end(self) -> None:
        """End the process."""
        self.connection.send(None)
        self.child.wait()


def previous_name(folder: Path, name: str) -> str:
    """What the release in a folder calls this work. Raises ValueError if it has no such work.

    Releases up to 0.2 measure greedy search under a name that they do not know.
    """
    code = (folder / "tests" / "benchmarks" / "decoding.py").read_text(encoding="utf-8")
    for known in (name, EARLIER_NAMES.get(name, name)):
        if f'"{known}"' in code:
            return known
    raise ValueError(f"The previous release has no contestant {name!r}.")


def _more_packages() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


class Result(NamedTuple):
    """The better number of threads, and the median of all calls with it."""

    milliseconds: float
    threads: int


class Contest:
    """Contestants that take turns."""

    def __init__(self, previous: Path | None) -> None:
        threads = sorted({1, torch.get_num_threads()})
        self.contestants = {
            name: {n: Contestant(name, n) for n in threads} for name in (*SINGLE, ABLATION, OTHER_TYPE)
        }
        if previous is not None:
            for name in IN_PREVIOUS:
                self.contestants[PREVIOUS + name] = {
                    n: PreviousContestant(previous, name, n) for n in threads
                }

    def results(self, names: tuple[str, ...], case: Case) -> dict[str, Result]:
        """The results by name, over all rounds; every contestant has one turn in each round."""
        names = tuple(name for name in names if name in self.contestants)
        contestants = {(name, n): one for name in names for n, one in self.contestants[name].items()}
        taken: dict[tuple[str, int], list[float]] = {key: [] for key in contestants}
        for _ in range(ROUNDS):
            for key, contestant in contestants.items():
                taken[key] += contestant.seconds(case)
        medians = {key: 1000 * statistics.median(seconds) for key, seconds in taken.items()}
        return {
            name: min(Result(medians[key], key[1]) for key in medians if key[0] == name) for name in names
        }

    def end(self) -> None:
        """End all processes."""
        for by_threads in self.contestants.values():
            for contestant in by_threads.values():
                contestant.end()


def _repeat(work: Work, given: Sentences, seconds: float) -> list[float]:
    """The seconds of each call that begins within this time."""
    taken: list[float] = []
    while sum(taken) < seconds:
        started = time.perf_counter()
        work(given)
        taken.append(time.perf_counter() - started)
    return taken


def one_sentence(contest: Contest) -> None:
    """Print milliseconds for one sentence, the ratios to the others and what the weights cost."""
    names = (*SINGLE, PREVIOUS + RECORD)
    taken = {n: contest.results(names, Case(1, n)) for n in LENGTHS}
    shown = list(taken[LENGTHS[0]])

    def ratios(a: str, b: str) -> list[float]:
        return [taken[n][a].milliseconds / taken[n][b].milliseconds for n in LENGTHS]

    lengths = "".join(f"{n:12}" for n in LENGTHS)
    print(f"{'One sentence, ms (threads); tokens':46}{lengths}")
    for name in shown:
        print(f"{name:46}" + "".join(_cell(*taken[n][name]) for n in LENGTHS))
    for peer in shown:
        if peer not in (SEARCH, RECORD):
            values = "".join(f"{x:10.2f} x" for x in ratios(RECORD, peer))
            print(f"{'every weight / ' + peer.partition(',')[0]:46}{values}")
    print(f"{'cost of every weight':46}" + "".join(f"{x - 1:12.0%}" for x in ratios(RECORD, SEARCH)))
    for name, result in contest.results((ABLATION, PREVIOUS + ABLATION), Case(1, LENGTHS[0])).items():
        print(f"{name:60}{_cell(*result)}")


def beam(contest: Contest) -> None:
    """Print milliseconds for one sentence with a beam, and the ratios to greedy search."""
    names = (FLOAT32, INT8, RECORD)
    greedy, wide = (contest.results(names, Case(1, BATCH_LENGTH, size)) for size in (1, BEAM))
    print(f"\n{f'Beam {BEAM}, {BATCH_LENGTH} tokens, ms (threads)':46}{'beam':>12}{'/ greedy':>12}")
    for name in names:
        ratio = wide[name].milliseconds / greedy[name].milliseconds
        print(f"{name:46}{_cell(*wide[name])}{ratio:10.2f} x")


def _cell(milliseconds: float, threads: int) -> str:
    return f"{milliseconds:8.1f} ({threads})"


def batch(contest: Contest) -> None:
    """Print target tokens per second for a batch and the ratios to the peers."""
    taken = contest.results((*BATCHED, PREVIOUS + SEARCH), Case(BATCH, BATCH_LENGTH))
    print(f"\n{f'{BATCH} sentences of {BATCH_LENGTH} tokens':46}{'tokens/s':>12}{'Headlight':>12}")
    for name, (value, threads) in taken.items():
        speed = BATCH * BATCH_LENGTH / value * 1000
        print(f"{name:46}{speed:8,.0f} ({threads}){value / taken[SEARCH].milliseconds:10.2f} x")


def main(previous: str = "") -> None:
    """Print tables and ratios.

    Args:
        previous: Commit of the previous release, which is measured too.
    """
    with ExitStack() as stack:
        contest = Contest(stack.enter_context(release(previous)) if previous else None)
        one_sentence(contest)
        beam(contest)
        batch(contest)
        contest.end()


if __name__ == "__main__":
    tyro.cli(main)
