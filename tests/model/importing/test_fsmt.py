"""FSMT cuts words and pieces as transformers does, and broken checkpoints are refused."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from model.errors import UserError
from model.text.moses import MosesPieces, MosesTokenizer
from model.text.multilingual import load_tokenizer
from model.text.tokenizer import UNK_ID
from tests.model.importing import families
from tests.model.importing.comparison import Pair, pair_of


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    directory = tmp_path_factory.mktemp("checkpoint")
    tokenizer = families.write_fsmt_tokenizer(directory)
    sizes = len(tokenizer.encoder), len(tokenizer.decoder)
    return pair_of(directory, families.random_fsmt(sizes), tokenizer)


def test_texts_of_translations_are_equal(pair: Pair) -> None:
    target = pair.ours.checkpoint.target_tokenizer
    for text in ('The "little" dog isn\'t here, is it?', "2,50 € (so)!", "naïve café – open; close…"):
        ids = [index for index in target.encode(text) if index != UNK_ID]
        assert target.decode(ids) == pair.tokenizer.convert_tokens_to_string(target.pieces(ids))


def test_pieces_make_words(pair: Pair) -> None:
    tokens = pair.ours.checkpoint.source_tokenizer.source_tokens("Der Hund, schnell.")
    words: dict[int | None, str] = {}
    for token in tokens:
        words[token.word] = words.get(token.word, "") + token.text
    assert list(words.values()) == ["Der", "Hund", ",", "schnell", ".", "</s>"]


def test_without_the_package_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(UserError, match="pip install sacremoses"):
        MosesPieces("de", (), False).segment("Hund")


def test_a_long_word_is_refused() -> None:
    with pytest.raises(UserError, match="too long"):
        MosesPieces("de", (), False).segment("a" * 5000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"merges": ["a"]}, "not pairs"),
        ({"merges": [7]}, "not pairs"),
        ({"language": "../de"}, "is not a tokenizer"),
        ({"lower_case": "no"}, "is not a tokenizer"),
        ({"before": "<s>"}, "is not a tokenizer"),
        ({"vocabulary": ["a"]}, "must begin with"),
    ],
)
def test_broken_tokenizer_files_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    vocabulary = ["<pad>", "<unk>", "<s>", "</s>", "a"]
    settings = json.loads(MosesTokenizer(MosesPieces("de", (), False), vocabulary).to_json())
    (tmp_path / "source_tokenizer.json").write_text(json.dumps(settings | change))
    with pytest.raises(UserError, match=message):
        load_tokenizer(tmp_path / "source_tokenizer.json")
