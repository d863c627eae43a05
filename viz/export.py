"""attention_maps.html: the viewer with its data inside one file that needs no network."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.checkpoint import write_atomically
from viz.payload import to_json
from viz.viewer import head

DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<link rel="icon" href="data:,">
{head}</head>
<body class="headlight-file">
<header class="hl-file-head"><strong><span class="hl-lamp"></span>Headlight</strong>
<span>{model}</span></header>
<main class="headlight"></main>
<script type="application/json" id="payload">{payload}</script>
<script>
const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.body.classList.toggle('dark', dark.matches);
dark.addEventListener('change', follow);
follow();
Headlight.mount(document.querySelector('.headlight'), {{ address: true }})
  .show(document.getElementById('payload').textContent);
</script>
</body>
</html>
"""


def document(payload: Mapping[str, Any]) -> str:
    """Return the whole file as text."""
    return DOCUMENT.format(
        title=html.escape(f"{payload['source_text']} · Headlight"),
        model=html.escape(payload["model"]["title"]),
        head=head("viewer.css", "panels.css"),
        payload=to_json(payload),
    )


def write(payload: Mapping[str, Any], path: Path) -> None:
    """Write the file so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda temporary: temporary.write_text(document(payload), "utf-8"))
