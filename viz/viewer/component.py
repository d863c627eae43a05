"""The viewer as a Gradio component."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from typing import Any

import anyio
import gradio as gr
from starlette.responses import Response

from viz.payload import to_json
from viz.viewer import head

Ask = Callable[[object], dict[str, Any]]

# The payload arrives as a JSON string in `value`; the server is asked only for what needs the model.
MOUNT = """
const ask = async (request) => {
  // Gradio answers nothing at all when the server cannot be reached.
  const { answer, error } = (await server.ask(request)) ?? {
    error: 'The server does not answer. Check that it is running, then try again.',
  };
  if (error) throw new Error(error);
  return answer;
};
const viewer = Headlight.mount(element.querySelector('.headlight'), { address: true, ask });
Headlight.viewer = { ...viewer, ask }; // for the page's own widgets
const show = () => { if (props.value) viewer.show(props.value); };
watch('value', show);
show();
"""
QUICK_AT_ONCE, SLOW_AT_ONCE = 2, 1
MAX_WAITING = 64
BUSY = "Many people are asking at once; try again in a moment."


def viewer(ask: Ask, slow: Container[str], **arguments: Any) -> gr.HTML:
    """Return a `gr.HTML` that draws its value, the string that `viz.payload.to_json` makes of a payload.

    `ask` answers the viewer's requests; `slow` names those, by their field `do`, that keep others waiting.
    """
    return gr.HTML(
        html_template='<div class="headlight"></div>',
        head=head(),  # the page has the style from its start, so that nothing is drawn without it
        js_on_load=MOUNT,
        apply_default_css=False,
        server_functions=[_served(ask, slow)],
        **arguments,
    )


def _served(answer: Ask, slow: Container[str]) -> Callable[[Any], Awaitable[Response]]:
    """Run `answer` beside the event loop in one of two lanes, so that slow work never delays quick work."""
    lanes = {False: anyio.CapacityLimiter(QUICK_AT_ONCE), True: anyio.CapacityLimiter(SLOW_AT_ONCE)}

    async def ask(request: Any) -> Response:
        do = request.get("do") if isinstance(request, dict) else None
        lane = lanes[isinstance(do, str) and do in slow]
        if lane.statistics().tasks_waiting >= MAX_WAITING:
            return _json(to_json({"error": BUSY}))
        # To text in the thread too: Gradio would walk through the answer's numbers inside the event loop.
        return _json(await anyio.to_thread.run_sync(lambda: to_json(answer(request)), limiter=lane))

    return ask


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")
