"""Writes the API call that gives what the page shows, as text to paste into Python or a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from viz.server.validation import ExportRequest

Arguments = Mapping[str, object]  # in the order of the endpoint's parameters


def call_of(request: ExportRequest) -> tuple[str, Arguments]:
    """Return the endpoint and the arguments that give this record, or what muting its `heads` changes."""
    options = {
        "model": request.model,
        "beam_size": request.beam_size,
        "length_penalty": request.length_penalty,
    }
    if request.heads:
        heads = [list(head) for head in request.heads]
        about = {"text": request.text, "heads": heads, **options, "forced": request.forced}
        return "mute", about | _baseline_of(request)
    return "attention", {"text": request.text, **options, "forced": request.forced}


def _baseline_of(request: ExportRequest) -> dict[str, object]:
    """What the muted heads give, and in which rows; empty for zero in all rows, the endpoint's default."""
    names = ("baseline", "sample", "other", "row")
    is_usual = request.baseline == "zero" and request.row is None
    return {} if is_usual else {name: getattr(request, name) for name in names}


def python_call(address: str, endpoint: str, arguments: Arguments) -> str:
    """Return the call for `gradio_client`. Every text becomes a string literal, whatever it contains."""
    lines = [f"    {name}={value!r},\n" for name, value in arguments.items()]
    return (
        f"from gradio_client import Client\n\nclient = Client({address!r})\n"
        f"result = client.predict(\n{''.join(lines)}    api_name={'/' + endpoint!r},\n)\n"
    )


def curl_call(address: str, endpoint: str, arguments: Arguments) -> str:
    """Return the call for a POSIX shell, all texts quoted: one request starts it, one reads its events."""
    url = f"{address.rstrip('/')}/gradio_api/call/{endpoint}"
    data = json.dumps({"data": list(arguments.values())}, ensure_ascii=False)
    return (
        f"curl -s {shlex.quote(url)} -H 'Content-Type: application/json' \\\n  -d {shlex.quote(data)} \\\n"
        f"  | cut -d '\"' -f 4 | xargs -I {{}} curl -sN {shlex.quote(url + '/{}')}\n"
    )
