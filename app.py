"""Builds and serves Headlight's page: makes its widgets and connects them.

The model is in `model`, the drawing and the server in `viz`.
"""

from __future__ import annotations

import html
import json
import logging
import os
import sys
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from model import Translator  # isort: skip  # before gradio: model/storage/tempdir.py says why
from viz.server import port as port_setting  # isort: skip  # before gradio: it says why
import gradio as gr
import tyro
from gradio.events import api

from model.decoding.kernels.compilation import COMPILATION
from model.errors import UserError, quote_untrusted
from model.storage.checkpoint import FIRST_MODEL
from model.storage.checkpoint import load as read_checkpoint
from model.storage.run import models_and_runs
from viz import widgets
from viz.about import about_models, examples_of_models, page_values
from viz.export import GENERATOR
from viz.server.api import Api, Calls
from viz.server.backend import Backend
from viz.server.component import (
    PRIVATE,
    components,
    example_buttons,
    language_addresses,
    message,
    picker,
    place,
    prefix_lists,
    script_address,
    sentence_box,
    translate_button,
    viewer,
)
from viz.server.connections import Access
from viz.server.lifecycle import Service, listen
from viz.server.logs import configure_logging
from viz.server.scheduler import Scheduler
from viz.viewer import style
from viz.widgets import Widget

HERE = Path(__file__).parent
ASSETS = HERE / "assets"
STYLES = ("viewer.css", "panels.css", "learn.css", "playground.css", "page.css", "media.css")
MODELS = ASSETS / "models"
EXAMPLES: dict[str, list[str]] = json.loads((ASSETS / "examples.json").read_text("utf-8"))
NO_MODELS = (
    "There is no model yet. Train a small one in a few minutes with "
    "<code>python -m training train reverse-words-small --data DIR</code>, where DIR holds a word list, copy "
    "<code>runs/reverse-words-small/best</code> to <code>assets/models/reverse</code>, then start this page "
    "again."
)
OPEN = (
    "Everyone who reaches %s can use this page, which is meant for people you know; for the open internet "
    "put nginx in front of it (docs/deployment.md) and name it with --trusted-proxy."
)
# `Headlight` once its script is there; Gradio may call the functions of its widgets before.
LOAD_VIEWER = """globalThis.loading = new Promise((resolve) => {
  const sentence = '%s';
  const onload = async () => {
    await Headlight.useLanguages(%s);
    resolve(Headlight);
  };
  const onerror = () =>
    document.body ? document.body.prepend(sentence) : addEventListener('DOMContentLoaded', onerror);
  document.head.append(Object.assign(document.createElement('script'), { src: '%s', onload, onerror }));
});"""
# What happens in the browser; the functions are in viz/viewer/page.js.
TRANSLATE = "async (...inputs) => (await loading).translate(...inputs)"
CHOOSE_MODEL = "(...inputs) => Headlight.chooseModel(...inputs)"
OPEN_EXPORT = "() => Headlight.toggleExportOfFiles()"
EXPORT = "() => Headlight.exportRecord()"
EXPORT_WITH_MODEL = "() => Headlight.exportWithModel()"
TAKE_EXAMPLE = "(text) => text"

# Without an icon in the page, the browser asks for one whenever the address changes.
ICON = (
    '<link rel="icon" href="data:image/svg+xml,'
    "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='8' cy='8' r='7' fill='%23f0a830'/%3E%3C/svg%3E\">"
)
logger = logging.getLogger("headlight")


def load(folder: Path) -> tuple[dict[str, Translator], list[str]]:
    """Load every model of a folder; return the translators and one sentence for each that failed."""
    translators: dict[str, Translator] = {}
    problems = [] if folder.is_dir() else [f"There is no folder {folder}; check --models."]
    for name, path in models_and_runs(folder).items():
        if not name.isprintable():  # such a name would break or hide part of every message
            quoted = quote_untrusted(name)
            problems.append(f"{quoted} is left out; rename its directory without invisible characters.")
            continue
        try:
            translators[name] = Translator(read_checkpoint(path), name, directory=path)
        except UserError as error:
            # Every visitor sees this sentence, so it must not contain the path on this machine.
            problems.append(f"{name} is left out: {str(error).replace(str(path), name)}")
    return translators, problems


def create(
    translators: Mapping[str, Translator], problems: Sequence[str] = (), access: Access | None = None
) -> Service:
    """Return the page and its API, ready to be launched."""
    backend = Backend(translators)
    examples = {sentence for each in EXAMPLES.values() for sentence in each}
    scheduler = Scheduler(backend.answer, estimate=backend.estimate_seconds, examples=examples)
    page = build(translators, scheduler, problems)
    calls = Calls(Api(scheduler), {number: str(function.api_name) for number, function in page.fns.items()})
    loader = LOAD_VIEWER % (widgets.LOST, json.dumps(language_addresses()), script_address("viewer.js"))
    head = f"{GENERATOR}{ICON}<style>\n{style(*STYLES)}</style><script>{loader}</script>"
    look = {"head": head, "opening": f'<div id="hl-opening" aria-hidden="true">{widgets.BRAND.content}</div>'}
    return Service(page, scheduler, calls, list(translators), look, access)


