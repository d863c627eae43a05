"""Decoding speed, ours beside Hugging Face's and CTranslate2's: `make bench-decoding`.

All have the default shape, random weights and as many threads as torch uses. Sources and translations
have the same number of tokens everywhere: no engine may end a sentence earlier. Search is greedy. The
engines take turns, several rounds of them, and a figure is the median over all timed calls. Nothing
here passes or fails, since machines differ; the ratios of one run are what compares.

- Hugging Face: MarianMTModel.generate with its cache, attention in eager mode, every weight of every
  step kept as it is computed. Its norms stand after the sub-layers, two fewer than ours. It returns a
  tuple of tensors for each step; putting them into one tensor is not timed.
- CTranslate2: the very weights of our model in float32 and in int8, and in float32 it finds the very
  same translations (tested). It keeps no weights: what Headlight does beyond the search is extra work
  that it is spared. It reads and writes words, so it looks each up in its vocabulary, which costs
  microseconds. int8 is less work on less exact numbers.
- Headlight: the search, then `Translator.record`: one pass over the ids found that returns every
  weight and every next-token log-probability, with the source tokenised once more and both sides' tokens
  labelled. Batches are searched only, as `translate_batch` does.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Mapping

import torch

from model.checkpoint import Checkpoint, ModelInfo
from model.config import ModelConfig
from model.decoding import Candidate, SearchOptions, search
from model.inference import lay_out_for_few_rows, product_dtype
from model.tokenizer import EOS_ID, SPECIALS, Tokenizer
from model.transformer import Transformer
from model.translator import Translator
from tests.benchmarks.engine import engine, specification, translate
from tests.benchmarks.marian import marian

VOCABULARY = 8000
LENGTHS = (12, 25, 60)  # tokens in, </s> counted, and tokens out
BATCH, BATCH_LENGTH = 128, 25
ROUNDS = 5
WARM_UP_SECONDS, TIMED_SECONDS = 0.3, 0.5  # of each contestant's turn in each round
HUGGING_FACE = "Hugging Face generate, every weight"
FLOAT32, INT8 = "CTranslate2 float32, no weights", "CTranslate2 int8, no weights"
SEARCH, RECORD = "Headlight, no weights", "Headlight, every weight"
Work = Callable[[], object]


def words() -> list[str]:
    """As many different words as fill the vocabulary."""
    letters = itertools.product("abcdefghijklmnopqrst", repeat=3)
    return ["".join(word) for word in itertools.islice(letters, VOCABULARY - len(SPECIALS))]


def random_translator() -> Translator:
    """The default shape with random weights; its model never ends a sentence by itself."""
    tokenizer = Tokenizer.train([" ".join(words())], "word", VOCABULARY)
    model = Transformer(ModelConfig(len(tokenizer), len(tokenizer))).eval()
    with torch.no_grad():
        model.output.weight[EOS_ID] = 0.0  # a logit of 0 is never the largest of 8,000 random ones
    lay_out_for_few_rows(model)  # as a loaded model is
    return Translator(Checkpoint(model, tokenizer, tokenizer, ModelInfo("de", "en", "random")))


class Sentences:
    """Random sentences of one length, ready for every engine."""

    def __init__(self, translator: Translator, count: int, length: int) -> None:
        tokenizer = translator.checkpoint.source_tokenizer
        some = random.Random(0)
        self.length = length
        self.texts = [" ".join(some.sample(words(), length - 1)) for _ in range(count)]
        ids = tokenizer.encode_batch(self.texts)
        self.pieces = [tokenizer.pieces(row) for row in ids]
        self.source = torch.tensor([[*row, EOS_ID] for row in ids])
        self.mask = torch.ones_like(self.source)


class Engines:
    """The contestants: each translates sentences to their own length."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.translator = random_translator()
        self.model = self.translator.checkpoint.model
        spec = specification(self.model, self.translator.checkpoint.source_tokenizer)
        self.float32, self.int8 = engine(spec, "float32"), engine(spec, "int8")
        self.marian = marian(self.model.config, attention="eager").eval()
        self.marian.generation_config.eos_token_id = None  # it never ends a sentence by itself

    def hugging_face(self, given: Sentences) -> None:
        """Greedy, with every weight of every step."""
        self.marian.generate(
            input_ids=given.source,
            attention_mask=given.mask,
            max_new_tokens=given.length,
            num_beams=1,
            do_sample=False,
            use_cache=True,
            output_attentions=True,
            return_dict_in_generate=True,
        )

    def search(self, given: Sentences) -> list[list[Candidate]]:
        """Ours, greedy, without weights."""
        dtype = product_dtype(len(given.source), given.source.device)
        return search(self.model, given.source, SearchOptions(max_length=given.length), dtype=dtype)

    def record(self, given: Sentences) -> None:
        """Ours, greedy, then one pass over what was found that keeps every weight."""
        for text, found in zip(given.texts, self.search(given), strict=True):
            self.translator.record(text, found[0].ids)

    def single(self, given: Sentences) -> dict[str, Work]:
        """By name, what to do with one sentence."""
        return {
            HUGGING_FACE: lambda: self.hugging_face(given),
            **self.batch(given),
            RECORD: lambda: self.record(given),
        }

    def batch(self, given: Sentences) -> dict[str, Work]:
        """By name, what to do with many sentences."""
        return {
            FLOAT32: lambda: translate(self.float32, given.pieces, given.length),
            INT8: lambda: translate(self.int8, given.pieces, given.length),
            SEARCH: lambda: self.search(given),
        }


