"""The trainer of the previous release, in a process of its own, for comparison."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from tests.benchmarks.race import Work

RELEASE = "84f24d6"  # the commit of release 0.1
ROOT = Path(__file__).resolve().parents[2]
# Runs in the release's own tree: takes a step for each line it reads, and answers with the step's work.
PROGRAM = """
import sys
sys.modules["tests.benchmarks.marian"] = type(sys)("marian")  # the peers are not needed
sys.modules["tests.benchmarks.marian"].run_marian = None
from pathlib import Path
import datasets
from tests.benchmarks.training import DEFAULT, Ours
datasets.disable_progress_bars()
ours = Ours(DEFAULT, Path(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    print(*ours.step(), flush=True)
"""


class PreviousRelease:
    """The previous release's trainer at the default shape, on the same data."""

    def __init__(self, data: Path, folder: Path) -> None:
        archive = subprocess.run(
            ["git", "archive", RELEASE],
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(data.resolve())],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        while self._line() != "ready":
            pass

    def step(self) -> Work:
        """One update."""
        assert self.process.stdin is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        tokens, flops = self._line().split()
        return Work(int(tokens), int(flops))

    def _line(self) -> str:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise RuntimeError("the previous release has ended")
        return line.strip()

    def __enter__(self) -> PreviousRelease:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait()
