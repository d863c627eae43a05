"""Writes a translation to files: the offline viewer as HTML, the payload as JSON, the arrays as NPZ."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from model import __version__
from model.files import write_text
from model.results import KINDS, Translation
from viz.payload import Payload, to_json
from viz.viewer import ENGLISH, catalogues, script, style
from viz.widgets import BRAND

PROGRAM = f"Headlight {__version__}"
GENERATOR = f'<meta name="generator" content="{PROGRAM}">'  # the help dialog shows it
DOCUMENT = """<!doctype html>
<html lang="{language}">
<head>
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{generator}
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{look}</style>
<script>{code}</script>
</head>
<body class="headlight-file">
<header class="hl-file-head"><strong>{brand}</strong>
<span>{model}</span><span>{origin}</span></header>
<main class="headlight"></main>
<noscript translate="no">{without}</noscript>
<script type="application/json" id="payload">{payload}</script>
<script type="application/json" id="answers">null</script>
<script type="application/json" id="settings">{settings}</script>
<script>{start}</script>
</body>
</html>
"""
# The page puts the answers that are on screen in place of the null.
START = """
const content = (id) => JSON.parse(document.getElementById(id).textContent);
const { address, view, language, texts } = content('settings');
const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.body.classList.toggle('dark', dark.matches);
dark.addEventListener('change', follow);
follow();
Headlight.speak(language, texts);
Headlight.mount(document.querySelector('.headlight'), { address })
  .show(content('payload'), { view, answers: content('answers') });
"""
# Allows only the file's own scripts and style, by their hashes; img-src is for the icon and the PNG download.
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {style}; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


# How to get from the file, which has no model, to a page that has one.
OPEN_PAGE = "Open this in Headlight"
START_PAGE = "This file has no model. To try more, translate the sentence in Headlight."
NO_SCRIPT = "The picture needs JavaScript; open the file where scripts may run."
LONGEST_SLUG = 40  # characters of a sentence in the name of its file


def document(
    payload: Payload,
    address: bool = True,
    view: str = "",
    origin: str = "",
    language: str = ENGLISH,
) -> str:
    """Return the HTML file as text.

    With `address`, the file's address follows the view. `view` is the address of the view on which the file
    opens, `origin` the page from which it was exported. `language` is the code of the language that
    the file speaks; it holds no other. An unknown one becomes English.
    """
    texts = catalogues().get(language, {})
    look, code = style("viewer.css", "panels.css", "media.css"), script()
    spoken = language if texts else ENGLISH
    web = origin.startswith(("http://", "https://"))
    opening = texts.get(START_PAGE, START_PAGE)
    if web:
        label = html.escape(texts.get(OPEN_PAGE, OPEN_PAGE))
        opening = f'<a href="{html.escape(origin + view)}">{label}</a>'
    without = " · ".join((payload["source_text"], payload["text"], texts.get(NO_SCRIPT, NO_SCRIPT)))
    return DOCUMENT.format(
        **fixed_parts(look, code),
        language=spoken,
        look=look,
        code=code,
        settings=to_json({"address": address, "view": view or None, "language": spoken, "texts": texts}),
        title=html.escape(f"{payload['source_text']} · Headlight"),
        model=html.escape(payload["model"]["title"]),
        origin=opening,
        without=html.escape(without),
        payload=to_json(payload),
    )


def fixed_parts(look: str, code: str) -> dict[str, str]:
    """Return the parts of the file that are the same for each translation, without this style and script."""
    policy = POLICY.format(scripts=f"{element_hash(code)} {element_hash(START)}", style=element_hash(look))
    return {"policy": policy, "brand": BRAND.content, "generator": GENERATOR, "start": START}


def element_hash(content: str) -> str:
    """Return the hash of an element's content, as a content security policy writes it."""
    return f"'{checksum(content.encode())}'"


def checksum(content: bytes) -> str:
    """Return the hash of a file, as the browser compares it with what it fetched."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"


def write(payload: Payload, path: Path) -> None:
    """Write the HTML file in one step, so that a reader never sees half of it."""
    write_text(path, document(payload))


def npz(translation: Translation) -> bytes:
    """Return the record as an NPZ archive without pickles, for `numpy.load`.

    `encoder` [layer, head, S, S], `decoder` [layer, head, T, T] and `cross` [layer, head, T, S] are float32.
    `source` [S], `read` [T] and `predicted` [T] are the texts of the tokens; `ids` [T] and
    `log_probabilities` [T] belong to the predicted tokens.
    """
    record = translation.attention
    sides = {"source": record.source, "read": record.read, "predicted": record.predicted}
    arrays: dict[str, NDArray[Any]] = {kind: getattr(record, kind).detach().cpu().numpy() for kind in KINDS}
    arrays |= {side: np.array([token.text for token in tokens]) for side, tokens in sides.items()}
    arrays |= {
        name: np.array(getattr(translation, name))
        for name in ("ids", "log_probabilities", "source_text", "text")
    }
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def files(
    translation: Translation,
    payload: Payload,
    view: str = "",
    origin: str = "",
    language: str = ENGLISH,
) -> dict[str, bytes]:
    """Return the three files of a record by name; see `document` for the other arguments."""
    model, sentence = slug(payload["model"]["name"]), slug(payload["source_text"])
    sentence += "-muted" if "muted" in payload else ""
    return {
        f"headlight-{model}{_head(view)}-{sentence}.html": document(
            payload, view=view, origin=origin, language=language
        ).encode("utf-8"),
        f"headlight-{model}-{sentence}.json": to_json({"generator": PROGRAM, **payload}).encode("utf-8"),
        f"headlight-{model}-{sentence}.npz": npz(translation),
    }


def _head(view: str) -> str:
    """The head of a view for a file name, "-cross-4-7"; empty when the view names none."""
    named = dict(parse_qsl(view.removeprefix("#"), max_num_fields=100))
    parts = [named.get(name, "") for name in ("kind", "layer", "head")]
    return (
        "".join(f"-{part}" for part in parts) if all(re.fullmatch(r"[a-z0-9]{1,8}", p) for p in parts) else ""
    )


def slug(text: str) -> str:
    """The letters and digits of a text, with hyphens between the words."""
    words = re.sub(r"[\W_]+", "-", text.lower()).strip("-")
    return words[:LONGEST_SLUG].rstrip("-") or "sentence"
