"""Word alignments of training data by eflomal, as `python -m training train --alignments` reads them.

`python -m tests.benchmarks.links de en --data DIR DIR --output FILE` needs eflomal, which
tests/benchmarks/requirements.txt names. Give the same languages and the same folders, in the same order,
as to the training.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro
from datasets import disable_progress_bars

from model.analysis.alignment import format_pharaoh
from model.errors import UserError
from tests.benchmarks.alignment import eflomal, separate_marks, training_pairs


def main(
    source: Annotated[str, tyro.conf.Positional],
    target: Annotated[str, tyro.conf.Positional],
    data: tuple[Path, ...],
    output: Path,
) -> None:
    """Write a line of links for each training pair: the choices of both sides, joined by grow-diag.

    Args:
        source: Source language, the ending of its files.
        target: Target language, the ending of its files.
        data: Folders of training data, as for the training.
        output: File to write, in Pharaoh form.
    """
    disable_progress_bars()
    try:
        pairs = training_pairs(data, (source, target))
        found = eflomal(separate_marks(pairs["source"]), separate_marks(pairs["target"]), len(pairs))
    except UserError as error:
        sys.exit(str(error))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("".join(f"{format_pharaoh(links)}\n" for links in found.joined), encoding="utf-8")
    print(f"{output} has the links of {len(pairs):,} pairs.")


if __name__ == "__main__":
    tyro.cli(main)
