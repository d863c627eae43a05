"""Writes the page that needs no server into a folder: the document, the engine and the models' files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

from model import Translator
from model.decoding.options import PAGE_BEAM
from model.errors import UserError
from model.files import read_json
from model.notices import language
from model.text.languages import TARGET_CODE, join_prefix
from viz.about import (
    NEEDED,
    about_models,
    examples_of_models,
    model_files,
    no_training,
    page_values,
    prefix_choices,
    read_model_file,
)
from viz.export import checksum
from viz.payload import Payload, encode, to_json
from viz.static.document import MANIFEST, document, documents, engine, viewer
from viz.static.settings import settings
from viz.static.supported import check_supported
from viz.viewer import ENGLISH, catalogues, playground

HERE = Path(__file__).parent
INDEX, SINGLE = "index.html", "headlight.html"  # the document of a page of many files, and of one
WORKER = "offline.js"
ICONS = {  # name: (pixels, whether the system cuts it to a shape)
    "icon-192.png": (192, False),
    "icon-512.png": (512, False),
    "icon-maskable-512.png": (512, True),
}
_SITE = re.compile(
    r'<body class="headlight-site">.*<script type="application/json" id="site">(.*?)</script>', re.DOTALL
)
CARD = """---
title: Headlight
emoji: 🔦
colorFrom: yellow
colorTo: gray
sdk: static
app_file: index.html
license: apache-2.0
short_description: Every attention head of a Transformer, in the browser
---

