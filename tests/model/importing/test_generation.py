"""What a checkpoint's settings of generation say is obeyed, or said at the import and in the card."""

import html
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from model.errors import UserError
from model.importing.generation import read_generation
from model.importing.importer import import_model
from model.text.tokenizer import UNK_ID
from model.translator import Translator
from tests.model.helpers import assert_sentence
from tests.model.importing import checkpoints as marian


def write(directory: Path, name: str = "generation_config.json", **settings: Any) -> None:
    path = directory / name
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(old | settings))


@pytest.mark.parametrize("name", ["bad_words_ids", "suppress_tokens"])
def test_tokens_that_are_never_predicted(name: str, tmp_path: Path) -> None:
    """As `generate` does it with renormalize_logits."""
    theirs = marian.write_checkpoint(tmp_path)
    tokenizer = marian.tokenizer(tmp_path)
    texts = marian.sentences(marian.GERMAN, 3, seed=5)
    inputs = [tokenizer(text, return_tensors="pt") for text in texts]
    plain = [theirs.generate(**each, max_new_tokens=1, num_beams=1)[0, 1].item() for each in inputs]
    pad, unknown = theirs.config.pad_token_id, tokenizer.unk_token_id
    banned = sorted({*plain, pad, unknown})
    write(tmp_path, **{name: [[each] for each in banned] if name == "bad_words_ids" else banned})
    import_model(str(tmp_path), tmp_path / "imported", 32)
    ours = Translator.load(tmp_path / "imported")
    ours.inference.use_kernels = False
    entries = {index: entry for entry, index in tokenizer.encoder.items()}
    for text, each in zip(texts, inputs, strict=True):
        limit = 2 * each["input_ids"].shape[1] + 10
        wanted = theirs.generate(
            **each,
            max_new_tokens=limit,
            num_beams=1,
            bad_words_ids=[[token] for token in banned],
            renormalize_logits=True,
        )[0, 1:].tolist()
        found = ours.translate(text).attention.predicted
        assert [token.piece for token in found] == [entries[index] for index in wanted]
        assert not {token.id for token in found} & {UNK_ID}


@pytest.mark.slow
def test_notes_are_printed_and_in_the_card(tmp_path: Path) -> None:
    marian.write_checkpoint(tmp_path / "model")
    write(tmp_path / "model", num_beams=6, no_repeat_ngram_size=3, length_penalty=0.8, bad_words_ids=[[3, 4]])
    output = tmp_path / "imported"
    command = [sys.executable, "-m", "model", "import", str(tmp_path / "model"), "--output", str(output)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    card = html.unescape((output / "README.md").read_text())
    for says in ("num_beams is 6", "no_repeat_ngram_size is 3", "length_penalty is 0.8", "bad_words_ids has"):
        assert f"Its settings: {says}" in run.stdout
        assert says in card
    assert "rounded to 8 bits" in run.stdout


def test_settings_in_config_json_count_where_there_is_no_other_file(tmp_path: Path) -> None:
    write(tmp_path, "config.json", bad_words_ids=[[5]], no_repeat_ngram_size=2)
    assert read_generation(tmp_path).never == (5,)
    write(tmp_path, num_beams=1)
    assert not read_generation(tmp_path).never


@pytest.mark.parametrize("value", [7, "x", [7], [["x"]], [[1.5]], {"a": 1}, [[True]], [[10**30]]])
def test_lists_of_another_form_are_refused(value: object, tmp_path: Path) -> None:
    write(tmp_path, bad_words_ids=value)
    with pytest.raises(UserError) as caught:
        read_generation(tmp_path)
    assert_sentence(caught.value)
