"""The card of a trained model: the README.md of its directory.

A run writes a first card. People complete the card of a model that is shared; `refresh` then fills its
generated parts, between comments such as <!-- begin figures --> and <!-- end figures -->.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from model.errors import UserError
from model.files import write_atomically
from model.storage.checkpoint import CARD, WEIGHTS
from model.storage.run import RUN
from model.translator import Translator
from training.config import TrainConfig
from training.corpus.mixing import CONCATENATED
from training.evaluation.evaluate import Evaluation, evaluate
from training.evaluation.metrics import LENGTHS, Scores
from training.run.directory import read_run

BEAM = 4  # for the everyday sentences


def length_cell(bucket: str, found: Evaluation) -> str:
    """BLEU of a bucket of source lengths, with its number of sentences."""
    each = found.by_length.get(bucket)
    return "" if each is None else f"{each.bleu:.1f} ({each.sentences:,})"


def names_cell(found: Evaluation) -> str:
    """The percentage of the references' names that the translations have, with the number of names."""
    return f"{found.names.percent:.1f} ({found.names.names:,})" if found.names.names else ""


# The columns of the table of figures; with as many decimals as `evaluate` prints.
COLUMNS: Mapping[str, Callable[[Evaluation], str]] = {
    "sentences": lambda found: f"{found.sentences:,}",
    "BLEU": lambda found: f"{found.scores.bleu:.2f}",
    "chrF": lambda found: f"{found.scores.chrf:.2f}",
    "WER": lambda found: f"{found.scores.wer:.3f}",
    "CER": lambda found: f"{found.scores.cer:.3f}",
    "exact": lambda found: f"{found.scores.exact_match:.2f}",
    "names": names_cell,
} | {f"{low}-{high} words": partial(length_cell, f"{low}-{high}") for low, high in LENGTHS}


def run_card(config: TrainConfig, step: int, pairs: int, decoding: str, scores: Scores) -> str:
    """The card that a run writes, in the format of the Hugging Face hub, with its validation scores."""
    shape = config.model
    return f"""---
tags:
  - headlight
  - transformer
  - attention
library_name: pytorch
---

# {config.title}

An encoder-decoder Transformer trained by Headlight:
{shape.n_encoder_layers} + {shape.n_decoder_layers} layers of width {shape.d_model}, {shape.n_heads} heads,
feed-forward {shape.d_ff}, {shape.norm}-norm, {config.tokenizer} tokens;
{pairs:,} training pairs, {step:,} steps of at most {config.accumulate * config.tokens_per_batch:,} tokens.

| set | BLEU | chrF | WER | CER | exact match, % |
|---|---|---|---|---|---|
| validation, {decoding} | {scores.bleu:.2f} | {scores.chrf:.2f} | {scores.wer:.3f} | {scores.cer:.3f} | \
{scores.exact_match:.2f} |

BLEU `{scores.bleu_signature}`, chrF `{scores.chrf_signature}`.

Before you share this model, add: the data and its licence, test scores with their signatures, and what
the model does badly.
"""


