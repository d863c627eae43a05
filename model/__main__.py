"""Command line: python -m model translate, import and export."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from tqdm import tqdm

from model.command_line import on_gpu, run
from model.decoding.options import LENGTH_PENALTY, SearchOptions
from model.errors import UserError
from model.files import decode_lines, read_lines
from model.importing.exporting import Form, export
from model.importing.importer import Bits, import_model
from model.importing.own_models import Told
from model.notices import find_notices
from model.results import Hypothesis
from model.storage.checkpoint import FIRST_MODEL, find_model, load
from model.translator import Translator


def translate(
    text: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    model: str = FIRST_MODEL,
    models: Path = Path("assets/models"),
    beam: int = 1,
    n_best: int = 1,
    length_penalty: float = LENGTH_PENALTY,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Translate sentences, or standard input line by line when none is given.

    The output has one line for each input line. A line that cannot be translated stays empty and is
    reported on standard error; the exit status is then 1.

    Args:
        text: Sentences.
        model: Name of a model in the models folder, or the path of a model directory.
        models: Folder of model directories.
        beam: Hypotheses kept at each step; 1 is greedy. At least as many as n_best.
        n_best: Translations to print for each sentence, each after its score.
        length_penalty: Exponent of the length by which a log-probability is divided.
        as_json: Print one JSON object per line: text, tokens, log-probabilities and hypotheses.
    """
    options = SearchOptions(max(beam, n_best), length_penalty, n_best=n_best)
    sentences = [one.strip() for one in text] or list(decode_lines(sys.stdin.buffer, "Standard input"))
    translator = Translator.load(find_model(model, models))
    translator = translator if text else on_gpu(translator)
    found: list[tuple[Hypothesis, ...] | UserError] = [()] * len(sentences)
    results = translator.translate_lines(sentences, options)
    # disable=None shows progress only if standard error is a terminal.
    for place, result in tqdm(results, total=len(sentences), unit=" sentences", disable=None):
        found[place] = result
    for line, (sentence, result) in enumerate(zip(sentences, found, strict=True), start=1):
        hypotheses = () if isinstance(result, UserError) else result[:n_best]
        if isinstance(result, UserError):
            print(f"Line {line}: {result}", file=sys.stderr)
        if as_json:
            print(json.dumps(_to_json(translator, sentence, hypotheses), ensure_ascii=False))
        else:
            print("\n".join(_to_text(one, scored=n_best > 1) for one in hypotheses))
    if any(isinstance(result, UserError) for result in found):
        sys.exit(1)


def import_checkpoint(
    model: Annotated[str, tyro.conf.Positional],
    output: Path | None = None,
    bits: Bits = 8,
    layout: str = "",
    heads: int = 0,
    source_vocabulary: Path | None = None,
    target_vocabulary: Path | None = None,
    sentences: Path | None = None,
) -> None:
    """Import a model of another program, such as one of OPUS-MT, which every command can then open.

    Args:
        model: A folder or file with a model of a kind known here, or its name on the Hugging Face hub.
        output: The model directory to write; assets/models/NAME if not given.
        bits: Bits of each number in a matrix; 8 have a scale per row.
        layout: Of a model that you trained: the tutorial or toolkit, if its file does not tell.
        heads: How many heads it has, if its file does not say so.
        source_vocabulary: The list of its source words, if it lies elsewhere, or the SentencePiece model that
            cuts a text into them.
        target_vocabulary: The same for its target words.
        sentences: A file with some sentences that it can translate. How sure the model is of its own
            translations tells how many heads it has, or that another number was given.
    """
    path = Path(model).resolve()
    name = path.name if path.is_dir() else path.stem if path.is_file() else model.rsplit("/", 1)[-1]
    output = output or Path("assets/models") / name
    texts = tuple(line for line in read_lines(sentences) if line.strip()) if sentences else ()
    told = Told(layout, heads, source_vocabulary, target_vocabulary, texts)
    imported = import_model(model, output, bits, told)
    info = imported.info
    print(f"Wrote {output}: {info.title}. Try: python -m model translate --model {output}")
    if bits == 8:
        print("Its matrices were rounded to 8 bits, which changes a word in a few of 100 translations. With")
        print("--bits 16 the translations stay the same, but each takes about 1.6 times as long.")
    for note in imported.notes:
        print(f"Its settings: {note}")
    if codes := info.target_languages:
        print(f"Begin each sentence with one of {len(codes)} codes, such as {codes[0]}.")


def export_model(
    model: Annotated[str, tyro.conf.Positional],
    to: Form = "transformers",
    output: Path | None = None,
    models: Path = Path("assets/models"),
) -> None:
    """Write a model that was trained here in the form of another program.

    Args:
        model: Name of a model in the models folder, or the path of a model directory.
        to: The form: a directory of transformers, or one of CTranslate2.
        output: The directory to write; NAME-FORM in the current folder if not given.
        models: Folder of model directories.
    """
    directory = find_model(model, models)
    output = output or Path(f"{directory.name}-{to}")
    export(load(directory), to, output)
    print(f"Wrote {output}.")


def _to_text(hypothesis: Hypothesis, scored: bool) -> str:
    return f"{hypothesis.score:.3f}\t{hypothesis.text}" if scored else hypothesis.text


def _to_json(translator: Translator, sentence: str, hypotheses: Sequence[Hypothesis]) -> dict[str, object]:
    if not hypotheses:
        return {"source": sentence, "text": ""}
    best = hypotheses[0]
    source = translator.source(sentence)
    target = translator.checkpoint.target_tokenizer.tokens(best.ids)
    return {
        "source": sentence,
        "text": best.text,
        "source_tokens": [token.text for token in source.tokens],
        "target_tokens": [token.text for token in target],
        "log_probabilities": best.log_probabilities,
        "hypotheses": [asdict(hypothesis) for hypothesis in hypotheses],
        "notices": find_notices(translator.checkpoint, source, best),
    }


def main() -> None:
    """Run one command."""
    run({"translate": translate, "import": import_checkpoint, "export": export_model}, "python -m model")


if __name__ == "__main__":
    main()
