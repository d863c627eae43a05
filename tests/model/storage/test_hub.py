"""from_pretrained, save_pretrained and push_to_hub, with a hub that is a folder and no network at all."""

from __future__ import annotations

import fnmatch
import json
import shutil
import socket
from pathlib import Path
from typing import Any

import huggingface_hub.hub_mixin
import pytest
from huggingface_hub.errors import HfHubHTTPError

from model.errors import UserError
from model.storage import card as cards
from model.storage import checkpoint, hub, probes, training_log
from model.storage.checkpoint import Checkpoint, save
from model.translator import Translator
from tests.model.helpers import assert_sentence, tiny_checkpoint

EITHER = pytest.mark.parametrize("kind", [Checkpoint, Translator])


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket connects and no name is looked up."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("this test has no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


class FolderHub:
    """What is used of the hub, with a folder for each repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.downloads: list[dict[str, Any]] = []

    def __call__(self, token: str | None = None) -> FolderHub:
        return self

    def create_repo(self, repo_id: str, **options: Any) -> Any:
        (self.folder / repo_id).mkdir(parents=True, exist_ok=options["exist_ok"])
        return type("Url", (), {"repo_id": repo_id})

    def upload_folder(self, *, repo_id: str, folder_path: Path, repo_type: str, **_: Any) -> str:
        assert repo_type == "model"
        shutil.copytree(folder_path, self.folder / repo_id, dirs_exist_ok=True)
        return f"commit of {repo_id}"

    def snapshot_download(self, repo_id: str, *, allow_patterns: list[str], **options: Any) -> str:
        self.downloads.append(options)
        if not (self.folder / repo_id).is_dir():
            raise HfHubHTTPError("404 Client Error\nRepository Not Found", response=None)  # type: ignore[arg-type]
        target = self.folder / "cache" / "8f14e45fceea167a"
        target.mkdir(parents=True)
        for path in (self.folder / repo_id).iterdir():
            if any(fnmatch.fnmatch(path.name, pattern) for pattern in allow_patterns):
                shutil.copy(path, target)
        return str(target)


@pytest.fixture
def folder_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderHub:
    fake = FolderHub(tmp_path / "hub")
    monkeypatch.setattr(hub, "snapshot_download", fake.snapshot_download)
    monkeypatch.setattr(huggingface_hub.hub_mixin, "HfApi", fake)
    return fake


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@EITHER
@pytest.mark.parametrize("as_text", [True, False])
def test_local_directory_is_read_without_a_network(
    kind: type[Checkpoint | Translator], as_text: bool, tmp_path: Path
) -> None:
    save(tiny_checkpoint(), tmp_path / "tiny")
    path = tmp_path / "tiny"
    loaded = kind.from_pretrained(str(path) if as_text else path)
    assert isinstance(loaded, kind)
    if isinstance(loaded, Translator):
        assert loaded.name == "tiny"
        assert loaded.translate("Hund").text == Translator.load(path).translate("Hund").text


@EITHER
@pytest.mark.parametrize("tied", [True, False], ids=["joint", "separate"])
def test_what_is_pushed_comes_back(
    kind: type[Checkpoint | Translator], tied: bool, folder_hub: FolderHub, tmp_path: Path
) -> None:
    save(
        tiny_checkpoint(tied),
        tmp_path / "tiny",
        card={"title": "Tiny", "notes": ["Its data and their licence."]},
    )
    assert kind.from_pretrained(tmp_path / "tiny").push_to_hub("ada/tiny-de-en") == "commit of ada/tiny-de-en"
    assert files(folder_hub.folder / "ada/tiny-de-en") == files(tmp_path / "tiny")
    fetched = kind.from_pretrained("ada/tiny-de-en", revision="main")
    assert folder_hub.downloads == [{"revision": "main"}]
    fetched.save_pretrained(tmp_path / "again")
    assert files(tmp_path / "again") == files(tmp_path / "tiny")
    if isinstance(fetched, Translator):
        assert fetched.name == "tiny-de-en"


def test_the_form_of_transformers_can_be_pushed(folder_hub: FolderHub, tmp_path: Path) -> None:
    save(tiny_checkpoint(), tmp_path / "tiny")
    pushed = Translator.from_pretrained(tmp_path / "tiny").push_to_hub("ada/tiny-hf", form="transformers")
    assert pushed == "commit of ada/tiny-hf"
    config = json.loads((folder_hub.folder / "ada/tiny-hf" / "config.json").read_text())
    assert config["model_type"] == "pegasus"
    card = huggingface_hub.ModelCard.load(folder_hub.folder / "ada/tiny-hf" / "README.md")
    assert card.data.to_dict()["library_name"] == "transformers"


def test_model_without_a_card_gets_one(tmp_path: Path) -> None:
    tiny_checkpoint().save_pretrained(tmp_path)
    card = huggingface_hub.ModelCard.load(tmp_path / "README.md")
    data = card.data.to_dict()
    assert (data["library_name"], data["pipeline_tag"]) == ("headlight", "translation")
    assert "Translator.from_pretrained" in card.text


def test_files_of_a_model_directory_are_fetched_and_no_others(folder_hub: FolderHub) -> None:
    names = {
        checkpoint.CONFIG,
        checkpoint.WEIGHTS,
        cards.CARD,
        cards.README,
        training_log.METRICS,
        probes.PROBES,
    }
    assert set(hub.FILES) == names | {checkpoint.JOINT, checkpoint.SOURCE, checkpoint.TARGET}
    remote = folder_hub.folder / "ada/tiny"
    save(tiny_checkpoint(), remote, card={"title": "Tiny"})
    before = set(files(remote))
    for name in ("pytorch_model.bin", "code.py", "model-2.safetensors", "config.json.bak"):
        (remote / name).write_bytes(b"\x80\x04")
    Translator.from_pretrained("ada/tiny")
    assert set(files(folder_hub.folder / "cache/8f14e45fceea167a")) == before


def test_real_cache_of_the_hub_is_read(tmp_path: Path) -> None:
    """Its files are links to blobs beside the snapshots, the one kind of link that may lead out."""
    commit, repository = "8f14e45fceea167a5a36dedd4bea2543fa3b0b8b", tmp_path / "models--ada--tiny"
    save(tiny_checkpoint(), tmp_path / "tiny")
    for part in ("blobs", "refs", f"snapshots/{commit}"):
        (repository / part).mkdir(parents=True)
    (repository / "refs/main").write_text(commit)
    for name, content in files(tmp_path / "tiny").items():
        (repository / "blobs" / f"{name}-hash").write_bytes(content)
        (repository / "snapshots" / commit / name).symlink_to(f"../../blobs/{name}-hash")
    translator = Translator.from_pretrained("ada/tiny", cache_dir=tmp_path, local_files_only=True)
    assert translator.translate("Hund").attention.cross.ndim == 4


@EITHER
@pytest.mark.parametrize("name", ["ada/missing", "no such name", "../..//nowhere", "a/b/c", "\u202e\ud800"])
def test_missing_model_is_told_in_one_sentence(
    kind: type[Checkpoint | Translator], name: str, folder_hub: FolderHub
) -> None:
    with pytest.raises(UserError, match="There is no directory") as caught:
        kind.from_pretrained(name)
    assert_sentence(caught.value)


def test_without_a_network_the_sentence_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="check the name and the network") as caught:
        Translator.from_pretrained("ada/tiny", cache_dir=tmp_path)
    assert_sentence(caught.value)


def test_broken_directory_of_the_hub_is_refused(folder_hub: FolderHub) -> None:
    save(tiny_checkpoint(), folder_hub.folder / "ada/tiny")
    (folder_hub.folder / "ada/tiny/config.json").write_text("[" * 99_999)
    with pytest.raises(UserError, match="nested too deeply"):
        Translator.from_pretrained("ada/tiny")


def test_entries_of_config_never_reach_the_constructor(tmp_path: Path) -> None:
    """The mixin's own from_pretrained would take max_tokens from a stranger's config.json."""
    save(tiny_checkpoint(), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"format"', '"max_tokens": 100000, "format"', 1))
    assert Translator.from_pretrained(tmp_path).max_tokens == Translator.load(tmp_path).max_tokens
