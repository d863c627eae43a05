"""The files of a translation are the same with and without a server."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model import Translator
from model.storage.checkpoint import save
from tests.model.helpers import tiny_checkpoint
from tests.viz.engine.engine import ask_engine, ask_server, differences, unpacked
from tests.viz.questions import COMMON, PATCH, TEXT
from viz import export
from viz.about import page_values
from viz.static import document
from viz.static.site import _site
from viz.viewer import script, style

CLOSE = 1e-3  # of a printed number: test_answers.py compares the numbers themselves
MUTED = {"heads": [["cross", 1, 1]], "shows_muted": True, **PATCH}
ELEMENT = re.compile(r'<script type="(?:application/json|text/plain)" id="([^"]*)">(.*?)</script>', re.DOTALL)
EXPORT = {
    "do": "export",
    "forced": [],
    "heads": [],
    "address": "https://example.org/<b>",
    "view": "#kind=cross&layer=1&head=2",
}


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    save(tiny_checkpoint(seed=1), directory)
    return Translator.load(directory)


def both(folder: Path, translator: Translator, request: dict[str, Any]) -> list[Any]:
    """The answers of a server and of a page without one, whose parts are those of the server's file."""
    models = {"tiny": translator}
    look, code = style("viewer.css", "panels.css", "media.css"), script()
    documents = document.documents()
    if request["do"] == "export":
        documents["file"]["parts"] = export.fixed_parts(look, code)
    else:
        look, code = document.looks(), document.viewer()
    scripts = {"playground": document.playground(), "engine": document.engine()}
    site = page_values(models, "tiny", {"tiny": [TEXT]}) | _site(models, {})
    parts = {"documents": documents, "look": look, "code": code, **scripts}
    requests = [{**COMMON, **request}]
    replies = (
        ask_server(models, requests),
        ask_engine(folder, models, requests, page={"site": site, "parts": parts}),
    )
    for (reply,) in replies:
        assert "error" not in reply, reply
    return [reply["answer"] for (reply,) in replies]


def elements(page: str) -> tuple[str, dict[str, Any]]:
    """The page without the content of its data, and that content by id."""
    found = {
        name: text if name == "engine" else unpacked(json.loads(text)) for name, text in ELEMENT.findall(page)
    }
    return ELEMENT.sub(lambda one: f"[{one[1]}]", page), found


def near(one: Any, other: Any) -> bool:
    return not [each for each in differences(one, other) if each.apart > CLOSE]


@pytest.mark.parametrize("more", [{}, {"forced": [20, 30]}, MUTED], ids=["own", "forced", "muted"])
def test_the_files_of_a_translation_are_those_of_the_server(tmp_path, translator, more):
    answers = both(tmp_path, translator, EXPORT | more)
    server, page = (
        {name: base64.b64decode(data) for name, data in each["files"].items()} for each in answers
    )
    assert list(server) == list(page)
    assert (answers[1]["python"], answers[1]["curl"]) == (None, None)
    for name, content in server.items():
        if name.endswith(".json"):
            assert near(*(unpacked(json.loads(each)) for each in (content, page[name])))
        elif name.endswith(".npz"):
            one, other = (np.load(io.BytesIO(each), allow_pickle=False) for each in (content, page[name]))
            assert sorted(one.files) == sorted(other.files)
            for array in one.files:
                assert one[array].dtype == other[array].dtype
                if one[array].dtype.kind == "f":
                    np.testing.assert_allclose(one[array], other[array], atol=CLOSE)
                else:
                    np.testing.assert_array_equal(one[array], other[array])
        else:
            one, other = (elements(each.decode()) for each in (content, page[name]))
            assert one[0] == other[0]
            assert near(one[1], other[1])


def test_a_page_with_its_model_is_that_of_the_server(tmp_path, translator):
    answers = both(tmp_path, translator, {"do": "portable", "view": "#kind=cross"})
    one, other = (elements(each["html"]) for each in answers)
    assert answers[0]["name"] == answers[1]["name"]
    assert one[0] == other[0]
    assert one[1].keys() == other[1].keys()
    del other[1]["site"]["models"]["tiny"]["directory"]  # which only the test needs
    assert near(*(each[1] for each in (one, other)))