The page of Headlight that needs no server: the models run in the visitor's browser.
"""


def write_site(
    translators: Sequence[Translator], folder: Path, assets: Path, *, single: bool = False
) -> None:
    """Write the page with these models, the first one opened first; `single` makes one file, headlight.html.

    The folder `assets` has examples and studies. A former page in `folder` is replaced. Raises
    UserError if that folder has other files, if it has one of the models or lies within one, or if the engine
    in the browser cannot run a model.
    """
    for each in translators:
        if each.directory is not None:
            check_apart(folder, each.directory)
        check_supported(each)
    examples = read_json(assets / "examples.json")
    named = {each.name: each for each in translators}
    sentences = examples_of_models(named, examples)
    stored = {name: _first_example(named[name], texts[0]) for name, texts in sentences.items() if texts}
    site = {**page_values(named, translators[0].name, sentences), **_site(named, stored, assets)}
    if single:
        inside = _inside(translators, stored) | _texts(catalogues())
        page = document(site | {"files": [SINGLE]}, inside, single=True)
        _replace(folder, {SINGLE: page.encode()})
        return
    first = _inside([], {name: each for name, each in stored.items() if name == site["first"]})
    own = _parts()
    parts = own | {f"models/{name}/stored.json": to_json(each).encode() for name, each in stored.items()}
    files = {**parts, **_for_the_host(), **_files_of_models(translators)}
    site |= {"parts": {name: checksum(content) for name, content in parts.items()}}
    site |= {"files": [INDEX, WORKER, *files]}
    index = document(site, first, single=False).encode()
    _replace(folder, {**files, INDEX: index, WORKER: _worker(index, own)})


def check_apart(folder: Path, models: Path) -> None:
    """Raise UserError if the folder has these models or lies among them, where a page does not belong."""
    one, other = folder.resolve(), models.resolve()
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise UserError(f"{folder} overlaps {models}, which has models; name another folder.")


def portable(translator: Translator, payload: Payload, view: str = "", language: str = ENGLISH) -> str:
    """Return a page with this translation and its model, which goes on translating without a connection.

    `payload` is the model's own translation, without given tokens. `view` is the address of the view to open,
    `language` the code of the language that the page speaks; it holds that one and English.
    """
    check_supported(translator)
    stored = {translator.name: _untimed(payload)}
    named = {translator.name: translator}
    page = page_values(named, translator.name, {translator.name: [payload["source_text"]]})
    languages = [language] if language in catalogues() else []
    own = {"view": view or _address_of(payload), "locales": languages, "locale": language}
    site = {**page, **_site(named, stored), **own}
    return document(site, _inside([translator], stored) | _texts(languages), single=True)


def _site(
    translators: Mapping[str, Translator], stored: Mapping[str, Payload], assets: Path | None = None
) -> dict[str, object]:
    """What only this page knows of its models; `stored` are the payloads that it has from the start."""
    return {
        "about": about_models(translators, assets),
        "models": {name: identity_of(each) | _files(each) for name, each in translators.items()},
        "stored": {name: _task_of(each) for name, each in stored.items()},
        "settings": settings(),
        "locales": list(catalogues()),
    }


def _inside(
    translators: Sequence[Translator], stored: Mapping[str, Payload]
) -> dict[str, Mapping[str, object]]:
    """What the document holds by the ids of its elements: the files of models, and stored payloads."""
    return {
        **({"documents": documents()} if translators else {}),
        **{f"files-{each.name}": _contents(each) for each in translators},
        **{f"stored-{name}": payload for name, payload in stored.items()},
    }


def _texts(languages: Iterable[str]) -> dict[str, Mapping[str, object]]:
    """The catalogues that the document holds, by the ids of their elements."""
    return {f"texts-{code}": catalogues()[code] for code in languages}


def _parts() -> dict[str, bytes]:
    """The files that the document fetches, compressed, because few hosts compress what they send."""
    return {
        "viewer.deflate": _deflated(viewer()),
        "engine.deflate": _deflated(engine()),
        "playground.deflate": _deflated(playground()),
        "documents.deflate": _deflated(to_json(documents())),
        **{f"locales/{code}.deflate": _deflated(to_json(texts)) for code, texts in catalogues().items()},
    }


def _for_the_host() -> dict[str, bytes]:
    """The card of a Space, and what a browser needs to install the page as an app."""
    icons = {name: (HERE / "icons" / name).read_bytes() for name in ICONS}
    return {
        "README.md": CARD.encode(),
        MANIFEST: to_json(_manifest()).encode(),
        **icons,
    }


def _worker(index: bytes, parts: Mapping[str, bytes]) -> bytes:
    """The service worker, which keeps the document and its parts, but not what the engine keeps."""
    sums = {name: checksum(content) for name, content in parts.items()}
    addresses = {f"{name}?{quote(each, safe='')}": each for name, each in sums.items()}
    kept = [("./", checksum(index)), *addresses.items()]
    code = (HERE / WORKER).read_text("utf-8")
    return code.replace("const FILES = [];", f"const FILES = {json.dumps(kept)};").encode()


def _manifest() -> Mapping[str, object]:
    """The web app manifest (W3C)."""
    return {
        "name": "Headlight",
        "description": "Every attention head of a Transformer while it translates",
        "start_url": "./",
        "id": "./",
        "scope": "./",
        "display": "standalone",
        "background_color": "#fbfaf8",
        "theme_color": "#fbfaf8",
        "icons": [
            {
                "src": name,
                "sizes": f"{size}x{size}",
                "type": "image/png",
                "purpose": "maskable" if maskable else "any",
            }
            for name, (size, maskable) in ICONS.items()
        ],
    }


def _deflated(text: str) -> bytes:
    return zlib.compress(text.encode(), 9)


def _task_of(payload: Payload) -> Mapping[str, object]:
    """What a request for this translation says besides the model."""
    prefix = {"language_prefix": payload["language_prefix"]} if payload["language_prefix"] else {}
    return {"text": payload["source_text"], **payload["options"], **prefix}


def _address_of(payload: Payload) -> str:
    """The address of a translation, as viz/viewer/state/permalink.js writes it."""
    options = payload["options"]
    task = {"model": payload["model"]["name"], "text": payload["source_text"]}
    if prefix := payload["language_prefix"]:
        task["to"] = ",".join(each[2:-2] for each in TARGET_CODE.findall(prefix)) or prefix
    return f"#{urlencode(task | {'beam': options['beam_size'], 'alpha': options['length_penalty']})}"


def identity_of(translator: Translator) -> dict[str, object]:
    """Return what the page says about a model, and its name in requests."""
    info = translator.checkpoint.info
    return {
        "name": translator.name,
        "title": translator.title,
        "source": info.source_language,
        "target": info.target_language,
        "language": language(info),  # that the model reads
        "codes": info.target_languages,
        "prompts": info.prompts,
        "no_training": no_training(translator),
    }


def _files(translator: Translator) -> dict[str, object]:
    """The size and the checksum of each file, and the size of all that a translation needs."""
    files = {path.name: read_model_file(path) for path in model_files(translator)}
    return {
        "files": {
            name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
        },
        "size": sum(len(content) for name, content in files.items() if name in NEEDED),
    }


def _contents(translator: Translator) -> dict[str, str]:
    return {path.name: base64.b64encode(read_model_file(path)).decode() for path in model_files(translator)}


def _first_example(translator: Translator, text: str) -> Payload:
    """The payload of the model's first example, after what a new page begins with."""
    prefix = prefix_choices(translator).get("usual", "")
    translation = translator.translate(join_prefix(prefix, text), PAGE_BEAM)
    return _untimed(encode(translation, translator.name, translator.title))


def _untimed(payload: Payload) -> Payload:
    """The payload without times, which differ from run to run and are not the visitor's."""
    return {**payload, "timings": {}}


def _files_of_models(translators: Sequence[Translator]) -> dict[str, bytes]:
    return {
        f"models/{each.name}/{path.name}": read_model_file(path)
        for each in translators
        for path in model_files(each)
    }


def _replace(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write these files in place of a former page. Raises UserError if the folder has anything else."""
    if folder.exists():
        found = {path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
        if others := sorted({path.relative_to(folder).as_posix() for path in found} - _former(folder)):
            raise UserError(f"{folder} has {others[0]}, which is not of this page; name an empty folder.")
        shutil.rmtree(folder)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _former(folder: Path) -> set[str]:
    """The files of the former page in this folder, which its document names."""
    for page in (folder / INDEX, folder / SINGLE):
        if page.is_file() and (found := _SITE.search(page.read_text("utf-8", errors="replace"))):
            return set(json.loads(found[1]).get("files", ()))
    return set()
