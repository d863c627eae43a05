"""The corpus of a recipe, split into training, validation and test pairs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from datasets import Dataset, concatenate_datasets

from model.errors import UserError
from training.config import TrainConfig
from training.corpus.cleaning import clean
from training.corpus.links import with_links
from training.corpus.mixing import check_weights, concatenate, numbered_origins, origins, without_unused
from training.corpus.sources import (
    fetch_pairs,
    left_out,
    random_words,
    read_training,
    read_validation,
    read_words,
)
from training.hardware import forget_mapped_pages


@dataclass(frozen=True)
class Corpus:
    """Pairs of normalised text in columns `source` and `target`, memory-mapped."""

    train: Dataset
    validation: Dataset
    test: Dataset | None  # None unless the recipe draws test pairs at random
    split: dict[str, object]  # identifies the split; written to the run directory
    dropped: dict[str, int]  # training pairs that each cleaning rule removed
    left_out: tuple[str, ...] = ()  # parallel files of the folders that are not read


def read_corpus(config: TrainConfig, directories: Sequence[Path], alignments: Path | None = None) -> Corpus:
    """The recipe's corpus, from the directories or, if there are none, from the hub.

    With `alignments`, the training pairs have a column `links`; see `training.corpus.links`.

    Raises UserError when a file is missing or empty, or parallel files differ in length.
    """
    languages = (config.source_language, config.target_language)
    validation: Dataset | None
    unread: list[str] = []
    if config.reverse_words:
        drawn = config.random_words
        pairs = random_words(drawn, config.seed) if drawn else read_words(directories)
        validation = None
    elif directories:
        pairs = concatenate_datasets([read_training(d, languages) for d in directories])
        parts = [part for d in directories if (part := read_validation(d, languages)) is not None]
        validation = concatenate_datasets(parts) if parts else None
        unread = [name for d in directories for name in left_out(d, languages)]
    elif config.hub:
        pairs, validation = fetch_pairs(*config.hub, languages)
    else:
        raise UserError(
            "This recipe reads local files: give --data DIR with "
            f"train.{languages[0]} and train.{languages[1]}, one sentence a line."
        )
    if alignments is not None:
        pairs = with_links(pairs, alignments)
    return replace(_split(config, pairs, validation), left_out=tuple(unread))


def _split(config: TrainConfig, pairs: Dataset, validation: Dataset | None) -> Corpus:
    """Clean the pairs, and hold out the test and validation pairs that the data does not provide."""
    weights = dict(config.weights)
    check_weights(pairs, weights)
    pairs = without_unused(pairs, weights)
    read = len(pairs)
    pairs, dropped, digest = clean(pairs)
    sources = hashlib.sha256("\n".join(origins(pairs)).encode()).hexdigest()
    names, numbers = numbered_origins(pairs)
    weighed = json.dumps([weights.get(name, 1.0) for name in names]).encode()
    groups = hashlib.sha256(weighed + numbers.astype(np.int64).tobytes()).hexdigest()
    split: dict[str, object] = {"rows": len(pairs), "digest": digest, "sources": sources, "groups": groups}
    if "links" in pairs.column_names:
        split["links"] = hashlib.sha256("\n".join(pairs["links"]).encode()).hexdigest()
    order = np.random.default_rng(config.seed).permutation(len(pairs))
    wanted = config.validation_rows * (len(pairs) if config.validation_rows < 1 else 1)
    held = config.test_rows + (round(wanted) if validation is None else 0)
    if len(pairs) <= held:
        others = " or separate validation files (dev)" if validation is None else ""
        raise UserError(
            f"The corpus has {len(pairs):,} pairs{_losses(read, dropped)}, but {held:,} of them are "
            f"held out; give more pairs{others}."
        )
    held_test = np.sort(order[: config.test_rows]).tolist()
    split["test"] = held_test
    if validation is None:
        held_validation = np.sort(order[config.test_rows : held]).tolist()
        split["validation"] = held_validation
        validation = pairs.select(held_validation)
    else:
        text = "\n".join((*validation["source"], *validation["target"]))
        digest = hashlib.sha256(text.encode()).hexdigest()
        split["validation"] = f"the corpus's own {len(validation)} pairs, {digest}"
    # A pair with an empty side has no score.
    validation = validation.filter(lambda pair: bool(pair["source"] and pair["target"]))
    forget_mapped_pages()
    test = pairs.select(held_test) if config.test_rows else None
    train = pairs.select(np.sort(order[held:])) if held else pairs
    train = concatenate(train, config.concatenate, config.seed)
    return Corpus(train, validation, test, split, dropped)


def _losses(read: int, dropped: Mapping[str, int]) -> str:
    """What became of the pairs that were read and dropped, if any were."""
    counts = [f"{count:,} dropped as {rule}" for rule, count in dropped.items() if count]
    return f" of {read:,} that were read ({', '.join(counts)})" if counts else ""
