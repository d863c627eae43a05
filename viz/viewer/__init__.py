"""The linked viewer: ES modules without a build step, and the few lines that put them into one page.

The same two elements, one style and one script, serve the Gradio page, the exported file and the page without
a server. That page also has the engine, which runs the model in a Worker: a script of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from posixpath import dirname, normpath
from typing import Any

from model.analysis.thresholds import THRESHOLDS
from model.decoding.beam_tree import REASONS
from viz.limits import LIMITS
from viz.payload import to_json

HERE = Path(__file__).parent
ENGLISH = "en"  # the language of the code, without a catalogue
VIEWER = (
    "viewer.js",
    "page.js",
    "top_bar.js",
    "gradio.js",
    "playground/entry.js",
    "locales/language.js",
)  # the modules whose exports are `window.Headlight`
SITE = (*VIEWER, "site.js")  # for the page without a server
ENGINE = ("engine/worker.js", "playground/worker.js")  # for Workers: models that answer, models that train
PLAYGROUND = ("playground/view.js",)  # fetched when it is first opened; needs the script of the page

# What Python decides, by its names in domain/limits.js.
TABLES: dict[str, Mapping[str, object]] = {"LIMITS": LIMITS, "THRESHOLDS": THRESHOLDS, "REASONS": REASONS}

# Comments, types and indentation, a fifth of what a visitor would get. No text of the viewer spans two lines.
_SPARED = re.compile(
    r"^ *//.*\n|^ */\*\*(?:(?!\*/)[\s\S])*\*/\n|/\*\*(?:(?!\*/).)*\*/ ?|(?<=[;,{(\[\])}]) +// .*$|^ +",
    re.MULTILINE,
)
_IMPORT = re.compile(r"^import (\{[^}]*\}) from '(\.[\w./]+\.js)';$", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


@cache
def modules(entries: tuple[str, ...] = VIEWER) -> dict[str, str]:
    """Return the text of each module that these need, by its path; a module comes after those it imports."""
    texts: dict[str, str] = {}
    imports: dict[str, list[str]] = {}
    waiting = list(entries)
    while waiting:
        name = waiting.pop()
        if name not in texts:
            texts[name] = (HERE / name).read_text("utf-8")
            for table, values in TABLES.items():
                texts[name] = texts[name].replace(f"{table} = {{}}", f"{table} = {to_json(values)}")
            imports[name] = [_resolve(name, found[2]) for found in _IMPORT.finditer(texts[name])]
            waiting += imports[name]
    return {name: texts[name] for name in TopologicalSorter(imports).static_order()}


def _resolve(module: str, path: str) -> str:
    return normpath(f"{dirname(module)}/{path}" if dirname(module) else path)


@cache
def script(entries: tuple[str, ...] = VIEWER, after: tuple[str, ...] = ()) -> str:
    """Return these modules and what they need as one script that defines `Headlight` with their exports.

    Each module becomes a function that is called at once and returns its exports. A script that runs after
    the script of the entries `after` adds to its `Headlight` and uses its modules.
    """
    known = modules(after) if after else {}
    new = [_as_function(name, text) for name, text in modules(entries).items() if name not in known]
    source = "\n".join(("const modules = { ...globalThis.Headlight?.modules };", *new))
    public = ", ".join(("...globalThis.Headlight", "modules", *(f"...modules['{name}']" for name in entries)))
    return f"globalThis.Headlight = (() => {{\n'use strict';\n{source}\nreturn {{ {public} }};\n}})();\n"


def playground() -> str:
    """Return the script of the playground, which runs after the script of any page."""
    return script(PLAYGROUND, after=VIEWER)


def _as_function(name: str, text: str) -> str:
    exported = ", ".join(found[1] for found in _EXPORT.findall(text))
    text = _IMPORT.sub(lambda found: f"const {found[1]} = modules['{_resolve(name, found[2])}'];", text)
    body = _SPARED.sub("", _EXPORT.sub(r"\1", text))
    return f"modules['{name}'] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();"


@cache
def catalogues() -> dict[str, dict[str, Any]]:
    """Return the texts of each language but English, by its code: translations by their English texts."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(HERE.glob("locales/*.json"))}


@cache
def style(*names: str) -> str:
    """Return the named style sheets of this folder, one after the other."""
    return "\n".join((HERE / name).read_text("utf-8") for name in names)


def training() -> str:
    """Return what such a page needs to train a model: the playground, and the engine for its Workers."""
    return f"{playground()}Headlight.engine = {to_json(script(ENGINE))};\n"
