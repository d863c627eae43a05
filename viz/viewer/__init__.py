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
    "matrix.js",
    "toolbar.js",
    "inspector.js",
    "help.js",
    "keys.js",
    "viewer.js",
    "page.js",
)
_IMPORT = re.compile(r"^import \{[^}]*\} from '\./([a-z]+\.js)';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?function |const |class )", re.MULTILINE)


@cache
def script() -> str:
    """Return all modules as one script that defines `window.Headlight`.

    The modules share one scope, so their imports and exports fall away; `tests/viz` checks that no
    name is defined twice and that each import comes from an earlier module.
    """
    bodies = [_EXPORT.sub("", _IMPORT.sub("", (HERE / name).read_text("utf-8"))) for name in MODULES]
    source = "\n".join(bodies)
    face = "{ mount, onScreen, readAddress, toggleDisclosure, togglePopover }"
    return f"window.Headlight = (() => {{\n'use strict';\n{source}\nreturn {face};\n}})();\n"


@cache
def style(*names: str) -> str:
    """Return the named style sheets of this folder, one after the other."""
    return "\n".join((HERE / name).read_text("utf-8") for name in names)


def head(*styles: str) -> str:
    """Return the style and the script as elements for the head of a page."""
    return f"<style>\n{style(*styles)}</style>\n<script>\n{script()}</script>\n"
