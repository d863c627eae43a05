"""The viewer and the list of models as Gradio components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from viz.about import Choices
from viz.server.api import viewer_functions
from viz.server.scheduler import Scheduler
from viz.static.settings import settings
from viz.viewer import head

MOUNT = """
const ask = Headlight.withOwnModels(Headlight.asker(server), Headlight.engine, props.settings);
const playground = { playground: async () => Headlight.createPlayground, engine: Headlight.engine };
const page = Headlight.createPage(() => trigger('submit'), playground);
const options = { address: true, ask, about: props.about, page };
Headlight.provide(Headlight.mount(element.querySelector('.headlight'), options));
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
list.addEventListener('change', () => {
  if (list.value === props.value) return;
  props.value = list.value;
  trigger('input');
});
watch('value', follow);
follow();
"""


# viz/viewer/page.js fills it with the languages of the chosen model.
TAKE_TARGET = """
const list = element.firstElementChild;
list.addEventListener('change', () => {
  Headlight.takeTarget(list.value);
  trigger('input');
});
"""


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


def target_picker(**arguments: Any) -> gr.HTML:
    """Return the list of target languages, which is hidden for a model that has only one."""
    return gr.HTML(
        html_template='<select aria-label="Target language" hidden></select>',
        js_on_load=TAKE_TARGET,
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
        head=head(),  # without the style sheets, which the page loads first so that nothing is drawn unstyled
        js_on_load=MOUNT,
        apply_default_css=False,
        server_functions=viewer_functions(scheduler),
        about=about,
        settings=settings(),
        **arguments,
    )
