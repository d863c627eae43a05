"""The compact form of a translation that the page, the exported file and the API share.

One JSON object: a readable header, the measures and the role of every head with their definitions, and
three arrays of attention weights. A weight is a 16-bit fixed-point number, `code / 65535`, because float16
has too few digits near 1 for a readout of four digits. The arrays are little-endian, compressed with zlib
and encoded in base64: browsers decompress them with their built-in DecompressionStream.

Axis letters: L layers, H heads, S source length, T target length.
"""

from __future__ import annotations

import base64
import json
import math
import operator
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray

from model.analysis.definitions import MEASURES, ROLE_DEFINITIONS, ROLES, Role
from model.analysis.measures import HeadMeasures, head_roles, measure_heads, measure_tables
from model.analysis.omissions import missing_words
from model.decoding.options import SearchOptions
from model.errors import NOT_FINITE, UserError, quote_untrusted, said
from model.results import KINDS, Alternative, AttentionRecord, Hypothesis, Kind, Source, Token, Translation
from model.text.languages import join_prefix

VERSION = 3
SCALE = 65535
UNIT = 1e-4  # the last digit that the page shows
MAX_BYTES = 64 * 2**20  # of the codes of one kind; a server sends less

# Which cells of each kind the mask allows; the viewer hatches the others.
MASKS = {"encoder": "full", "decoder": "causal", "cross": "full"}
# The fields of a role that the page reads; `kinds` is added below.
OF_ROLES = ("definition", "symbol", "measure", "least", "offset")
DEFINITIONS = {
    "measures": [measure._asdict() for measure in MEASURES],
    "roles": {
        role: {name: getattr(one, name) for name in OF_ROLES} | {"kinds": list(one.kinds)}
        for role, one in ROLE_DEFINITIONS.items()
    },
}


class PackedWeights(TypedDict):
    """An array of weights: its shape and its codes."""

    shape: list[int]
    data: str


class PackedValues(PackedWeights):
    """An array of other numbers, `code * unit` each; `scale` is the largest, or 1 if all are 0."""

    unit: float
    scale: float


class TokenValues(TypedDict):
    """A token; see `model.results.Token`."""

    piece: str
    text: str
    word: int | None
    special: bool
    id: int


class HeadTables(TypedDict):
    """The measures and the role of each head, [layer][head], and what even rows give each role, by kind."""

    measures: dict[Kind, dict[str, list[list[Any]]]]  # None where a measure has no meaning
    roles: dict[Kind, list[list[str]]]
    even: dict[Kind, dict[Role, float]]


class Payload(HeadTables):
    """A translation as plain values."""

    version: int
    model: dict[str, str]  # name and title
    source_text: str
    language_prefix: str
    text: str
    source_language: str
    target_language: str
    options: dict[str, float]
    n_forced: int
    tokens: dict[str, list[TokenValues]]  # source, read, predicted
    log_probabilities: list[float]
    alternatives: list[list[Mapping[str, object]]]
    hypotheses: list[Mapping[str, object]]
    notices: list[str]
    said: list[list[Any]]
    timings: dict[str, float]
    masks: Mapping[str, str]
    definitions: Mapping[str, object]
    taught: list[int] | None
    missing: list[int]
    attention: dict[str, PackedWeights]
    is_recurrent: NotRequired[bool]
    muted: NotRequired[Mapping[str, object]]  # the heads, if the translation is without them


def encode(
    translation: Translation, model_name: str, model_title: str = "", options: SearchOptions | None = None
) -> Payload:
    """Return the payload of one translation.

    `options` are the options set on the page, for a translation that was given and not searched.
    """
    record, options = translation.attention, options or translation.options
    tables = encode_measures(record)
    payload: Payload = {
        "version": VERSION,
        "model": {"name": model_name, "title": model_title or model_name},
        "source_text": translation.source.sentence,
        "language_prefix": translation.source.language_prefix,
        "text": translation.text,
        "source_language": translation.source_language,
        "target_language": translation.target_language,
        "options": {"beam_size": options.beam_size, "length_penalty": options.length_penalty},
        "n_forced": translation.n_forced,
        "tokens": {
            "source": [token_values(token) for token in record.source],
            "read": [token_values(token) for token in record.read],
            "predicted": [token_values(token) for token in record.predicted],
        },
        "log_probabilities": [_rounded(value) for value in translation.log_probabilities],
        "alternatives": [
            [{**token_values(one.token), "log_probability": _rounded(one.log_probability)} for one in step]
            for step in translation.alternatives
        ],
        "hypotheses": [encode_hypothesis(one) for one in translation.hypotheses],
        "notices": list(translation.notices),
        "said": [said(notice) for notice in translation.notices],
        "timings": {phase: round(float(value), 3) for phase, value in translation.timings.items()},
        "masks": MASKS,
        "definitions": DEFINITIONS,
        "measures": tables["measures"],
        "roles": tables["roles"],
        "even": tables["even"],
        "taught": None if record.taught is None else list(record.taught),
        "missing": list(missing_words(translation)),
        "attention": {kind: encode_weights(_array(getattr(record, kind))) for kind in KINDS},
    }
    if record.is_recurrent:
        payload["is_recurrent"] = True
    return payload


def token_values(token: Token) -> TokenValues:
    return cast(TokenValues, asdict(token))


def encode_measures(record: AttentionRecord) -> HeadTables:
    heads = measure_heads(record)
    return {
        "measures": {kind: _measures(one) for kind, one in heads.items()},
        "roles": {kind: _roles(one) for kind, one in heads.items()},
        "even": {kind: dict(one.even) for kind, one in heads.items()},
    }


