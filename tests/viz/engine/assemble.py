"""Assembles viz/viewer/engine/tensors/products.wat into products_wasm.js: `make wasm`."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import wasmtime

from viz.viewer import HERE

TEXT, MODULE = HERE / "engine" / "tensors" / "products.wat", HERE / "engine" / "tensors" / "products_wasm.js"
HEAD = "// The bytes of products.wat in base64, written by `make wasm`.\n\nexport const WASM =\n"
PREAMBLE = 8  # bytes: a magic number and the version


def module() -> str:
    """The JavaScript module with the assembled bytes."""
    code = base64.b64encode(assemble(TEXT.read_text("utf-8"))).decode()
    return f"{HEAD}  '{code}';\n"


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
    MODULE.write_text(module(), "utf-8")
