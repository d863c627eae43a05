"""Shows the viewer in a notebook: `viz.show(result)` as the last line of a cell."""

from __future__ import annotations

import html
from dataclasses import dataclass

from model.results import Translation
from viz.export import document
from viz.payload import encode

# Without allow-same-origin, the frame can neither read the notebook nor use its cookies.
FRAME = (
    '<iframe srcdoc="{page}" title="Headlight" sandbox="allow-scripts allow-downloads" '
    'style="width: 100%; height: {height}px; border: 0"></iframe>'
)


@dataclass(frozen=True)
class Shown:
    """A translation that a notebook draws as the linked viewer, without a server."""

    translation: Translation
    title: str
    height: int

    def _repr_html_(self) -> str:
        page = document(encode(self.translation, self.title), address=False)
        return FRAME.format(page=html.escape(page), height=self.height)


@dataclass(frozen=True)
class Compared:
    """Two translations next to each other in a notebook."""

    left: Shown
    right: Shown

    def _repr_html_(self) -> str:
        sides = "".join(
            f'<div style="flex: 1">{side._repr_html_()}</div>' for side in (self.left, self.right)
        )
        return f'<div style="display: flex; gap: 16px">{sides}</div>'


def compare(left: Translation, right: Translation, titles: tuple[str, str] = ("", "")) -> Compared:
    """Return two translations as two viewers side by side: of two models, two steps, or two sentences."""
    return Compared(show(left, titles[0]), show(right, titles[1]))


def show(translation: Translation, title: str = "", height: int = 900) -> Shown:
    """Return the translation as an object that notebooks draw; `height` is in pixels."""
    languages = f"{translation.source_language} → {translation.target_language}"
    return Shown(translation, title or languages, height)
