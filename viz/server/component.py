"""The widgets of viz/widgets.py as Gradio components, and the scripts of the page."""

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
from viz.widgets import EXAMPLES, MESSAGE, MODEL, PREFIX, SENTENCE, TRANSLATE, VIEWER, Widget

PRIVATE: dict[str, Any] = {"api_visibility": "private"}

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


# Separate files: the browser fetches them at the same time as Gradio's files, and caches them. Of the texts
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
    """Return the address of a script, relative to the page's address."""
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


def components(group: Sequence[Widget], own: Mapping[Widget, Callable[[], Any]]) -> dict[Widget, Any]:
    """Return Gradio's components of these widgets, in their order; `own` makes those that need more."""
    made: dict[Widget, Any] = {}
    for widget in group:
        if widget.only == "static":
            continue
        if widget in own:
            made[widget] = own[widget]()
        elif widget.parts:
            with gr.Column(elem_id=widget.id) if widget.kind == "column" else gr.Row(elem_id=widget.id):
                made |= components(widget.parts, own)
        else:
            made[widget] = MAKE[widget.kind](widget)
    return made


def place(widget: Widget, value: str | None = None, content: str | None = None, **arguments: Any) -> gr.HTML:
    """Return the place of a widget, which scripts fill."""
    template = widget.content if content is None else content
    return gr.HTML(value, html_template=template, elem_id=widget.id, apply_default_css=False, **arguments)


def button(widget: Widget) -> gr.Button:
    """Return a button, which calls the function of viz/viewer/page.js that the widget names."""
    made = gr.Button(
        widget.label,
        elem_id=widget.id or None,
        elem_classes="hl-quiet" if widget.is_quiet else None,
        size="sm" if widget.is_quiet or not widget.id else "lg",
        interactive=not widget.waits,
    )
    if widget.action and not widget.waits:
        made.click(None, js=f"() => Headlight.{widget.action}()", **PRIVATE)
    return made


def translate_button(interactive: bool) -> gr.Button:
    """Return the button that translates, which needs a model."""
    return gr.Button(TRANSLATE.label, variant="primary", elem_id=TRANSLATE.id, interactive=interactive)


def sentence_box(value: str) -> gr.Textbox:
    """Return the box of the sentence."""
    return gr.Textbox(
        value,
        label=SENTENCE.label,
        show_label=False,
        container=False,
        placeholder=SENTENCE.hint,
        max_lines=1,
        elem_id=SENTENCE.id,
    )


def message(value: str) -> gr.HTML:
    """Return the place of messages; `value` is the HTML of the first one."""
    return place(MESSAGE, value, MESSAGE.content.replace("></", ">${value}</"))


def example_buttons(examples: Sequence[str], number: int) -> list[gr.Button]:
    """Return the buttons of the examples; those without one are not visible."""
    padded = [*examples, *[""] * (number - len(examples))]
    with gr.Row(elem_id=EXAMPLES.id):
        return [gr.Button(sentence, visible=sentence != "", size="sm") for sentence in padded]


def _slider(widget: Widget) -> gr.Slider:
    low, high, step = widget.range
    return gr.Slider(
        low, high, widget.value, step=step, label=widget.label, info=widget.hint, elem_id=widget.id
    )


def _file(widget: Widget) -> gr.DownloadButton:
    return gr.DownloadButton(widget.label, size="sm", interactive=False)


MAKE: dict[str, Callable[[Widget], Any]] = {
    "place": place,
    "button": button,
    "number": _slider,
    "file": _file,
}


def picker(groups: Sequence[tuple[str, Choices]], value: str) -> gr.HTML:
    """Return a list of models, (name, title) each, in groups with a heading.

    It is the browser's own: Gradio's list reports a choice whenever it is left.
    """
    return place(MODEL, value, js_on_load=FILL, groups=groups)


def prefix_lists() -> gr.HTML:
    """Return the place of the lists of languages or prompts, which is empty for a model that has none."""
    return place(PREFIX, js_on_load=FOLLOW_PREFIX)


def viewer(scheduler: Scheduler, about: Mapping[str, Any]) -> gr.HTML:
    """Return a `gr.HTML` that holds the viewer; the viewer asks the server only for what needs the model.

    `about` has what is known of each model, by its name; see `viz.about`.
    Its `submit` event says that the page's address asks for another translation.
    """
    return place(
        VIEWER,
        js_on_load=MOUNT,
        server_functions=viewer_functions(scheduler),
        about=about,
        settings=settings(),
        training=script_address("training.js"),
    )