def decode(payload: Mapping[str, Any]) -> Translation:
    """Return the translation that `encode` received; each weight is within 1.6e-5 of the original.

    The payload may come from a stranger. Raises UserError if it has another version, lacks a part, or
    unpacks to more than its shapes say.
    """
    version = payload.get("version")
    if version != VERSION:
        raise UserError(f"This payload has version {quote_untrusted(version)}; this program reads {VERSION}.")
    try:
        return _translation(payload)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, zlib.error) as error:
        raise UserError("This payload is incomplete or changed; ask for the translation again.") from error


def _translation(payload: Mapping[str, Any]) -> Translation:
    tokens, weights = payload["tokens"], payload["attention"]
    encoder, decoder, cross = (torch.from_numpy(decode_weights(weights[kind])) for kind in KINDS)
    source, read, predicted = (
        tuple(Token(**row) for row in tokens[side]) for side in ("source", "read", "predicted")
    )
    taught = payload.get("taught")  # not in payloads of release 0.1
    code = payload.get("target_code", "")  # in payloads of release 0.2
    prefix = payload.get("language_prefix", f"{code} " if code else "")
    return Translation(
        source=Source(join_prefix(prefix, payload["source_text"]), source, prefix),
        text=payload["text"],
        source_language=payload["source_language"],
        target_language=payload["target_language"],
        attention=AttentionRecord(
            encoder,
            decoder,
            cross,
            source,
            read,
            predicted,
            tuple(taught) if taught else None,
            bool(payload.get("is_recurrent")),
        ),
        log_probabilities=tuple(payload["log_probabilities"]),
        alternatives=tuple(tuple(_alternative(one) for one in step) for step in payload["alternatives"]),
        hypotheses=tuple(_hypothesis(one) for one in payload["hypotheses"]),
        notices=tuple(payload["notices"]),
        timings=dict(payload["timings"]),
        n_forced=payload["n_forced" if "n_forced" in payload else "n_prefix"],  # the name in release 0.2
        options=SearchOptions(**payload["options"]),
    )


def to_json(payload: Mapping[str, object] | str | None) -> str:
    """Return the payload as JSON that is safe inside HTML: a sentence cannot end the script element."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def encode_hypothesis(hypothesis: Hypothesis) -> Mapping[str, object]:
    """Return one translation of a search as plain values."""
    return asdict(hypothesis) | {
        "ids": list(hypothesis.ids),
        "log_probabilities": [_rounded(value) for value in hypothesis.log_probabilities],
    }


def encode_weights(weights: NDArray[np.float32]) -> PackedWeights:
    """Pack one array of weights in [0, 1]."""
    packed = zlib.compress(quantise(weights).astype("<u2").tobytes(), level=6)
    return {"shape": list(weights.shape), "data": base64.b64encode(packed).decode("ascii")}


def encode_values(values: NDArray[np.float32]) -> PackedValues:
    """Pack one array of non-negative numbers of any size. Raises UserError if one is not finite."""
    exact = values.astype(np.float64)
    if not np.isfinite(exact).all():
        raise UserError(NOT_FINITE)
    packed = zlib.compress(np.rint(exact / UNIT).astype("<u4").tobytes(), level=6)
    data = base64.b64encode(packed).decode("ascii")
    return {
        "shape": list(values.shape),
        "data": data,
        "unit": UNIT,
        "scale": float(exact.max(initial=0)) or 1.0,
    }


def decode_weights(packed: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return the weights that `encode_weights` packed.

    Raises ValueError or zlib.error if the codes do not fill the shape, without unpacking more than that.
    """
    shape = tuple(map(operator.index, packed["shape"]))
    size = math.prod(shape) * 2
    if not 0 <= size <= MAX_BYTES:
        raise ValueError(f"{size} bytes of weights")
    data = zlib.decompressobj().decompress(base64.b64decode(packed["data"]), size + 1)
    codes = np.frombuffer(data, dtype="<u2")
    return (codes.reshape(shape) / SCALE).astype(np.float32)


def quantise(weights: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the codes of weights: the nearest code that still rounds to the same four decimal digits.

    The nearest code can lie on the other side of a rounding boundary: the page would show 0.9841 for a
    weight that prints as 0.9842. One code up or down is always on the right side.
    """
    exact = weights.astype(np.float64)
    codes = np.rint(exact * SCALE).astype(np.int64)
    difference = np.rint(exact * 10_000) - np.rint(codes / SCALE * 10_000)
    return np.clip(codes + np.sign(difference).astype(np.int64), 0, SCALE)


def _array(weights: torch.Tensor) -> NDArray[np.float32]:
    return weights.detach().to("cpu", torch.float32).numpy()


def _measures(heads: HeadMeasures) -> dict[str, list[list[Any]]]:
    """The measures of one kind by name, [layer][head]; None where a measure has no meaning."""
    layers, width = heads.entropy.shape
    empty = [[None] * width for _ in range(layers)]
    tables = measure_tables(heads).items()
    return {name: empty if values is None else _table(values) for name, values in tables}


def _table(values: torch.Tensor) -> list[list[float | int]]:
    """Rows of numbers, rounded to the four decimals that the page shows; integers stay integers."""
    exact = values.double().round(decimals=4) if values.is_floating_point() else values
    return exact.tolist()


def _roles(heads: HeadMeasures) -> list[list[str]]:
    return [[ROLES[role] for role in row] for row in head_roles(heads).tolist()]


def _rounded(value: float) -> float:
    return round(float(value), 6)


def _hypothesis(row: Mapping[str, Any]) -> Hypothesis:
    lists = {name: tuple(row[name]) for name in ("ids", "log_probabilities")}
    return Hypothesis(**{**row, **lists})


def _alternative(row: Mapping[str, Any]) -> Alternative:
    token = Token(**{name: row[name] for name in ("piece", "text", "word", "special", "id")})
    return Alternative(token, row["log_probability"])
