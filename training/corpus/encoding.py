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

from model.text.tokenizer import UNK_ID, Tokenizer
from training.config import TrainConfig
from training.corpus.batching import EncodedPairs, IdRows, Rows
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


def _sample(rows: int) -> Iterator[int]:
    """Starts of blocks of rows, spread evenly; reading whole blocks touches few pages of the file."""
    blocks = -(-rows // BLOCK)
    count = min(blocks, TOKENIZER_PAIRS // BLOCK)
    return (i * blocks // count * BLOCK for i in range(count))


def encode_pairs(
    pairs: Dataset, tokenizers: tuple[Tokenizer, Tokenizer], max_tokens: int
) -> tuple[EncodedPairs, Rows]:
    """The pairs of at most `max_tokens` tokens as ids, and which rows they are.

    A column `links` of word links becomes one of token links: target and source token of each in turn.
    """
    if not len(pairs):
        return EncodedPairs(IdRows.of([]), IdRows.of([])), np.zeros(0, dtype=np.int64)
    width = pa.uint16() if max(map(len, tokenizers)) <= 2**16 else pa.int32()

    def to_ids(batch: pa.Table) -> pa.Table:
        forget_mapped_pages()
        columns, linked = {}, "links" in batch.column_names
        texts = [batch[column].to_pylist() for column in ("source", "target")]
        for column, tokenizer, lines in zip(("source", "target"), tokenizers, texts, strict=True):
            columns[column] = _lists(tokenizer.encode_batch(lines), width)
        if linked:
            spans = [t.spans_batch(lines) for t, lines in zip(tokenizers, texts, strict=True)]
            pairs = zip(
                batch["links"].to_pylist(), zip(*texts, strict=True), zip(*spans, strict=True), strict=True
            )
            columns["links"] = _lists([token_links(*pair) for pair in pairs], pa.uint16())
        return pa.table(columns)

    processes = worker_processes(len(pairs))
    # One thread each: the processes already share the work, and tokenizers' threads deadlock after a fork.
    with patch_environment(tokenizers_parallelism="false") if processes else nullcontext():
        encoded = pairs.with_format("arrow").map(
            to_ids, batched=True, remove_columns=pairs.column_names, num_proc=processes
        )
    columns = [
        _flat(encoded.data[name]) for name in ("source", "target", "links") if name in encoded.features
    ]
    found = EncodedPairs(*columns)
    kept = np.flatnonzero(np.maximum(found.source.lengths, found.target.lengths) <= max_tokens)
    forget_mapped_pages()
    return found[kept], kept


def _lists(rows: Sequence[Sequence[int]], width: pa.DataType) -> pa.ListArray:
    """Rows of integers as one array."""
    flat = np.fromiter(chain.from_iterable(rows), dtype=width.to_pandas_dtype())
    return pa.ListArray.from_arrays(np.cumsum([0, *map(len, rows)], dtype=np.int32), flat)


def _flat(column: pa.ChunkedArray) -> IdRows:
    """The rows of a column of lists, in memory: two bytes for each token of most vocabularies."""
    lengths = np.concatenate([np.diff(chunk.offsets.to_numpy()) for chunk in column.chunks]).astype(np.int64)
    values = np.concatenate([chunk.flatten().to_numpy() for chunk in column.chunks])
    return IdRows(values, lengths.cumsum() - lengths, lengths)


def warn_of_unknown(encoded: EncodedPairs, config: TrainConfig) -> list[str]:
    """A sentence for each language of which the vocabulary does not know a large share of the tokens."""
    found = []
    for side, language in (
        (encoded.source, config.source_language),
        (encoded.target, config.target_language),
    ):
        share = float(np.mean(side.flat == UNK_ID)) if len(side) else 0.0
        if share > UNKNOWN_SHARE:
            found.append(
                f"{share:.1%} of the {language} tokens are <unk>: the vocabulary of {config.vocabulary:,} "
                "entries does not know their characters; give a larger --config.vocabulary"
            )
    return found
