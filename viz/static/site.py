"""Writes the page that needs no server into a folder: the document, the engine and the models' files."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model import Translator
from model.decoding.search import PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY
from model.errors import UserError
from model.inputs import language
from model.storage.checkpoint import CONFIG, JOINT, SOURCE, TARGET, WEIGHTS
from model.storage.probes import PROBES
from model.storage.training_log import METRICS
from viz.about import is_imported
from viz.payload import encode, to_json
from viz.static.document import document, engine
from viz.static.settings import settings
from viz.viewer import HERE as VIEWER

NEEDED = (CONFIG, WEIGHTS, JOINT, SOURCE, TARGET)  # to translate; a model has one or two tokenizers
OF_TRAINING = (PROBES, METRICS)  # fetched when the panel Training is opened
MOST = {"beam": PAGE_MAX_BEAM, "penalty": PAGE_MAX_LENGTH_PENALTY}
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
    translators: Sequence[Translator],
    folder: Path,
    examples: dict[str, list[str]],
    captions: dict[str, Any],
    *,
    single: bool = False,
) -> None:
    """Write the page with these models, the first one opened first; `single` makes one file, headlight.html.

    A former page in the folder is replaced. Raises UserError if the folder has other files.
    """
    _clear(folder)
    names = [translator.name for translator in translators]
    site = {
        "models": {
            translator.name: identity_of(translator) | _files(translator) for translator in translators
        },
        "examples": {name: examples[name] for name in names if name in examples},
        "captions": {name: captions[name] for name in names if name in captions},
        "first": names[0],
        "most": MOST,
        "settings": settings(),
    }
    stored = {
        f"example-{each.name}": _example(each, examples) for each in translators if each.name in examples
    }
    if single:
        contents = {f"files-{each.name}": _contents(each) for each in translators}
        page = document(site, stored | contents, single=True)
        (folder / "headlight.html").write_text(page, "utf-8")
        return
    first = f"example-{names[0]}"
    inside = {first: stored[first]} if first in stored else {}
    (folder / "index.html").write_text(document(site, inside, single=False), "utf-8")
    (folder / "engine.js").write_text(engine(), "utf-8")
    shutil.copy(VIEWER / "offline.js", folder)
    (folder / "README.md").write_text(CARD, "utf-8")
    for translator in translators:
        _copy(translator, folder / "models" / translator.name, stored.get(f"example-{translator.name}"))


def portable(translator: Translator, payload: dict[str, Any]) -> str:
    """Return a page with this translation and its model, which goes on translating without a connection."""
    name = translator.name
    site = {
        "models": {name: identity_of(translator) | _files(translator)},
        "examples": {name: [payload["source_text"]]},
        "captions": {},
        "first": name,
        "most": MOST,
        "settings": settings(),
    }
    data = {f"example-{name}": payload, f"files-{name}": _contents(translator)}
    return document(site, data, single=True)


def identity_of(translator: Translator) -> dict[str, Any]:
    """Return what the page says about a model, and its name in requests."""
    info = translator.checkpoint.info
    return {
        "name": translator.name,
        "title": translator.title,
        "source": info.source_language,
        "target": info.target_language,
        "language": language(info),  # that the model reads
    }


def model_files(translator: Translator) -> list[Path]:
    """Return the files that the engine reads."""
    if is_imported(translator):
        raise UserError(
            f"{translator.name} was imported; only models that were trained here can run in the browser. "
            "Leave it out."
        )
    directory = translator.directory
    if directory is None:
        raise UserError(f"The model {translator.name} was not read from files; save it first.")
    return [path for name in (*NEEDED, *OF_TRAINING) if (path := directory / name).is_file()]


def _files(translator: Translator) -> dict[str, Any]:
    """The size and the checksum of each file, and the size of all that a translation needs."""
    files = {path.name: path.read_bytes() for path in model_files(translator)}
    return {
        "files": {
            name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
        },
        "size": sum(len(content) for name, content in files.items() if name in NEEDED),
    }


def _contents(translator: Translator) -> dict[str, str]:
    return {path.name: base64.b64encode(path.read_bytes()).decode() for path in model_files(translator)}


def _example(translator: Translator, examples: dict[str, list[str]]) -> dict[str, Any]:
    """The payload of the model's first example."""
    translation = translator.translate(examples[translator.name][0])
    return encode(translation, translator.name, translator.title)


def _copy(translator: Translator, folder: Path, example: dict[str, Any] | None) -> None:
    folder.mkdir(parents=True)
    for path in model_files(translator):
        shutil.copy(path, folder)
    if example is not None:
        (folder / "example.json").write_text(to_json(example), "utf-8")


def _clear(folder: Path) -> None:
    """Remove a former page. Raises UserError if the folder has anything else."""
    ours = {"index.html", "engine.js", "offline.js", "README.md", "headlight.html", "models"}
    if folder.exists():
        if others := sorted({path.name for path in folder.iterdir()} - ours):
            raise UserError(f"{folder} has {others[0]}, which is not of this page; name an empty folder.")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
