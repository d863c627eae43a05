"""The version of a release is the same wherever it is written."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from model import __version__
from tests.viz.fakes import random_translation
from viz import export, payload

ROOT = Path(__file__).resolve().parent.parent


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_file_names_the_same_version() -> None:
    releases = re.findall(r"^## \[(\d.*)\] - (\S+)$", read("CHANGELOG.md"), re.MULTILINE)
    citation = dict(re.findall(r"^([\w-]+): (.+)$", read("CITATION.cff"), re.MULTILINE))
    assert tomllib.loads(read("pyproject.toml"))["project"]["version"] == __version__
    assert (citation["version"], citation["date-released"]) == releases[0] == (__version__, releases[0][1])
    assert releases == sorted(releases, key=lambda release: release[1], reverse=True)


def test_exported_files_name_the_version() -> None:
    translation = random_translation(["Hallo"], ["hello"])
    files = export.files(translation, payload.encode(translation, "de-en"))
    page, record, _ = files.values()
    assert f'<meta name="generator" content="Headlight {__version__}">'.encode() in page
    assert json.loads(record)["generator"] == f"Headlight {__version__}"
