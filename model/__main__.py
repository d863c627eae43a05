"""`python -m model translate`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from model.checkpoint import find_model
from model.errors import UserError
from model.record import Translation
from model.translator import Translator


def translate(
    text: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    model: str = "de-en",
    models: Path = Path("assets/models"),
    beam: int = 1,
    n_best: int = 1,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Translate sentences, or standard input line by line when none is given.

    Args:
        text: Sentences.
        model: Name of a model in the models folder, or the path of a model directory.
        models: Folder of model directories.
        beam: Hypotheses kept at each step; 1 is greedy. At least as many as n_best.
        n_best: Translations to print for each sentence.
        as_json: Print one JSON object a line: text, tokens, log-probabilities and hypotheses.
    """
    beam = max(beam, n_best)
    translator = Translator.load(find_model(model, models))
    sentences = list(text) or sys.stdin.read().splitlines()
    if not as_json and n_best == 1:
        print("\n".join(translator.translate_batch(sentences, beam)))
        return
    for sentence in sentences:
        result = translator.translate(sentence, beam) if sentence.strip() else None
        if as_json:
            print(json.dumps(_to_json(result, n_best), ensure_ascii=False))
        else:
            hypotheses = result.hypotheses[:n_best] if result else ()
            print("\n".join(f"{h.score:.3f}\t{h.text}" for h in hypotheses))


def _to_json(result: Translation | None, n_best: int) -> dict[str, object]:
    if result is None:
        return {"text": ""}
    return {
        "source": result.source_text,
        "text": result.text,
        "source_tokens": [token.text for token in result.attention.source],
        "target_tokens": [token.text for token in result.attention.predicted],
        "log_probabilities": result.log_probabilities,
        "hypotheses": [asdict(hypothesis) for hypothesis in result.hypotheses[:n_best]],
        "notices": result.notices,
    }


def main() -> None:
    """Run one command; a user's mistake ends in one sentence and status 1."""
    try:
        tyro.extras.subcommand_cli_from_dict({"translate": translate}, prog="python -m model")
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
