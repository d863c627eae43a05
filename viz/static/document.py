"""The HTML of the page without a server: one document, with or without the engine and the models inside."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from viz.export import DOCUMENT as FILE
from viz.export import GENERATOR, element_hash, fixed_parts
from viz.payload import to_json
from viz.viewer import ENGINE, SITE, playground, script, style
from viz.widgets import LOST, MODEL, VIEWER, WIDGETS, Widget

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
{widgets}
</header>
{viewer}
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
const part = (name) => {
  const integrity = site.parts[name];
  const path = name.split('/').map(encodeURIComponent).join('/');
  return fetch(`${path}?${encodeURIComponent(integrity)}`, { integrity });
};
const inflated = async (name) => {
  const inflating = (await part(name)).body.pipeThrough(new DecompressionStream('deflate'));
  return new Response(inflating).text();
};
const showViewer = (code) => document.head.append(
  Object.assign(document.createElement('script'), { textContent: code }));
const engine = async () => content('engine') ?? await inflated('engine.deflate');
// What the HTML files of a translation are made of.
const parts = async () => {
  const own = [...document.scripts].filter(({ type }) => type === '').map(({ textContent }) => textContent);
  return {
    documents: JSON.parse(content('documents') ?? await inflated('documents.deflate')),
    look: document.querySelector('style').textContent,
    code: own[0],
    playground: own[1] ?? await inflated('playground.deflate'),
    engine: await engine(),
  };
};
const keepForLater = async () => {
  if (site.parts) await navigator.serviceWorker?.register('offline.js');
};
const start = () => Headlight.startSite(site, {
  engine,
  playground: async () => {
    if (!Headlight.createPlayground) showViewer(await inflated('playground.deflate'));
    return Headlight.createPlayground;
  },
  embedded: (name) => JSON.parse(content(`files-${name}`)),
  stored: async (name) => JSON.parse(content(`stored-${name}`)
    ?? await (await part(`models/${name}/stored.json`)).text()),
  parts,
  texts: async (code) => JSON.parse(content(`texts-${code}`) ?? await inflated(`locales/${code}.deflate`)),
}).finally(keepForLater);
if (!globalThis.Headlight) await inflated('viewer.deflate').then(showViewer, () => {});
if (globalThis.Headlight) start();
else document.querySelector('[role=alert]').textContent = 'LOST';
""".replace("LOST", LOST)
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
    look, code = looks(), viewer()
    models = "".join(_group(*group) for group in site["groups"])
    elements = [_data("site", to_json(site)), *(_data(name, to_json(each)) for name, each in data.items())]
    if single:
        elements.append(f'<script type="text/plain" id="engine">{engine()}</script>')
    return DOCUMENT.format(
        **_fixed_parts(look, code, models, single=single),
        look=look,
        code=f"<script>{code}</script>\n<script>{playground()}</script>\n" if single else "",
        data="\n".join(elements),
    )


def documents() -> Mapping[str, object]:
    """Return what the page makes its files of, beside the style and the scripts that it has itself."""
    look, code = looks(), viewer()
    return {
        "file": {"document": FILE, "parts": fixed_parts(look, code)},
        "single": {"document": DOCUMENT, "parts": _fixed_parts(look, code, "{models}", single=True)},
    }


def _fixed_parts(look: str, code: str, models: str, *, single: bool) -> dict[str, str]:
    policy = POLICY.format(
        scripts=f"{element_hash(code)} {element_hash(START)} {element_hash(playground())}",
        style=element_hash(look),
        images="data:" if single else "data: 'self'",
        own="'none'" if single else "'self'",
        worker="blob:" if single else "blob: 'self'",
    )
    return {
        "policy": policy,
        "generator": GENERATOR,
        "icons": '<link rel="icon" href="data:,">' if single else INSTALLABLE,
        "widgets": "\n".join(element(each, models) for each in WIDGETS if each is not VIEWER),
        "viewer": f'<main id="{VIEWER.id}">{VIEWER.content}</main>',
        "start": START,
    }


def looks() -> str:
    """Return the style of the page."""
    sheets = "viewer.css", "panels.css", "learn.css", "playground.css", "page.css", "site.css", "media.css"
    return style(*sheets)


def viewer() -> str:
    """Return the script of the page."""
    return script(SITE)


def engine() -> str:
    """Return the script of the Worker."""
    return script(ENGINE)


def element(widget: Widget, models: str = "") -> str:
    """Return the HTML of a widget; `models` are the options of the list of models."""
    if widget.only == "server":
        return ""
    content = (
        widget.content.replace("></select>", f">{models}</select>") if widget is MODEL else widget.content
    )
    if widget.kind == "button":
        states = (' aria-expanded="false"' if widget.opens else "") + (" disabled" if widget.waits else "")
        quiet = ' class="hl-quiet"' if widget.is_quiet else ""
        action = f' type="button" data-action="{widget.action}"' if widget.action else ""
        return f'<button{action} id="{widget.id}"{quiet}{states}>{html.escape(widget.label)}</button>'
    if widget.kind == "text":
        named = f'aria-label="{widget.label}" placeholder="{widget.hint}" autocomplete="off" readonly'
        content = f'<div class="input-container"><input {named}></div>'
    if widget.kind == "file":
        return f'<button type="button" id="{widget.id}" disabled>{html.escape(widget.label)}</button>'
    if widget.kind == "number":
        low, high, step = widget.range
        bounds = f'min="{low:g}" max="{high:g}" step="{step:g}"'
        content = f'<label>{widget.label} <input type="number" {bounds}></label>'
    tag = "form" if widget.kind == "form" else "div"
    inside = content or "".join(element(part, models) for part in widget.parts)
    return f'<{tag} id="{widget.id}">{inside}</{tag}>'


def _group(heading: str, models: Sequence[tuple[str, str]]) -> str:
    options = "".join(
        f'<option value="{html.escape(name)}">{html.escape(title)}</option>' for name, title in models
    )
    return f'<optgroup label="{html.escape(heading)}">{options}</optgroup>' if heading else options


def _data(name: str, text: str) -> str:
    return f'<script type="application/json" id="{html.escape(name)}">{text}</script>'
