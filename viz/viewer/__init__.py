"""The linked viewer: ES modules without a build step, and the few lines that put them into one page.

The same two elements, one style and one script, serve the Gradio page and the exported file.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent

# Each module comes after those that it imports.
MODULES = (
    "dom.js",
    "payload.js",
    "measures.js",
    "colour.js",
    "state.js",
    "address.js",
    "ask.js",
    "visit.js",
    "names.js",
    "grid.js",
    "values.js",
    "readout.js",
    "arcs.js",
    "tokens.js",
    "order.js",
    "roles.js",
    "thumbnails.js",
    "atlas.js",
    "cells.js",
    "picture.js",
    "takeaway.js",
    "table.js",
    "scale.js",
    "matrix.js",
    "toolbar.js",
    "marks.js",
    "next.js",
    "outcome.js",
    "headcard.js",
    "cell.js",
    "beams.js",
    "reference.js",
    "step.js",
    "headmap.js",
    "mute.js",
    "curves.js",
    "training.js",
    "inspector.js",
    "tour.js",
    "help.js",
    "keys.js",
    "viewer.js",
    "page.js",
)
_IMPORT = re.compile(r"^import (\{[^}]*\}) from '\./([a-z]+\.js)';$", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


@cache
def script() -> str:
    """Return all modules as one script that defines `window.Headlight`.

    Each module becomes a function that is called at once and returns its exports, in the order of
    MODULES; `tests/viz` checks that each import comes from an earlier module.
    """
    source = "\n".join(("const modules = {};", *map(_as_function, MODULES)))
    face = "{ ...modules['viewer.js'], ...modules['page.js'] }"
    return f"window.Headlight = (() => {{\n'use strict';\n{source}\nreturn {face};\n}})();\n"


def _as_function(name: str) -> str:
    text = (HERE / name).read_text("utf-8")
    exported = ", ".join(found[1] for found in _EXPORT.findall(text))
    body = _EXPORT.sub(r"\1", _IMPORT.sub(r"const \1 = modules['\2'];", text))
    return f"modules['{name}'] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();"


@cache
def style(*names: str) -> str:
    """Return the named style sheets of this folder, one after the other."""
    return "\n".join((HERE / name).read_text("utf-8") for name in names)


def head(*styles: str) -> str:
    """Return the named style sheets and the script as elements for the head of a page."""
    sheet = f"<style>\n{style(*styles)}</style>\n" if styles else ""
    return f"{sheet}<script>\n{script()}</script>\n"
