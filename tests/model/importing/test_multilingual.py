"""The codes of models of many languages, M2M100, NLLB and mBART-50, and their broken checkpoints."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from model.importing.importer import read_checkpoint
from model.translator import Translator
from tests.model.importing import families
from tests.model.importing.checkpoints import GERMAN, sentences
from tests.model.importing.comparison import Pair
from tests.model.importing.test_families import make_pair, parameters
from tests.numerics import assert_float32, parts, scored


@pytest.fixture(scope="module", params=parameters(many=True))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(request.param, tmp_path_factory.mktemp("checkpoint"))


def test_codes_are_read_before_a_sentence(pair: Pair) -> None:
    source = pair.ours.checkpoint.source_tokenizer
    codes = source.language_codes
    assert pair.code.strip() in codes
    assert source.pieces(source.encode(f"{codes[0]} {pair.code}Hund"))[0] == codes[0]
    assert source.first_ids(f"{codes[0]} {pair.code}Hund") == source.first_ids(f"{pair.code}Hund")
    assert pair.ids(source.first_ids(f"{pair.code}Hund")) == [pair.english]
    assert source.first_ids(">>xyz<< Hund") == source.first_ids("Hund") == []


def test_without_a_code_a_notice_asks_for_one(pair: Pair) -> None:
    without = pair.ours.translate("Der kleine Hund läuft.")
    said = "Begin the sentence" in " ".join(without.notices)
    assert said != (without.attention.predicted[0].piece in pair.ours.checkpoint.info.target_languages)


def test_kernels_give_the_same(pair: Pair) -> None:
    text = f"{pair.code}Der kleine Hund läuft."
    compiled, torch_alone = (Translator(pair.ours.checkpoint, use_kernels=each) for each in (True, False))
    found = compiled.score(text, "The little dog runs.")
    exact = partial(scored, torch_alone, text, "The little dog runs.")
    assert_float32(parts(found), exact, pair.ours.checkpoint.model)
    assert compiled.translate(text, beam_size=4).ids == torch_alone.translate(text, beam_size=4).ids


def test_batches_give_the_same(pair: Pair) -> None:
    other = next(
        code for code in pair.ours.checkpoint.source_tokenizer.language_codes if code != pair.code.strip()
    )
    texts = [f"{code} {text}" for text in sentences(GERMAN, 4, seed=6) for code in (pair.code.strip(), other)]
    wanted = [pair.ours.translate(text) for text in texts]
    assert pair.ours.translate_batch(texts) == [one.text for one in wanted]
    assert {one.attention.predicted[0].piece for one in wanted} == {pair.code.strip(), other}


def test_a_checkpoint_of_mbart_without_tokenizer_json_has_the_same_tokens(pair: Pair, tmp_path: Path) -> None:
    if pair.theirs.config.model_type != "mbart":
        return
    for file in pair.directory.iterdir():
        if file.name != "tokenizer.json":
            shutil.copy(file, tmp_path)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(families.spm("unigram"))
    other = read_checkpoint(str(tmp_path)).source_tokenizer
    assert other.to_json() == pair.ours.checkpoint.source_tokenizer.to_json()
