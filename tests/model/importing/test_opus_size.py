"""A checkpoint of OPUS-MT's size: 6 + 6 layers of 8 heads, width 512, 58,000 entries."""

from pathlib import Path

import pytest
import torch

from model.importing.importer import read_checkpoint
from model.translator import Translator
from tests.model.importing import checkpoints as marian
from tests.model.importing import test_importer as small

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> small.Pair:
    directory = tmp_path_factory.mktemp("marian") / "opus-mt-de-en"
    theirs = marian.write_opus(directory)
    marian.translate_by_position(theirs)
    theirs.save_pretrained(directory)
    # Read again, because the positions are kept in 32 bits.
    theirs = type(theirs).from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    assert 57_900 < marian.sizes_of(directory)[0] < 58_200
    return small.Pair(theirs, read_checkpoint(str(directory)), marian.tokenizer(directory), directory)


def test_computes_what_MarianMTModel_computes(pair: small.Pair) -> None:
    small.test_logits_and_attention_equal(pair)
    for beam in (1, 4):
        small.test_translations_equal_those_of_generate(pair, beam)


def test_weights_in_8_bits_are_within_their_bounds(pair: small.Pair, tmp_path: Path) -> None:
    small.test_stored_weights_are_within_their_bounds(pair, 8, tmp_path)


@pytest.mark.parametrize("pickled", [False, True], ids=["16-bit safetensors", "32-bit pickle"])
def test_imported_within_a_minute_and_2_GB(pair: small.Pair, pickled: bool, tmp_path: Path) -> None:
    for path in pair.directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    if pickled:
        marian.pickle_weights(tmp_path, pair.theirs)
    output = tmp_path / "imported"
    seconds, megabytes = marian.timed_import(tmp_path, output)
    assert seconds < 60
    assert megabytes < 2000
    assert sum(path.stat().st_size for path in output.iterdir()) < 100e6
    translator = Translator.load(output)
    assert sum(weight.numel() for weight in translator.checkpoint.model.parameters()) > 70_000_000
    assert translator.translate("Der kleine Hund läuft sehr schnell.").attention.cross.shape[:2] == (6, 8)
