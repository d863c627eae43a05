"""Texts whose tokens were made before, each after a space."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from model.errors import UserError
from model.inputs import parse_source
from model.text.multilingual import load_tokenizer
from model.text.ready_made import ReadyMade, ReadyMadeTokenizer
from model.text.sentencepiece import Frame
from model.text.tokenizer import BOS_ID, EOS_ID, SPECIALS, UNK_ID
from tests.model.helpers import tiny_checkpoint

WORDS = (*SPECIALS, "ein", "Hund@@", "e", ".")
FRAMED = Frame(before="<s>")
OPEN = Frame(without="</s>")


@pytest.mark.parametrize(
    ("frame", "expected"), [(Frame(), (4, 5, 6, 3)), (FRAMED, (2, 4, 5, 6, 3)), (OPEN, (4, 5, 6))]
)
def test_what_stands_around_a_source(frame: Frame, expected: tuple[int, ...]) -> None:
    tokenizer = ReadyMadeTokenizer(ReadyMade(), WORDS, frame)
    assert tuple(token.id for token in tokenizer.source_tokens("ein Hund@@ e")) == expected
    assert (*tokenizer.encode("ein Hund@@ e"), *tokenizer.ending) == expected


def test_a_special_token_in_a_text_is_text() -> None:
    tokenizer = ReadyMadeTokenizer(ReadyMade(), WORDS, FRAMED)
    assert tokenizer.encode("<s> </s> ein") == [BOS_ID, UNK_ID, UNK_ID, 4]


def test_pieces_of_a_word_are_joined() -> None:
    tokenizer = ReadyMadeTokenizer(ReadyMade(), WORDS)
    assert tokenizer.decode([BOS_ID, 4, 5, 6, 7, EOS_ID, 4]) == "ein Hunde ."
    tokens = tokenizer.tokens([4, 5, 6, 7, EOS_ID])
    assert [token.word for token in tokens] == [0, 1, 1, 2, None]
    assert [token.text for token in tokens] == ["ein", "Hund", "e", ".", "</s>"]


def test_words_are_cut_and_written_small_where_the_model_reads_them_so() -> None:
    rules = ReadyMade("words", lower_case=True)
    assert [each[::2] for each in rules.segment("Ein Hund, 2!")] == [
        ("ein", 0),
        ("hund", 4),
        (",", 8),
        ("2", 10),
        ("!", 11),
    ]


def test_the_file_gives_the_same_tokenizer_and_no_other_is_read(tmp_path: Path) -> None:
    tokenizer = ReadyMadeTokenizer(ReadyMade("words", lower_case=True), WORDS, FRAMED)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    assert load_tokenizer(path).to_json() == tokenizer.to_json()
    settings = json.loads(path.read_text())
    for change in (
        {"cut": "letters"},
        {"before": "nothing"},
        {"vocabulary": ["a"]},
        {"lower_case": 1},
        {"more": "ein"},
    ):
        path.write_text(json.dumps(settings | change))
        with pytest.raises(UserError):
            load_tokenizer(path)


def test_a_source_without_an_end_is_read() -> None:
    checkpoint = tiny_checkpoint(tied=False)
    tokenizer = ReadyMadeTokenizer(ReadyMade(), WORDS, OPEN)
    source = parse_source(replace(checkpoint, source_tokenizer=tokenizer), "ein . wort")
    assert source.ids == (4, 7, UNK_ID)
    with pytest.raises(UserError, match="knows none"):
        parse_source(replace(checkpoint, source_tokenizer=tokenizer), "wort")
