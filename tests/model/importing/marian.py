"""Writes model.bin as Marian's converter does."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from model.importing.files.marian_bin import FLOAT32, INT8, INTGEMM8
from model.importing.files.npz import SETTINGS

Arrays = dict[str, np.ndarray[Any, Any]]


def is_matrix(name: str) -> bool:
    """Whether the converter stores this array in 8 bits."""
    return "_W" in f"_{name}" and "_ln_" not in name


def multiplier(array: np.ndarray[Any, Any]) -> np.float32:
    """With which the largest number of a matrix becomes 127."""
    return np.float32(127 / np.abs(array).max())


def rounded(arrays: Arrays) -> Arrays:
    """What is left of the numbers in 8 bits."""
    return {
        name: np.rint(array * multiplier(array)).astype(np.float32) / multiplier(array)
        if is_matrix(name)
        else array
        for name, array in arrays.items()
    }


def write_bin(path: Path, arrays: Arrays, settings: dict[str, Any], eight_bit: bool, alphas: bool) -> None:
    """`alphas`: with the scales of what the matrices read."""
    text = np.frombuffer(yaml.safe_dump(settings).encode() + b"\0", np.int8)
    parts: list[tuple[str, int, tuple[int, ...], bytes]] = [(SETTINGS, INT8, text.shape, text.tobytes())]
    for name, array in arrays.items():
        if not eight_bit or not is_matrix(name):
            parts.append((name, FLOAT32, array.shape, array.astype("<f4").tobytes()))
            continue
        integers = np.rint(array * multiplier(array)).astype(np.int8)
        stored = integers if name.endswith("Wemb") else integers.T
        data = stored.tobytes() + struct.pack("<f", multiplier(array))
        parts.append((name, INTGEMM8, array.shape, data.ljust(-(-len(data) // 256) * 256, b"\0")))
        if alphas:
            kind = INTGEMM8 if name == "Wemb" else FLOAT32
            parts.append((f"{name}_QuantMultA", kind, (1, 1), struct.pack("<f", 20.0).ljust(256, b"\0")))
    names = [name.encode() + b"\0" for name, *_ in parts]
    heads = b"".join(
        struct.pack("<4Q", len(name), kind, len(shape), len(data))
        for name, (_, kind, shape, data) in zip(names, parts, strict=True)
    )
    shapes = b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in parts)
    before = struct.pack("<QQ", 1, len(parts)) + heads + b"".join(names) + shapes
    gap = -(len(before) + 8) % 256
    path.write_bytes(before + struct.pack("<Q", gap) + bytes(gap) + b"".join(data for *_, data in parts))