def build(
    translators: Mapping[str, Translator], scheduler: Scheduler, problems: Sequence[str] = ()
) -> gr.Blocks:
    """Return the page."""
    first = FIRST_MODEL if FIRST_MODEL in translators else next(iter(translators), "")
    site = page_values(translators, first, examples_of_models(translators, EXAMPLES))
    offered = site["examples"].get(first, [])[: site["buttons"]]
    with gr.Blocks(title="Headlight", analytics_enabled=False) as page:
        made = components(
            widgets.WIDGETS,
            {
                widgets.MODEL: lambda: picker(site["groups"], first),
                widgets.SENTENCE: lambda: sentence_box(next(iter(offered), "")),
                widgets.PREFIX: prefix_lists,
                widgets.TRANSLATE: lambda: translate_button(interactive=bool(translators)),
                widgets.PROBLEMS: lambda: _problems(problems),
                widgets.MESSAGE: lambda: message("" if translators else NO_MODELS),
                widgets.EXAMPLES: lambda: example_buttons(offered, site["buttons"]),
                widgets.VIEWER: lambda: viewer(scheduler, about_models(translators, ASSETS)),
            },
        )
        if translators:
            _connect_translation(page, made, site)
            _connect_export(made)
        for endpoint in Api(scheduler).endpoints:  # so that Gradio describes them; `Calls` answers them
            api(endpoint, api_name=endpoint.__name__)
    return page


def _problems(problems: Sequence[str]) -> gr.HTML | None:
    """What was left out when the models were loaded, in a paragraph each."""
    paragraphs = "".join(f"<p>{html.escape(problem)}</p>" for problem in problems)
    return place(widgets.PROBLEMS, content=paragraphs) if problems else None


def _connect_translation(page: gr.Blocks, made: Mapping[Widget, Any], site: Mapping[str, Any]) -> None:
    """Translate on arrival, on another link, on the buttons, on an example and on a new model."""
    inputs = [made[each] for each in (widgets.SENTENCE, widgets.MODEL, widgets.BEAM, widgets.PENALTY)]
    sentence, model, *_ = inputs
    examples = made[widgets.EXAMPLES]
    opened = {"outputs": [*inputs, *examples], "js": _read_address(site)} | PRIVATE
    openings = [event(None, None, **opened) for event in (page.load, made[widgets.VIEWER].submit)]
    chosen = [example.click(None, example, sentence, js=TAKE_EXAMPLE, **PRIVATE) for example in examples]
    switched = model.input(None, [sentence, model], [sentence, *examples], js=CHOOSE_MODEL, **PRIVATE)
    triggers = (made[widgets.TRANSLATE].click, sentence.submit, made[widgets.PREFIX].input)
    done = (event.then for event in (*openings, switched, *chosen))
    outputs = [made[widgets.MESSAGE], made[widgets.EXPORT]]
    for trigger in (*triggers, *done):
        trigger(None, inputs, outputs, js=TRANSLATE, **PRIVATE)


def _connect_export(made: Mapping[Widget, Any]) -> None:
    """Fill the menu Export when it is opened."""
    files = [made[each] for each in widgets.FILES]
    told, with_model = made[widgets.MESSAGE], made[widgets.WITH_MODEL]
    outputs = [told, *files, with_model]
    opened = made[widgets.EXPORT].click(None, None, outputs, js=OPEN_EXPORT, **PRIVATE)
    opened.then(None, None, outputs, js=EXPORT, **PRIVATE)
    with_model.click(None, None, told, js=EXPORT_WITH_MODEL, **PRIVATE)


def _read_address(site: Mapping[str, Any]) -> str:
    """The call that replaces the page's inputs by the values of its link, as far as they are valid."""
    return f"async () => (await loading).takeAddress({json.dumps(site)})"


def main(
    host: str | None = None,
    port: int | None = None,
    models: Path = MODELS,
    allow_origin: tuple[str, ...] = (),
    allow_host: tuple[str, ...] = (),
    trusted_proxy: tuple[str, ...] = (),
    open_page: Annotated[bool, tyro.conf.arg(name="open")] = False,
) -> None:
    """Serve Headlight's page.

    Args:
        host: address to listen on; 127.0.0.1 unless GRADIO_SERVER_NAME says otherwise.
        port: port to listen on; 7860 unless GRADIO_SERVER_PORT says otherwise.
        models: the folder that holds the model directories.
        allow_origin: other sites, as in https://school.example, that may call the API and show the page in
            a frame.
        allow_host: further names, as in school.example, under which browsers open the page.
        trusted_proxy: addresses or networks of reverse proxies, as in 127.0.0.1, whose X-Forwarded headers
            are believed.
        open_page: open the page in the browser once the server answers.
    """
    configure_logging()
    host = host or os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1")
    try:
        port = port_setting.port() if port is None else port
        access = Access(allow_origin, allow_host, trusted_proxy)
        access.check()
        listener = listen(host, port)  # before the models, whose loading takes seconds
    except UserError as error:
        sys.exit(str(error))
    translators, problems = load(models)
    for problem in problems:
        logger.warning(problem)
    if access.is_open(host):
        logger.warning(OPEN, host)
    service = create(translators, problems, access)
    service.install_signal_handlers()
    address = service.launch(listener)
    COMPILATION.begin()  # not before: to load the kernels would slow the launch
    print(f"Headlight: http://{host}:{port}", flush=True)
    if open_page:
        open_in_browser(address)
    service.run()


def open_in_browser(address: str) -> None:
    """Open the page on this machine; a server on all addresses is at the local one too."""
    local = address.replace("//0.0.0.0", "//127.0.0.1").replace("//[::]", "//[::1]")
    if not webbrowser.open(local):
        logger.warning("There is no browser to open; open %s yourself.", local)


if __name__ == "__main__":
    tyro.cli(main)
