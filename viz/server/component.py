"""The viewer and the list of models as Gradio components."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any
from urllib.parse import quote

import gradio as gr
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from viz.about import Choices
from viz.export import checksum
from viz.payload import to_json
from viz.server.api import viewer_functions
from viz.server.scheduler import Scheduler
from viz.static.settings import settings
from viz.viewer import catalogues, script, training

MOUNT = """
loading.then(() => {
  const training = async () => {
    if (!Headlight.engine) await Headlight.loadScript(props.training);
    return Headlight;
  };
  const engine = async () => (await training()).engine;
  const playground = async () => (await training()).createPlayground;
  const ask = Headlight.withOwnModels(Headlight.asker(server), engine, props.settings);
  const page = Headlight.createPage(() => trigger('submit'), { playground, engine });
  const options = { address: true, ask, about: props.about, page };
  Headlight.provide(Headlight.mount(element.querySelector('.headlight'), options));
});
"""
# Filled by script, so that no title is read as a template. A group without a name has no heading.
FILL = """
const list = element.firstElementChild;
for (const [group, choices] of props.groups) {
  const options = choices.map(([name, title]) => new Option(title, name));
  const heading = document.createElement('optgroup');
  heading.label = group;
  heading.append(...options);
  list.append(...(group ? [heading] : options));
}
list.disabled = list.length === 0;
const follow = () => { list.value = props.value; };
const choose = () => {
  props.value = list.value;
  trigger('input');
};
list.addEventListener('change', () => list.value !== props.value && choose());
list.addEventListener('choose', choose); // from page.js: a model that was trained further keeps its name
watch('value', follow);
follow();
"""


# viz/viewer/page.js fills it with the lists of the chosen model.
FOLLOW_PREFIX = """
element.firstElementChild.addEventListener('choose', () => trigger('input'));
"""


# Separate files: the browser fetches them at the same time as those of Gradio, and caches them. Of the texts
# it fetches those of one language.
SCRIPTS: dict[str, Callable[[], str]] = {
    "viewer.js": script,
    "training.js": training,
    **{f"{code}.json": partial(to_json, texts) for code, texts in catalogues().items()},
}
FOREVER = "public, max-age=31536000, immutable"  # the address of a script has its checksum


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress(SCRIPTS[name]().encode(), mtime=0)


def script_address(name: str) -> str:
    """Return the address of a script, relative to that of the page."""
    return f"scripts/{name}?{quote(checksum(_compressed(name)), safe='')}"


def language_addresses() -> dict[str, str]:
    """Return the address of the texts of each language but English, by its code."""
    return {code: script_address(f"{code}.json") for code in catalogues()}


async def send_script(request: Request) -> Response:
    """Answer with a script of the page, or with the texts of a language."""
    name = request.path_params["name"]
    if name not in SCRIPTS:
        raise HTTPException(404)
    content, headers = _compressed(name), {"Cache-Control": FOREVER, "Vary": "Accept-Encoding"}
    kind = "text/javascript" if name.endswith(".js") else "application/json"
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(content, 200, headers | {"Content-Encoding": "gzip"}, kind)
    return Response(gzip.decompress(content), 200, headers, kind)


def language_picker(**arguments: Any) -> gr.HTML:
    """Return the list of languages; viz/viewer/page.js fills it before the first translation."""
    return gr.HTML(
        html_template='<select aria-label="Language"></select>',
        apply_default_css=False,
        **arguments,
    )


def picker(groups: Sequence[tuple[str, Choices]], value: str, **arguments: Any) -> gr.HTML:
    """Return a list of models, (name, title) each, in groups with a heading.

    It is the browser's own: Gradio's list reports a choice whenever it is left.
    """
    return gr.HTML(
        value,
        html_template='<select aria-label="Model"></select>',
        js_on_load=FILL,
        apply_default_css=False,
        groups=groups,
        **arguments,
    )


def prefix_lists(**arguments: Any) -> gr.HTML:
    """Return the place of the lists of languages or prompts, which is empty for a model that has none."""
    return gr.HTML(
        html_template="<div class='hl-prefix'></div>",
        js_on_load=FOLLOW_PREFIX,
        apply_default_css=False,
        **arguments,
    )


def viewer(scheduler: Scheduler, about: Mapping[str, Any], **arguments: Any) -> gr.HTML:
    """Return a `gr.HTML` that holds the viewer; the viewer asks the server only for what needs the model.

    `about` has what is known of each model, by its name; see `viz.about`.
    Its `submit` event says that the page's address asks for another translation.
    """
    return gr.HTML(
        html_template='<div class="headlight"></div>',
        js_on_load=MOUNT,
        apply_default_css=False,
        server_functions=viewer_functions(scheduler),
        about=about,
        settings=settings(),
        training=script_address("training.js"),
        **arguments,
    )
