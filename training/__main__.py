"""The command line `python -m training COMMAND`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import datasets
import tyro
from tqdm import tqdm

from model.analysis.corpus import save_heads
from model.command_line import on_gpu, run
from model.errors import UserError
from model.files import read_json
from model.inputs import MAX_TOKENS, target_code
from model.instruments import make_lens, measure_translations, translate_corpus
from model.storage.card import CARD
from model.storage.checkpoint import CONFIG, find_model, list_models
from model.translator import Translator
from training.config import TrainConfig
from training.evaluation.align import AlignmentHead, CorpusAlignment, align_files
from training.evaluation.evaluate import Evaluation, evaluate
from training.evaluation.removal import removal_curves
from training.evaluation.study import sample_for, study
from training.recipes import RECIPES, RENAMED
from training.run.average import average_models, publish
from training.run.card import refresh
from training.run.directory import disk_errors_as_user_errors, locked
from training.trainer import Trainer

MODELS = Path("assets/models")

if TYPE_CHECKING:
    Recipe = TrainConfig
else:  # one subcommand for each recipe, whose settings are options
    Recipe = tyro.extras.subcommand_type_from_defaults(RECIPES, prefix_names=False, sort_subcommands=False)


def run_train(
    config: Recipe,
    data: tuple[Path, ...] = (),
    output: Path | None = None,
    minutes: float | None = None,
    resume: bool = False,
    alignments: Path | None = None,
    start: Annotated[Path | None, tyro.conf.arg(name="from")] = None,
) -> None:
    """Train a recipe; start with `accelerate launch` or `torchrun` for several processes.

    Args:
        config: Name of the recipe; options after it change its settings.
        data: Folders with parallel files (train.de, train.en, dev.de and so on) or word lists (.txt). All
            pairs of files without words such as "test", "dev" or "val" in their names are training data.
        output: Run directory; the default is runs/RECIPE.
        minutes: Time limit of the steps and their validations, after which the run saves, validates and
            stops. Its learning rate falls to 0 by then.
        resume: Continue the run in the output directory.
        alignments: File with the word links of the training pairs, in Pharaoh form, one line each, in the
            order of the folders and of the names of their files. They teach one head to align.
        start: Model directory of the same shape, whose weights the run starts from, and whose vocabulary it
            keeps if the languages are the same.
    """
    if minutes is not None and minutes <= 0:
        raise UserError(f"--minutes is {minutes}; give more than 0.")
    datasets.disable_progress_bars()
    trainer = Trainer(config, data, output or Path("runs") / config.name, resume, alignments, start)
    with disk_errors_as_user_errors(trainer.output), locked(trainer.output):
        trainer.prepare()
        best = trainer.run(minutes)
    if trainer.main:
        print(f"The best model is {best}.")


def run_evaluate(
    model: Annotated[Path, tyro.conf.Positional],
    source: Path,
    reference: Path,
    beam: int = 1,
    target_language: str | None = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Print BLEU, chrF, word and character error rate of a model on a test set.

    Args:
        model: Model directory.
        source: File with sentences to translate, one a line.
        reference: File with their translations, one a line.
        beam: Hypotheses kept at each step; 1 is greedy search.
        target_language: Code of the language to translate into, of a model that has several.
        as_json: Print one JSON object.
    """
    translator = on_gpu(Translator.load(model))
    code = target_code(translator.checkpoint.info, target_language)
    found = evaluate(translator, source, reference, beam, code)
    scores, untranslated = found.scores, found.too_long + found.unreadable
    if untranslated:
        subject = f"{untranslated:,} of {found.sentences:,} sentences count as empty translations"
        reasons = f"{found.too_long:,} of more than {translator.max_tokens} tokens"
        reasons += f", {found.unreadable:,} without a known character"
        print(f"{subject}: {reasons}.", file=sys.stderr)
    if as_json:
        counts = {"too_long": found.too_long, "unreadable": found.unreadable, "names": found.names._asdict()}
        lengths = {name: each._asdict() for name, each in found.by_length.items()}
        print(json.dumps({"beam": beam, **asdict(scores), **counts, "by_length": lengths}))
        return
    _print_scores(found)


