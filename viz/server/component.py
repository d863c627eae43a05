"""The viewer as a Gradio component that asks the scheduler."""

from __future__ import annotations

from typing import Any

import gradio as gr
from starlette.responses import JSONResponse, Response

from viz.server.scheduler import RefusedError, Scheduler
from viz.viewer import head

MOUNT = """
const ask = Headlight.asker(server);
Headlight.provide({ ...Headlight.mount(element.querySelector('.headlight'), { address: true, ask }), ask });
"""


def viewer(scheduler: Scheduler, **arguments: Any) -> gr.HTML:
    """Return a `gr.HTML` that holds the viewer; the viewer asks the server only for what needs the model."""

    async def ask(request: Any) -> Response:
        try:
            return Response(await scheduler.ask(request), media_type="application/json")
        except RefusedError as refusal:
            return JSONResponse({"error": str(refusal)}, 503 if scheduler.is_stopping else 200)

    async def queue_position(request: Any) -> int | None:
        return scheduler.queue_position(request)

    return gr.HTML(
        html_template='<div class="headlight"></div>',
        head=head(),  # without the style sheets, which the page loads first so that nothing is drawn unstyled
        js_on_load=MOUNT,
        apply_default_css=False,
        server_functions=[ask, queue_position],
        **arguments,
    )
