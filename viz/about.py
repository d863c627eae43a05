"""What the page knows of its models besides their answers: studies of heads, training ranges, cards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from model import Translator
from model.analysis.study import Study
from model.errors import UserError
from model.files import write_json
from model.inputs import language
from model.languages import language_name
from model.results import KINDS, Token
from model.tokenizer import Tokenizer

CARD = "README.md"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
MOST_ROWS, LONGEST_CELL = 20, 1000
PERCENT = 99.9  # of the training sentences are within the range


class TrainedRange(NamedTuple):
    """What almost all sentences of a training have at most; see PERCENT."""

    sentences: int
    tokens: int  # </s> included
    pieces: float  # tokens of a word, mean over the words of a sentence


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
    write_json(path, _read_ranges(path) | {model: found._asdict()})


def is_imported(translator: Translator) -> bool:
    """Return whether somebody else trained this model."""
    return bool(translator.checkpoint.info.origin)


def about_models(translators: Mapping[str, Translator], assets: Path) -> dict[str, dict[str, Any]]:
    """Return what is known of each model by its name, as far as it exists.

    `study`, `trained` and `card`; of an imported model its `origin`. An imported model may have the name of
    a shipped one, so it gets neither its range nor its study.
    """
    ranges = _read_ranges(assets / "trained.json")
    known = {}
    for name, translator in translators.items():
        info = translator.checkpoint.info
        about = {
            "study": _findings(assets / "study" / f"{name}.json", info.title),
            "trained": None if info.origin else ranges.get(name),
            "card": _card(translator.directory),
            "origin": info.origin,
        }
        known[name] = {key: value for key, value in about.items() if value}
    return known


def examples_of_models(
    translators: Mapping[str, Translator], examples: Mapping[str, list[str]]
) -> dict[str, list[str]]:
    """Return the example sentences of each model.

    An imported model has none of its own: it gets those that were written for a model of the same source
    language. `examples` has them by models that are called SOURCE-TARGET.
    """
    by_language = {language_name(model.partition("-")[0]): found for model, found in examples.items()}
    return {
        name: by_language.get(language(translator.checkpoint.info), [])
        if is_imported(translator)
        else examples.get(name, [])
        for name, translator in translators.items()
    }


def target_choices(translator: Translator) -> list[tuple[str, str]]:
    """Return the codes of a model's target languages and their names, sorted by name."""
    choices = []
    for code in translator.checkpoint.info.target_languages:
        short = code.strip("<>")
        name = language_name(short)
        choices.append((code, short if name == short else f"{name} ({short})"))
    return sorted(choices, key=lambda choice: choice[1])


def _read_ranges(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def _card(directory: Path | None) -> list[tuple[str, str]]:
    """The names and the values of the tables before the first section of a model's card."""
    if directory is None or not (directory / CARD).is_file():
        return []
    head = (directory / CARD).read_text("utf-8", errors="replace").split("\n## ")[0]
    return [(name, value[:LONGEST_CELL]) for name, value in _ROW.findall(head)[:MOST_ROWS] if name.strip()]


def _findings(path: Path, title: str) -> dict[str, Any] | None:
    """The number of sentences, and the role, nearest role and evidence of each head, [kind][layer][head].

    None if there is no study of the model of this title.
    """
    try:
        study = Study.load(path)
    except UserError:
        return None
    if study.title != title:
        return None
    heads: dict[str, list[list[Any]]] = {kind: [] for kind in KINDS}
    for head in study.heads:
        rows = heads[head.kind]
        if head.layer == len(rows):
            rows.append([])
        rows[head.layer].append([head.role, head.nearest_role, head.evidence])
    return {"sentences": study.pairs, "heads": heads}
