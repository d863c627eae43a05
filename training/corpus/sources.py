"""Sentence pairs from local parallel files, word lists or a data set of the Hugging Face hub."""

from __future__ import annotations

import hashlib
import inspect
import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from datasets import (
    Dataset,
    DatasetDict,
    Features,
    Translation,
    Value,
    concatenate_datasets,
    load_dataset,
)

import model.files
from model.errors import UserError
from model.files import read_lines
from model.text.tokenizer import normalise
from training.hardware import worker_processes

VALIDATION_NAMES = ("dev", "val", "valid", "validation")
# A file with such a word in its name is never training data.
HELD_OUT = re.compile(
    r"(news|dev)?(test|tst|dev|devel|development|val|valid|validation|eval|evaluation|heldout)"
    r"(s|ing|sets?|data|daten|files?|corpus|split)?"
)
LETTERS = re.compile(r"[^\W\d_]+")
CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
SOURCES = "source"  # ending of the file that names the source of each line, if no language is called so
PAIR = Features({"source": Value("string"), "target": Value("string"), "origin": Value("string")})
MIN_LETTERS, MAX_LETTERS = 2, 20  # of a word to reverse
RANDOM_LETTERS = (3, 8)  # the fewest and the most of a random word; as in viz/viewer/playground/tasks.js
# Part of the cache key: `datasets` does not notice changed code.
CODE = hashlib.sha256(
    Path(__file__).read_bytes() + (inspect.getsource(normalise) + inspect.getsource(model.files)).encode()
).hexdigest()


def read_training(directory: Path, languages: Sequence[str]) -> Dataset:
    """The pairs of all parallel files NAME.SOURCE and NAME.TARGET of a folder, in the order of the names.

    Files whose names say that they are held out (`is_held_out`) are left out. Column `origin` names where a
    pair comes from: its line of NAME.source or, without such a file, FOLDER/NAME. Raises UserError when there
    are no files, one of them is missing, or they have different numbers of lines.
    """
    found = _parallel_files(directory, languages)
    names = [name for name in found if not is_held_out(name)]
    if not names:
        wanted = " and ".join(f"train.{language}" for language in languages)
        held = f" besides {', '.join(found)}, which are held out" if found else ""
        raise UserError(f"{directory} has no {wanted}{held}; add them, with one sentence a line, in UTF-8.")
    return concatenate_datasets([_read_files(directory, name, found[name], languages) for name in names])


def read_validation(directory: Path, languages: Sequence[str]) -> Dataset | None:
    """The pairs of the folder's development set, dev.SOURCE and dev.TARGET, or None if it has none."""
    name = _validation_name(directory, languages)
    if name is None:
        return None
    return _read_files(directory, name, _parallel_files(directory, languages)[name], languages)


def left_out(directory: Path, languages: Sequence[str]) -> list[str]:
    """The names of the parallel files that are neither training data nor the development set."""
    names = filter(is_held_out, _parallel_files(directory, languages))
    validation = _validation_name(directory, languages)
    return [f"{directory.name}/{name}" for name in names if name != validation]


def is_held_out(name: str) -> bool:
    """Whether a word of a file's name says that it is for tests or development, as in newstest2014."""
    words = LETTERS.findall(CAMEL_CASE.sub(" ", name))
    return any(HELD_OUT.fullmatch(word.casefold()) for word in words)


def _validation_name(directory: Path, languages: Sequence[str]) -> str | None:
    names = {name.casefold(): name for name in _parallel_files(directory, languages)}
    return next((names[each] for each in VALIDATION_NAMES if each in names), None)


def _parallel_files(directory: Path, languages: Sequence[str]) -> dict[str, dict[str, Path]]:
    """The files of each name by their languages, sorted by name; capital letters make no difference."""
    if not directory.is_dir():
        raise UserError(f"The data directory {directory} does not exist; check --data.")
    codes = {language.casefold(): language for language in languages}
    groups: dict[str, list[Path]] = {}
    for file in sorted(directory.iterdir()):
        if file.suffix[1:].casefold() in codes:
            groups.setdefault(file.stem.casefold(), []).append(file)
    found: dict[str, dict[str, Path]] = {}
    for files in groups.values():
        one = len(files) <= len(codes)  # else the folder tells Train and train apart
        for file in files:
            name = files[0].stem if one else file.stem
            found.setdefault(name, {})[codes[file.suffix[1:].casefold()]] = file
    return dict(sorted(found.items()))


def _read_files(directory: Path, name: str, present: Mapping[str, Path], languages: Sequence[str]) -> Dataset:
    for language in languages:
        if language not in present:
            other = next(iter(present.values())).name
            raise UserError(
                f"{directory / name}.{language} is missing, but {other} exists; add the missing file."
            )
    files = [present[language] for language in languages]
    sources = directory / f"{name}.{SOURCES}"
    if sources.is_file() and SOURCES not in languages:
        files.append(sources)
    _check_equal_length(files)
    return _cached(_parallel_rows, files, origin=f"{directory.resolve().name}/{name}")


