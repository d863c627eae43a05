"""What the page knows of its models besides their answers: examples, studies, training ranges, cards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from model import Translator
from model.analysis.study import Study
from model.decoding.search import PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY
from model.errors import UserError
from model.files import write_json
from model.instruments import MAX_SAMPLE
from model.results import KINDS, Token
from model.storage.checkpoint import CONFIG, JOINT, SOURCE, TARGET, WEIGHTS
from model.storage.probes import PROBES
from model.storage.training_log import METRICS
from model.tokenizer import Tokenizer

CARD = "README.md"
NEEDED = (CONFIG, WEIGHTS, JOINT, SOURCE, TARGET)  # to translate; a model has one or two tokenizers
OF_TRAINING = (PROBES, METRICS)  # for the panel Training
NO_TRAINING = "This model came without a record of its training."
NO_CURVES = "The curves of this training are missing or cannot be read."
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
MOST_ROWS, LONGEST_CELL = 20, 1000
PERCENT = 99.9  # of the training sentences are within the range


class TrainedRange(NamedTuple):
    """What almost all sentences of a training have at most; see PERCENT."""

    sentences: int
    tokens: int  # </s> included
    pieces: float  # tokens of a word, mean over the words of a sentence


def page_values(
    translators: Mapping[str, Translator],
    first: str,
    examples: Mapping[str, list[str]],
    captions: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what viz/viewer/page.js knows of the models; `first` is the one that a new page opens."""
    return {
        "first": first,
        "examples": {name: examples.get(name, []) for name in translators},
        "buttons": max(map(len, examples.values()), default=0),
        "languages": {name: each.checkpoint.info.source_language for name, each in translators.items()},
        "captions": {name: captions[name] for name in translators if name in captions},
        "sizes": {name: _size(each) for name, each in translators.items() if each.directory is not None},
        "most": [PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY],
    }


def model_files(translator: Translator) -> list[Path]:
    """Return the files of a model that the page without a server reads. Raises UserError if it has none."""
    directory = translator.directory
    if directory is None:
        raise UserError(f"The model {translator.name} was not read from files; save it first.")
    return [path for name in (*NEEDED, *OF_TRAINING) if (path := directory / name).is_file()]


def _size(translator: Translator) -> int:
    return sum(path.stat().st_size for path in model_files(translator))


def measure_range(tokenizer: Tokenizer, lines: Iterable[str]) -> TrainedRange:
    """Return the range of these source sentences. Raises UserError when there is none."""
    found = [tokenizer.source_tokens(line) for line in lines if line.strip()]
    if not found:
        raise UserError("There is no sentence in these files; give the source side of the training.")
    tokens = np.percentile([len(each) for each in found], PERCENT)
    pieces = np.percentile([_pieces_per_word(each) for each in found], PERCENT)
    return TrainedRange(len(found), round(float(tokens)), round(float(pieces), 2))


def _pieces_per_word(tokens: Iterable[Token]) -> float:
    words = [token.word for token in tokens if token.word is not None]
    return len(words) / max(1, len(set(words)))


def write_range(path: Path, model: str, found: TrainedRange) -> None:
    """Add the range of a model to the file of all ranges."""
    write_json(path, _read_table(path) | {model: found._asdict()})


def about_models(translators: Mapping[str, Translator], assets: Path | None) -> dict[str, dict[str, Any]]:
    """Return what is known of each model by its name, as far as it exists.

    `study`, `trained`, `card`, and `everyday`: sentences of the project for means and examples. All but the
    card are read from the folder `assets`, if there is one.
    """
    ranges, everyday = (
        _read_table(assets / name) if assets else {} for name in ("trained.json", "everyday.json")
    )
    known = {}
    for name, translator in translators.items():
        about = {
            "study": _findings(assets / "study" / f"{name}.json") if assets else None,
            "trained": ranges.get(name),
            "card": _card(translator.directory),
            "everyday": everyday.get(name, [])[:MAX_SAMPLE],
        }
        known[name] = {key: value for key, value in about.items() if value}
    return known


def _read_table(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def _card(directory: Path | None) -> list[tuple[str, str]]:
    """The names and the values of the tables before the first section of a model's card."""
    if directory is None or not (directory / CARD).is_file():
        return []
    head = (directory / CARD).read_text("utf-8", errors="replace").split("\n## ")[0]
    return [(name, value[:LONGEST_CELL]) for name, value in _ROW.findall(head)[:MOST_ROWS] if name.strip()]


def _findings(path: Path) -> dict[str, Any] | None:
    """The number of sentences, and the role, nearest role and evidence of each head, [kind][layer][head]."""
    try:
        study = Study.load(path)
    except UserError:
        return None
    heads: dict[str, list[list[Any]]] = {kind: [] for kind in KINDS}
    for head in study.heads:
        rows = heads[head.kind]
        if head.layer == len(rows):
            rows.append([])
        rows[head.layer].append([head.role, head.nearest_role, head.evidence])
    return {"sentences": study.pairs, "heads": heads}
