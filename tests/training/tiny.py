"""Corpora, models and runs that take about a second."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from safetensors import safe_open

from model.network.config import ModelConfig
from model.storage.training_log import METRICS
from training.config import TrainConfig
from training.corpus.batching import Batch, EncodedPairs, IdRows
from training.run.directory import STATE
from training.trainer import Trainer

SHAPE = ModelConfig(
    source_vocabulary=0,
    target_vocabulary=0,
    d_model=16,
    d_ff=32,
    n_heads=2,
    n_encoder_layers=1,
    n_decoder_layers=1,
)

REVERSE = TrainConfig(
    name="reverse",
    title="Words, reversed",
    source_language="word",
    target_language="reversed",
    reverse_words=True,
    tokenizer="character",
    model=SHAPE,
    validation_rows=10,
    test_rows=5,
    max_tokens=21,
    tokens_per_batch=64,
    max_steps=12,
    warmup_steps=4,
    peak_learning_rate=1e-2,
    validate_every=5,
    save_every=4,
    best_by="exact_match",
)

PARALLEL = replace(
    REVERSE,
    name="parallel",
    title="German → English",
    source_language="de",
    target_language="en",
    reverse_words=False,
    tokenizer="word",
    validation_rows=6,
    test_rows=4,
    best_by="bleu",
)


def words(letters: str = "abcd", lengths: Iterable[int] = (2, 3)) -> list[str]:
    """Every word of these lengths."""
    return ["".join(word) for n in lengths for word in itertools.product(letters, repeat=n)]


def write_lines(file: Path, lines: Sequence[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def word_list(directory: Path, lines: Sequence[str] | None = None) -> Path:
    """Return a data directory with a word list."""
    write_lines(directory / "words.txt", words() if lines is None else lines)
    return directory


def parallel_files(
    directory: Path,
    pairs: Sequence[tuple[str, str]] | None = None,
    name: str = "train",
    languages: tuple[str, str] = ("de", "en"),
) -> Path:
    """Return a data directory with NAME.de and NAME.en, or other languages."""
    pairs = sentences(40) if pairs is None else pairs
    for language, side in zip(languages, zip(*pairs, strict=True) if pairs else ((), ()), strict=True):
        write_lines(directory / f"{name}.{language}", side)
    return directory


def sentences(count: int) -> list[tuple[str, str]]:
    """Different pairs that no cleaning rule drops."""
    names = ["eins", "zwei", "drei", "vier", "fünf"], ["one", "two", "three", "four", "five"]
    digits = [(i // 25 % 5, i // 5 % 5, i % 5) for i in range(count)]
    return [(" ".join(names[0][d] for d in row), " ".join(names[1][d] for d in row)) for row in digits]


def as_dataset(pairs: Sequence[tuple[str, str]]) -> Dataset:
    return Dataset.from_dict({"source": [s for s, _ in pairs], "target": [t for _, t in pairs]})


def pairs_of(part: Dataset) -> list[tuple[str, str]]:
    return list(zip(part["source"], part["target"], strict=True))


def prepared(
    config: TrainConfig, data: Path, output: Path, resume: bool = False, start: Path | None = None
) -> Trainer:
    trainer = Trainer(config, [data], output, resume, start=start)
    trainer.prepare()
    return trainer


def run(config: TrainConfig, data: Path, output: Path, resume: bool = False) -> Path:
    """A whole run; returns its best model."""
    return prepared(config, data, output, resume).run()


def metrics(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / METRICS).read_text(encoding="utf-8").splitlines()]


def logged(output: Path, name: str) -> list[int]:
    """Steps at which a value was logged."""
    return [entry["step"] for entry in metrics(output) if name in entry]


def state_of(output: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and progress of a run's saved state."""
    with safe_open(output / STATE, framework="pt") as stream:
        progress = json.loads(stream.metadata()["progress"])
        tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    return tensors, progress


def assert_same_run(one: Path, other: Path) -> None:
    """Check that both are at the same position with the same weights and optimizer, bit for bit."""
    (tensors, progress), (other_tensors, other_progress) = state_of(one), state_of(other)
    for name in ("step", "epoch", "batch"):
        assert progress[name] == other_progress[name]
    assert tensors.keys() == other_tensors.keys()
    assert [name for name in tensors if not tensors[name].equal(other_tensors[name])] == []


def as_lists(rows: IdRows) -> list[list[int]]:
    return [row.tolist() for row in np.split(rows.flat, rows.lengths.cumsum()[:-1])] if len(rows) else []


def collate(
    sources: Iterable[Sequence[int]],
    targets: Iterable[Sequence[int]],
    device: torch.device,
    links: Iterable[Sequence[int]] | None = None,
) -> Batch:
    """A batch of pairs that are given as lists."""
    columns = (IdRows.of(rows) for rows in (sources, targets, links) if rows is not None)
    return EncodedPairs(*columns).collate(device)
