"""The API call that gives what the page shows, as text to paste: Python or a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from model.results import Head
from viz.server.handlers import Question

Arguments = Mapping[str, Any]  # in the order of the endpoint's parameters


def call_of(question: Question, prefix: list[int], heads: tuple[Head, ...]) -> tuple[str, dict[str, Any]]:
    """Return the endpoint and the arguments that give this record, or what muting `heads` does to it."""
    options = {
        "model": question.model,
        "beam_size": question.beam_size,
        "length_penalty": question.length_penalty,
    }
    if heads:
        return "mute", {"text": question.text, "heads": [list(head) for head in heads], **options}
    return "attention", {"text": question.text, **options, "prefix": prefix}


def python_call(address: str, endpoint: str, arguments: Arguments) -> str:
    """Return the call for `gradio_client`. Whatever the texts hold, they stay string literals."""
    lines = [f"    {name}={value!r},\n" for name, value in arguments.items()]
    return (
        f"from gradio_client import Client\n\nclient = Client({address!r})\n"
        f"result = client.predict(\n{''.join(lines)}    api_name={'/' + endpoint!r},\n)\n"
    )


def curl_call(address: str, endpoint: str, arguments: Arguments) -> str:
    """Return the call for a POSIX shell: one request starts it, one reads its events. All text is quoted."""
    url = f"{address.rstrip('/')}/gradio_api/call/{endpoint}"
    data = json.dumps({"data": list(arguments.values())}, ensure_ascii=False)
    return (
        f"curl -s {shlex.quote(url)} -H 'Content-Type: application/json' \\\n  -d {shlex.quote(data)} \\\n"
        f"  | cut -d '\"' -f 4 | xargs -I {{}} curl -sN {shlex.quote(url + '/{}')}\n"
    )
