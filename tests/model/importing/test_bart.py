"""The byte-level tokenizer of BART is read exactly, and broken checkpoints are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from model.errors import UserError
from model.importing.importer import read_checkpoint
from model.text.byte_level import in_letters, readable
from model.text.multilingual import load_tokenizer
from tests.model.importing import families


def test_bytes_are_written_so_that_they_can_be_read_back(tmp_path: Path) -> None:
    tokenizer = families.write_bart_tokenizer(tmp_path)
    pieces = [*tokenizer.get_vocab(), "Ġ", "Ã", "âĸģ", "Ġâĸģ", "<0x41>"]
    written = [readable(piece) for piece in pieces]
    assert [in_letters(piece) for piece in written] == pieces
    assert len(set(written)) == len(set(pieces))


@pytest.mark.parametrize("text", ["▁ a▁b", "  zwei  ", "naïve 日本 🙂", "it's 42\n!", "<s> </s> <mask>"])
def test_odd_texts_have_the_tokens_of_bart(text: str, tmp_path: Path) -> None:
    tokenizer = families.write_bart_tokenizer(tmp_path)
    families.random_bart(len(tokenizer)).save_pretrained(tmp_path)
    ours = read_checkpoint(str(tmp_path)).source_tokenizer
    found = [in_letters(piece) for piece in ours.pieces(ours.encode(text))[1:]]
    theirs = tokenizer.backend_tokenizer
    theirs.encode_special_tokens = True  # special tokens in a text are text
    assert found == theirs.encode(text, add_special_tokens=False).tokens


def test_tokenizer_json_gives_the_same(tmp_path: Path) -> None:
    tokenizer = families.write_bart_tokenizer(tmp_path)
    families.random_bart(len(tokenizer)).save_pretrained(tmp_path)
    wanted = read_checkpoint(str(tmp_path)).source_tokenizer.to_json()
    (tmp_path / "vocab.json").unlink()
    (tmp_path / "merges.txt").unlink()
    tokenizer.save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").exists()
    assert read_checkpoint(str(tmp_path)).source_tokenizer.to_json() == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda j: j["merges"].append("Ġ Ġ"), "not both pieces"),
        (lambda j: j["merges"].append("a"), "not pairs"),
        (lambda j: j["merges"].append(7), "not pairs"),
        (lambda j: j["vocabulary"].remove("a"), "no piece for 1 of the 256"),
        (lambda j: j.update(before="nothing"), "is not a tokenizer"),
        (lambda j: j.update(other=1), "is not a tokenizer"),
        (lambda j: j.update(add_space=1), "is not a tokenizer"),
        (lambda j: j.update(merges={}), "is not a tokenizer"),
    ],
)
def test_broken_tokenizer_files_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    tokenizer = families.write_bart_tokenizer(tmp_path)
    families.random_bart(len(tokenizer)).save_pretrained(tmp_path)
    settings = json.loads(read_checkpoint(str(tmp_path)).source_tokenizer.to_json())
    change(settings)
    (tmp_path / "source_tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=message):
        load_tokenizer(tmp_path / "source_tokenizer.json")


@pytest.mark.parametrize("forced", [1, 2, 3, 10**6, -1])
def test_a_first_token_that_no_translation_has_is_refused(forced: int, tmp_path: Path) -> None:
    tokenizer = families.write_bart_tokenizer(tmp_path)
    families.random_bart(len(tokenizer), forced=forced).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="forced_bos_token_id"):
        read_checkpoint(str(tmp_path))
