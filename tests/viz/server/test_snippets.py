"""The API call as text: every sentence stays one string, whatever characters it contains."""

from __future__ import annotations

import ast
import json
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.results import Head
from viz.server.snippets import call_of, curl_call, python_call
from viz.server.validation import ExportRequest

ADDRESS = "http://127.0.0.1:7860/"
NASTY = [
    'it\'s "quoted"',
    "$(touch hacked) `touch hacked` $HOME \\",
    "two\nlines\r\n",
    "') or __import__('os').system('true') #",
    "x'; touch hacked; '",
    "\"\"\" + '''",
    "{}; {0} %s",
    "שלום 日本 👩‍👩‍👧",
]


def request(text: str, forced: list[int] | None = None, heads: tuple[Head, ...] = ()) -> ExportRequest:
    options = {"model": "tiny", "beam_size": 2, "length_penalty": 0.5}
    fields = {"forced": forced or [], "heads": list(heads), "address": ADDRESS, **options}
    return ExportRequest(text=text, **fields)


def predicted(code: str) -> dict[str | None, object]:
    """Return the arguments of the one `predict` call of a program that holds nothing but literals."""
    tree = ast.parse(code)
    assert [type(node).__name__ for node in tree.body] == ["ImportFrom", "Assign", "Assign"]
    call = tree.body[2].value
    assert isinstance(call, ast.Call)
    return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}


@pytest.mark.parametrize("text", NASTY)
def test_python_gives_the_sentence_unchanged(text):
    endpoint, arguments = call_of(request(text, [5, 6]))
    assert predicted(python_call(ADDRESS, endpoint, arguments)) == {
        "text": text,
        "model": "tiny",
        "beam_size": 2,
        "length_penalty": 0.5,
        "forced": [5, 6],
        "api_name": "/attention",
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text_survives_in_both(text):
    endpoint, arguments = call_of(request(text, heads=(Head("cross", 0, 1),)))
    assert predicted(python_call(ADDRESS, endpoint, arguments))["text"] == text
    words = shlex.split(curl_call(ADDRESS, endpoint, arguments))
    assert json.loads(words[words.index("-d") + 1]) == {"data": [text, [["cross", 0, 1]], "tiny", 2, 0.5, []]}
    assert words[:3] == ["curl", "-s", f"{ADDRESS}gradio_api/call/mute"]


@pytest.mark.parametrize("text", NASTY)
def test_a_shell_runs_nothing_but_the_call(text, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "curl").write_text('#!/bin/sh\nprintf "%s\\n" "$@" >> "$LOG"\necho \'{"event_id":"abc"}\'\n')
    (tools / "curl").chmod(0o755)
    endpoint, arguments = call_of(request(text))
    command = curl_call(ADDRESS, endpoint, arguments)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "LOG": str(tmp_path / "log")}
    subprocess.run(["/bin/sh", "-c", command], check=True, cwd=tools, env=environment, capture_output=True)
    asked = (tmp_path / "log").read_text("utf-8")
    assert json.dumps({"data": list(arguments.values())}, ensure_ascii=False) in asked
    assert asked.splitlines()[-1] == f"{ADDRESS}gradio_api/call/attention/abc"
    assert [path.name for path in tools.iterdir()] == ["curl"]


def test_an_address_is_quoted_too():
    endpoint, arguments = call_of(request("Hallo"))
    address = "http://x/$(touch hacked)'"
    assert shlex.split(curl_call(address, endpoint, arguments))[2] == f"{address}/gradio_api/call/attention"
    client = ast.parse(python_call(address, endpoint, arguments)).body[1].value
    assert ast.literal_eval(client.args[0]) == address
