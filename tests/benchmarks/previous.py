"""The files of the previous release, which the benchmarks compare with the present code."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def release(commit: str) -> Iterator[Path | None]:
    """A temporary folder with the files of a commit; None, after a sentence, where git does not have it."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        print(f"The previous release is left out: git has no commit {commit!r} here.", flush=True)
        yield None
        return
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
        yield Path(folder)
