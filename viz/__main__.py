"""`python -m viz export`: translate a sentence and write its attention as one HTML file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from model import Translator
from model.checkpoint import find_model
from model.errors import UserError
from viz import export as exporter
from viz.payload import encode


def export(
    text: Annotated[tuple[str, ...], tyro.conf.Positional],
    model: str = "de-en",
    output: Path = Path("attention_maps.html"),
    models: Path = Path("assets/models"),
    beam: int = 1,
    length_penalty: float = 1.0,
) -> None:
    """Translate TEXT and write every attention weight as a page that works without a network.

    Args:
        text: the sentence; several words are joined by spaces.
        model: name of a model in the models folder, or the path of a model directory.
        output: the file to write.
        models: the folder that holds the model directories.
        beam: hypotheses kept at each step; 1 is greedy.
        length_penalty: exponent of the length that divides a hypothesis' score.
    """
    translator = Translator.load(find_model(model, models))
    translation = translator.translate(" ".join(text), beam_size=beam, length_penalty=length_penalty)
    exporter.write(encode(translation, translator.name, translator.title), output)
    print(translation.text)
    print(f"{output}: {output.stat().st_size / 1000:.0f} kB", file=sys.stderr)


def main() -> None:
    """Run the command line."""
    try:
        tyro.extras.subcommand_cli_from_dict({"export": export}, prog="python -m viz")
    except (UserError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
