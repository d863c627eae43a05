"""The viewer's modules: bundled into one script, and tested in Node."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import viz.viewer
from tests import hostile
from tests.viz.fakes import random_translation
from tests.viz.node import node, run_node
from viz.payload import encode, to_json
from viz.server.theme import FONTS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


SCRIPTS = pytest.mark.parametrize("entries", [viz.viewer.VIEWER, viz.viewer.SITE, viz.viewer.ENGINE])


@SCRIPTS
def test_a_module_comes_after_those_that_it_imports(entries):
    script = viz.viewer.script(entries)
    for name in viz.viewer.modules(entries):
        first_use = script.find(f"= modules['{name}'];")
        assert first_use == -1 or script.index(f"modules['{name}'] = ") < first_use


def test_every_module_is_in_a_script():
    scripts = (viz.viewer.SITE, viz.viewer.ENGINE, viz.viewer.PLAYGROUND)
    found = {name for entries in scripts for name in viz.viewer.modules(entries)}
    written = {path.relative_to(viz.viewer.HERE).as_posix() for path in viz.viewer.HERE.rglob("*.js")}
    assert found == written


def test_every_export_is_used():
    """By another module, by a page, or by a test."""
    modules = {path: path.read_text("utf-8") for path in viz.viewer.HERE.rglob("*.js")}
    imports = {
        path: set(re.findall(r"\w+", " ".join(re.findall(r"^import \{([^}]*)\}", text, re.MULTILINE))))
        for path, text in modules.items()
    }
    python = [*ROOT.glob("viz/**/*.py"), ROOT / "app.py"]
    tests = [*ROOT.glob("tests/**/*.mjs"), *ROOT.glob("tests/**/*.py")]
    others = {word for path in python + tests for word in re.findall(r"\w+", path.read_text("utf-8"))}
    for path, text in modules.items():
        used = others.union(*(names for other, names in imports.items() if other != path))
        exported = re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", text, re.MULTILINE)
        assert set(exported) <= used, f"{path.name}: {set(exported) - used}"


def test_every_class_of_the_style_sheets_occurs():
    """In a script or in Python, or its beginning before a name: `hl-curve-${index}`."""
    sheets = "\n".join(path.read_text("utf-8") for path in viz.viewer.HERE.glob("*.css"))
    paths = [*viz.viewer.HERE.rglob("*.js"), *ROOT.glob("viz/**/*.py"), ROOT / "app.py"]
    code = "\n".join(path.read_text("utf-8") for path in paths)
    written, begun = set(re.findall(r"hl-[\w-]+", code)), re.findall(r"(hl-[\w-]*-)\$\{", code)
    named = set(re.findall(r"[.#](hl-[\w-]+)", re.sub(r"/\*.*?\*/", "", sheets, flags=re.DOTALL)))
    assert not {name for name in named - written if not name.startswith(tuple(begun))}


@SCRIPTS
def test_the_script_has_no_module_syntax_left_and_cannot_end_its_element(entries):
    script = viz.viewer.script(entries)
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    assert "</script" not in script
    assert "innerHTML" not in script.replace("without innerHTML", "")


@SCRIPTS
def test_the_script_has_no_comments_and_no_types(entries):
    script = viz.viewer.script(entries)
    assert not re.search(r"/\*\*|@type|@param|^ *//", script, re.MULTILINE)


@SCRIPTS
def test_no_text_spans_lines(entries):
    """The script loses the space before its lines, which would be part of such a text."""
    for name, text in viz.viewer.modules(entries).items():
        code = re.sub(r"^ *//.*\n", "", text, flags=re.MULTILINE)
        assert not [found for found in re.findall(r"`[^`]*`", code) if "\n" in found], name


def test_missing_fonts_are_replaced_by_what_every_system_has():
    look = viz.viewer.style("viewer.css", "panels.css", "page.css")
    written = re.sub(r"var\(--hl-font\)", "", look + viz.viewer.script())
    named = re.findall(r"--hl-font: ([^;]+);|'font-family': '([^']+)'", written)
    lists = [*("".join(each).split(", ") for each in named), FONTS]
    assert len(lists) == 3
    assert {fonts[-1] for fonts in lists} == {"sans-serif"}
    assert "font-family:" not in written
    assert "@font-face" not in written
    assert "@import" not in written


@SCRIPTS
def test_the_script_parses(entries, tmp_path):
    path = tmp_path / "viewer.js"
    path.write_text(viz.viewer.script(entries), "utf-8")
    subprocess.run([node(), "--check", path], check=True)


def test_arithmetic(tmp_path):
    translation = random_translation(["Der", "Hund", "."], ["the", "dog", "."], layers=2, heads=3)
    record = {kind: getattr(translation.attention, kind).tolist() for kind in ("encoder", "decoder", "cross")}
    (tmp_path / "payload.json").write_text(to_json(encode(translation, "de-en")), "utf-8")
    (tmp_path / "weights.json").write_text(json.dumps(record), "utf-8")
    (tmp_path / "hostile.json").write_text(json.dumps(hostile.STRINGS), "utf-8")
    tests = sorted(f"tests/{path.name}" for path in HERE.glob("viewer/*.test.mjs"))
    assert tests
    run_node(tmp_path, HERE / "viewer", "--test", "--test-isolation=none", *tests)  # one process for all
