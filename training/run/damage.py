"""Damaged files of a run: one sentence that names the file, the damage and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from model.errors import UserError
from model.storage.checkpoint import WEIGHTS

BEST, SNAPSHOTS = "best", "snapshots"
DAMAGE = (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError)


@contextmanager
def reading(path: Path, is_needed: bool = True) -> Iterator[None]:
    """Raise UserError for what a damaged file of a run causes while the block reads it."""
    try:
        yield
    except UserError as error:  # it names the file, but says to copy a model
        raise UserError(_sentence(str(error).partition(";")[0].rstrip("."), path, is_needed)) from error
    except DAMAGE as error:
        raise UserError(_sentence(f"{path} is broken ({error})", path, is_needed)) from error


def _sentence(damage: str, path: Path, is_needed: bool) -> str:
    if not is_needed:
        return f"{damage}; remove this file, and the run goes on without what it holds."
    run = path.parent
    left = [each for each in (BEST, *_snapshots(run)) if (run / each / WEIGHTS).is_file()]
    if not left:
        return f"{damage}, so the run cannot go on; start the run again in another folder."
    return (
        f"{damage}, so the run cannot go on, but {', '.join(left)} in {run} can be used; start a new run in "
        f"another folder, with --from {run / left[0]} if it shall begin there."
    )


def _snapshots(run: Path) -> list[str]:
    return sorted((f"{SNAPSHOTS}/{path.name}" for path in (run / SNAPSHOTS).glob("step-*")), reverse=True)
