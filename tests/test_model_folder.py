"""A folder with many broken models: the page lists the reasons, and the valid model translates."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from app import load
from model.storage.checkpoint import save
from tests.model.helpers import tiny_checkpoint


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