def fetch_pairs(path: str, name: str | None, languages: Sequence[str]) -> tuple[Dataset, Dataset | None]:
    """Training and validation pairs of a data set whose rows are {"translation": {"de": ...}}."""
    try:
        parts = load_dataset(path, name)
    except Exception as error:  # network, name and format errors have no common class
        raise UserError(
            f"The data set {path} ({name}) could not be loaded ({error}); connect to the internet once or "
            "give --data DIR."
        ) from error
    if not isinstance(parts, DatasetDict) or "train" not in parts:
        raise UserError(f"The data set {path} has no training part; name another configuration.")

    def flatten(batch: Mapping[str, list[Any]], code: str) -> dict[str, list[str]]:
        columns = zip(("source", "target"), languages, strict=True)
        texts = {
            column: [normalise(row[language] or "") for row in batch["translation"]]
            for column, language in columns
        }
        return texts | {"origin": [path] * len(batch["translation"])}

    for part in parts.values():
        columns = part.features.get("translation", {})
        present = columns.languages if isinstance(columns, Translation) else columns
        missing = set(languages) - set(present)
        if missing:
            raise UserError(
                f"The data set {path} has no {', '.join(sorted(missing))} sentences; use another one."
            )
    train, *validation = (
        parts[name].map(
            flatten,
            batched=True,
            remove_columns=parts[name].column_names,
            features=PAIR,
            fn_kwargs={"code": CODE},
            num_proc=worker_processes(len(parts[name])),
        )
        for name in ("train", "validation")
        if name in parts
    )
    return train, validation[0] if validation else None


def read_words(directories: Sequence[Path]) -> Dataset:
    """The words of all word lists, each with its reverse. Raises UserError when there is no list."""
    files = sorted(file for d in directories for file in d.glob("*.txt"))
    if not files:
        raise UserError("Give --data DIR with a word list: a .txt file, one word a line.")
    return _cached(_word_rows, files)


def random_words(count: int, seed: int) -> Dataset:
    """So many different words of random letters with their reverses, as the page's playground draws them."""
    return Dataset.from_generator(_random_rows, features=PAIR, gen_kwargs={"count": count, "seed": seed})


def _cached(rows: Any, files: Sequence[Path], **more: str) -> Dataset:
    """The rows as a memory-mapped data set, which is rebuilt only when a file changes."""
    # Tuples, because the library distributes the items of a list over processes.
    arguments = {
        "files": tuple(str(file.resolve()) for file in files),
        "digests": (CODE, *(_digest(file) for file in files)),
        **more,
    }
    if next(rows(**arguments), None) is None:
        names = " and ".join(file.name for file in files)
        raise UserError(f"There is nothing to read in {names} of {files[0].parent}; check --data.")
    return Dataset.from_generator(rows, features=PAIR, gen_kwargs=arguments)


def _lines(file: str | Path) -> Iterator[str]:
    return read_lines(Path(file), errors="replace")  # invalid bytes become U+FFFD


def _check_equal_length(files: Sequence[Path]) -> None:
    first, *others = (sum(1 for _ in _lines(file)) for file in files)
    for file, lines in zip(files[1:], others, strict=True):
        if lines != first:
            raise UserError(
                f"{files[0]} has {first:,} lines but {file} has {lines:,}; "
                "line n of both must be the same sentence."
            )


def _parallel_rows(files: tuple[str, ...], digests: tuple[str, ...], origin: str) -> Iterator[dict[str, str]]:
    source_file, target_file, *named = files
    origins = _lines(named[0]) if named else repeat(origin)
    for source, target, each in zip(_lines(source_file), _lines(target_file), origins, strict=False):
        yield {"source": normalise(source), "target": normalise(target), "origin": each.strip() or origin}


def _word_rows(files: tuple[str, ...], digests: tuple[str, ...]) -> Iterator[dict[str, str]]:
    words = {line.strip().lower() for file in files for line in _lines(file)}
    for word in sorted(words):
        if word.isalpha() and MIN_LETTERS <= len(word) <= MAX_LETTERS:
            yield {"source": word, "target": word[::-1], "origin": "words"}


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _random_rows(count: int, seed: int) -> Iterator[dict[str, str]]:
    draw = random.Random(seed)
    words: dict[str, None] = {}  # in the order in which they were drawn
    while len(words) < count:
        words["".join(draw.choices(string.ascii_lowercase, k=draw.randint(*RANDOM_LETTERS)))] = None
    for word in words:
        yield {"source": word, "target": word[::-1], "origin": "random words"}