def milliseconds(contestants: Mapping[str, Work]) -> dict[str, float]:
    """Medians over all timed calls of all rounds; in each round every contestant has its turn."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, work in contestants.items():
            # The threads of the engine before may still spin for a while.
            _repeat(work, WARM_UP_SECONDS)
            taken[name] += _repeat(work, TIMED_SECONDS)
    return {name: 1000 * statistics.median(seconds) for name, seconds in taken.items()}


def _repeat(work: Work, seconds: float) -> list[float]:
    """Seconds of each call, as many as begin within this time."""
    taken: list[float] = []
    while sum(taken) < seconds:
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return taken


def one_sentence(engines: Engines) -> None:
    """Print milliseconds for one sentence, the ratios to the peers and what the weights cost."""
    taken = {n: milliseconds(engines.single(Sentences(engines.translator, 1, n))) for n in LENGTHS}
    lengths = "".join(f"{n:10}" for n in LENGTHS)
    print(f"{'One sentence, ms; tokens in and out':40}{lengths}")
    for name in taken[LENGTHS[0]]:
        print(f"{name:40}" + "".join(f"{taken[n][name]:10.1f}" for n in LENGTHS))
    for peer in (HUGGING_FACE, FLOAT32, INT8):
        ratios = "".join(f"{taken[n][RECORD] / taken[n][peer]:8.2f} x" for n in LENGTHS)
        print(f"{'every weight / ' + peer.partition(',')[0]:40}{ratios}")
    costs = "".join(f"{taken[n][RECORD] / taken[n][SEARCH] - 1:10.0%}" for n in LENGTHS)
    print(f"{'cost of every weight':40}{costs}")


def batch(engines: Engines) -> None:
    """Print target tokens per second for a batch and the ratios to the peers."""
    taken = milliseconds(engines.batch(Sentences(engines.translator, BATCH, BATCH_LENGTH)))
    print(f"\n{f'{BATCH} sentences of {BATCH_LENGTH} tokens':40}{'tokens/s':>10}{'Headlight':>12}")
    for name, value in taken.items():
        speed = BATCH * BATCH_LENGTH / value * 1000
        print(f"{name:40}{speed:10,.0f}{value / taken[SEARCH]:10.2f} x")


def main() -> None:
    """Print tables and ratios."""
    engines = Engines()
    one_sentence(engines)
    batch(engines)


if __name__ == "__main__":
    main()
