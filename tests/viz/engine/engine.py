"""Asks the engine of the page that needs no server, in Node, and compares its answers with the server's.

Both compute in float32, so both are compared with what a server of the same models in float64 answers.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from model import Translator
from model.results import KINDS
from tests.numerics import PASSES, ROUNDINGS, UNIT, copies, translator_of
from tests.viz.node import run_node
from viz.payload import SCALE, to_json
from viz.payload import UNIT as DIGIT
from viz.server.backend import Backend
from viz.static.settings import settings
from viz.static.site import _files, identity_of

# What printing a number can change: half of its last digit. A code is the nearest one or a neighbour.
PRINTED = {"code": 1 / SCALE, "unit": DIGIT / 2, "measure": 0.5e-4, "other": 0.5e-6}
ONE_ROW = 0.05  # of the rows of a long sentence: its strongest cell may be one of two equal ones
FAR = math.inf  # apart by more than rounding explains
OPTIONS = ("model", "text", "beam_size", "length_penalty")
Request = Mapping[str, Any]
Reply = dict[str, Any]


class Difference(NamedTuple):
    """Where two replies differ, and by how much."""

    path: str
    apart: float  # beyond what was allowed; FAR unless both are numbers
    what: str
    allowed: float = 0.0  # for printing two numbers and rounding one


# Answers


def ask_engine(
    folder: Path,
    translators: Mapping[str, Translator],
    requests: Sequence[Request],
    wasm: bool = True,
    page: Mapping[str, Any] | None = None,
) -> list[Reply]:
    """The engine's replies, {"answer": ...} or {"error": ...} each.

    With a `page`, its site and what it makes files of, they are the replies that the page makes of them.
    """
    models = {name: identity_for_node(translator) for name, translator in translators.items()}
    questions = {"models": models, "settings": settings(), "requests": requests, "wasm": wasm}
    questions |= page or {}
    (folder / "questions.json").write_text(json.dumps(questions), "utf-8")
    run_node(folder, Path(__file__).parent, "tests/answers.mjs")
    return [unpacked(each) for each in json.loads((folder / "answers.json").read_text("utf-8"))]


def ask_server(translators: Mapping[str, Translator], requests: Sequence[Request]) -> list[Reply]:
    """The server's replies to the same requests."""
    backend = Backend(translators)
    return [unpacked(json.loads(to_json(backend.answer(request)))) for request in requests]


def identity_for_node(translator: Translator) -> dict[str, Any]:
    assert translator.directory is not None
    return identity_of(translator) | _files(translator) | {"directory": str(translator.directory)}


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
            if "unit" in rest:  # norms
                values = np.frombuffer(raw, "<u4") * rest["unit"]
                return {"shape": shape, "unit": values}
            return {"shape": shape, "code": np.frombuffer(raw, "<u2") / SCALE}
        case dict():
            return {name: unpacked(each) for name, each in value.items()}
        case list():
            return [unpacked(each) for each in value]
    return value


# Bounds


class Reference:
    """What servers of the same models answer in float64, and how far float32 may be from that.

    The bound of a number is what perturbed weights change of it, or of any other number in its place in the
    answers of the same model to the same kind of request.
    """

    def __init__(self, translators: Mapping[str, Translator], requests: Sequence[Request]) -> None:
        self._replies: dict[str, Reply] = {}
        self._bounds: dict[str, float] = defaultdict(float)  # by place
        self._undecided: set[str] = set()  # which of two equals is the larger, by request and path
        exact_replies, *others = (ask_server(each, requests) for each in _exact_and_perturbed(translators))
        for request, expected, *perturbed_replies in zip(requests, exact_replies, *others, strict=True):
            key = json.dumps(request)
            self._replies[key] = expected
            self._add_sums(request, expected, perturbed_replies)
            found = [each for reply in perturbed_replies for each in differences(expected, reply)]
            for path, apart, what, _ in found:
                place = place_of(request, path)
                if apart < FAR:
                    self._bounds[place] = max(self._bounds[place], apart)
                else:
                    assert re.search("/(measures|roles)/", path), f"rounding decides {place}: {what}"
                    self._undecided.add(key + path)
        self._add_intact_passes(
            translators, [each for each in requests if each["do"] in ("mute", "importance")]
        )

    def _add_sums(self, request: Request, expected: Reply, others: Sequence[Reply]) -> None:
        """Let the roundings of a hypothesis's tokens add up: each changes by itself."""
        answer = expected.get("answer")
        payload, path = answer, "/answer"
        if request["do"] == "mute" and answer:
            payload, path = answer["payload"], "/answer/payload"
        if not isinstance(payload, dict) or not (found := payload.get("hypotheses")):
            return
        for other in others:
            replied = other["answer"]["payload"] if path.endswith("payload") else other["answer"]
            for one, two in zip(found, replied["hypotheses"], strict=True):
                apart = np.subtract(one["log_probabilities"], two["log_probabilities"])
                place = place_of(request, f"{path}/hypotheses/log_probability")
                self._bounds[place] = max(self._bounds[place], float(np.abs(apart).sum()))

    def _add_intact_passes(self, translators: Mapping[str, Translator], compared: Sequence[Request]) -> None:
        """Let each of the two passes whose log-probabilities are subtracted round for itself.

        Equal weights change both passes alike. So the bound is what they change of the difference, and twice
        what they change of the intact pass: the triangle inequality.
        """
        wanted, *others = (
            ask_server(each, map(_intact, compared)) for each in _exact_and_perturbed(translators)
        )
        intact: dict[tuple[str, str], float] = defaultdict(float)  # by model and kind of request
        for request, expected, *found in zip(compared, wanted, *others, strict=True):
            if "answer" not in expected:
                continue
            changes = [np.abs(np.subtract(_chances(each), _chances(expected))) for each in found]
            largest = max(each.max() if request["do"] == "mute" else each.sum() for each in changes)
            both = request["model"], request["do"]
            intact[both] = max(intact[both], float(largest))
        for (model, do), largest in intact.items():
            names = ["differences"] if do == "mute" else KINDS
            for name in names:
                self._bounds[f"{model} {do} /answer/{name}"] += 2 * largest

    def knows(self, request: Request) -> bool:
        """Whether the exact reply to this request was computed."""
        return json.dumps(request) in self._replies

    def wrong(self, request: Request, *sides: Reply) -> list[str]:
        """Where each side differs from the exact reply, or from each other where that is not known."""
        key = json.dumps(request)
        known = self.knows(request)
        pairs = [(self._replies[key], side) for side in sides] if known else [sides]
        found = []
        for path, apart, what, allowed in (each for pair in pairs for each in differences(*pair)):
            bound = self._bounds[place_of(request, path)] * (1 if known else 2)
            if "/log_probabilities/" in path:
                # What perturbed weights change was measured between printed numbers, less what is allowed. So
                # it may be as much more, and once more: the printed numbers may be nearer than the numbers.
                bound += 2 * allowed
            if not known and "/offset_share/" in path:
                bound = ONE_ROW
            if apart > bound and key + path not in self._undecided:
                found.append(f"{path}: {what}; {bound:.3g} is rounding")
        return found


