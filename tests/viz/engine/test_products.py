"""The WebAssembly of the products: the bytes are made from the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.viz.engine.assemble import TEXTS, module, path_of_module


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.stem)
def test_the_bytes_are_those_of_the_text(text: Path):
    assert path_of_module(text).read_text("utf-8") == module(text), "run `make wasm`"
