"""What the page shows about a model: examples, studies, training ranges, cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from model import Translator
from model.analysis.corpus import HEADS, load_heads
from model.analysis.corpus import MAX_BYTES as MAX_HEADS_BYTES
from model.analysis.jacobian_lens import LENS
from model.analysis.jacobian_lens import MAX_BYTES as MAX_LENS_BYTES
from model.decoding.options import PAGE_BEAM
from model.errors import Sentence, UserError, said
from model.files import check_file, read_bytes, read_json, write_json
from model.instruments import MAX_SAMPLE
from model.notices import language
from model.results import Token
from model.storage.card import Card
from model.storage.checkpoint import CONFIG, JOINT, MAX_WEIGHTS_BYTES, SOURCE, TARGET, WEIGHTS
from model.storage.probes import MAX_BYTES as MAX_PROBES_BYTES
from model.storage.probes import PROBES
from model.storage.training_log import MAX_BYTES as MAX_LOG_BYTES
from model.storage.training_log import METRICS
from model.text.languages import language_name
from model.text.multilingual import MultilingualTokenizer
from model.text.tokenizer import Tokenizer
from viz.viewer import ENGLISH, catalogues

Choices = list[tuple[str, str]]  # (value, text) each
Rows = list[tuple[str, str | list[Any]]]  # name and value; a list is what `said` returns
NEEDED = (CONFIG, WEIGHTS, JOINT, SOURCE, TARGET)  # to translate; a model has one or two tokenizers
# The most bytes of each model file that the page without a server reads.
FILE_SIZES = dict.fromkeys(NEEDED, MAX_WEIGHTS_BYTES) | {
    PROBES: MAX_PROBES_BYTES,
    METRICS: MAX_LOG_BYTES,
    HEADS: MAX_HEADS_BYTES,
    LENS: MAX_LENS_BYTES,
}
NO_TRAINING = Sentence("This model came without a record of its training.")
NOT_TRAINED_HERE = Sentence(
    "This model was imported: this project did not train it and has no record of its training."
)
NO_STUDY = Sentence("Nobody has measured the heads of this model over many sentences.")
NO_CURVES = Sentence("The curves of this training are missing or cannot be read.")
MOST_ROWS, LONGEST_CELL = 20, 1000
MOST_WEAKNESSES = 5
MOST_BUTTONS = 3  # with examples; their sentences have room for some words each
PERCENT = 99.9  # of the training sentences are within the range


class TrainedRange(NamedTuple):
    """What almost all sentences of a training have at most; see PERCENT."""

    sentences: int
    tokens: int  # </s> included
    pieces: float  # tokens of a word, mean over the words of a sentence


class PageValues(TypedDict):
    """What the page knows of the models."""

    first: str  # the one that a new page opens
    groups: list[tuple[str, Choices]]
    examples: dict[str, list[str]]  # sentences of each model
    buttons: int  # with examples
    readers: dict[str, str]
    languages: dict[str, str]
    prefixes: dict[str, PrefixChoices]
    sizes: dict[str, int]  # bytes
    beam: int


class PrefixChoices(TypedDict, total=False):
    """What the page offers before a sentence."""

    codes: Choices  # of languages, with their English names
    source: str  # the code of the usual source language, if a sentence may name another one
    prompts: tuple[str, ...]
    usual: str  # the prefix of a new page


def page_values(
    translators: Mapping[str, Translator],
    first: str,
    examples: Mapping[str, list[str]],
) -> PageValues:
    """Return what the page knows of the models."""
    return {
        "first": first,
        "groups": _groups(translators),
        "examples": {name: examples.get(name, []) for name in translators},
        "buttons": min(MOST_BUTTONS, max(map(len, examples.values()), default=0)),
        "readers": _readers(translators),
        "languages": {name: language(each.checkpoint.info) for name, each in translators.items()},
        "prefixes": {name: found for name, each in translators.items() if (found := prefix_choices(each))},
        "sizes": {name: _size(each) for name, each in translators.items() if each.directory is not None},
        "beam": PAGE_BEAM,
    }


def _readers(translators: Mapping[str, Translator]) -> dict[str, str]:
    """The first of our models that translates into each language of the page: a visitor can read that."""
    into = {
        name: each.checkpoint.info.target_language
        for name, each in translators.items()
        if not is_imported(each)
    }
    return {code: name for name, code in reversed(into.items()) if code in catalogues()}


def model_files(translator: Translator) -> list[Path]:
    """Return the files of a model that the page without a server reads. Raises UserError if it has none.

    What is too large, or not a file of the model's directory, is left out.
    """
    directory = translator.directory
    if directory is None:
        raise UserError(f"The model {translator.name} was not read from files; save it first.")
    return [path for name in FILE_SIZES if _is_readable(path := directory / name)]


def read_model_file(path: Path) -> bytes:
    """Return the content of one of the `model_files`. Raises UserError as `model.files.check_file` does."""
    return read_bytes(path, FILE_SIZES[path.name])


def _is_readable(path: Path) -> bool:
    try:
        check_file(path, FILE_SIZES[path.name])
    except UserError:
        return False
    return True


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


def is_imported(translator: Translator) -> bool:
    """Return whether somebody else trained this model."""
    return bool(translator.checkpoint.info.origin)


def no_training(translator: Translator) -> Sentence:
    """Return what to say of a model without a record of its training."""
    return NOT_TRAINED_HERE if is_imported(translator) else NO_TRAINING


def about_models(
    translators: Mapping[str, Translator], assets: Path | None
) -> dict[str, Mapping[str, object]]:
    """Return what is known of each model by its name, as far as it exists.

    `study`, `trained`, `card`, `weaknesses`, `everyday` (sentences of the project for means and examples),
    and the `origin` of an imported model. Study, range and sentences are read from the folder `assets`, if
    there is one. An imported model may have the name of a shipped one, so it gets neither its range nor its
    study.
    """
    ranges, everyday = (
        _read_table(assets / name) if assets else {} for name in ("trained.json", "everyday.json")
    )
    sentences = examples_of_models(translators, everyday)
    known: dict[str, Mapping[str, object]] = {}
    for name, translator in translators.items():
        info = translator.checkpoint.info
        about = {
            "study": study_of(translator),
            "trained": None if info.origin else ranges.get(name),
            "card": card_rows(translator),
            "weaknesses": weaknesses_of(translator.checkpoint.card),
            "everyday": sentences[name][:MAX_SAMPLE],
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


def prefix_choices(translator: Translator) -> PrefixChoices:
    """Return what the page offers before a sentence of this model; {} if the model has nothing to offer."""
    info, tokenizer = translator.checkpoint.info, translator.checkpoint.source_tokenizer
    if not info.target_languages:
        return {"prompts": info.prompts, "usual": info.prompts[0]} if info.prompts else {}
    source = tokenizer.source_code if isinstance(tokenizer, MultilingualTokenizer) else ""
    named = sorted((language_name(code[2:-2]), code) for code in info.target_languages)
    codes = [(code, name) for name, code in named]
    return {
        "codes": codes,
        "source": source,
        "prompts": info.prompts,
        "usual": f"{_first_target(codes, source)} ",
    }


def _first_target(codes: Choices, source: str) -> str:
    """The code of a language that the page speaks and that is not the source's, else the first one."""
    own = language_name(source[2:-2])
    wanted = [name for name in map(language_name, (ENGLISH, *catalogues())) if name != own]
    return min(codes, key=lambda each: wanted.index(each[1]) if each[1] in wanted else len(wanted))[0]


