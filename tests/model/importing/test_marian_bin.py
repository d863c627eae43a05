"""model.bin of Marian has the numbers of model.npz, and a damaged one is refused in one sentence."""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from model.errors import UserError
from model.importing.files.marian_bin import read_marian_bin
from model.importing.files.npz import read_npz
from model.importing.importer import read_checkpoint
from tests.model.helpers import assert_sentence, draw_weights
from tests.model.importing.marian import Arrays, rounded, write_bin
from tests.model.importing.test_own_models import Tutorial
from tests.model.importing.test_toolkits import marian_arrays, save_marian

SETTINGS = {
    "type": "transformer",
    "transformer-heads": 3,
    "transformer-ffn-activation": "relu",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
}
WORDS = ["</s>", "<unk>", *"abcd"]


def small_arrays() -> Arrays:
    """The weights of a model, as Marian names them."""
    with torch.no_grad():
        network = draw_weights(Tutorial().eval())
        shared, bias = network.src_tok_emb["embedding"].weight[:6], network.generator.bias[:6]
        found = marian_arrays(network.transformer) | {"Wemb": shared, "decoder_ff_logit_out_b": bias[None]}
    return {name: array.detach().numpy() for name, array in found.items()}


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    return small_arrays()


@pytest.mark.parametrize(("eight_bit", "alphas"), [(False, False), (True, False), (True, True)])
def test_a_bin_has_the_weights_of_an_npz(
    eight_bit: bool, alphas: bool, arrays: Arrays, tmp_path: Path
) -> None:
    write_bin(tmp_path / "model.bin", arrays, SETTINGS, eight_bit, alphas)
    save_marian(tmp_path / "model.npz", rounded(arrays) if eight_bit else arrays, SETTINGS)
    weights, found = read_marian_bin(tmp_path / "model.bin")
    expected, _ = read_npz(tmp_path / "model.npz")
    assert found == SETTINGS
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in weights)


def write_folder(folder: Path, arrays: Arrays, *vocabularies: str) -> Path:
    """As it is published: with a list of likely words, which is a .bin too."""
    folder.mkdir()
    write_bin(folder / "model.abcd.intgemm.alphas.bin", arrays, SETTINGS, True, True)
    (folder / "lex.50.50.abcd.s2t.bin").write_bytes(struct.pack("<Q", 0xF11A48D5013417F5) + bytes(40))
    for name in vocabularies:
        (folder / name).write_text(yaml.safe_dump({word: place for place, word in enumerate(WORDS)}))
    return folder


def test_a_folder_with_a_bin_is_recognised(arrays: Arrays, tmp_path: Path) -> None:
    one = read_checkpoint(str(write_folder(tmp_path / "one", arrays, "vocab.abcd.yml")))
    assert one.notes[0] == "Recognised Marian."
    two = read_checkpoint(str(write_folder(tmp_path / "two", arrays, "srcvocab.ab.yml", "trgvocab.cd.yml")))
    assert all(map(torch.equal, one.model.parameters(), two.model.parameters()))


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (8, struct.pack("<Q", 1 << 60), "begins in another way"),
        (16, struct.pack("<Q", 1 << 60), "cut short"),  # of a name
        (24, struct.pack("<Q", 0x1234), "type 0x1234"),
        (32, struct.pack("<Q", 1 << 40), "axes"),
        (40, struct.pack("<Q", 1 << 60), "cut short"),  # of the data
        (-1, b"", "cut short"),
    ],
)
def test_a_damaged_bin_is_refused(at: int, value: bytes, said: str, arrays: Arrays, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    write_bin(path, arrays, SETTINGS, True, True)
    data = path.read_bytes()
    path.write_bytes(data[:at] + value + (data[at + len(value) :] if value else b""))
    with pytest.raises(UserError, match=said) as caught:
        read_checkpoint(str(path))
    assert_sentence(caught.value)


def test_a_bin_with_a_wrong_multiplier_or_shape_is_refused(arrays: Arrays, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    for name, size in (("Wemb", (0, 4)), ("Wemb", (1 << 30, 1 << 30))):
        write_bin(path, {name: np.ones((4, 4), np.float32)}, SETTINGS, False, False)
        data = path.read_bytes().replace(struct.pack("<2i", 4, 4), struct.pack("<2i", *size), 1)
        path.write_bytes(data)
        with pytest.raises(UserError, match="shape|larger"):
            read_checkpoint(str(path))
    write_bin(path, {"Wemb": np.ones((4, 4), np.float32)}, SETTINGS, True, False)
    path.write_bytes(path.read_bytes().replace(struct.pack("<f", 127.0), struct.pack("<f", np.nan)))
    with pytest.raises(UserError, match="multiplier"):
        read_checkpoint(str(path))
