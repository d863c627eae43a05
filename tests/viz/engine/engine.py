"""Asks the engine of the page that needs no server, in Node, and compares its answers with the server's."""

from __future__ import annotations

import base64
import json
import math
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from model import Translator
from tests.viz.test_viewer import node
from viz.payload import to_json
from viz.server.backend import Backend
from viz.static.settings import settings
from viz.static.site import identity_of
from viz.viewer import HERE as VIEWER

LOG_PROBABILITY = 1e-4 + 1e-6  # absolute, of a token; each side rounds to six digits
WEIGHT = 1e-5  # absolute, of a weight as it was computed, before it becomes a code of 16 bits
# The same of random models: their large scores lose digits of float32.
RANDOM_WEIGHT = 1e-4
RANDOM_LOG_PROBABILITY = 2e-4
CODE = 1 / 65535 * 1.01  # of a weight that was sent as a code: neighbouring codes, since each side rounds
# Of the other numbers, most with four digits; relative for large ones, as sums over a sentence.
DIGIT = 1.01e-4
ONE_ROW = 0.05  # of a share of the rows of a long sentence
Request = Mapping[str, Any]


# What makes codes of weights in viz/viewer/engine/payload.js, and what keeps them as they were computed.
CODES, FLOATS = (f"{make}(translation.trace[kind].weights)" for make in ("quantised", "Float32Array.from"))


def exact(script: str) -> str:
    """The engine's code, changed so that it sends weights as float32."""
    assert script.count(CODES) == 1
    return script.replace(CODES, FLOATS)


def exact_server() -> AbstractContextManager[Any]:
    """While this is open, the server sends weights as float32."""
    return patch("viz.payload.encode_weights", _as_floats)


def _as_floats(weights: NDArray[np.float32]) -> dict[str, Any]:
    data = base64.b64encode(zlib.compress(weights.astype("<f4").tobytes()))
    return {"shape": list(weights.shape), "data": data.decode()}


def ask_engine(
    folder: Path, translators: Mapping[str, Translator], requests: Sequence[Request], wasm: bool = True
) -> list[dict[str, Any]]:
    """The engine's replies, {"answer": ...} or {"error": ...} each, with weights as it computed them."""
    shutil.copytree(VIEWER, folder / "viewer", dirs_exist_ok=True)
    payload = folder / "viewer" / "engine" / "payload.js"
    payload.write_text(exact(payload.read_text("utf-8")), "utf-8")
    shutil.copytree(Path(__file__).parent, folder / "tests", dirs_exist_ok=True)
    (folder / "package.json").write_text('{"type": "module"}')
    models = {name: identity_for_node(translator) for name, translator in translators.items()}
    questions = {"models": models, "settings": settings(), "requests": requests, "wasm": wasm}
    (folder / "questions.json").write_text(json.dumps(questions), "utf-8")
    run = subprocess.run(
        [node(), "tests/answers.mjs"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return [
        unpacked(each, RANDOM_WEIGHT) for each in json.loads((folder / "answers.json").read_text("utf-8"))
    ]


def ask_server(translators: Mapping[str, Translator], requests: Sequence[Request]) -> list[dict[str, Any]]:
    """The server's replies to the same requests, with weights as it computed them."""
    backend = Backend(translators)
    with exact_server():
        return [unpacked(json.loads(to_json(backend.answer(request))), RANDOM_WEIGHT) for request in requests]


def identity_for_node(translator: Translator) -> dict[str, Any]:
    assert translator.directory is not None
    files = [path.name for path in translator.directory.iterdir()]
    return identity_of(translator) | {"directory": str(translator.directory), "files": files}


def unpacked(value: Any, weight: float = WEIGHT) -> Any:
    """The value with the codes of its arrays as numbers, and what two sides may differ by."""
    match value:
        case {"shape": shape, "data": data, **rest}:
            match data:
                case str():  # as a server sends it
                    raw = zlib.decompress(base64.b64decode(data))
                case {"base64": text}:
                    raw = base64.b64decode(text)
                case _:
                    raw = bytes(data)
            if "unit" in rest:  # norms and rollout
                values = np.frombuffer(raw, "<u4") * rest["unit"]
                return {"shape": shape, "values": values, "allowed": DIGIT * max(1, values.max(initial=0))}
            if len(raw) == 4 * math.prod(shape):
                return {"shape": shape, "values": np.frombuffer(raw, "<f4").astype(float), "allowed": weight}
            return {"shape": shape, "values": np.frombuffer(raw, "<u2") / 65535, "allowed": CODE}
        case dict():
            return {name: unpacked(each, weight) for name, each in value.items()}
        case list():
            return [unpacked(each, weight) for each in value]
    return value


def differences_of_steps(one: list[Any], other: list[Any], path: str, of_token: float) -> Iterator[str]:
    for step, (left, right) in enumerate(zip(one, other, strict=True)):
        yield from differences_of_words(left, right, f"{path}/{step}", of_token)


def differences_of_words(one: list[Any], other: list[Any], path: str, of_token: float) -> Iterator[str]:
    """Where the likeliest words of a step differ; equal ones may change places, and the last be another."""
    left, right = ({word["id"]: word for word in words} for words in (one, other))
    common = left.keys() & right.keys()
    if not len(one) == len(other) <= len(common) + 1:
        yield f"{path}: {sorted(left)} is not {sorted(right)}"
    yield from differences([left[each] for each in common], [right[each] for each in common], path, of_token)
    chances = ([word["log_probability"] for word in words] for words in (one, other))
    yield from differences(*chances, f"{path}/log_probability", of_token)


def differences(one: Any, other: Any, path: str = "", of_token: float = LOG_PROBABILITY) -> Iterator[str]:
    """Where two replies differ by more than rounding; timings are left out.

    Log-probabilities of tokens may differ by `of_token`.
    """
    if isinstance(one, dict) and "allowed" in one and other.get("shape") == one["shape"]:
        apart = np.abs(one["values"] - other["values"]).max(initial=0)
        if apart > one["allowed"]:
            yield f"{path}: {apart} apart"
    elif isinstance(one, dict) and isinstance(other, dict):
        if one.keys() != other.keys():
            yield f"{path}: {sorted(one)} is not {sorted(other)}"
            return
        for name in one.keys() - {"timings"}:
            compare = differences_of_steps if name == "alternatives" else differences
            yield from compare(one[name], other[name], f"{path}/{name}", of_token)
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{path}: {len(one)} is not {len(other)}"
            return
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}/{place}", of_token)
    elif isinstance(one, float) and isinstance(other, float | int):
        if abs(one - other) > allowed_at(path, one, of_token):
            yield f"{path}: {one} is not {other}"
    elif one != other:
        yield f"{path}: {one!r} is not {other!r}"


def allowed_at(path: str, value: float, of_token: float) -> float:
    """How far a number of the reply may be from this one."""
    # The strongest cell of a row may be one of two that are equal but for rounding.
    if "/offset_share/" in path:
        return ONE_ROW
    is_of_token = re.search(r"/(log_probabilities|differences)/\d+$|/alternatives/.*/log_probability", path)
    return of_token if is_of_token else DIGIT * max(1, abs(value))
