"""Tokenizers learned from the training pairs, and sentence pairs as token ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
from accelerate.utils import patch_environment
from datasets import Dataset
from numpy.typing import NDArray

from model.text.tokenizer import UNK_ID, Tokenizer
from training.config import TrainConfig
from training.corpus.batching import Lengths
from training.corpus.links import token_links
from training.corpus.mixing import Mixture
from training.hardware import forget_mapped_pages, worker_processes

TOKENIZER_PAIRS = 1_000_000  # more pairs hardly change a vocabulary and take long
BLOCK = 1000  # pairs
UNKNOWN_SHARE = 0.002  # of the tokens of a language; a warning tells of a larger one


def train_tokenizers(config: TrainConfig, train: Dataset) -> tuple[Tokenizer, Tokenizer]:
    """Source and target tokenizer, the same one if weights are tied.

    They are learned from the training pairs, each counted as often as an epoch reads it.
    """
    if config.weights:
        mixture = Mixture.of(train, dict(config.weights))
        train = train.select(mixture.rows(np.random.default_rng(config.seed)))

    settings = (config.tokenizer, config.vocabulary, config.min_frequency)
    if config.model.tied:
        joint = Tokenizer.train(Sentences(train, ("source", "target")), *settings)
        return joint, joint
    return (
        Tokenizer.train(Sentences(train, ("source",)), *settings),
        Tokenizer.train(Sentences(train, ("target",)), *settings),
    )


@dataclass(frozen=True)
class Sentences:
    """The sentences of some columns, for a vocabulary; memory holds some of them at a time."""

    pairs: Dataset
    columns: Sequence[str]

    def __iter__(self) -> Iterator[str]:
        for start in _sample(len(self.pairs)):
            forget_mapped_pages()
            batch = self.pairs[start : start + BLOCK]
            for column in self.columns:
                yield from batch[column]


def _sample(rows: int, most: int | None = None) -> Iterator[int]:
    """Starts of blocks of rows, spread evenly; reading whole blocks touches few pages of the file."""
    blocks = -(-rows // BLOCK)
    count = min(blocks, most or TOKENIZER_PAIRS // BLOCK)
    return (i * blocks // count * BLOCK for i in range(count))


def encode_pairs(
    pairs: Dataset, tokenizers: tuple[Tokenizer, Tokenizer], max_tokens: int
) -> tuple[Dataset, Lengths]:
    """Columns `source` and `target` as ids, and the kept rows, which have at most `max_tokens` tokens.

    A column `links` of word links becomes one of token links: target and source token of each in turn.
    """
    if not len(pairs):
        return pairs, np.zeros(0, dtype=np.int64)
    width = pa.uint16() if max(map(len, tokenizers)) <= 2**16 else pa.int32()

    def to_ids(batch: pa.Table) -> pa.Table:
        forget_mapped_pages()
        columns, linked = {}, "links" in batch.column_names
        texts = [batch[column].to_pylist() for column in ("source", "target")]
        for column, tokenizer, lines in zip(("source", "target"), tokenizers, texts, strict=True):
            rows = tokenizer.encode_batch(lines)
            columns[column], lengths = _lists(rows, width)
            columns[f"{column}_length"] = pa.array(lengths)
        if linked:
            spans = [t.spans_batch(lines) for t, lines in zip(tokenizers, texts, strict=True)]
            pairs = zip(
                batch["links"].to_pylist(), zip(*texts, strict=True), zip(*spans, strict=True), strict=True
            )
            columns["links"], _ = _lists([token_links(*pair) for pair in pairs], pa.uint16())
        return pa.table(columns)

    processes = worker_processes(len(pairs))
    # One thread each: the processes already share the work, and tokenizers' threads deadlock after a fork.
    with patch_environment(tokenizers_parallelism="false") if processes else nullcontext():
        encoded = pairs.with_format("arrow").map(
            to_ids, batched=True, remove_columns=pairs.column_names, num_proc=processes
        )
    kept = np.flatnonzero(np.maximum(*lengths_of(encoded)) <= max_tokens)
    forget_mapped_pages()
    return encoded.with_format(None).select(kept), kept


def _lists(rows: Sequence[Sequence[int]], width: pa.DataType) -> tuple[pa.ListArray, NDArray[np.int32]]:
    """Rows of integers as one array, and their lengths."""
    lengths = np.array(list(map(len, rows)), dtype=np.int32)
    flat = np.fromiter(chain.from_iterable(rows), dtype=width.to_pandas_dtype())
    offsets = np.concatenate(([0], lengths.cumsum(dtype=np.int32)))
    return pa.ListArray.from_arrays(offsets, flat), lengths


def warn_of_unknown(encoded: Dataset, config: TrainConfig) -> list[str]:
    """A sentence for each language of which the vocabulary does not know a large share of the tokens."""
    found = []
    for column, language in (("source", config.source_language), ("target", config.target_language)):
        rows = [row for start in _sample(len(encoded), 20) for row in encoded[start : start + BLOCK][column]]
        share = sum(row.count(UNK_ID) for row in rows) / max(sum(map(len, rows)), 1)
        if share > UNKNOWN_SHARE:
            found.append(
                f"{share:.1%} of the {language} tokens are <unk>: the vocabulary of {config.vocabulary:,} "
                "entries does not know their characters; give a larger --config.vocabulary"
            )
    return found


def lengths_of(encoded: Dataset) -> tuple[Lengths, Lengths]:
    """The numbers of tokens of both sides, without <s> and </s>."""
    columns = encoded.with_format("numpy")
    source, target = (
        np.asarray(columns[f"{side}_length"][:], dtype=np.int64) for side in ("source", "target")
    )
    return source, target
