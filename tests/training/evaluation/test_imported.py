"""evaluate, align and study with an imported model of several target languages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from model.errors import UserError
from model.importing.importer import import_model
from model.inputs import target_code
from model.storage.checkpoint import Checkpoint, save
from model.text.charsmap import Charsmap
from model.text.languages import join_code
from model.text.multilingual import MultilingualTokenizer
from model.text.sentencepiece import Frame, SentencePiece, SentencePieceTokenizer
from model.text.tokenizer import BOS, EOS_ID, SPECIALS
from model.translator import Translator
from tests.model.helpers import INFO, random_model, tiny_checkpoint
from tests.model.importing.checkpoints import write_checkpoint
from tests.training.tiny import write_lines
from training.evaluation.align import AlignmentHead, align_files, read_pair, read_words
from training.evaluation.evaluate import evaluate, translate_sentences
from training.evaluation.study import study
from viz.study.page import _every_head

NAME, CODE, OTHER = "opus-mt-de-ROMANCE", ">>fra<<", ">>ita<<"
SOURCES = ["Der kleine Hund läuft", "die Katze schläft heute", "zwei Äpfel", ""]
TARGETS = ["The little dog runs", "the cat sleeps today", "two apples", ""]
PIECES = ("▁der", "▁Hund", "▁the", "▁dog", "▁runs")
VOCABULARY = [*SPECIALS, ">>deu<<", ">>eng<<", BOS, *PIECES]
SEGMENTER = SentencePiece("unigram", dict.fromkeys(PIECES, -1.0), Charsmap(b""))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    origin = tmp_path_factory.mktemp("hub") / NAME
    write_checkpoint(origin, codes=(CODE, OTHER))
    (origin / "README.md").write_text("transformer-align")
    directory = tmp_path_factory.mktemp("models") / NAME
    import_model(str(origin), directory)
    return directory


@pytest.fixture(scope="module")
def translator(directory: Path) -> Translator:
    return Translator.load(directory)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A development set, called by other codes of the languages than the model's."""
    (tmp_path / "corpora" / "news").mkdir(parents=True)
    source, target = (tmp_path / "corpora" / "news" / f"dev.{language}" for language in ("deu", "fr"))
    write_lines(source, SOURCES)
    write_lines(target, TARGETS)
    return source, target


@pytest.mark.parametrize("wanted", ["fra", ">>fra<<", "fr", "fre"])
def test_a_target_language_has_several_names(translator: Translator, wanted: str):
    assert target_code(translator.checkpoint.info, wanted) == CODE


@pytest.mark.parametrize("wanted", [None, "deu", "", "klingon"])
def test_a_target_language_that_the_model_does_not_have_is_refused(
    translator: Translator, wanted: str | None
):
    with pytest.raises(UserError, match="2 languages; name one, such as fra, ita") as caught:
        target_code(translator.checkpoint.info, wanted)
    assert not wanted or f"has no language {wanted!r}" in str(caught.value)


def test_a_model_of_one_target_language_needs_no_code():
    info = tiny_checkpoint().info
    assert target_code(info, None) == ""
    with pytest.raises(UserError, match="leave out the target language"):
        target_code(info, "fra")


def test_evaluate_translates_into_the_language(translator: Translator, files: tuple[Path, Path]):
    written = [f"{CODE} {source}" for source in SOURCES[:3]]
    wanted, _ = translate_sentences(translator, written)
    write_lines(files[1], [*wanted, ""])
    found = evaluate(translator, *files, 1, CODE)
    assert found.scores.exact_match == 100
    assert (found.too_long, found.unreadable) == (0, 0)
    assert evaluate(translator, *files, 1, OTHER).scores.exact_match < 100


def test_the_code_is_no_word_of_the_line(translator: Translator):
    tokenizer = translator.checkpoint.source_tokenizer
    for line in SOURCES:
        plain, coded = read_words(tokenizer, line), read_words(tokenizer, line, CODE)
        assert coded.ids == ([*tokenizer.encode(f"{CODE} {line}"), EOS_ID] if line else [EOS_ID])
        assert [word for word in coded.words if word is not None] == plain.words[:-1]
        assert coded.words[0] is None


