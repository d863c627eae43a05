"""The exported files are complete, work offline and cannot be broken by a text."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re

import numpy as np
import pytest

import viz
from tests.viz.fakes import FakeTranslator, random_translation
from viz import __main__ as command
from viz import export, payload
from viz.payload import to_json
from viz.viewer import catalogues

NASTY = ["</script><script>alert(1)</script>", "<img", "onerror=alert(1)>", "{{braces}}", "</title>"]


def test_the_file_holds_its_payload(tmp_path):
    data = payload.encode(random_translation(["Hallo"], ["hello"]), "de-en")
    export.write(data, tmp_path / "deep" / "attention_maps.html")
    page = (tmp_path / "deep" / "attention_maps.html").read_text("utf-8")
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.DOTALL)
    assert json.loads(found[1]) == data
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["attention_maps.html"]


def test_tokens_cannot_break_out_of_the_file():
    harmless = export.document(payload.encode(random_translation(["a"] * 5, ["b"]), "x"))
    nasty = export.document(payload.encode(random_translation(NASTY, ["b"]), "x", "<b>title</b>"))
    assert nasty.count("<script") == harmless.count("<script")
    assert nasty.count("</script") == harmless.count("</script")
    assert "<img" not in nasty
    assert "<b>" not in nasty


def test_the_file_names_no_outside_address():
    page = export.document(payload.encode(random_translation(["a"], ["b"]), "x"))
    addresses = set(re.findall(r"(?:https?:)?//[a-z][a-z0-9.-]+\.[a-z]{2,}[^\s'\")]*", page))
    sources = {"https://bottosson.github.io/posts/oklab/", "https://github.com/davidje13/lean-qr"}
    assert addresses <= {"http://www.w3.org/2000/svg", *sources}


def test_the_policy_of_the_file_lets_its_own_scripts_and_style_run_and_nothing_else():
    page = export.document(payload.encode(random_translation(NASTY, ["b"]), "x"))
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)[1]
    rules = {words[0]: words[1:] for words in map(str.split, policy.split(";"))}
    inline = {tag: re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL) for tag in ("script", "style")}
    hashes = {tag: [hash_of(each) for each in found] for tag, found in inline.items()}
    assert (len(hashes["script"]), len(hashes["style"])) == (2, 1)
    assert rules == {
        "default-src": ["'none'"],
        "script-src": hashes["script"],
        "style-src": hashes["style"],
        "img-src": ["data:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }


def hash_of(content):
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def test_the_file_opens_on_a_view_and_names_the_page_it_came_from():
    data = payload.encode(random_translation(["a"], ["b"]), "x")
    view = "#kind=cross&layer=1&head=2&text=</script>"
    page = export.document(data, view=view, origin="https://example.org/<b>")
    assert r'"view":"#kind=cross&layer=1&head=2&text=\u003c/script>"' in page
    assert 'href="https://example.org/&lt;b&gt;#kind' in page
    assert "href=" not in export.document(data, view=view, origin="javascript:alert(1)").split("<header")[1]


def test_the_names_of_the_files_say_what_they_hold():
    translation = random_translation(["Guten", "Tag,", "../Welt"], ["b"])
    data = payload.encode(translation, "de-en")
    found = [
        *export.files(translation, data, "#kind=cross&layer=4&head=7"),
        *export.files(translation, data, "#x"),
    ]
    name = "guten-tag-welt"
    assert found[:3] == [f"headlight-de-en-cross-4-7-{name}.html", *found[4:]]
    assert found[3:] == [f"headlight-de-en-{name}.{kind}" for kind in ("html", "json", "npz")]


def test_npz_holds_the_tensors_and_the_tokens_without_pickles():
    translation = random_translation(NASTY, ["a", "dog"], layers=2, heads=3)
    with np.load(io.BytesIO(export.npz(translation)), allow_pickle=False) as arrays:
        for kind in ("encoder", "decoder", "cross"):
            np.testing.assert_array_equal(arrays[kind], getattr(translation.attention, kind).numpy())
        assert arrays["source"].tolist() == [token.text for token in translation.attention.source]
        assert arrays["predicted"].tolist() == ["a", "dog", "</s>"]
        assert arrays["ids"].tolist() == list(translation.ids)
        np.testing.assert_allclose(arrays["log_probabilities"], translation.log_probabilities)
        assert str(arrays["text"]) == "a dog"


FRAME = r'<iframe srcdoc="([^"]*)" title="Headlight" sandbox="([^"]*)" style="[^"]*"></iframe>'


def test_a_notebook_shows_the_file_in_a_frame_that_it_cannot_leave():
    translation = random_translation(NASTY, ["b"])
    frame = re.fullmatch(FRAME, viz.show(translation, title="<b>title</b>")._repr_html_())
    assert frame
    assert "allow-same-origin" not in frame[2]
    page = html.unescape(frame[1])
    assert page == export.document(payload.encode(translation, "<b>title</b>"), address=False)
    assert '"address":false' in page


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "attention_maps.html"
    path.write_text("old")
    monkeypatch.setattr(export, "document", lambda _: "\udc80")  # cannot be written as UTF-8
    with pytest.raises(UnicodeEncodeError):
        export.write({}, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_command_writes_the_file_and_prints_the_translation(tmp_path, monkeypatch, capsys):
    fake = FakeTranslator("de-en", "German → English")
    monkeypatch.setattr(command.Translator, "load", lambda _: fake)
    output = tmp_path / "maps.html"
    monkeypatch.setattr("sys.argv", ["viz", "export", "--output", str(output), "Guten", "Tag"])
    command.main()
    assert capsys.readouterr().out == "gUTEN tAG\n"
    assert "gUTEN" in output.read_text("utf-8")


def test_the_command_ends_with_one_sentence_when_there_is_no_such_model(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["viz", "export", "--models", str(tmp_path), "Guten Tag"])
    with pytest.raises(SystemExit, match="There is no model directory"):
        command.main()


def test_the_file_speaks_the_language_of_its_page_and_holds_no_other():
    data = payload.encode(random_translation(["Hallo"], ["hello"]), "de-en")
    english, german = export.document(data), export.document(data, language="de")
    assert '<html lang="de">' in german
    assert catalogues()["de"][export.START_PAGE] in german
    assert catalogues()["fr"][export.START_PAGE] not in german
    assert catalogues()["de"][export.START_PAGE] not in english
    assert len(german) - len(english) < 1.1 * len(to_json(catalogues()["de"]))
    assert export.document(data, language="xx") == english
