"""The widgets around the viewer: their ids, texts and order, from which both pages are made.

`viz/server/component.py` makes Gradio's components of them, `viz/static/document.py` the elements of the page
without a server. Scripts and style sheets find a widget by its id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from model.decoding.options import PAGE_BEAM, PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY

# Said where the script that would say everything else is missing.
LOST = "A part of this page did not arrive; check the connection and load the page again."

Kind = Literal["row", "column", "form", "place", "button", "file", "text", "number"]


@dataclass(frozen=True)
class Widget:
    """One widget, or a group of them."""

    kind: Kind  # a place holds what scripts put there
    id: str = ""
    label: str = ""  # of a button, a box or a number
    content: str = ""  # the HTML of a place
    action: str = ""  # the function of viz/viewer/page.js that a click calls
    is_quiet: bool = False  # a button without a border
    opens: bool = False  # a button that opens and closes something
    waits: bool = False  # a widget that cannot be used before the first translation
    hint: str = ""  # what a box shows while it is empty, or what a number means
    value: float = 0
    range: tuple[float, float, float] = (0, 0, 0)  # of a number: least, most, step
    parts: tuple[Widget, ...] = ()
    only: Literal["server", "static"] | None = None  # the page that has it, if only one has


def _list(identifier: str, label: str) -> Widget:
    """A list that a script fills."""
    return Widget("place", identifier, content=f'<select aria-label="{label}"></select>')


BRAND = Widget("place", "hl-brand", content='<span class="hl-lamp"></span>Headlight')
MODEL = _list("hl-model", "Model")
EXPORT = Widget("button", "hl-export", "Export", action="toggleExport", is_quiet=True, opens=True, waits=True)
FILES = tuple(
    Widget("file", f"hl-export-{ending}", label, waits=True)
    for ending, label in (
        ("html", "Page that works offline (HTML)"),
        ("json", "Whole record (JSON)"),
        ("npz", "Arrays for NumPy (NPZ)"),
    )
)
WITH_MODEL = Widget("button", "hl-export-model", "Page that translates on, offline (HTML)")
SENTENCE = Widget("text", "hl-sentence", "Sentence", hint="Type a sentence")
PREFIX = Widget("place", "hl-prefix", content='<div class="hl-prefix"></div>')
TRANSLATE = Widget("button", "hl-translate", "Translate ⏎")
BEAM = Widget(
    "number",
    "hl-beam",
    "Beam size",
    hint="unfinished translations kept at each step; 1 always takes the likeliest word (greedy)",
    value=PAGE_BEAM,
    range=(1, PAGE_MAX_BEAM, 1),
)
PENALTY = Widget(
    "number",
    "hl-penalty",
    "Length penalty",
    hint="higher prefers longer translations",
    value=1,
    range=(0, PAGE_MAX_LENGTH_PENALTY, 0.1),
)
LIVE = Widget(
    "place", "hl-live", content='<label><input type="checkbox" checked> Translate while typing</label>'
)
PROBLEMS = Widget("place", "hl-problems", only="server")
MESSAGE = Widget("place", "hl-message", content='<div role="alert"></div>')
EXAMPLES = Widget("row", "hl-examples")
VIEWER = Widget("place", "hl-viewer", content='<div class="headlight"></div>')

WIDGETS = (
    Widget(
        "row",
        "hl-top",
        parts=(
            BRAND,
            MODEL,
            Widget("button", "hl-learn", "Learn", action="openLearn", is_quiet=True),
            Widget("button", "hl-playground", "Playground", action="openPlayground", is_quiet=True),
            Widget("button", "hl-about", "About", action="openAbout", is_quiet=True),
            Widget(
                "column",
                "hl-export-box",
                parts=(
                    EXPORT,
                    Widget(
                        "column",
                        "hl-export-menu",
                        parts=(
                            # The viewer's own entries: the link and the pictures.
                            Widget(
                                "place",
                                "hl-export-view",
                                content='<div class="headlight hl-entries"></div>',
                            ),
                            *FILES,
                            WITH_MODEL,
                            # The viewer's own boxes: a gr.Code brings a whole editor of 130 kB.
                            Widget(
                                "place",
                                "hl-export-calls",
                                content='<div class="headlight hl-calls"></div>',
                                only="server",
                            ),
                        ),
                    ),
                ),
            ),
            Widget("button", "hl-theme", "Light or dark", action="toggleTheme", is_quiet=True),
            _list("hl-language", "Language"),
            Widget("button", "hl-help", "How to read this", action="openHelp", is_quiet=True),
        ),
    ),
    Widget(
        "form",
        "hl-sentence-row",
        parts=(
            SENTENCE,
            PREFIX,
            Widget("button", "hl-options-button", "Options", action="toggleOptions", opens=True),
            TRANSLATE,
            Widget("button", "hl-cancel", "Cancel", action="cancel"),
            Widget("place", "hl-queue-position", content='<div role="status"></div>'),
            Widget("place", "hl-progress", content='<div role="status" hidden></div>', only="static"),
        ),
    ),
    Widget("row", "hl-options", parts=(BEAM, PENALTY, LIVE)),
    PROBLEMS,
    MESSAGE,
    EXAMPLES,
    VIEWER,
)
