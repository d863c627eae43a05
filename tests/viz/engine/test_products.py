"""The WebAssembly of the products: the bytes are those of the text."""

from tests.viz.engine.assemble import MODULE, module


def test_the_bytes_are_those_of_the_text():
    assert MODULE.read_text("utf-8") == module(), "run `make wasm`"
