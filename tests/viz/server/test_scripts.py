"""The scripts of the page: files of their own that a browser keeps, and what the document says of them."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from viz.server.component import script_address
from viz.server.document import MAX_PACKED
from viz.viewer import catalogues, script, training

PLAIN, PACKED = {"Accept-Encoding": "identity"}, {"Accept-Encoding": "gzip"}


@pytest.mark.parametrize(("name", "text"), [("viewer.js", script), ("training.js", training)])
def test_a_script_is_the_same_packed_and_plain_and_kept_for_good(client: TestClient, name: str, text):
    packed, plain = (client.get(f"/{script_address(name)}", headers=each) for each in (PACKED, PLAIN))
    assert packed.text == plain.text == text()
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert "immutable" in packed.headers["cache-control"]


def test_the_page_names_the_texts_of_every_language_but_holds_none(client: TestClient):
    document = client.get("/").text
    for code, texts in catalogues().items():
        address = script_address(f"{code}.json")
        assert address in document
        assert client.get(f"/{address}").json() == texts
        assert texts["Translate ⏎"] not in script()


def test_there_is_no_other_script(client: TestClient):
    assert client.get("/scripts/other.js").status_code == 404


def test_the_document_is_packed_and_names_the_script_that_the_first_picture_needs(client: TestClient):
    document, plain = (client.get("/", headers=each) for each in (PACKED, PLAIN))
    assert document.headers["content-encoding"] == "gzip"
    assert document.headers["link"] == f"<{script_address('viewer.js')}>; rel=preload; as=script"
    assert "content-encoding" not in plain.headers
    assert plain.text.index("--hl-background:") < plain.text.index("<body")  # the look
    assert plain.text.index('id="hl-opening"') < plain.text.index("<gradio-app")
    assert "modules['" not in plain.text, "the document holds the viewer"


def test_a_port_that_a_client_makes_up_costs_no_compression(client: TestClient):
    """Else each of 65,535 ports would take 5 ms, and the memory for one more document."""
    for port in range(MAX_PACKED + 3):
        document = client.get("/", headers=PACKED | {"Host": f"127.0.0.1:{port + 1}"})
        assert f'"root":"http://127.0.0.1:{port + 1}"' in document.text
    assert "content-encoding" not in document.headers
