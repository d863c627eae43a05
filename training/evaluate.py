"""Scores of a model on a test set, from files."""

from __future__ import annotations

from pathlib import Path

from model.errors import UserError
from model.translator import Translator
from training.metrics import Scores, score


def read_sentences(path: Path) -> list[str]:
    """One sentence a line. Raises UserError when the file is missing or not UTF-8."""
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}; check the path.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8; convert it first.") from error


def read_pairs(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """The lines of two parallel files. Raises UserError when they do not pair up."""
    sources, targets = read_sentences(source), read_sentences(target)
    if len(sources) != len(targets):
        raise UserError(
            f"{source} has {len(sources):,} lines but {target} has {len(targets):,}; "
            "line n of both must be the same sentence."
        )
    return sources, targets


def evaluate(translator: Translator, source: Path, reference: Path, beam_size: int) -> Scores:
    """Translate the source file and compare with the reference, line by line."""
    sources, references = read_pairs(source, reference)
    return score(translator.translate_batch(sources, beam_size), references)
