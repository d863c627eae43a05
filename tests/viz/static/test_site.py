"""The files of the page without a server: what they hold, what they allow, and which folders they replace."""

from __future__ import annotations

import html
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import app
from model import Translator, list_models
from model.errors import UserError
from model.network.config import ModelConfig
from model.storage.checkpoint import save
from model.text.tokenizer import Tokenizer
from tests.model.helpers import tiny_checkpoint
from viz import __main__ as command
from viz.export import checksum, element_hash
from viz.payload import encode
from viz.static.document import playground, viewer
from viz.static.site import portable, write_site
from viz.static.supported import check_supported
from viz.viewer import catalogues

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    directory = tmp_path_factory.mktemp("models") / "tiny"
    save(tiny_checkpoint(seed=1), directory)
    return Translator.load(directory)


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    (folder / "examples.json").write_text(json.dumps({"tiny": [f"Ein Hund. {NASTY}"]}))
    return folder


class Elements(HTMLParser):
    """The scripts that the browser would run, and the styles of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[str]] = {"script": [], "style": []}
        self.policy = ""
        self.open: str | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        if tag in self.found and given.get("type") in (None, "text/javascript", "module"):
            assert "src" not in given
            self.found[tag].append("")
            self.open = tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.found[self.open][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.open = None


def rules_of(page: str) -> tuple[dict[str, list[str]], Elements]:
    elements = Elements()
    elements.feed(page)
    return {words[0]: words[1:] for words in map(str.split, elements.policy.split(";"))}, elements


@pytest.mark.parametrize("single", [False, True], ids=["served", "one file"])
def test_the_policy_allows_what_the_engine_needs_and_nothing_else(translator, assets, tmp_path, single):
    write_site([translator], tmp_path / "dist", assets, single=single)
    page = (tmp_path / "dist" / ("headlight.html" if single else "index.html")).read_text("utf-8")
    rules, elements = rules_of(page)
    *scripts, start = elements.found["script"]
    assert scripts == ([viewer(), playground()] if single else [])
    if not single:
        assert zlib.decompress((tmp_path / "dist" / "viewer.deflate").read_bytes()).decode() == viewer()
    own = [] if single else ["'self'"]
    assert rules == {
        "default-src": ["'none'"],
        "script-src": [*map(element_hash, (viewer(), start, playground())), "'wasm-unsafe-eval'"],
        "style-src": [element_hash(each) for each in elements.found["style"]],
        "img-src": ["data:", *own],
        "manifest-src": own or ["'none'"],
        "connect-src": own or ["'none'"],
        "worker-src": ["blob:"] if single else ["blob:", "'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }


def test_no_text_breaks_out_of_the_document(translator, tmp_path):
    def tags(text: str) -> int:
        payload = encode(translator.translate(text), translator.name, translator.title)
        return portable(translator, payload, f"#text={text}").count("<script")

    assert tags("Ein Hund.") == tags(f"Ein Hund. {NASTY}")


def test_a_page_with_its_model_opens_on_the_translation_that_it_was_made_of(translator):
    payload = encode(translator.translate("Ein Hund.", 4, 0.6), "tiny")
    site = re.search(r'id="site">(.*?)</script>', portable(translator, payload))
    assert site is not None
    found = json.loads(html.unescape(site[1]))
    assert found["view"] == "#model=tiny&text=Ein+Hund.&beam=4&alpha=0.6"
    assert found["stored"] == {"tiny": {"text": "Ein Hund.", "beam_size": 4, "length_penalty": 0.6}}


def test_a_page_with_its_model_holds_the_language_of_its_page_alone(translator):
    payload = encode(translator.translate("Ein Hund."), "tiny")
    german, english = (portable(translator, payload, language=code) for code in ("de", "en"))
    assert re.findall(r'id="texts-(..)"', german) == ["de"]
    assert re.findall(r'id="texts-(..)"', english) == []


def test_a_site_has_a_file_for_each_language_and_one_file_has_them_all(translator, assets, tmp_path):
    write_site([translator], tmp_path / "dist", assets)
    write_site([translator], tmp_path / "single", assets, single=True)
    files = sorted(path.name for path in (tmp_path / "dist" / "locales").iterdir())
    assert files == [f"{code}.deflate" for code in catalogues()]
    served = (tmp_path / "dist" / "index.html").read_text("utf-8")
    assert re.findall(r'id="texts-(..)"', served) == []
    single = (tmp_path / "single" / "headlight.html").read_text("utf-8")
    assert re.findall(r'id="texts-(..)"', single) == list(catalogues())


def test_the_stored_answers_have_checksums(translator, assets, tmp_path):
    write_site([translator], tmp_path / "dist", assets)
    page = (tmp_path / "dist" / "index.html").read_text("utf-8")
    (site,) = re.findall(r'id="site">(.*?)</script>', page)
    answer = f"models/{translator.name}/stored.json"
    assert json.loads(html.unescape(site))["parts"][answer] == checksum(
        (tmp_path / "dist" / answer).read_bytes()
    )


def test_a_former_page_is_replaced_and_other_files_are_kept(translator, assets, tmp_path):
    folder = tmp_path / "dist"
    write_site([translator], folder, assets)
    write_site([translator], folder, assets, single=True)
    assert [path.name for path in folder.iterdir()] == ["headlight.html"]
    (folder / "thesis.txt").touch()
    with pytest.raises(UserError, match=r"has thesis\.txt, which is not of this page; name an empty folder"):
        write_site([translator], folder, assets)
    assert (folder / "thesis.txt").exists()


def test_folders_that_only_look_like_a_former_page_are_kept(translator, assets, tmp_path):
    payload = encode(translator.translate("Ein Hund."), "tiny")
    lookalikes = {
        "models/mine/model.safetensors": b"weights",
        "index.html": b"<title>My site</title>",
        "headlight.html": portable(translator, payload).encode(),  # an export under another name
        "README.md": b"notes",
    }
    for name, content in lookalikes.items():
        path = tmp_path / name.replace("/", "-") / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        with pytest.raises(UserError, match=rf"has {name}, which is not of this page"):
            write_site([translator], tmp_path / name.replace("/", "-"), assets)
        assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["locales/notes.txt", "models/mine/model.safetensors", "link"])
def test_files_that_were_added_to_a_former_page_are_kept(translator, assets, tmp_path, name):
    folder, added = tmp_path / "dist", tmp_path / "dist" / name
    write_site([translator], folder, assets)
    if name == "link":
        added.symlink_to(tmp_path, target_is_directory=True)
    else:
        added.parent.mkdir(exist_ok=True)
        added.touch()
    with pytest.raises(UserError, match=rf"has {name}, which is not of this page"):
        write_site([translator], folder, assets)
    assert added.exists()
    assert (folder / "index.html").exists()


def test_a_page_that_cannot_be_written_leaves_the_former_one(translator, assets, tmp_path):
    folder = tmp_path / "dist"
    write_site([translator], folder, assets)
    before = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    published = Translator.load(folder / "models" / "tiny")
    with pytest.raises(UserError, match=r"dist overlaps .*tiny, which has models; name another folder"):
        write_site([published], folder, assets)
    (assets / "examples.json").unlink()
    with pytest.raises((UserError, OSError)):
        write_site([translator], folder, assets)
    assert {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()} == before


@pytest.mark.parametrize("output", [".", "models", "models/page", "models/tiny", "models/tiny/page"])
def test_a_page_is_written_apart_from_the_models(translator, assets, tmp_path, monkeypatch, output):
    save(translator.checkpoint, tmp_path / "models" / "tiny")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    arguments = ["--models", str(tmp_path / "models"), "--output", str(tmp_path / output)]
    monkeypatch.setattr("sys.argv", ["viz", "static", *arguments, "--assets", str(assets)])
    with pytest.raises(SystemExit, match=r"overlaps .*models, which has models; name another folder"):
        command.main()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_page_of_all_models_keeps_its_weight(tmp_path):
    """What the first picture waits for, and all of it with de-en, before the training record is opened."""
    folder = tmp_path / "dist"
    write_site([Translator.load(path) for path in list_models(app.MODELS)], folder, app.ASSETS)
    size = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*.*")}
    language = max(each for name, each in size.items() if name.startswith("locales/"))
    first_picture = size["index.html"] + size["viewer.deflate"] + language
    model = [f"models/de-en/{name}" for name in ("config.json", "model.safetensors", "tokenizer.json")]
    assert '"first":"de-en"' in (folder / "index.html").read_text("utf-8")
    assert first_picture < 400_000
    assert first_picture + sum(size[name] for name in ("engine.deflate", "offline.js", *model)) < 11_000_000


def test_a_model_without_files_is_refused(translator, assets, tmp_path):
    unsaved = Translator(translator.checkpoint, "unsaved")
    with pytest.raises(UserError, match="The model unsaved was not read from files; save it first"):
        write_site([unsaved], tmp_path / "dist", assets)


def test_the_command_says_when_there_is_no_model(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["viz", "static", "--models", str(tmp_path)])
    with pytest.raises(SystemExit, match="There is no model in"):
        command.main()


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"positions": "fairseq"}, "positions: fairseq"),
        ({"positions": "learned", "n_positions": 9}, "positions: learned"),
        ({"positions": "relative", "n_buckets": 8, "max_distance": 16}, "positions: relative"),
        ({"embedding_norm": True}, "embedding_norm: True"),
        ({"rms_norm": True}, "rms_norm: True"),
        ({"gated": True}, "gated: True"),
        ({"d_key": 4}, "d_key: 4"),
        ({"autoregression": "ssru"}, "autoregression: ssru"),
    ],
)
def test_a_model_that_the_engine_cannot_run_is_refused(translator, assets, tmp_path, settings, part):
    directory = tmp_path / "models" / "many"
    save(tiny_checkpoint(**settings), directory)
    other = Translator.load(directory)
    with pytest.raises(UserError, match=f"'many' runs only with a server.* lacks {part}; choose another"):
        write_site([translator, other], tmp_path / "dist", assets)
    assert not (tmp_path / "dist").exists()
    with pytest.raises(UserError, match=f"lacks {part}"):
        portable(other, {})


def test_settings_and_tokenizers_that_are_not_named_are_refused(translator, monkeypatch):
    check_supported(translator)

    class OtherTokenizer(Tokenizer):
        pass

    own = translator.checkpoint
    other = OtherTokenizer(own.source_tokenizer._backend)
    with pytest.raises(UserError, match="lacks OtherTokenizer"):
        check_supported(Translator(replace(own, source_tokenizer=other), "tiny"))
    monkeypatch.setattr(ModelConfig, "to_json", lambda self: {"new": True})
    with pytest.raises(UserError, match="lacks new: True"):
        check_supported(translator)
