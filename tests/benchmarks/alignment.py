"""Word alignment errors compared with eflomal: `make bench-alignment ARGS="--data DIR DIR --gold DIR"`.

Prints alignment error rates in %: of the choices of each side (a source word for each target word, and
the other way round), and of both joined by grow-diag.

- eflomal learns from the training pairs and from the gold pairs without their links, with punctuation
  separated from words. It draws random numbers: its figures differ by some tenths between runs.
- Headlight was trained to translate the training pairs and has never seen the gold pairs. It reads
  their given translations. Its weights, or norm-based weights, come from the row that predicts a word or
  from the row that reads it, of one head or averaged over the heads of a layer. For each kind the
  head or layer with the least error by grow-diag on lines 1, 3, ... is tested on lines 2, 4, ... A head
  that was taught to align has a row of its own.

Longer sentences have more errors: by grow-diag eflomal has 23.4 % on all pairs of up to 14 target words and
32.9 % from 28 words on; the best head of an earlier de-en has 37.0 and 55.4 %. That head links 19 % of the
punctuation marks of the target correctly, eflomal 92 %.

Experiments with the best head of that de-en, trained for 4,500 steps (layer 1, head 2, the row that reads:
56.0 % for each target word, 47.8 % by grow-diag, on lines 2, 4, ...; settings chosen on lines 1, 3, ...),
and their results:

- kept: twice the training, with more dropout and the mean of three snapshots (44.5 and 37.1 %, de-en of
  release 0.1); grow-diag of the choices of both sides (56.0 to 47.8); norm-based weights as a row of the
  table (55.9).
- dropped, each target word: the strongest row or the first row of a word instead of the mean (56.6, 57.2);
  no link where </s> has more weight (56.5) or the word less than 0.2 (54.9); every word with half of the
  largest weight (61.4); weights divided by their sum over the target (51.8, and nothing more by
  grow-diag); the marks joined to their words as in the training text (55.8); the sum with any one
  other head (no gain); a log-linear model of all heads, both kinds of row (46.2: 64 weights
  learned from lines 1, 3, ..., no longer the choice of a head).
- dropped, because it is not attention: a preference for the diagonal, exp(-5 |i/I - j/J|) (43.0 by
  grow-diag); the loss of a target word's log-probability when the source word is hidden (Li et al. 2019),
  which needs a pass for each source word (43.0 by grow-diag, 39.3 together with the head).
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import tyro
from datasets import Dataset, concatenate_datasets, disable_progress_bars

from model.analysis.alignment import GoldAlignment, Link, alignment_error_rate, grow_diag
from model.analysis.attribution import norm_weights
from model.errors import UserError
from model.text.tokenizer import BOS_ID
from model.translator import Translator
from tests.model.helpers import pharaoh_links
from training.corpus.links import words
from training.corpus.sources import read_training
from training.evaluation.align import (
    AlignedWords,
    AlignmentHead,
    aligned_words,
    best_head,
    cross_weights,
    read_gold,
    read_pair,
)
from training.evaluation.evaluate import read_pairs


class Gold(NamedTuple):
    """Sentence pairs with links by people; words are separated by spaces."""

    sources: list[str]
    targets: list[str]
    links: list[GoldAlignment]


class CorpusLinks(NamedTuple):
    """Links of every pair: one for each target word, one for each source word, and both joined."""

    forward: list[frozenset[Link]]
    backward: list[frozenset[Link]]
    joined: list[frozenset[Link]]

    @classmethod
    def of(cls, forward: list[frozenset[Link]], backward: list[frozenset[Link]]) -> CorpusLinks:
        """Join the choices of both sides."""
        return cls(forward, backward, [grow_diag(*both) for both in zip(forward, backward, strict=True)])


def eflomal(sources: Sequence[str], targets: Sequence[str], pairs: int) -> CorpusLinks:
    """Align the first `pairs` pairs after learning from all of them."""
    from eflomal import Aligner

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("forward", "backward")]
        Aligner().align(sources, targets, *map(str, paths))
        lines = [path.read_text().splitlines()[:pairs] for path in paths]
    return CorpusLinks.of(*([pharaoh_links(line) for line in side] for side in lines))


def separate_marks(lines: Iterable[str]) -> list[str]:
    """Words and marks separated by spaces, as they are in the gold pairs."""
    return [" ".join(words(line)) for line in lines]


def training_pairs(data: Sequence[Path], languages: tuple[str, str]) -> Dataset:
    """The training pairs of these folders, as a training reads them."""
    return concatenate_datasets([read_training(folder, languages) for folder in data])


def align_gold(translator: Translator, gold: Gold) -> dict[str, list[AlignedWords]]:
    """For each kind of weights, the words that each head aligns; the last head of a layer is its average."""
    checkpoint = translator.checkpoint
    found: dict[str, list[AlignedWords]] = {"weights": [], "norm-based weights": []}
    for source_line, target_line in zip(gold.sources, gold.targets, strict=True):
        source, target = read_pair(checkpoint, source_line, target_line)
        [weights] = cross_weights(checkpoint.model, [(source, target)])
        read = torch.tensor([BOS_ID, *target.ids[:-1]])
        norms = norm_weights(checkpoint.model, torch.tensor(source.ids), read).cross
        for aligned, heads in zip(found.values(), (weights, norms), strict=True):
            heads = torch.cat((heads, heads.mean(1, keepdim=True)), dim=1)
            aligned.append(aligned_words(heads, source, target))
    return found


def rows(translator: Translator, gold: Gold) -> Iterator[tuple[str, CorpusLinks]]:
    """The best head and the best average of each kind, chosen on lines 1, 3, ..., and the taught head."""
    config = translator.checkpoint.model.config
    layers, average = range(config.n_decoder_layers), config.n_heads
    for kind, aligned in align_gold(translator, gold).items():
        for shifted, places in itertools.product((False, True), (range(average), [average])):
            heads = [AlignmentHead(*place, shifted) for place in itertools.product(layers, places)]
            best = best_head(heads, aligned, gold.links, symmetrise=True)
            which = "average" if best.head == average else f"head {best.head + 1}"
            name = f"{kind}, {'read' if shifted else 'predicted'}: layer {best.layer + 1}, {which}"
            yield name, links_of(best, aligned)
        if kind == "weights" and config.taught_head:
            layer, head = config.taught_head
            taught = AlignmentHead(layer, head, shifted=True)
            yield (f"{kind}, read: layer {layer + 1}, head {head + 1}, taught", links_of(taught, aligned))


def links_of(head: AlignmentHead, aligned: Sequence[AlignedWords]) -> CorpusLinks:
    chosen = [each.of(head) for each in aligned]
    return CorpusLinks.of([each.forward() for each in chosen], [each.backward() for each in chosen])


def report(name: str, choices: CorpusLinks, references: Sequence[GoldAlignment]) -> None:
    """Print error rates in %: on lines 2, 4, ... and in brackets on all."""
    cells = []
    for found in choices:
        even = alignment_error_rate(found[1::2], references[1::2])
        cells.append(f"{100 * even:.1f} ({100 * alignment_error_rate(found, references):.1f})")
    print(f"{name:48}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


def compare(data: Sequence[Path], folder: Path, model: Path) -> None:
    translator = Translator.load(model)
    info = translator.checkpoint.info
    languages = info.source_language, info.target_language
    sources, targets = read_pairs(*(folder / f"test.{language}" for language in languages))
    gold = Gold(sources, targets, read_gold(folder / "gold.talp", sources, targets))
    pairs = training_pairs(data, languages)
    sources, targets = sources + separate_marks(pairs["source"]), targets + separate_marks(pairs["target"])
    columns = *(f"each {language}" for language in reversed(languages)), "grow-diag"
    print(f"{'AER in %, even lines (all)':48}" + "".join(f"{column:>14}" for column in columns))
    report("eflomal", eflomal(sources, targets, len(gold.links)), gold.links)
    for name, choices in rows(translator, gold):
        report(name, choices, gold.links)


def main(data: tuple[Path, ...], gold: Path, model: Path = Path("assets/models/de-en")) -> None:
    """Print alignment error rates of eflomal and of a model's attention.

    Args:
        data: Folders with the pairs that the model was trained on, such as Tatoeba and Multi30k.
        gold: Folder with test.de and test.en, words separated by spaces, and their links, gold.talp.
        model: Model directory; its languages name the files.
    """
    disable_progress_bars()
    try:
        compare(data, gold, model)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    tyro.cli(main)
