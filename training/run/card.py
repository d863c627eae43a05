"""The cards of trained models: a run writes a first one, people complete it, `refresh` updates it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from model.errors import UserError
from model.storage.card import CARD, Card, Table, read_card, write_card
from model.storage.checkpoint import WEIGHTS
from model.storage.run import RUN
from model.translator import Translator
from training.config import TrainConfig
from training.corpus.mixing import CONCATENATED
from training.evaluation.evaluate import Evaluation, evaluate
from training.evaluation.metrics import LENGTHS, Scores
from training.run.directory import read_run

BEAM = 4  # for the everyday sentences


def length_score(bucket: str, found: Evaluation) -> list[float] | None:
    """BLEU of a bucket of source lengths, with its number of sentences."""
    each = found.by_length.get(bucket)
    return None if each is None else [round(each.bleu, 1), each.sentences]


def names_score(found: Evaluation) -> list[float] | None:
    """The percentage of the references' names that the translations have, with the number of names."""
    return [round(found.names.percent, 1), found.names.names] if found.names.names else None


# The columns of the tables of figures, rounded as `evaluate` prints them.
COLUMNS: Mapping[str, Callable[[Evaluation], float | list[float] | None]] = {
    "sentences": lambda found: found.sentences,
    "BLEU": lambda found: round(found.scores.bleu, 2),
    "chrF": lambda found: round(found.scores.chrf, 2),
    "WER": lambda found: round(found.scores.wer, 3),
    "CER": lambda found: round(found.scores.cer, 3),
    "exact": lambda found: round(found.scores.exact_match, 2),
    "names": names_score,
} | {f"{low}-{high} words": partial(length_score, f"{low}-{high}") for low, high in LENGTHS}


def run_card(config: TrainConfig, step: int, pairs: int, decoding: str, scores: Scores) -> Card:
    """The card that a run writes, with its validation scores."""
    shape = config.model
    return {
        "front": {"tags": ["headlight", "transformer", "attention"], "library_name": "pytorch"},
        "title": config.title,
        "introduction": [
            f"An encoder-decoder Transformer trained by Headlight: {shape.n_encoder_layers} + "
            f"{shape.n_decoder_layers} layers of width {shape.d_model}, {shape.n_heads} heads, feed-forward "
            f"{shape.d_ff}, {shape.norm}-norm, {config.tokenizer} tokens; {pairs:,} training pairs, {step:,} "
            f"steps of at most {config.accumulate * config.tokens_per_batch:,} tokens.",
            "{validation}",
            "Before you share this model, add: the data and its licence, test scores with their signatures, "
            "and what the model does badly.",
        ],
        "tables": {
            "validation": {
                "columns": ["set", "BLEU", "chrF", "WER", "CER", "exact match, %"],
                "rows": [
                    [
                        f"validation, {decoding}",
                        *(scores.bleu, scores.chrf, scores.wer, scores.cer, scores.exact_match),
                    ]
                ],
                "signatures": {"BLEU": scores.bleu_signature, "chrF": scores.chrf_signature},
            }
        },
    }


def refresh(
    directory: Path,
    corpora: Sequence[Path],
    everyday: Sequence[str],
    sources: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> None:
    """Update the shape of a model's card and the tables below, as far as it has them; write README.md anew.

    - data: the sources of its training pairs, from NAME/run.json in one of the folders `corpora`, and
      their kinds and licences in `sources`. Without that file the table stays.
    - figures, lengths: each row names a test set, which is a file in one of the folders `corpora`, and a
      beam size. It gets the scores that the columns name.
    - everyday: the translations of these sentences.

    Raises UserError when the card or a test set is missing or a column is unknown.
    """
    card = read_card(directory)
    if not card:
        raise UserError(f"{directory} has no {CARD}; write the card first, with its tables of figures.")
    translator = Translator.load(directory)
    fill: dict[str, Callable[[Table], Table]] = {
        "data": lambda table: fill_data(table, directory.name, corpora, sources),
        "figures": lambda table: fill_figures(table, translator, corpora),
        "lengths": lambda table: fill_figures(table, translator, corpora),
        "everyday": lambda _: translate_everyday(translator, everyday),
    }
    card["shape"] = translator.checkpoint.shape((directory / WEIGHTS).stat().st_size)
    for name, table in card.get("tables", {}).items():
        if name in fill:
            card["tables"][name] = fill[name](table)
    write_card(directory, card)


def fill_data(
    table: Table, model: str, corpora: Sequence[Path], sources: Mapping[str, Mapping[str, str]]
) -> Table:
    """A table of the sources of a model's training pairs, the largest first.

    Raises UserError when `sources` does not name the kind and the licence of each.
    """
    runs = [folder / model for folder in corpora if (folder / model / RUN).is_file()]
    if not runs:
        return table
    described = read_run(runs[0])["sources"]
    rows = []
    joined = {CONCATENATED: {"kind": "neighbouring pairs, joined", "licence": "those of their sources"}}
    for name, each in sorted(described.items(), key=lambda item: -item[1]["pairs"]):
        about = {**joined, **sources}.get(name, {})
        if not {"kind", "licence"} <= about.keys():
            raise UserError(f"The source {name} has no kind and licence; add them to assets/sources.json.")
        rows.append([name, each["pairs"], each["weight"], about["kind"], about["licence"]])
    return {"columns": ["source", "pairs", "weight", "kind", "licence"], "rows": rows}


def fill_figures(table: Table, translator: Translator, corpora: Sequence[Path]) -> Table:
    """The table with its figures and the signatures of BLEU and chrF."""
    _, _, *columns = table["columns"]
    for name in columns:
        if name not in COLUMNS:
            raise UserError(f"There is no figure {name!r}; use columns of this list: {', '.join(COLUMNS)}.")
    info = translator.checkpoint.info
    rows, signatures = [], {}
    for test_set, beam, *_ in table["rows"]:
        source, reference = (
            file_of(f"{test_set}.{language}", corpora)
            for language in (info.source_language, info.target_language)
        )
        found = evaluate(translator, source, reference, beam)
        rows.append([test_set, beam, *(COLUMNS[name](found) for name in columns)])
        signatures = {"BLEU": found.scores.bleu_signature, "chrF": found.scores.chrf_signature}
    updated: Table = {"columns": table["columns"], "rows": rows}
    if signatures := {name: signature for name, signature in signatures.items() if name in columns}:
        updated["signatures"] = signatures
    return updated


def file_of(name: str, corpora: Sequence[Path]) -> Path:
    """The file of this name in the first folder that has it. Raises UserError when no folder has it."""
    found = next((folder / name for folder in corpora if (folder / name).is_file()), None)
    if found is None:
        folders = ", ".join(map(str, corpora)) or "no folder"
        raise UserError(
            f"There is no file {name} in {folders}; give --data the folders that hold the test sets."
        )
    return found


def translate_everyday(translator: Translator, sentences: Sequence[str]) -> Table:
    """A table of sentences and their translations."""
    # One sentence at a time: in float32 on every machine, and the same as on the page.
    rows = [[sentence, translator.translate(sentence, BEAM).text] for sentence in sentences]
    return {"columns": ["sentence", f"translation, beam {BEAM}"], "rows": rows}
