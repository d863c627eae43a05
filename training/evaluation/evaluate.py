"""Scores of a model on a test set that is read from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from model.decoding.options import SearchOptions
from model.errors import TooLongError, UserError
from model.files import read_lines
from model.network.transformer import HeadGates
from model.text.languages import join_code
from model.translator import Translator
from training.evaluation.metrics import (
    LengthScore,
    NameRecall,
    Scores,
    name_recall,
    score,
    score_by_length,
)


class Evaluation(NamedTuple):
    """Scores of a model on a test set; a sentence that it refuses counts as an empty translation."""

    scores: Scores
    sentences: int
    too_long: int
    unreadable: int  # without a character that the model knows
    by_length: dict[str, LengthScore]
    names: NameRecall


def read_pairs(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The lines of two parallel files. Raises UserError when they have different numbers of lines."""
    sources, targets = list(read_lines(source)), list(read_lines(target))
    if len(sources) != len(targets):
        raise UserError(
            f"{source} has {len(sources):,} lines but {target} has {len(targets):,}; "
            "line n of both must be the same sentence."
        )
    return sources, targets


def evaluate(
    translator: Translator, source: Path, reference: Path, beam_size: int, code: str = ""
) -> Evaluation:
    """Translate the source file and compare the translations with the reference file.

    `code` is the code of the target language, for a model with several. Raises UserError when the files have
    different numbers of lines or one of them has no text.
    """
    sources, references = read_pairs(source, reference)
    for path, lines in ((source, sources), (reference, references)):
        if not any(line.strip() for line in lines):
            raise UserError(f"{path} holds no text; give one sentence a line.")
    written = [join_code(code, sentence) for sentence in sources]
    hypotheses, refused = translate_sentences(translator, written, beam_size)
    too_long = sum(isinstance(error, TooLongError) for error in refused)
    by_length = score_by_length(sources, hypotheses, references)
    return Evaluation(
        score(hypotheses, references),
        len(sources),
        too_long,
        len(refused) - too_long,
        by_length,
        name_recall(hypotheses, references),
    )


def translate_sentences(
    translator: Translator,
    sources: Sequence[str],
    beam_size: int = 1,
    gates: HeadGates | None = None,
    exact: bool = False,
) -> tuple[list[str], list[UserError]]:
    """The translations in order, and an error for each sentence that the model refuses; it stays empty.

    If `exact`, they do not depend on whether this processor is faster in bfloat16.
    """
    hypotheses, refused = [""] * len(sources), []
    for place, found in translator.translate_lines(sources, SearchOptions(beam_size), gates, exact):
        if isinstance(found, UserError):
            refused.append(found)
        elif found:
            hypotheses[place] = found[0].text
    return hypotheses, refused
