"""Reads model.bin of Marian as data, the file that Firefox has: weights in 32 bits or in 8, and settings."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.errors import UserError, quote_untrusted
from model.files import read_bytes
from model.importing.files.npz import MAX_ARRAYS, SETTINGS, weights_and_settings
from model.importing.files.pickles import Stored
from model.storage.checkpoint import MAX_PARAMETERS, MAX_WEIGHTS_BYTES

VERSION = struct.pack("<Q", 1)  # the first bytes of the file
HEAD = struct.Struct("<4Q")  # of an array: bytes of its name, type, number of axes, bytes of its data
FLOAT32, INT8, INTGEMM8 = 0x404, 0x101, 0x4101
MULTIPLIER = struct.Struct("<f")  # behind the integers of INTGEMM8
MAX_AXES = 4
# The scales with which Firefox rounds what a matrix reads; here nothing is rounded.
ALPHA, EMBEDDING = "_QuantMultA", "Wemb"


class _Entry(NamedTuple):
    """One array of the file."""

    name: str
    type: int
    shape: tuple[int, ...]
    data: memoryview


def read_marian_bin(path: Path) -> Stored:
    """The weights by name, as `read_npz` has them, and the settings. Raises UserError."""
    data = memoryview(read_bytes(path, MAX_WEIGHTS_BYTES))
    try:
        entries = list(_entries(data))
        if sum(math.prod(entry.shape) for entry in entries) > MAX_PARAMETERS:
            raise ValueError("its arrays are larger than any model")
        arrays = {entry.name: _array(entry) for entry in entries if not entry.name.endswith(ALPHA)}
    except (struct.error, ValueError, OverflowError) as error:
        raise UserError(
            f"{path} is not a file of weights of Marian, or broken ({quote_untrusted(str(error))}); copy it "
            "again."
        ) from error
    return weights_and_settings(arrays, path)


def _entries(data: memoryview) -> Iterator[_Entry]:
    """The arrays in the order of the file: heads, names, shapes and, after a gap, the data of all of them."""
    (count,) = struct.unpack_from("<Q", data, len(VERSION))
    if data[: len(VERSION)] != VERSION or count > MAX_ARRAYS:
        raise ValueError("it begins in another way")
    at = len(VERSION) + 8
    heads = [HEAD.unpack_from(data, at + HEAD.size * place) for place in range(count)]
    at += HEAD.size * count
    names = []
    for length, *_ in heads:
        names.append(bytes(_part(data, at, length)).removesuffix(b"\0").decode("utf-8"))
        at += length
    shapes = []
    for _, _, axes, _ in heads:
        if axes > MAX_AXES:
            raise ValueError(f"an array has {axes} axes")
        shapes.append(struct.unpack_from(f"<{axes}i", data, at))
        at += 4 * axes
    (gap,) = struct.unpack_from("<Q", data, at)
    at += 8 + gap
    for name, shape, (_, kind, _, size) in zip(names, shapes, heads, strict=True):
        if min(shape, default=0) < 1:
            raise ValueError(f"{name} has the shape {shape}")
        yield _Entry(name, kind, shape, _part(data, at, size))
        at += size


def _part(data: memoryview, at: int, size: int) -> memoryview:
    """So many bytes. Raises ValueError if the file ends before."""
    if at + size > len(data):
        raise ValueError("it is cut short")
    return data[at : at + size]


def _array(entry: _Entry) -> NDArray[Any]:
    """The numbers of an array; 8-bit integers are divided by their multiplier."""
    count = math.prod(entry.shape)
    if entry.type == FLOAT32:
        return np.frombuffer(entry.data, "<f4", count).reshape(entry.shape).copy()
    if entry.type == INT8 and entry.name == SETTINGS:
        return np.frombuffer(entry.data, np.int8, count)
    if entry.type != INTGEMM8:
        raise ValueError(f"{entry.name} has the type {entry.type:#x}, not 32 bits or the 8 bits of intgemm")
    (multiplier,) = MULTIPLIER.unpack_from(entry.data, count)
    if not 0 < multiplier < math.inf:
        raise ValueError(f"{entry.name} has the multiplier {multiplier}")
    integers = np.frombuffer(entry.data, np.int8, count)
    # Column by column, though the shape does not say so; only embeddings, which are looked up, are not.
    by_rows = entry.name.endswith(EMBEDDING)
    integers = integers.reshape(entry.shape) if by_rows else integers.reshape(entry.shape[::-1]).T
    return integers.astype(np.float32) / np.float32(multiplier)
