"""The viewer as a Gradio component."""

from __future__ import annotations

from typing import Any

import gradio as gr
from starlette.responses import Response

from viz.server.scheduler import Lanes
from viz.viewer import head

# Asks the server only for what needs the model.
MOUNT = """
const ask = Headlight.asker(server);
Headlight.provide({ ...Headlight.mount(element.querySelector('.headlight'), { address: true, ask }), ask });
"""


def viewer(lanes: Lanes, **arguments: Any) -> gr.HTML:
    """Return a `gr.HTML` that holds the viewer, which asks the `lanes`."""

    async def ask(request: Any) -> Response:
        return Response(await lanes.ask(request), media_type="application/json")

    async def place(request: Any) -> int | None:
        return lanes.place(request)

    return gr.HTML(
        html_template='<div class="headlight"></div>',
        head=head(),  # the page has the style from its start, so that nothing is drawn without it
        js_on_load=MOUNT,
        apply_default_css=False,
        server_functions=[ask, place],
        **arguments,
    )