def _print_scores(found: Evaluation) -> None:
    """Print every score with its unit or its signature."""
    scores = found.scores
    print(f"BLEU  {scores.bleu:6.2f}  {scores.bleu_signature}")
    print(f"chrF  {scores.chrf:6.2f}  {scores.chrf_signature}")
    print(f"WER   {scores.wer:6.3f}  errors per reference word")
    print(f"CER   {scores.cer:6.3f}  errors per reference character")
    print(f"exact {scores.exact_match:6.2f}  % of sentences equal to their reference")
    if found.names.names:
        print(f"names {found.names.percent:6.2f}  % of {found.names.names:,} names of the references")
    for name, each in found.by_length.items():
        print(f"BLEU  {each.bleu:6.2f}  {each.sentences:,} sentences of {name} words")


def run_average(
    models: Annotated[list[Path], tyro.conf.Positional],
    last: int = 0,
    best: int = 0,
    output: Path | None = None,
) -> None:
    """Write the mean of models, and of the latest or best snapshots of runs, as a model directory.

    Args:
        models: Model directories and run directories.
        last: Number of the latest snapshots of each run to average.
        best: Number of the best snapshots of each run to average, by their validation scores.
        output: Model directory to write; the default is averaged in the last directory.
    """
    if not models:
        raise UserError("Give at least one directory of a run or a model.")
    if (last or best) and all((model / CONFIG).is_file() for model in models):
        raise UserError("--last and --best choose snapshots of a run; leave them out for models.")
    output = output or models[-1] / "averaged"
    sources = average_models(models, last, best, output)
    print(f"{output} is the mean of {', '.join(source.name for source in sources)}.")


def run_publish(
    model: Annotated[Path, tyro.conf.Positional],
    output: Annotated[Path, tyro.conf.Positional],
) -> None:
    """Write a model to share: weights in 8 bits, with its curves and probes. An existing card stays.

    Args:
        model: Model directory, for example RUN/best or RUN/averaged.
        output: Model directory to write, for example assets/models/NAME.
    """
    publish(model, output)
    print(f"{output} is {model} in 8 bits; fill the figures of its card with python -m training cards.")


