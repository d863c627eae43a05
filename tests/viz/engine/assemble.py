"""Assembles the WebAssembly of the viewer, each NAME.wat into NAME_wasm.js: `make wasm`."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import wasmtime

from viz.viewer import HERE

TEXTS = (HERE / "engine" / "tensors" / "products.wat", HERE / "playground" / "product.wat")
PREAMBLE = 8  # bytes: a magic number and the version
LOCAL = r"(\(local\.get \$\w+\))"
ADDED_PRODUCT = re.compile(rf"\(f32x4\.add {LOCAL} \(f32x4\.mul {LOCAL} {LOCAL}\)\)")
LINE = "export const {name} =\n  '{code}';\n"


def path_of_module(text: Path) -> Path:
    """Where the assembled bytes of a text are."""
    return text.with_name(f"{text.stem}_wasm.js")


def module(text: Path) -> str:
    """The JavaScript module with the assembled bytes of a text.

    Those of the engine are there once more, with one instruction for a product and a sum, which not every
    browser has (relaxed SIMD).
    """
    content = text.read_text("utf-8")
    texts = {"WASM": content}
    if text == TEXTS[0]:
        texts["FUSED"] = ADDED_PRODUCT.sub(r"(f32x4.relaxed_madd \2 \3 \1)", content)
    lines = (
        LINE.format(name=name, code=base64.b64encode(assemble(each)).decode()) for name, each in texts.items()
    )
    return "\n".join((f"// The bytes of {text.name} in base64, written by `make wasm`.\n", *lines))


def assemble(text: str) -> bytes:
    """The binary form of a module, without the names of its variables, which only debuggers read."""
    binary = bytes(wasmtime.wat2wasm(text))
    return binary[:PREAMBLE] + b"".join(each for each in _sections(binary) if each[0] != 0)


def _sections(binary: bytes) -> Iterator[bytes]:
    """Each section with its head: one byte for its kind, and its size in LEB128."""
    start = PREAMBLE
    while start < len(binary):
        size, place = 0, start + 1
        while True:
            size |= (binary[place] & 127) << (7 * (place - start - 1))
            place += 1
            if binary[place - 1] < 128:
                break
        yield binary[start : place + size]
        start = place + size


if __name__ == "__main__":
    for each in TEXTS:
        path_of_module(each).write_text(module(each), "utf-8")
