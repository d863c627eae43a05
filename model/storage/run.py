"""Finds the latest model and the record of a training run, and whether it is still running."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from model.storage.checkpoint import list_models

RUN, LATEST = "run.json", "latest"


def models_and_runs(directory: Path) -> dict[str, Path]:
    """The model directories in a folder by their names; a run in it is there with its latest model."""
    runs = {path.parent.name: path.parent / LATEST for path in sorted(directory.glob(f"*/{RUN}"))}
    runs = {name: path for name, path in runs.items() if path.is_dir()}
    return dict(sorted((runs | {path.name: path for path in list_models(directory)}).items()))


def history_directory(directory: Path) -> Path:
    """Where the record of a model's training is: its own directory, or the run whose latest model it is."""
    run = directory.parent
    return run if directory.name == LATEST and (run / RUN).is_file() else directory


def lock_of(run: Path) -> Path:
    """The file that a process locks while it trains into a run directory."""
    run = run.resolve()  # a link to the run is the same run
    return run.with_name(f".{run.name}.lock")


def goes_on(run: Path) -> bool:
    """Whether a process trains into this directory now."""
    try:
        with lock_of(run).open(encoding="utf-8") as file:
            return not lock(file, shared=True)
    except OSError:
        return False


def lock(file: TextIO, shared: bool = False) -> bool:
    """Lock a file until it is closed, if no other process has; several may share a lock."""
    try:
        import fcntl
    except ImportError:  # Windows, where nothing keeps two processes from training into one folder
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