@pytest.mark.parametrize(
    ("tokenizer", "code"),
    [
        (MultilingualTokenizer(SEGMENTER, VOCABULARY, ">>deu<<"), ">>eng<<"),  # as of NLLB
        (SentencePieceTokenizer(SEGMENTER, VOCABULARY, Frame(before=BOS, first=BOS)), ""),  # as of BART
        (SentencePieceTokenizer(SEGMENTER, VOCABULARY, Frame(after=">>deu<<")), ""),  # as of mBART-25
    ],
)
def test_an_imported_model_reads_the_signs_around_a_pair(tokenizer: SentencePieceTokenizer, code: str):
    sizes = {"source_vocabulary": len(VOCABULARY), "target_vocabulary": len(VOCABULARY)}
    others = SentencePieceTokenizer(SEGMENTER, VOCABULARY)
    checkpoint = Checkpoint(random_model(**sizes), tokenizer, others, INFO)
    sides = read_pair(checkpoint, "der Hund", "the dog runs", code)
    record = Translator(checkpoint).score(join_code(code, "der Hund"), "the dog runs").attention
    for side, tokens, n_words in zip(sides, (record.source, record.predicted), (2, 3), strict=True):
        assert side.ids == [token.id for token in tokens]
        assert [word is None for word in side.words] == [token.special for token in tokens]
        assert [word for word in side.words if word is not None] == list(range(n_words))
    assert all(side.words == [None] * len(side.ids) for side in read_pair(checkpoint, "", "", code))


def test_align_takes_the_row_that_predicts_a_word_as_marian_teaches_it(
    directory: Path, files: tuple[Path, Path]
):
    translator = Translator.load(directory)
    with torch.no_grad():  # random rows differ so little that all of them would find the same word
        model = translator.checkpoint.model
        model.decoder[2].cross_attention.project.weight[: model.config.d_model] *= 100
    found = align_files(translator, *files, code=CODE)
    assert (found.head, found.taught) == (AlignmentHead(2, 0, shifted=False), True)
    shifted = align_files(translator, *files, head=AlignmentHead(2, 0, shifted=True), code=CODE)
    assert found.lines != shifted.lines
    for line, source, target in zip(found.lines, SOURCES, TARGETS, strict=True):
        linked = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert sorted(other for _, other in linked) == list(range(len(target.split())))
        assert all(one < len(source.split()) for one, _ in linked)


def test_the_study_of_an_imported_model(translator: Translator, files: tuple[Path, Path]):
    found = study(translator, files[0].parents[1], None, 2, CODE)
    assert (found.pairs, found.sets) == (2, ("news/dev",))
    assert len(found.heads) == 2 * 4 + 3 * 4 + 3 * 4
    assert found.title == translator.checkpoint.info.title
    assert [head.name for head in found.heads if head.taught] == ["cross 3.1"]
    assert "cross 3.1, taught to align" in _every_head(found)


def test_commands(directory: Path, files: tuple[Path, Path], tmp_path: Path, command: Callable[..., Any]):
    source, target = files
    pair = ("--source", source, "--reference", target)
    printed, _ = command("evaluate", directory, *pair, "--target-language", "fr", "--json")
    assert json.loads(printed)["unreadable"] == 0
    with pytest.raises(SystemExit, match="name one, such as fra, ita"):
        command("evaluate", directory, *pair)
    words = ("--source", source, "--target", target, "--target-language", "fra")
    _, errors = command("align", directory, *words)
    assert "layer 3, head 1, rows where words are predicted, taught to align" in errors
    shutil.copytree(directory, tmp_path / "models" / NAME)
    save(tiny_checkpoint(), tmp_path / "models" / "own")
    places = {"--data": "corpora", "--models": "models", "--output": "study"}
    options = [word for name, folder in places.items() for word in (name, tmp_path / folder)]
    printed, _ = command("study", *options, "--pairs", 1, "--only", NAME, "--target-language", "fra")
    assert [path.name for path in (tmp_path / "study").iterdir()] == [f"{NAME}.json"]
    assert "32 heads on 1 pairs" in printed
    shutil.rmtree(tmp_path / "models" / "own")
    assert command("study", *options)[0] == ""  # by default not the imported ones
