"""A tutorial's model that somebody trained and published: annalog writes molecules that resemble one."""

from __future__ import annotations

import importlib
import json
import re
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.importing.files.pickles import read_nested
from model.importing.importer import read_checkpoint
from model.importing.own_models import Told
from model.translator import Translator
from tests.numerics import assert_float32

MOLECULES = """CC(=O)Oc1ccccc1C(=O)O
CN1C=NC2=C1C(=O)N(C(=O)N2C)C CC(C)Cc1ccc(cc1)C(C)C(=O)O CC(=O)Nc1ccc(O)cc1
CN(C)CCOC(c1ccccc1)c1ccccc1 O=C(O)c1ccccc1Nc1cccc(C(F)(F)F)c1 Clc1ccc2c(c1)C(c1ccccc1)=NCC(=O)N2C
COc1ccc2nc([nH]c2c1)S(=O)Cc1ncc(C)c(OC)c1C CC(C)NCC(O)COc1cccc2ccccc12 C[C@H](N)C(=O)N1CCC[C@@H]1C(=O)O"""
PIECES = re.compile(r"\[[^\]]+\]|Br|Cl|.")
MOST = 100  # tokens that are written


@pytest.mark.slow
@torch.no_grad()
def test_a_published_model_of_a_tutorial_writes_what_its_own_code_writes(tmp_path: Path) -> None:
    """The wheel annalog 1.0.6: `pip install --no-deps annalog==1.0.6`."""
    if (found := find_spec("annalog")) is None or found.origin is None:
        pytest.skip("the wheel annalog is not installed")
    root = Path(found.origin).parent
    path = root / "ckpt_and_vocab/Lev_extended.pt"
    words: list[str] = list(_plain(root / "ckpt_and_vocab/stereo_experiment_vocab_ttf.pkl")["itos"])
    (tmp_path / "words.json").write_text(json.dumps(words))
    sentences = tuple(" ".join(PIECES.findall(each)) for each in MOLECULES.split())
    words_file = tmp_path / "words.json"
    told = Told(source_vocabulary=words_file, target_vocabulary=words_file, sentences=sentences[:4])
    checkpoint = read_checkpoint(str(path), told)
    assert checkpoint.model.config.n_heads == 8  # which its file does not say
    theirs = _network(root, len(words), words.index("<pad>"))
    theirs.load_state_dict(read_nested(path)[0])
    theirs.eval()
    translator = Translator(checkpoint)
    for sentence in sentences:
        source = torch.tensor([[words.index(each) for each in ("<sos>", *sentence.split(), "<eos>")]])
        written = [words.index("<sos>")]
        while len(written) <= MOST and words[written[-1]] != "<eos>":
            read = torch.tensor([written])
            scores, attention = theirs(source, read)
            written.append(int(scores[0, -1].argmax()))
        ours = translator.translate(sentence)
        assert ours.text.split() == [words[each] for each in written[1:-1]]
        rows = min(len(attention[0, 0]), ours.attention.cross.shape[2])
        found = ours.attention.cross[-1][:, :rows]
        assert_float32(found, partial(_weights, source, read, rows), theirs)


def _plain(path: Path) -> dict[str, Any]:
    """A pickle of plain lists and texts: every global is refused."""
    import pickle

    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            raise pickle.UnpicklingError(f"{module}.{name}")

    with path.open("rb") as file:
        values: dict[str, Any] = Plain(file).load()
    return values


def _weights(source: Tensor, read: Tensor, rows: int, network: nn.Module) -> Tensor:
    """Cross-attention [H, rows, S] of the last layer of their network."""
    found: Tensor = network(source, read)[1][0, :, :rows]
    return found


def _network(root: Path, words: int, pad: int) -> torch.nn.Module:
    """The network of its own code, without its __init__, which needs more packages."""
    package = ModuleType("annalog_files")
    package.__path__ = [str(root / "model_files")]
    sys.modules["annalog_files"] = package
    code = importlib.import_module("annalog_files.seq2seq_attention")
    cpu = torch.device("cpu")
    sides = (each(words, 256, 3, 8, 512, 0.1, cpu, 102) for each in (code.Encoder, code.Decoder))
    network: torch.nn.Module = code.Seq2Seq(*sides, pad, pad, cpu)
    return network