def _exact_and_perturbed(translators: Mapping[str, Translator]) -> Iterator[dict[str, Translator]]:
    for number in range(1 + PASSES):
        yield {
            name: translator_of(each, copies(each.checkpoint.model)[number])
            for name, each in translators.items()
        }


def _intact(request: Request) -> Request:
    """The request for the same translation, with no head muted."""
    shared = {name: request[name] for name in (*OPTIONS, "language_prefix", "ids") if name in request}
    return {**shared, "do": "target"} if "ids" in request else {**shared, "do": "translate", "forced": []}


def _chances(reply: Reply) -> list[float]:
    return [float(each) for each in reply["answer"]["log_probabilities"]]


def place_of(request: Request, path: str) -> str:
    """The model, the kind of request and the path without its numbers."""
    return f"{request['model']} {request['do']} {re.sub(r'/[0-9]+(?=/|$)', '', path)}"


def differences(one: Any, other: Any, path: str = "", more: float = 0.0) -> Iterator[Difference]:
    """Where two replies differ by more than the printing of numbers and `more`; timings are left out."""
    if isinstance(one, dict) and isinstance(other, dict):
        yield from differences_of_fields(one, other, path)
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield Difference(path, FAR, f"{len(one)} is not {len(other)}")
            return
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}/{place}", more)
    elif isinstance(one, np.ndarray) and one.shape == np.shape(other):
        if len(one):
            yield from difference_of_numbers(one, other, path, more)
    elif isinstance(one, float) and isinstance(other, float | int):
        yield from difference_of_numbers(one, other, path, more)
    elif one != other:
        yield Difference(path, FAR, f"{one!r} is not {other!r}")


def differences_of_fields(one: Reply, other: Reply, path: str) -> Iterator[Difference]:
    if one.keys() != other.keys():
        yield Difference(path, FAR, f"{sorted(one)} is not {sorted(other)}")
        return
    # A search keeps the sum up to each token in float32, and the hypothesis has their differences.
    of_sums = 4 * UNIT * abs(one.get("log_probability", 0))
    for name in one.keys() - {"timings"}:
        if name == "alternatives":
            yield from differences_of_steps(one[name], other[name], f"{path}/{name}")
        else:
            yield from differences(one[name], other[name], f"{path}/{name}", of_sums)


def difference_of_numbers(one: Any, other: Any, path: str, more: float) -> Iterator[Difference]:
    kind = path.rpartition("/")[2]
    printed = PRINTED["measure" if "/measures/" in path else kind if kind in PRINTED else "other"]
    apart = float(np.abs(np.subtract(one, other)).max())
    rounding = 2 * printed + ROUNDINGS * UNIT * float(np.abs(one).max())  # the number itself is rounded too
    if apart > rounding + more:
        what = f"{apart:.3g} apart" if np.ndim(one) else f"{other} is not {one}"
        yield Difference(path, apart - rounding - more, what, rounding + more)


def differences_of_steps(one: list[Any], other: list[Any], path: str) -> Iterator[Difference]:
    if len(one) != len(other):
        yield Difference(path, FAR, f"{len(one)} is not {len(other)}")
        return
    for step, (left, right) in enumerate(zip(one, other, strict=True)):
        yield from differences_of_words(left, right, f"{path}/{step}")


def differences_of_words(one: list[Any], other: list[Any], path: str) -> Iterator[Difference]:
    """Where the likeliest words of a step differ; equal ones may change places, and the last be another."""
    left, right = ({word["id"]: word for word in words} for words in (one, other))
    common = left.keys() & right.keys()
    if not len(one) == len(other) <= len(common) + 1:
        yield Difference(path, FAR, f"{sorted(left)} is not {sorted(right)}")
        return
    yield from differences([left[each] for each in common], [right[each] for each in common], path)
    chances = ([word["log_probability"] for word in words] for words in (one, other))
    yield from differences(*chances, f"{path}/log_probability")
