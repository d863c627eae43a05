"""The register of handlers: one function for each kind of request, under its name in the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from model import Translator
from model.decoding.search import PAGE_MAX_BEAM
from model.inputs import MAX_TARGET_TOKENS, MAX_TOKENS
from viz.server.validation import MAX_LISTED, Request

CHEAPEST = 0.01  # seconds that reading and writing any request takes
TOKENS_PER_SECOND = 400

Work = Callable[[Translator, Any], dict[str, Any]]


@dataclass(frozen=True)
class Handler:
    """How requests of one kind are answered."""

    name: str  # in the protocol
    request: type[Request]
    work: Work
    cost: float  # the time that it takes, divided by that of a translation
    is_cached: bool  # not if the answer is large or reads files, which can change while the server runs


HANDLERS: dict[str, Handler] = {}


def handler(
    name: str, request: type[Request], *, cost: float, is_cached: bool = True
) -> Callable[[Work], Work]:
    """Register the decorated function for requests whose `do` is `name`."""

    def register(work: Work) -> Work:
        HANDLERS[name] = Handler(name, request, work, cost, is_cached)
        return work

    return register


def find_handler(request: object) -> Handler | None:
    """Return the handler that the `do` of an unchecked request names, None unless there is one."""
    name = request.get("do") if isinstance(request, dict) else None
    return HANDLERS.get(name) if isinstance(name, str) else None


def estimate_seconds(request: object, slowness: float = 1.0) -> float:
    """Estimate from an unchecked request how long its answer takes on one core.

    The model de-en translates about 400 tokens a second; a token has four characters or more. A list of
    sentences takes twice as long as their translations, whatever is measured in them. `slowness` is how many
    times as long the request's model takes.
    """
    found = find_handler(request)
    if found is None or not isinstance(request, dict):
        return CHEAPEST
    target, beam = request.get("ids", request.get("prefix")), request.get("beam_size")
    tokens = found.cost * _tokens(request.get("text"), request.get("other"))
    tokens += found.cost * min(len(target), MAX_TARGET_TOKENS) / 2 if isinstance(target, list) else 0
    for name in ("sentences", "sample"):
        listed = request.get(name)
        tokens += 2 * min(_tokens(*listed), MAX_LISTED / 4) if isinstance(listed, list) else 0
    beams = min(beam, PAGE_MAX_BEAM) if isinstance(beam, int) else 1
    return max(CHEAPEST, slowness * tokens * (3 + beams) / 4 / TOKENS_PER_SECOND)


def _tokens(*texts: object) -> float:
    return sum(min(len(text) / 4, MAX_TOKENS) for text in texts if isinstance(text, str))
