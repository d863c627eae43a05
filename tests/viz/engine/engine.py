"""Asks the engine of the page that needs no server, in Node, and compares its answers with the server's."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from model import Translator
from tests.viz.test_viewer import node
from viz.payload import to_json
from viz.server.backend import Backend
from viz.static.settings import settings
from viz.static.site import identity_of
from viz.viewer import HERE as VIEWER

TOLERANCE = 1.01e-4  # of a log-probability; relative for the large ones of random models and of long sums
CODE = 1 / 65535 * 1.1  # of a weight: neighbouring codes, since each side rounds
ONE_ROW = 0.05  # of a share of the rows of a long sentence
Request = Mapping[str, Any]


def ask_engine(
    folder: Path, translators: Mapping[str, Translator], requests: Sequence[Request], wasm: bool = True
) -> list[dict[str, Any]]:
    """The engine's replies, {"answer": ...} or {"error": ...} each."""
    shutil.copytree(VIEWER, folder / "viewer", dirs_exist_ok=True)
    shutil.copytree(Path(__file__).parent, folder / "tests", dirs_exist_ok=True)
    (folder / "package.json").write_text('{"type": "module"}')
    models = {name: identity_for_node(translator) for name, translator in translators.items()}
    questions = {"models": models, "settings": settings(), "requests": requests, "wasm": wasm}
    (folder / "questions.json").write_text(json.dumps(questions), "utf-8")
    run = subprocess.run(
        [node(), "tests/answers.mjs"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return [unpacked(each) for each in json.loads((folder / "answers.json").read_text("utf-8"))]


def ask_server(translators: Mapping[str, Translator], requests: Sequence[Request]) -> list[dict[str, Any]]:
    """The server's replies to the same requests."""
    backend = Backend(translators)
    return [unpacked(json.loads(to_json(backend.answer(request)))) for request in requests]


def identity_for_node(translator: Translator) -> dict[str, Any]:
    assert translator.directory is not None
    files = [path.name for path in translator.directory.iterdir()]
    return identity_of(translator) | {"directory": str(translator.directory), "files": files}


def unpacked(value: Any) -> Any:
    """The value with the codes of its arrays as numbers."""
    match value:
        case {"shape": shape, "data": data, **rest}:
            match data:
                case str():  # as a server sends it
                    raw = zlib.decompress(base64.b64decode(data))
                case {"base64": text}:
                    raw = base64.b64decode(text)
                case _:
                    raw = bytes(data)
            codes = np.frombuffer(raw, "<u4" if "unit" in rest else "<u2").astype(np.float64)
            return {"shape": shape, "values": codes * rest.get("unit", 1 / 65535)}
        case dict():
            return {name: unpacked(each) for name, each in value.items()}
        case list():
            return [unpacked(each) for each in value]
    return value


def differences_of_steps(one: list[Any], other: list[Any], path: str) -> Iterator[str]:
    for step, (left, right) in enumerate(zip(one, other, strict=True)):
        yield from differences_of_words(left, right, f"{path}/{step}")


def differences_of_words(one: list[Any], other: list[Any], path: str) -> Iterator[str]:
    """Where the likeliest words of a step differ; equal ones may change places, and the last be another."""
    left, right = ({word["id"]: word for word in words} for words in (one, other))
    common = left.keys() & right.keys()
    if not len(one) == len(other) <= len(common) + 1:
        yield f"{path}: {sorted(left)} is not {sorted(right)}"
    yield from differences([left[each] for each in common], [right[each] for each in common], path)
    chances = ([word["log_probability"] for word in words] for words in (one, other))
    yield from differences(*chances, f"{path}/log_probability")


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two replies differ by more than rounding; timings are left out."""
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            yield f"{path}: {sorted(one)} is not {sorted(other)}"
            return
        for name in one.keys() - {"timings"}:
            compare = differences_of_steps if name == "alternatives" else differences
            yield from compare(one[name], other[name], f"{path}/{name}")
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{path}: {len(one)} is not {len(other)}"
            return
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}/{place}")
    elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        apart = np.abs(one - other)
        if apart.max(initial=0) > max(CODE, TOLERANCE * one.max(initial=0)):
            yield f"{path}: {apart.max()} apart"
    elif isinstance(one, float) and isinstance(other, float | int):
        # The strongest cell of a row may be one of two that are equal but for rounding.
        allowed = ONE_ROW if "/offset_share/" in path else TOLERANCE * max(1, abs(one))
        if abs(one - other) > allowed:
            yield f"{path}: {one} is not {other}"
    elif one != other:
        yield f"{path}: {one!r} is not {other!r}"
