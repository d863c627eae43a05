"""The viewer as a Gradio component."""

from __future__ import annotations

from typing import Any

import gradio as gr

from viz.viewer import head

# The payload arrives as a JSON string in `value`; after that, the viewer asks the server for nothing.
MOUNT = """
const viewer = Headlight.mount(element.querySelector('.headlight'), { address: true });
const show = () => { if (props.value) viewer.show(props.value); };
watch('value', show);
show();
"""


def viewer(**arguments: Any) -> gr.HTML:
    """Return a `gr.HTML` that draws its value, the string that `viz.payload.to_json` makes of a payload."""
    return gr.HTML(
        html_template='<div class="headlight"></div>',
        head=head("viewer.css", "panels.css"),
        js_on_load=MOUNT,
        apply_default_css=False,
        **arguments,
    )
