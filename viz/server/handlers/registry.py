"""The register of handlers: one function for each kind of request, under its name in the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from model import Translator
from model.decoding.options import PAGE_MAX_BEAM
from model.inputs import MAX_TARGET_TOKENS, MAX_TOKENS
from viz.limits import MAX_LIST_CHARACTERS
from viz.server.validation import Request

CHEAPEST = 0.01  # seconds that reading and writing any request takes
TOKENS_PER_SECOND = 400
COUNTED = 512  # characters whose tokens are counted; a shipped model takes up to a millisecond

Work = Callable[[Translator, Any], Mapping[str, object]]


class Answer(TypedDict, total=False):
    """An answer, or one sentence that says why there is none."""

    answer: Mapping[str, Any]
    error: str
    said: list[Any]  # the sentence's template and values


@dataclass(frozen=True)
class Handler:
    """How requests of one kind are answered."""

    name: str  # in the protocol
    request: type[Request]
    work: Work
    cost: float  # the time that it takes, divided by the time of a translation
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


def usual_tokens(text: str) -> float:
    """Guess the tokens of a text whose tokenizer is unknown."""
    return len(text) / 4


def estimate_seconds(
    request: object, slowness: float = 1.0, count_tokens: Callable[[str], float] = usual_tokens
) -> float:
    """Estimate from an unchecked request how long its answer takes on one core.

    The model de-en translates about 400 tokens a second. A list of sentences takes twice as long as their
    translations, whatever is measured in them. `slowness` is how many times as long the request's model
    takes; `count_tokens` counts with its tokenizer, but not more than the beginning of a long text.
    """
    found = find_handler(request)
    if found is None or not isinstance(request, dict):
        return CHEAPEST

    def tokens_of(texts: Iterable[object]) -> float:
        text = " ".join(each for each in texts if isinstance(each, str))
        return count_tokens(text[:COUNTED]) * max(1.0, len(text) / COUNTED)

    target, beam = request.get("ids", request.get("forced")), request.get("beam_size")
    tokens = sum(min(tokens_of([request.get(name)]), MAX_TOKENS) for name in ("text", "other"))
    tokens += min(len(target), MAX_TARGET_TOKENS) / 2 if isinstance(target, list) else 0
    tokens *= found.cost
    for name in ("sentences", "sample"):
        listed = request.get(name)
        tokens += 2 * min(tokens_of(listed), MAX_LIST_CHARACTERS / 4) if isinstance(listed, list) else 0
    beams = min(beam, PAGE_MAX_BEAM) if isinstance(beam, int) else 1
    return max(CHEAPEST, slowness * tokens * (3 + beams) / 4 / TOKENS_PER_SECOND)
