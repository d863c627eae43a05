"""Scores of a model on a test set, from files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from model.decoding.search import SearchOptions
from model.errors import TooLongError, UserError
from model.translator import Translator
from training.evaluation.metrics import Scores, score


class Evaluation(NamedTuple):
    """Scores of a model on a test set; a sentence that it cannot take counts as translated by nothing."""

    scores: Scores
    sentences: int
    too_long: int  # of them
    unreadable: int  # without a character that the model knows


def read_sentences(path: Path) -> list[str]:
    """One sentence a line. Raises UserError when the file is missing, no file or not UTF-8."""
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}; check the path.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8; convert it first.") from error
    except OSError as error:  # a folder, or nothing that this person may read
        raise UserError(f"{path} cannot be read ({error.strerror}); give a text file.") from error


def read_pairs(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The lines of two parallel files. Raises UserError when they do not pair up."""
    sources, targets = read_sentences(source), read_sentences(target)
    if len(sources) != len(targets):
        raise UserError(
            f"{source} has {len(sources):,} lines but {target} has {len(targets):,}; "
            "line n of both must be the same sentence."
        )
    return sources, targets


def evaluate(translator: Translator, source: Path, reference: Path, beam_size: int) -> Evaluation:
    """Translate the source file and compare with the reference, line by line.

    Raises UserError when the files do not pair up or one of them holds no text.
    """
    sources, references = read_pairs(source, reference)
    for path, lines in ((source, sources), (reference, references)):
        if not any(line.strip() for line in lines):
            raise UserError(f"{path} holds no text; give one sentence a line.")
    hypotheses, refused = [""] * len(sources), []
    for place, found in translator.translate_lines(sources, SearchOptions(beam_size)):
        if isinstance(found, UserError):
            refused.append(found)
        elif found:
            hypotheses[place] = found[0].text
    too_long = sum(isinstance(error, TooLongError) for error in refused)
    return Evaluation(score(hypotheses, references), len(sources), too_long, len(refused) - too_long)
