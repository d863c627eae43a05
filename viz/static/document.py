"""The HTML of the page without a server: one document, with or without the engine and the models inside."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from model.decoding.options import PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY
from viz.export import GENERATOR, element_hash
from viz.payload import to_json
from viz.viewer import ENGINE, SITE, playground, script, style

MANIFEST = "manifest.webmanifest"
INSTALLABLE = f'<link rel="icon" href="icon-192.png">\n<link rel="manifest" href="{MANIFEST}">'
DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{generator}
<title>Headlight</title>
{icons}
<style>{look}</style>
</head>
<body class="headlight-site">
<header>
<div id="hl-top">
<div id="hl-brand"><span class="hl-lamp"></span>Headlight</div>
<div id="hl-purpose">What every attention head does while a Transformer translates</div>
<div id="hl-model"><select aria-label="Model">{models}</select></div>
<button type="button" id="hl-about" class="hl-quiet">About this model</button>
<div id="hl-export-box">
<button type="button" id="hl-export" class="hl-quiet" aria-expanded="false" disabled>Export</button>
<div id="hl-export-menu">
<div id="hl-export-view"><div class="headlight hl-entries"></div></div>
<p>Only a page with a server offers files of the whole record and API calls.</p>
</div>
</div>
<button type="button" id="hl-theme" class="hl-quiet">Light or dark</button>
<div id="hl-language"><select aria-label="Language"></select></div>
</div>
<form id="hl-sentence-row">
<div id="hl-sentence"><div class="input-container">
<input aria-label="Sentence" placeholder="Type a sentence" autocomplete="off" readonly>
</div></div>
<div id="hl-prefix"><div class="hl-prefix"></div></div>
<button type="button" id="hl-options-button" aria-expanded="false">Options</button>
<button id="hl-translate">Translate ⏎</button>
<button type="button" id="hl-cancel">Cancel</button>
<div id="hl-queue-position"><div role="status"></div></div>
<div id="hl-progress" role="status" hidden></div>
</form>
<div id="hl-options">
<label>Beam size <input id="hl-beam" type="number" min="1" max="{beam}"></label>
<label>Length penalty <input id="hl-penalty" type="number" min="0" max="{penalty}" step="0.1"></label>
</div>
<div id="hl-message"><div role="alert"></div></div>
<div id="hl-examples"></div>
</header>
<main id="hl-viewer"><div class="headlight"></div></main>
<noscript>This page needs JavaScript.</noscript>
{data}
{code}<script type="module">{start}</script>
</body>
</html>
"""
START = """
const content = (id) => document.getElementById(id)?.textContent ?? null;
const site = JSON.parse(content('site'));
// Each release of a part has its own address.
const addressed = ([name, integrity]) => {
  const path = name.split('/').map(encodeURIComponent).join('/');
  return [`${path}?${encodeURIComponent(integrity)}`, integrity];
};
const part = (name) => {
  const [address, integrity] = addressed([name, site.parts[name]]);
  return fetch(address, { integrity });
};
const inflated = async (name) => {
  const inflating = (await part(name)).body.pipeThrough(new DecompressionStream('deflate'));
  return new Response(inflating).text();
};
const showViewer = (code) => document.head.append(
  Object.assign(document.createElement('script'), { textContent: code }));
const keepForLater = async () => {
  if (!site.parts || !navigator.serviceWorker) return;
  await navigator.serviceWorker.register('offline.js');
  const isOwn = ([name]) => !name.startsWith('models/'); // the engine keeps those
  const own = Object.entries(site.parts).filter(isOwn);
  (await navigator.serviceWorker.ready).active.postMessage(own.map(addressed));
};
const start = () => Headlight.startSite(site, {
  engine: async () => content('engine') ?? (await part('engine.js')).text(),
  playground: async () => {
    if (!Headlight.createPlayground) showViewer(await inflated('playground.deflate'));
    return Headlight.createPlayground;
  },
  embedded: (name) => JSON.parse(content(`files-${name}`)),
  stored: async (name) => JSON.parse(content(`stored-${name}`)
    ?? await (await part(`models/${name}/stored.json`)).text()),
  texts: async (code) => JSON.parse(content(`texts-${code}`) ?? await inflated(`locales/${code}.deflate`)),
}).finally(keepForLater);
if (!globalThis.Headlight) await inflated('viewer.deflate').then(showViewer, () => {});
if (globalThis.Headlight) start();
else document.querySelector('[role=alert]').textContent =
  'A part of this page did not arrive; check the connection and load the page again.';
"""
# The page's own scripts and style, by their hashes; the Worker, which is made from text in the page;
# WebAssembly; and files from where the page comes from. img-src is for the icons and the PNG download.
POLICY = (
    "default-src 'none'; script-src {scripts} 'wasm-unsafe-eval'; style-src {style}; img-src {images}; "
    "manifest-src {own}; connect-src {own}; worker-src {worker}; base-uri 'none'; form-action 'none'"
)


def document(site: Mapping[str, Any], data: Mapping[str, Any], *, single: bool) -> str:
    """Return the page as text.

    `site` is what the page knows of its models and of its other files. `data` are values that the page would
    fetch otherwise, by the id of their element. A `single` page has the viewer and the engine inside and may
    fetch nothing; another fetches the viewer compressed, because few hosts compress what they send.
    """
    styles = ("viewer.css", "panels.css", "playground.css", "page.css", "site.css", "media.css")
    look, code = style(*styles), viewer()
    policy = POLICY.format(
        scripts=f"{element_hash(code)} {element_hash(START)} {element_hash(playground())}",
        style=element_hash(look),
        images="data:" if single else "data: 'self'",
        own="'none'" if single else "'self'",
        worker="blob:" if single else "blob: 'self'",
    )
    elements = [_data("site", to_json(site)), *(_data(name, to_json(each)) for name, each in data.items())]
    if single:
        elements.append(f'<script type="text/plain" id="engine">{engine()}</script>')
    return DOCUMENT.format(
        policy=policy,
        generator=GENERATOR,
        icons='<link rel="icon" href="data:,">' if single else INSTALLABLE,
        look=look,
        models="".join(_group(*group) for group in site["groups"]),
        code=f"<script>{code}</script>\n<script>{playground()}</script>\n" if single else "",
        start=START,
        data="\n".join(elements),
        beam=PAGE_MAX_BEAM,
        penalty=f"{PAGE_MAX_LENGTH_PENALTY:g}",
    )


def viewer() -> str:
    """Return the script of the page."""
    return script(SITE)


def engine() -> str:
    """Return the script of the Worker."""
    return script(ENGINE)


def _group(heading: str, models: Sequence[tuple[str, str]]) -> str:
    options = "".join(
        f'<option value="{html.escape(name)}">{html.escape(title)}</option>' for name, title in models
    )
    return f'<optgroup label="{html.escape(heading)}">{options}</optgroup>' if heading else options


def _data(name: str, text: str) -> str:
    return f'<script type="application/json" id="{html.escape(name)}">{text}</script>'
