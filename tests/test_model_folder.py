"""A folder with many broken models: the page lists the reasons, and the valid model translates."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from app import load
from model.files import open_tensors
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.storage.checkpoint import save
from tests.model.helpers import tiny_checkpoint
from tests.visitor import ROOT


def set_value(name: str, value: object) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        (config["model"] if name in config["model"] else config)[name] = value
        (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")

    return change


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "billion-layers": (set_value("n_encoder_layers", 10**9), "n_encoder_layers is 1000000000"),
    "deep": (lambda d: (d / "config.json").write_text("[" * 99_999), "nested too deeply"),
    "folder-for-weights": (
        lambda d: ((d / "model.safetensors").unlink(), (d / "model.safetensors").mkdir()),
        "is not a file",
    ),
    "half-weights": (lambda d: os.truncate(d / "model.safetensors", 900), "truncated or broken"),
    "huge-tokenizer": (lambda d: os.truncate(d / "tokenizer.json", 1 << 33), "bytes; at most"),
    "link-out": (
        lambda d: ((d / "card.json").unlink(), (d / "card.json").symlink_to("/etc/hosts")),
        "is a link to a file in another folder",
    ),
    "newer": (set_value("format", 99), "newer than"),
    "no-config": (lambda d: (d / "config.json").unlink(), "config.json is missing"),
    "no-weights": (lambda d: (d / "model.safetensors").unlink(), "model.safetensors is missing"),
    "pickle": (
        lambda d: (d / "model.safetensors").write_bytes(b"\x80\x04cposix\nsystem\n."),
        "truncated or broken",
    ),
    "strange-title": (set_value("title", "\ud800\u202e"), "title in .* is not a short line"),
    "wide": (set_value("d_model", 10**7), "d_model is 10000000"),
}


def test_broken_models_are_listed_with_their_reason_and_the_others_work(tmp_path: Path) -> None:
    for name in ("good", *BROKEN):
        save(tiny_checkpoint(), tmp_path / name, card={"title": "Tiny"})
    for name, (damage, _) in BROKEN.items():
        damage(tmp_path / name)
    translators, problems = load(tmp_path)
    assert list(translators) == ["good"]
    assert translators["good"].translate("Ein kleiner Hund").attention.cross.ndim == 4
    assert [problem.split(" ")[0] for problem in problems] == sorted(BROKEN)
    for problem, (_, reason) in zip(problems, BROKEN.values(), strict=True):
        assert re.search(reason, problem)
        assert str(tmp_path) not in problem


LOAD = """
import resource, sys
from pathlib import Path
import app
held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 30), -1))
translators, problems = app.load(Path(sys.argv[1]))
print(*translators, *problems, sep="\\n")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_a_model_that_does_not_fit_into_memory_is_one_sentence_and_the_others_work(tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    save(checkpoint, tmp_path / "good")
    shutil.copytree(tmp_path / "good", tmp_path / "big")
    config = replace(checkpoint.model.config, d_model=1024, n_heads=8, d_ff=16_384, n_encoder_layers=8)
    for name in ("d_model", "n_heads", "d_ff", "n_encoder_layers"):
        set_value(name, getattr(config, name))(tmp_path / "big")
    write_zeros(config, tmp_path / "big" / "model.safetensors")
    command = [sys.executable, "-c", LOAD, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    good, problem = ended.stdout.splitlines()
    assert good == "good"
    assert re.search(r"^big is left out: .* does not fit into the memory that is free", problem)
    assert str(tmp_path) not in problem


def write_zeros(config: ModelConfig, path: Path) -> None:
    """A file with the weights of this model, which takes no room on the disk."""
    with torch.device("meta"):
        parameters = dict(Transformer(config).named_parameters())
    header: dict[str, object] = {}
    size = 0
    for name, parameter in parameters.items():
        offsets = [size, size := size + 4 * parameter.numel()]
        header[name] = {"dtype": "F32", "shape": list(parameter.shape), "data_offsets": offsets}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + size)


def test_no_file_of_a_model_is_mapped_into_memory(tmp_path: Path) -> None:
    """A program that writes such a file again, as `cp` does, would end the process that maps it."""
    save(tiny_checkpoint(), tmp_path)
    path = tmp_path / "model.safetensors"
    with open_tensors(path, 1 << 30) as stream:
        tensors = [stream.get_tensor(name) for name in stream.keys()]  # noqa: SIM118
        assert path.name not in Path("/proc/self/maps").read_text()
    path.write_bytes(b"")
    assert all(tensor.isfinite().all() for tensor in tensors)
