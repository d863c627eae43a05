"""Command line: `python -m viz` export, static (the page without a server), study, trained."""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import tyro
from tqdm import tqdm

from model import Translator
from model.analysis.corpus import load_heads, save_heads
from model.analysis.study import load_studies
from model.command_line import run
from model.decoding.options import LENGTH_PENALTY
from model.errors import UserError
from model.files import read_lines, write_text
from model.instruments import make_lens, measure_translations, translate_corpus
from model.storage.checkpoint import FIRST_MODEL, find_model, list_models
from viz import export as exporter
from viz.about import is_imported, measure_range, write_range
from viz.payload import encode
from viz.static.site import check_apart, portable, write_site
from viz.study.page import PAGE, write_page


def export(
    text: Annotated[tuple[str, ...], tyro.conf.Positional],
    model: str = FIRST_MODEL,
    output: Path = Path("attention_maps.html"),
    models: Path = Path("assets/models"),
    beam: int = 1,
    length_penalty: float = LENGTH_PENALTY,
    with_model: bool = False,
) -> None:
    """Translate TEXT and write the viewer with every attention weight as an HTML file that works offline.

    Args:
        text: the sentence; several words are joined by spaces.
        model: name of a model in the models folder, or the path of a model directory.
        output: the file to write.
        models: the folder that holds the model directories.
        beam: hypotheses kept at each step; 1 is greedy.
        length_penalty: exponent of the length that divides a hypothesis' score.
        with_model: also write the model into the file, which then translates on; de-en adds 15 MB.
    """
    translator = Translator.load(find_model(model, models))
    translation = translator.translate(" ".join(text).strip(), beam_size=beam, length_penalty=length_penalty)
    payload = encode(translation, translator.name, translator.title)
    if with_model:
        page = portable(translator, payload)
        write_text(output, page)
    else:
        exporter.write(payload, output)
    print(translation.text)
    print(f"{output}: {output.stat().st_size / 1000:.0f} kB", file=sys.stderr)


def study(
    model: Annotated[str, tyro.conf.Positional] = "",
    sentences: Path | None = None,
    models: Path = Path("assets/models"),
    directory: Path = Path("assets/study"),
) -> None:
    """Measure the heads of MODEL over sentences; without MODEL, write the page of `python -m training study`.

    The page shows what is found in the tab Head; it is written into the directory of the model.

    Args:
        model: name of a model in the models folder, or the path of a model directory.
        sentences: file of sentences in the language that the model reads, one a line; some 300 are enough.
        models: the folder that holds the model directories.
        directory: folder of the studies; README.md and the figures are written there.
    """
    if model:
        measure_heads(find_model(model, models), sentences)
        return
    studies = load_studies(directory)
    write_page(studies, directory)
    print(f"{directory / PAGE}: {', '.join(each.model for each in studies)}")


def measure_heads(path: Path, sentences: Path | None) -> None:
    """Write what the heads of a model do over the lines of a file."""
    if sentences is None:
        raise UserError("Give --sentences, a file with one sentence a line.")
    lines = [line for line in read_lines(sentences) if line.strip()]
    translator = Translator.load(path)
    translations = translate_corpus(translator, lines, partial(tqdm, desc=translator.name, total=len(lines)))
    found = measure_translations(translations)
    if (former := load_heads(path)) and "removal" in former:
        found["removal"] = former["removal"]
    written = save_heads(found, path)
    print(f"{written}: {found['count']:,} of {len(lines):,} sentences.")
    if lens := make_lens(translator, translations, path, partial(tqdm, desc="Jacobian lens")):
        print(lens)


def trained(
    files: Annotated[tuple[Path, ...], tyro.conf.Positional],
    model: str = FIRST_MODEL,
    models: Path = Path("assets/models"),
    output: Path = Path("assets/trained.json"),
) -> None:
    """Measure the source sentences that a model was trained on; the page warns of sentences far outside.

    Args:
        files: the source side of the training, one sentence a line.
        model: name of a model in the models folder, or the path of a model directory.
        models: the folder that holds the model directories.
        output: the file of all ranges.
    """
    translator = Translator.load(find_model(model, models))
    if is_imported(translator):
        raise UserError(f"{translator.name} was not trained here; only own models have a known training.")
    lines = chain.from_iterable(map(read_lines, files))
    found = measure_range(translator.checkpoint.source_tokenizer, lines)
    write_range(output, translator.name, found)
    print(f"{translator.name}: {found.sentences:,} sentences, {found.tokens} tokens, {found.pieces} a word")


def static(
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    output: Path = Path("dist"),
    models: Path = Path("assets/models"),
    assets: Path = Path("assets"),
    single: bool = False,
) -> None:
    """Write the page that needs no server, in which the models run in the browser.

    Args:
        names: models of the models folder; all of them by default.
        output: the folder to write; a former page in it is replaced, and nothing else.
        models: the folder that holds the model directories.
        assets: the folder of examples and studies.
        single: write one file that also works without a web server.
    """
    found = [find_model(name, models) for name in names] if names else list_models(models)
    if not found:
        raise UserError(f"There is no model in {models}; train one or name another folder.")
    check_apart(output, models)
    write_site([Translator.load(path) for path in found], output, assets, single=single)
    for path in sorted(path for path in output.rglob("*") if path.is_file()):
        print(f"{path}: {path.stat().st_size / 1000:,.0f} kB")


def main() -> None:
    """Run one command."""
    run({"export": export, "static": static, "study": study, "trained": trained}, "python -m viz")


if __name__ == "__main__":
    main()
