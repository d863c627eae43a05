"""The viewer's modules: bundled into one script, and their arithmetic checked by node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import viz.viewer
from tests.viz.fakes import random_translation
from viz.payload import encode, to_json

HERE = Path(__file__).parent
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="node is not installed; the browser tests still run the viewer"
)


def test_modules_come_after_what_they_import_and_none_is_forgotten():
    assert sorted(viz.viewer.MODULES) == sorted(path.name for path in viz.viewer.HERE.glob("*.js"))
    for place, name in enumerate(viz.viewer.MODULES):
        imports = re.findall(r"from '\./([a-z]+\.js)'", (viz.viewer.HERE / name).read_text("utf-8"))
        assert set(imports) <= set(viz.viewer.MODULES[:place]), name


def test_the_script_is_one_scope_without_leftovers():
    script = viz.viewer.script()
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    assert "</script" not in script
    assert "innerHTML" not in script.replace("without innerHTML", "")


def test_modules_stay_short():
    for name in viz.viewer.MODULES:
        assert len((viz.viewer.HERE / name).read_text("utf-8").splitlines()) <= 400


@needs_node
def test_the_script_parses(tmp_path):
    path = tmp_path / "viewer.js"
    path.write_text(viz.viewer.script(), "utf-8")  # a name defined twice is a syntax error here
    subprocess.run([NODE, "--check", path], check=True)


@needs_node
def test_arithmetic(tmp_path):
    translation = random_translation(["Der", "Hund", "."], ["the", "dog", "."], layers=2, heads=3)
    record = {kind: getattr(translation.attention, kind).tolist() for kind in ("encoder", "decoder", "cross")}
    (tmp_path / "payload.json").write_text(to_json(encode(translation, "de-en")), "utf-8")
    (tmp_path / "weights.json").write_text(json.dumps(record), "utf-8")
    shutil.copytree(viz.viewer.HERE, tmp_path / "viewer")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(HERE / "arithmetic.test.mjs", tmp_path)
    run = subprocess.run(
        [NODE, "--test", "arithmetic.test.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