def _groups(translators: Mapping[str, Translator]) -> list[tuple[str, Choices]]:
    """The models in the groups of the list; without imported ones, there is one group without a heading."""
    ours, imported = (
        [(name, each.title) for name, each in translators.items() if is_imported(each) == other]
        for other in (False, True)
    )
    groups = (
        [(Sentence("Trained here"), ours), (Sentence("Imported"), imported)] if imported else [("", ours)]
    )
    return [(heading, models) for heading, models in groups if models]


def _read_table(path: Path) -> dict[str, Any]:
    return dict(read_json(path)) if path.exists() else {}


def card_rows(translator: Translator) -> Rows:
    """Return what the page says about a model row by row: the name and the value.

    First the size and the shape, as sentences that the page can translate, as `said` gives them; then the
    facts of the card, which are Markdown. A fact of the card replaces a row of its name.
    """
    facts = translator.checkpoint.card.get("facts", ())
    free = [(str(name), str(value)[:LONGEST_CELL]) for name, value in list(facts)[:MOST_ROWS]]
    named = {name for name, _ in free}
    return [*(row for row in _shape_rows(translator) if row[0] not in named), *free]


def _shape_rows(translator: Translator) -> Rows:
    weights = translator.directory and translator.directory / WEIGHTS
    if not weights or not weights.is_file():  # somebody may move a model while the page runs
        return []
    shape = translator.checkpoint.shape(weights.stat().st_size)
    size = Sentence(
        "{parameters:.1f} M parameters, {size:.1f} MB",
        parameters=shape["parameters"] / 1e6,
        size=shape["bytes"] / 1e6,
    )
    layers = Sentence(
        "encoder layers: {encoder}, decoder layers: {decoder}, width: {width:,}, feed-forward: "
        "{feed_forward:,}, {norm}-norm",
        encoder=shape["encoder_layers"],
        decoder=shape["decoder_layers"],
        width=shape["width"],
        feed_forward=shape["feed_forward"],
        norm=shape["norm"],
    )
    rows: Rows = [("size", said(size)), ("shape", said(layers))]
    if len(shape["vocabularies"]) == 1:
        (count,) = shape["vocabularies"]
        rows.append(("tokens", said(Sentence("one vocabulary of {count:,} entries", count=count))))
    return rows


def weaknesses_of(card: Card) -> dict[str, list[str]]:
    """Return where a model fails: sentences by the code of their language. Most models do not say it."""
    table = card.get("weaknesses")
    return {
        str(code): [line[:LONGEST_CELL] for line in lines[:MOST_WEAKNESSES] if isinstance(line, str)]
        for code, lines in (table if isinstance(table, dict) else {}).items()
        if isinstance(lines, list)
    }


def study_of(translator: Translator) -> Mapping[str, object] | None:
    """What the heads do over a corpus, without their cards; None if nobody has measured the model.

    The number of `sentences`, and `measures`, `roles` and `even` as in a payload.
    """
    found = load_heads(translator.directory)
    if found is None:
        return None
    tables = {"measures": found["measures"], "roles": found["roles"], "even": found["even"]}
    return {"sentences": found["count"], **tables}