def refresh(
    directory: Path,
    corpora: Sequence[Path],
    everyday: Sequence[str],
    sources: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> None:
    """Fill the generated parts of a model's card.

    - model: its size and shape.
    - data: the sources of its training pairs, from NAME/run.json in one of the folders `corpora`, and
      their kinds and licences in `sources`. Without that file the part stays.
    - lengths: a table as that of figures, with columns such as "11-20 words".
    - figures: each row of the table names a test set, which is a file in one of the folders `corpora`,
      and a beam size. It gets the scores that the columns name.
    - everyday: the translations of these sentences.

    Raises UserError when the card or a test set is missing or a column is unknown.
    """
    path = directory / CARD
    if not path.is_file():
        raise UserError(f"{directory} has no {CARD}; write the card first, with comments around its parts.")
    translator = Translator.load(directory)
    parts: dict[str, Callable[[str], str]] = {
        "model": lambda _: model_table(translator, directory),
        "data": lambda table: fill_data(table, directory.name, corpora, sources),
        "figures": lambda table: fill_figures(table, translator, corpora),
        "lengths": lambda table: fill_figures(table, translator, corpora),
        "everyday": lambda _: translate_everyday(translator, everyday),
    }
    text = path.read_text(encoding="utf-8")
    for name, fill in parts.items():
        if found := re.search(rf"(?<=<!-- begin {name} -->\n).*?(?=<!-- end {name} -->)", text, re.DOTALL):
            text = text[: found.start()] + fill(found.group()) + text[found.end() :]
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def model_table(translator: Translator, directory: Path) -> str:
    """A table of the model's size and shape."""
    checkpoint, shape = translator.checkpoint, translator.checkpoint.model.config
    parameters = sum(parameter.numel() for parameter in checkpoint.model.parameters())
    heads = (shape.n_encoder_layers + 2 * shape.n_decoder_layers) * shape.n_heads
    shared = "one vocabulary of" if checkpoint.source_tokenizer is checkpoint.target_tokenizer else "two of"
    entries = " and ".join(
        f"{size:,}"
        for size in dict.fromkeys((len(checkpoint.source_tokenizer), len(checkpoint.target_tokenizer)))
    )
    rows = {
        "size": f"{parameters / 1e6:.1f} M parameters, {(directory / WEIGHTS).stat().st_size / 1e6:.1f} MB",
        "shape": f"{shape.n_encoder_layers} encoder and {shape.n_decoder_layers} decoder layers, "
        f"width {shape.d_model}, {shape.n_heads} heads each, {heads} in all, "
        f"feed-forward {shape.d_ff:,}, {shape.norm}-norm",
        "tokens": f"{shared} {entries} entries",
    }
    return "| | |\n|---|---|\n" + "".join(f"| {name} | {text} |\n" for name, text in rows.items())


def fill_data(
    table: str, model: str, corpora: Sequence[Path], sources: Mapping[str, Mapping[str, str]]
) -> str:
    """A table of the sources of a model's training pairs, the largest first.

    Raises UserError when `sources` does not name the kind and the licence of each.
    """
    runs = [folder / model for folder in corpora if (folder / model / RUN).is_file()]
    if not runs:
        return table
    described: dict[str, dict[str, float]] = read_run(runs[0])["sources"]
    lines = ["| source | pairs | weight | kind | licence |", "|---|---|---|---|---|"]
    joined = {CONCATENATED: {"kind": "neighbouring pairs, joined", "licence": "those of their sources"}}
    for name, each in sorted(described.items(), key=lambda item: -item[1]["pairs"]):
        about = {**joined, **sources}.get(name, {})
        if not {"kind", "licence"} <= about.keys():
            raise UserError(f"The source {name} has no kind and licence; add them to assets/sources.json.")
        cells_of_row = name, f"{each['pairs']:,}", f"{each['weight']:g}", about["kind"], about["licence"]
        lines.append(f"| {' | '.join(cells_of_row)} |")
    return "\n".join(lines) + "\n"


def fill_figures(table: str, translator: Translator, corpora: Sequence[Path]) -> str:
    """The table with its figures, followed by the signatures of BLEU and chrF."""
    header, rule, *rows = [line for line in table.splitlines() if line.startswith("|")]
    _, _, *columns = cells(header)
    for name in columns:
        if name not in COLUMNS:
            raise UserError(f"There is no figure {name!r}; use columns of this list: {', '.join(COLUMNS)}.")
    info = translator.checkpoint.info
    lines, signatures = [header, rule], ""
    for test_set, beam, *_ in map(cells, rows):
        source, reference = (
            file_of(f"{test_set.strip('`')}.{language}", corpora)
            for language in (info.source_language, info.target_language)
        )
        found = evaluate(translator, source, reference, int(beam))
        figures = [COLUMNS[name](found) for name in columns]
        lines.append("| " + " | ".join([test_set, beam, *figures]) + " |")
        signatures = signature_line(found.scores, columns)
    return "\n".join(lines) + "\n" + signatures


def file_of(name: str, corpora: Sequence[Path]) -> Path:
    """The file of this name in the first folder that has it. Raises UserError when no folder has it."""
    found = next((folder / name for folder in corpora if (folder / name).is_file()), None)
    if found is None:
        folders = ", ".join(map(str, corpora)) or "no folder"
        raise UserError(
            f"There is no file {name} in {folders}; give --data the folders that hold the test sets."
        )
    return found


def signature_line(scores: Scores, columns: Sequence[str]) -> str:
    """The signatures of BLEU and chrF, if the table has these columns."""
    named = {"BLEU": scores.bleu_signature, "chrF": scores.chrf_signature}
    shown = ", ".join(f"{name} `{signature}`" for name, signature in named.items() if name in columns)
    return f"\n{shown}\n" if shown else ""


def cells(line: str) -> list[str]:
    """The cells of one line of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def translate_everyday(translator: Translator, sentences: Sequence[str]) -> str:
    """A table of sentences and their translations."""
    # One sentence at a time: in float32 on every machine, and the same as on the page.
    pairs = [(sentence, translator.translate(sentence, BEAM).text) for sentence in sentences]
    rows = [f"| sentence | translation, beam {BEAM} |", "|---|---|", *(f"| {a} | {b} |" for a, b in pairs)]
    return "\n".join(rows) + "\n"
