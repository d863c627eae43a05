"""The HTML of the page without a server: one document, with or without the engine and the models inside."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from viz.export import element_hash
from viz.payload import to_json
from viz.viewer import ENGINE, SITE, script, style

DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Headlight</title>
<link rel="icon" href="data:,">
<style>{look}</style>
</head>
<body class="headlight-site">
<header id="hl-site-head">
<div id="hl-site-top">
<strong><span class="hl-lamp"></span>Headlight</strong>
<select id="hl-site-model" aria-label="Model"></select>
<div id="hl-site-progress" role="status" hidden></div>
</div>
<form id="hl-site-form">
<input id="hl-site-sentence" aria-label="Sentence" placeholder="Type a sentence" autocomplete="off">
<button type="button" id="hl-site-options" aria-expanded="false">Options</button>
<button type="submit">Translate ⏎</button>
<button type="button" id="hl-site-cancel">Cancel</button>
</form>
<div id="hl-site-choices">
<label>Beam size <input id="hl-site-beam" type="number" min="1" max="{beam}" value="1"></label>
<label>Length penalty
<input id="hl-site-penalty" type="number" min="0" max="{penalty}" step="0.1" value="1"></label>
</div>
<div id="hl-site-examples"></div>
<div id="hl-site-message" role="alert"></div>
</header>
<main class="headlight"></main>
<noscript>This page needs JavaScript.</noscript>
{data}
<script>{code}</script>
<script>{start}</script>
</body>
</html>
"""
START = """
const content = (id) => document.getElementById(id)?.textContent ?? null;
const json = async (id, address) => JSON.parse(content(id) ?? (await (await fetch(address)).text()));
Headlight.startSite(JSON.parse(content('site')), {
  engine: async () => content('engine') ?? (await fetch('engine.js')).text(),
  embedded: (name) => JSON.parse(content(`files-${name}`)),
  stored: (name) => json(`example-${name}`, `models/${encodeURIComponent(name)}/example.json`),
}).finally(() => location.protocol.startsWith('http') && navigator.serviceWorker?.register('offline.js'));
"""
# The page's own scripts and style, by their hashes; the Worker, which is made from text in the page;
# WebAssembly; and files from where the page comes from. img-src is for the icon and the PNG download.
POLICY = (
    "default-src 'none'; script-src {scripts} 'wasm-unsafe-eval'; style-src {style}; img-src data:; "
    "connect-src {connect}; worker-src {worker}; base-uri 'none'; form-action 'none'"
)


def document(site: Mapping[str, Any], data: Mapping[str, Any], *, single: bool) -> str:
    """Return the page as text.

    `site` is what the page knows of its models. `data` are values that the page would fetch otherwise, by the
    id of their element. A `single` page has the engine inside and may fetch nothing.
    """
    look, code = style("viewer.css", "panels.css", "site.css"), script(SITE)
    policy = POLICY.format(
        scripts=f"{element_hash(code)} {element_hash(START)}",
        style=element_hash(look),
        connect="'none'" if single else "'self'",
        worker="blob:" if single else "blob: 'self'",
    )
    elements = [_data("site", to_json(site)), *(_data(name, to_json(each)) for name, each in data.items())]
    if single:
        elements.append(f'<script type="text/plain" id="engine">{engine()}</script>')
    return DOCUMENT.format(
        policy=policy,
        look=look,
        code=code,
        start=START,
        data="\n".join(elements),
        beam=site["most"]["beam"],
        penalty=f"{site['most']['penalty']:g}",
    )


def engine() -> str:
    """Return the script of the Worker."""
    return script(ENGINE)


def _data(name: str, text: str) -> str:
    return f'<script type="application/json" id="{html.escape(name)}">{text}</script>'
