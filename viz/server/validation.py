"""The fields of a request that anybody may have written.

Each function returns one field as what it should be, or raises UserError with one sentence that says what it
should be. Whether a head or a token exists is for the model to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from model.errors import UserError
from model.inputs import MAX_TARGET_TOKENS
from model.results import KINDS, Head

Request = Mapping[str, Any]

LONGEST_TEXT = 10_000  # characters; what fits a model is shorter
MAX_HEADS = 3 * 12 * 16  # every head of the largest model that the page is made for


def text(request: Request, name: str) -> str:
    """Return a text of bounded length."""
    value = request.get(name)
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise UserError(f"“{name}” must be text of at most {LONGEST_TEXT:,} characters.")
    return value


def choice(request: Request, name: str, choices: Iterable[str]) -> str:
    """Return one of the `choices`."""
    value, known = request.get(name), list(choices)
    if not isinstance(value, str) or value not in known:
        raise UserError(f"“{name}” must be one of: {', '.join(known)}.")
    return value


def whole(request: Request, name: str, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`."""
    value = request.get(name)
    if not _is_whole(value) or not low <= value <= high:
        raise UserError(f"“{name}” must be a whole number from {low} to {high}.")
    return value


def index(request: Request, name: str) -> int:
    """Return a layer, head, row or column, counted from 0."""
    return whole(request, name, 0, MAX_TARGET_TOKENS)


def number(request: Request, name: str, low: float, high: float) -> float:
    """Return a number from `low` to `high`."""
    value = request.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UserError(f"“{name}” must be a number from {low:g} to {high:g}.")
    return float(value)


def ids(request: Request, name: str) -> list[int]:
    """Return a target as token ids, at most as many as a translation can have."""
    value = request.get(name)
    if not isinstance(value, list) or len(value) > MAX_TARGET_TOKENS or not all(map(_is_whole, value)):
        raise UserError(f"“{name}” must be a list of at most {MAX_TARGET_TOKENS} token ids.")
    return value


def heads(request: Request, name: str) -> tuple[Head, ...]:
    """Return heads, each once, in the order given."""
    value = request.get(name)
    if not isinstance(value, list) or len(value) > MAX_HEADS or not all(map(_is_head, value)):
        raise UserError(
            f"“{name}” must be a list of at most {MAX_HEADS} heads, each [kind, layer, head] as in "
            f'["{KINDS[-1]}", 0, 3], layers and heads counted from 0.'
        )
    return tuple(dict.fromkeys(Head(*one) for one in value))


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_head(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 3:
        return False
    kind, layer, head = value
    return isinstance(kind, str) and _is_whole(layer) and _is_whole(head)
