"""Sources of sentence pairs, their cleaning, and the split that a run keeps."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, DatasetDict, Features, Translation, Value, concatenate_datasets, load_dataset

from model.errors import UserError
from model.tokenizer import Tokenizer, normalise
from training.batching import Lengths
from training.config import TrainConfig
from training.machine import forget_mapped_pages, single_threaded_tokenizers

VALIDATION_NAMES = ("dev", "val", "valid", "validation")
PAIR = Features({"source": Value("string"), "target": Value("string")})
MIN_LETTERS, MAX_LETTERS = 2, 20  # of a word to reverse
ROWS_PER_PROCESS = 100_000  # fewer are done before another process has started
# What is cached belongs to this code: the library takes a changed function for the old one.
CODE = hashlib.sha256(Path(__file__).read_bytes() + inspect.getsource(normalise).encode()).hexdigest()
TOKENIZER_PAIRS = 1_000_000  # more change a vocabulary little and take long
BLOCK = 1000  # pairs


@dataclass(frozen=True)
class Corpus:
    """Pairs of normalised text in columns `source` and `target`, memory-mapped."""

    train: Dataset
    validation: Dataset
    test: Dataset | None  # only where it was split off at random
    split: dict[str, Any]  # what makes the split repeatable: goes into the run directory
    dropped: dict[str, int]  # training pairs that each cleaning rule removed


def read_corpus(config: TrainConfig, directories: Sequence[Path]) -> Corpus:
    """The recipe's corpus: from the directories when given, else from the hub.

    Raises UserError when a file is missing, empty or of another length than its partner.
    """
    languages = (config.source_language, config.target_language)
    validation: Dataset | None
    if config.reverse_words:
        pairs, validation = _read_words(directories), None
    elif directories:
        first = config.train_parts[0]
        parts = [
            read_parallel(d, (name,), languages, required=name == first)
            for d in directories
            for name in config.train_parts
        ]
        pairs = concatenate_datasets(parts)
        parts = [read_parallel(d, VALIDATION_NAMES, languages, False) for d in directories]
        validation = concatenate_datasets(parts) if any(map(len, parts)) else None
    elif config.hub:
        pairs, validation = read_hub(*config.hub, languages)
    else:
        raise UserError(
            "This recipe reads local files: give --data DIR with "
            f"train.{languages[0]} and train.{languages[1]}, one sentence a line."
        )
    return _split(config, pairs, validation)


def read_parallel(
    directory: Path, names: Sequence[str], languages: Sequence[str], required: bool = True
) -> Dataset:
    """Line n of NAME.SOURCE and of NAME.TARGET are a pair; the first NAME that exists counts."""
    if not directory.is_dir():
        raise UserError(f"The data directory {directory} does not exist; check --data.")
    for name in names:
        files = [directory / f"{name}.{language}" for language in languages]
        present = [file for file in files if file.is_file()]
        if len(present) == 2:
            _check_equal_length(files)
            return _cached(_parallel_rows, files)
        if present:
            missing = next(file for file in files if file not in present)
            raise UserError(f"{missing} is missing beside {present[0].name}.")
    if required:
        wanted = " and ".join(f"{names[0]}.{language}" for language in languages)
        raise UserError(f"{directory} has no {wanted}; one sentence a line, UTF-8.")
    return Dataset.from_dict({"source": [], "target": []}, features=PAIR)


def read_hub(path: str, name: str | None, languages: Sequence[str]) -> tuple[Dataset, Dataset | None]:
    """Training and validation pairs of a data set whose rows are {"translation": {"de": ...}}."""
    try:
        parts = load_dataset(path, name)
    except Exception as error:  # network, name and format errors have no common class
        raise UserError(
            f"The data set {path} ({name}) could not be loaded ({error}); go online once or give --data DIR."
        ) from error
    if not isinstance(parts, DatasetDict) or "train" not in parts:
        raise UserError(f"The data set {path} has no training part; name another configuration.")

    def flatten(batch: Mapping[str, list[Any]], code: str) -> dict[str, list[str]]:
        columns = zip(("source", "target"), languages, strict=True)
        return {
            column: [normalise(row[language] or "") for row in batch["translation"]]
            for column, language in columns
        }

    for part in parts.values():
        columns = part.features.get("translation", {})
        present = columns.languages if isinstance(columns, Translation) else columns
        missing = set(languages) - set(present)
        if missing:
            raise UserError(f"The data set {path} has no {', '.join(sorted(missing))} sentences.")
    train, *validation = (
        parts[name].map(
            flatten,
            batched=True,
            remove_columns=parts[name].column_names,
            features=PAIR,
            fn_kwargs={"code": CODE},
            num_proc=_processes(parts[name]),
        )
        for name in ("train", "validation")
        if name in parts
    )
    return train, validation[0] if validation else None


def _read_words(directories: Sequence[Path]) -> Dataset:
    files = sorted(file for d in directories for file in d.glob("*.txt"))
    if not files:
        raise UserError("Give --data DIR with a word list: a .txt file, one word a line.")
    return _cached(_word_rows, files)


def _cached(rows: Any, files: Sequence[Path]) -> Dataset:
    """The rows as a memory-mapped data set that is built again only when a file changes."""
    # Tuples, because the library takes lists for shards to be handed out one by one.
    arguments = {
        "files": tuple(str(file.resolve()) for file in files),
        "digests": (CODE, *(_digest(file) for file in files)),
    }
    if next(rows(**arguments), None) is None:
        names = " and ".join(file.name for file in files)
        raise UserError(f"There is nothing to read in {names} of {files[0].parent}; check --data.")
    return Dataset.from_generator(rows, features=PAIR, gen_kwargs=arguments)


def _lines(file: str | Path) -> Iterator[str]:
    """Lines of a text file; only the line feed ends one, and wrong bytes become U+FFFD."""
    with Path(file).open(encoding="utf-8-sig", errors="replace", newline="\n") as stream:
        yield from stream


def _check_equal_length(files: Sequence[Path]) -> None:
    first, second = (sum(1 for _ in _lines(file)) for file in files)
    if first != second:
        raise UserError(
            f"{files[0]} has {first:,} lines but {files[1]} has {second:,}; "
            "line n of both must be the same sentence."
        )


def _parallel_rows(files: tuple[str, str], digests: tuple[str, ...]) -> Iterator[dict[str, str]]:
    for source, target in zip(*map(_lines, files), strict=True):
        yield {"source": normalise(source), "target": normalise(target)}


def _word_rows(files: tuple[str, ...], digests: tuple[str, ...]) -> Iterator[dict[str, str]]:
    words = {line.strip().lower() for file in files for line in _lines(file)}
    for word in sorted(words):
        if word.isalpha() and MIN_LETTERS <= len(word) <= MAX_LETTERS:
            yield {"source": word, "target": word[::-1]}


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# Cleaning -------------------------------------------------------------------------------------

NOT_TEXT = ("\ufffd", "\x00")  # of bytes that are not UTF-8; of UTF-16
RULES = ("empty", "not_text", "length_ratio", "copy", "duplicate")


def clean(pairs: Dataset) -> tuple[Dataset, dict[str, int], str]:
    """Drop pairs by named rules; also the number that each rule dropped and a digest of the rest.

    empty: a side has no text. not_text: a side holds a character that decoding errors leave
    behind. length_ratio: one side has over three times the characters of the other and 20 more.
    copy: the target repeats a source of over three words. duplicate: the pair came before.
    """
    judged = pairs.map(_judge, batched=True, remove_columns=pairs.column_names, num_proc=_processes(pairs))
    verdict = np.asarray(judged.with_format("numpy")["verdict"][:])
    digest = np.asarray(judged.with_format("numpy")["digest"][:])
    first = np.zeros(len(verdict), dtype=bool)
    first[np.unique(digest, return_index=True)[1]] = True
    verdict = np.where((verdict == -1) & ~first, RULES.index("duplicate"), verdict)
    counts = {rule: int((verdict == i).sum()) for i, rule in enumerate(RULES)}
    kept = np.flatnonzero(verdict == -1)
    return pairs.select(kept), counts, hashlib.sha256(digest[kept].tobytes()).hexdigest()


def _judge(batch: Mapping[str, list[str]]) -> dict[str, list[int]]:
    forget_mapped_pages()
    pairs = list(zip(batch["source"], batch["target"], strict=True))
    digests = [hashlib.blake2b("\n".join(p).encode(), digest_size=8).digest() for p in pairs]
    return {
        "verdict": [_verdict(*pair) for pair in pairs],
        "digest": [int.from_bytes(digest, "big", signed=True) for digest in digests],
    }


def _verdict(source: str, target: str) -> int:
    shorter, longer = sorted((len(source), len(target)))
    if not shorter:
        return RULES.index("empty")
    if any(sign in source + target for sign in NOT_TEXT):
        return RULES.index("not_text")
    if longer > 3 * shorter and longer - shorter > 20:
        return RULES.index("length_ratio")
    if source == target and source.count(" ") >= 3:
        return RULES.index("copy")
    return -1


# Splitting and encoding -----------------------------------------------------------------------


def _split(config: TrainConfig, pairs: Dataset, validation: Dataset | None) -> Corpus:
    """Clean, then hold out what the data itself does not: of what is split, no pair is on both sides."""
    pairs, dropped, digest = clean(pairs)
    split: dict[str, Any] = {"rows": len(pairs), "digest": digest}
    order = np.random.default_rng(config.seed).permutation(len(pairs))
    wanted = config.validation_rows * (len(pairs) if config.validation_rows < 1 else 1)
    held = config.test_rows + (round(wanted) if validation is None else 0)
    if len(pairs) <= held:
        raise UserError(
            f"The corpus has {len(pairs):,} pairs, but {held:,} are to be held out; give more"
            + (" or a validation part of their own, such as dev files." if validation is None else ".")
        )
    held_test, held_validation = order[: config.test_rows], order[config.test_rows : held]
    split["test"] = np.sort(held_test).tolist()
    if validation is None:
        split["validation"] = np.sort(held_validation).tolist()
        validation = pairs.select(split["validation"])
    else:
        text = "\n".join((*validation["source"], *validation["target"]))
        digest = hashlib.sha256(text.encode()).hexdigest()
        split["validation"] = f"the corpus's own {len(validation)} pairs, {digest}"
    # A pair with an empty side has no score.
    validation = validation.filter(lambda pair: bool(pair["source"] and pair["target"]))
    forget_mapped_pages()
    test = pairs.select(split["test"]) if config.test_rows else None
    train = pairs.select(np.sort(order[held:])) if held else pairs
    return Corpus(train, validation, test, split, dropped)


def train_tokenizers(config: TrainConfig, train: Dataset) -> tuple[Tokenizer, Tokenizer]:
    """Source and target tokenizer from the training pairs alone; one joint one when weights are tied."""

    def sentences(*columns: str) -> Iterator[str]:
        for start in _sample(len(train)):
            forget_mapped_pages()
            batch = train[start : start + BLOCK]
            for column in columns:
                yield from batch[column]

    settings = (config.tokenizer, config.vocabulary, config.min_frequency)
    if config.model.tied:
        joint = Tokenizer.train(sentences("source", "target"), *settings)
        return joint, joint
    return (
        Tokenizer.train(sentences("source"), *settings),
        Tokenizer.train(sentences("target"), *settings),
    )


def _sample(rows: int) -> Iterator[int]:
    """Starts of blocks of neighbours, evenly spread: reading them touches little of the file."""
    blocks = -(-rows // BLOCK)
    count = min(blocks, TOKENIZER_PAIRS // BLOCK)
    return (i * blocks // count * BLOCK for i in range(count))


def encode(
    pairs: Dataset, tokenizers: tuple[Tokenizer, Tokenizer], max_tokens: int
) -> tuple[Dataset, Lengths]:
    """Columns `source` and `target` as ids, and the rows that were kept: none over `max_tokens`."""
    if not len(pairs):
        return pairs, np.zeros(0, dtype=np.int64)
    width = pa.uint16() if max(map(len, tokenizers)) <= 2**16 else pa.int32()

    def to_ids(batch: pa.Table) -> pa.Table:
        forget_mapped_pages()
        columns = {}
        for column, tokenizer in zip(("source", "target"), tokenizers, strict=True):
            rows = tokenizer.encode_batch(batch[column].to_pylist())
            lengths = np.array(list(map(len, rows)), dtype=np.int32)
            ids = np.fromiter(chain.from_iterable(rows), dtype=width.to_pandas_dtype())
            offsets = np.concatenate(([0], lengths.cumsum(dtype=np.int32)))
            columns[column] = pa.ListArray.from_arrays(offsets, ids)
            columns[f"{column}_length"] = pa.array(lengths)
        return pa.table(columns)

    processes = _processes(pairs)
    with single_threaded_tokenizers() if processes else nullcontext():
        encoded = pairs.with_format("arrow").map(
            to_ids, batched=True, remove_columns=pairs.column_names, num_proc=processes
        )
    kept = np.flatnonzero(np.maximum(*lengths_of(encoded)) <= max_tokens)
    forget_mapped_pages()
    return encoded.with_format(None).select(kept), kept


def _processes(pairs: Dataset) -> int | None:
    """Processes that share a pass over the pairs; None is this one alone."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = min(cores, len(pairs) // ROWS_PER_PROCESS)
    return processes if processes > 1 else None


def lengths_of(encoded: Dataset) -> tuple[Lengths, Lengths]:
    """Token counts of both sides as arrays, without <s> and </s>."""
    columns = encoded.with_format("numpy")
    source, target = (
        np.asarray(columns[f"{side}_length"][:], dtype=np.int64) for side in ("source", "target")
    )
    return source, target