def run_align(
    model: Annotated[Path, tyro.conf.Positional],
    source: Path,
    target: Path,
    gold: Path | None = None,
    layer: int | None = None,
    head: int | None = None,
    shifted: bool = False,
    symmetrise: bool = False,
    target_language: str | None = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Print the word alignment of each sentence pair by one cross-attention head.

    Each pair gives one line in Pharaoh format: "0-0 1-2" links source word 0 to target word 0, and 1 to 2.
    Words are what spaces separate; they count from 0, but from 1 in gold files. The model reads the given
    target. A pair that is too long for the model gives an empty line.

    Args:
        model: Model directory.
        source: File with sentences, one a line, words separated by spaces.
        target: File with their translations, one a line.
        gold: File with links by people, one line for each pair: i-j sure, ipj possible, words count from 1.
        layer: Decoder layer, from 1; by default the taught head or else the best one on odd gold lines.
        head: Head of that layer, counted from 1.
        shifted: Use the row where the decoder reads a target word, not the row that predicts it.
        symmetrise: Join the choices of target words and of source words (grow-diag).
        target_language: Code of the language of the translations, of a model that has several.
        as_json: Print one JSON object; its error rates are between 0 and 1.
    """
    if (layer is None) != (head is None):
        raise UserError("--layer and --head belong together; give both or neither.")
    if shifted and layer is None:
        raise UserError("--shifted needs --layer and --head; without them, both kinds of row are tried.")
    named = None if layer is None or head is None else AlignmentHead(layer - 1, head - 1, shifted)
    translator = Translator.load(model)
    code = target_code(translator.checkpoint.info, target_language)
    found = align_files(translator, source, target, gold, named, symmetrise, code)
    chosen = {"layer": found.head.layer + 1, "head": found.head.head + 1, "shifted": found.head.shifted}
    if as_json:
        print(
            json.dumps({**chosen, "skipped": found.skipped, "aer": found.error_rates, "lines": found.lines})
        )
        return
    _print_alignment(found)


def _print_alignment(found: CorpusAlignment) -> None:
    """Print the links, and to standard error what they are."""
    print("\n".join(found.lines))
    rows = ("read" if found.head.shifted else "predicted") + (", taught to align" if found.taught else "")
    head = f"layer {found.head.layer + 1}, head {found.head.head + 1}"
    print(f"{head}, rows where words are {rows}", file=sys.stderr)
    for lines, rate in found.error_rates.items():
        print(f"AER {100 * rate:5.1f} %  {lines} lines", file=sys.stderr)
    if found.skipped:
        subject = f"{found.skipped:,} of {len(found.lines):,} pairs have more than {MAX_TOKENS} tokens"
        print(f"{subject} and are not aligned.", file=sys.stderr)


def run_study(
    data: Path,
    gold: Path | None = None,
    models: Path = MODELS,
    output: Path = Path("assets/study"),
    pairs: int = 300,
    only: tuple[str, ...] = (),
    target_language: str | None = None,
) -> None:
    """Measure what every head of models does; write one JSON file for each model.

    Args:
        data: Folder with a folder for each corpus, with dev.SOURCE and dev.TARGET or a word list.
        gold: Folder with test.de, test.en and links by people, gold.talp, for German-English models.
        models: Folder of model directories.
        output: Folder to write; `python -m viz study` makes its page.
        pairs: Number of development pairs to measure on.
        only: Names of the models to measure; all that were trained here by default.
        target_language: Code of the language to translate into, of models that have several.
    """
    if pairs < 1:
        raise UserError(f"--pairs is {pairs}; give at least 1.")
    datasets.disable_progress_bars()
    for path in [find_model(name, models) for name in only] or list_models(models):
        translator = Translator.load(path)
        info = translator.checkpoint.info
        if info.origin and not only:
            continue
        code = target_code(info, target_language) if info.target_languages else ""
        found = study(translator, data, gold, pairs, code)
        found.save(output / f"{path.name}.json")
        print(f"{output / path.name}.json: {len(found.heads)} heads on {found.pairs:,} pairs.")
        sample, _ = sample_for(translator, data, pairs, code)
        translations = translate_corpus(translator, [source for source, _ in sample], tqdm)
        heads = measure_translations(translations) | {"removal": removal_curves(translator, sample)}
        print(save_heads(heads, path), make_lens(translator, translations, path, tqdm))


def run_cards(
    data: tuple[Path, ...],
    models: Path = MODELS,
    everyday: Path = Path("assets/everyday.json"),
    sources: Path = Path("assets/sources.json"),
) -> None:
    """Update sizes, figures and everyday translations in the cards of models, and write README.md anew.

    Args:
        data: Folders of the test sets that the cards name, for example the folder of the corpora and runs.
        models: Folder of model directories.
        everyday: JSON file with sentences by model.
        sources: JSON file with kind and licence by source, {"NAME": {"kind": "talks", "licence": "CC0"}}.
    """
    sentences = read_json(everyday)
    for path in list_models(models):
        refresh(path, data, sentences.get(path.name, ()), read_json(sources))
        print(path / CARD)


def check_recipe_name(words: Sequence[str]) -> None:
    """Raise UserError if the command line names a recipe by a former name."""
    for name in words[1:] if words[:1] == ["train"] else ():
        if name in RENAMED:
            raise UserError(f"The recipe {name} is now called {RENAMED[name]}; give this name.")


def main() -> None:
    """Run one command."""
    commands: dict[str, Callable[..., None]] = {
        "train": run_train,
        "average": run_average,
        "publish": run_publish,
        "evaluate": run_evaluate,
        "align": run_align,
        "study": run_study,
        "cards": run_cards,
    }
    try:
        check_recipe_name(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
    # Options of a recipe follow its name.
    run(commands, "python -m training", config=(tyro.conf.CascadeSubcommandArgs,))


if __name__ == "__main__":
    main()
