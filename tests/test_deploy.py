"""The repository as a Hugging Face Space: which files it gets, and that they are enough to run the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from pathlib import Path

import pytest
from gradio_client import Client
from huggingface_hub import RepoCard

from tests.test_house import requirements
from tests.visitor import free_port
from viz.viewer import catalogues

ROOT = Path(__file__).resolve().parent.parent
# Replaces huggingface_hub's command: records its arguments and keeps the folder that it would send.
FAKE_HF = '#!/bin/sh\nhere="$(dirname "$0")"\necho "$@" > "$here/asked"\ncp -R "$3" "$here/sent"\n'


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A folder that `make` accepts as an installed .venv, with a fake `hf` in it."""
    if not (ROOT / ".git").exists():
        pytest.skip("git lists the files of a Space, and this is not a clone")
    folder = tmp_path / "environment"
    (folder / "bin").mkdir(parents=True)
    for name in ("pip", "hf"):
        (folder / "bin" / name).write_text(FAKE_HF)
        (folder / "bin" / name).chmod(0o755)
    for made in ("locked-versions.txt", ".app-installed"):  # in the order in which make writes them
        (folder / made).touch()
    return folder


def make_space(environment: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--silent", "space", f"VENV={environment}", *settings]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def sizes(listing: str) -> dict[str, int]:
    rows = (line.split(maxsplit=1) for line in listing.splitlines() if re.match(r" *\d+ ", line))
    return {name: int(size) for size, name in rows}


def files(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_upload_sends_what_the_dry_run_lists_with_its_size(environment: Path) -> None:
    run = make_space(environment, "SPACE=ada/headlight")
    assert run.returncode == 0, run.stderr
    listed = sizes(run.stdout)
    assert listed.pop("total") == sum(listed.values())
    needed = {"app.py", "README.md", "requirements.txt", "model/translator.py", "viz/viewer/viewer.js"}
    assert needed <= listed.keys()
    assert "Nothing was sent" in run.stdout
    assert not (environment / "bin" / "asked").exists()
    expect_what_the_pages_show(listed)
    run = make_space(environment, "SPACE=ada/headlight", "UPLOAD=1")
    assert run.returncode == 0, run.stderr
    asked = (environment / "bin" / "asked").read_text().split()
    assert asked[:2] == ["upload", "ada/headlight"]
    assert asked[3:] == [".", "--repo-type", "space", "--delete", "*"]
    assert not Path(asked[2]).exists()  # the folder that was sent is removed
    assert files(environment / "bin" / "sent") == listed


def expect_what_the_pages_show(listed: Mapping[str, int]) -> None:
    """And nothing that only developers need."""
    links = [
        os.path.relpath(page.parent / link, ROOT)
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for link in re.findall(r"\]\(([^)#\s:]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert links
    assert not [link for link in links if link not in listed]
    tops = {name.partition("/")[0] for name in listed}
    assert not tops & {"tests", "training", ".ci", "Makefile", "pyproject.toml"}
    assert not [name for name in listed if name.startswith("assets/screenshots/") and name not in links]


@pytest.fixture
def static_space(environment: Path) -> Sequence[str]:
    """The settings of a static Space, whose page a real Python writes."""
    python = environment / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return ("SPACE=ada/headlight", "KIND=static", "MODELS=reverse")


@pytest.mark.slow
def test_a_static_space_gets_the_page_without_a_server_and_says_so(
    environment: Path, static_space: Sequence[str]
) -> None:
    run = make_space(environment, *static_space)
    assert run.returncode == 0, run.stderr
    assert "Nothing was sent" in run.stdout
    assert not (environment / "bin" / "asked").exists()
    listed = sizes(run.stdout)
    assert listed.pop("total") == sum(listed.values())
    assert {name for name in listed if not name.startswith("models/reverse/")} == {
        "README.md",
        "engine.deflate",
        "icon-192.png",
        "icon-512.png",
        "icon-maskable-512.png",
        "index.html",
        "manifest.webmanifest",
        "offline.js",
        "playground.deflate",
        "viewer.deflate",
        *(f"locales/{code}.deflate" for code in catalogues()),
    }
    assert make_space(environment, *static_space, "UPLOAD=1").returncode == 0
    assert files(environment / "bin" / "sent") == listed
    card = RepoCard.load(environment / "bin" / "sent" / "README.md").data.to_dict()
    assert (card["sdk"], card["app_file"]) == ("static", "index.html")


@pytest.mark.parametrize("space", ["", "headlight", "/headlight", "ada/"])
def test_space_without_a_whole_name_is_refused(space: str, environment: Path) -> None:
    run = make_space(environment, f"SPACE={space}", "UPLOAD=1")
    assert run.returncode != 0
    assert "make space SPACE=user/name" in run.stderr
    assert not (environment / "bin" / "asked").exists()


# The page from these files alone


@contextmanager
def served(command: list[str], folder: Path, settings: dict[str, str], log: Path) -> Iterator[None]:
    """Serve the page by `command`; the process ends after the block."""
    address = f"http://127.0.0.1:{settings['GRADIO_SERVER_PORT']}"
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=settings, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 300
        while not answers(address):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


@pytest.mark.slow
def test_space_runs_from_its_files_and_requirements_alone(environment: Path, tmp_path: Path) -> None:
    """With its front matter's Python, its environment variables, and a home that is not writable."""
    assert make_space(environment, "SPACE=ada/headlight", "UPLOAD=1").returncode == 0
    space = tmp_path / "app"
    shutil.copytree(environment / "bin" / "sent", space)
    card = RepoCard.load(space / "README.md").data.to_dict()
    python = shutil.which(f"python{card['python_version']}")
    if python is None:
        pytest.skip(f"there is no python{card['python_version']}, which the Space runs")

    venv = tmp_path / "venv"
    subprocess.run([python, "-m", "venv", venv], check=True, timeout=300)
    pip = [venv / "bin/python", "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "-r", space / "requirements.txt"], check=True, timeout=3600)

    before = files(space)
    settings = {
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SYSTEM": "spaces",
        "SPACE_ID": "ada/headlight",
        "SPACE_AUTHOR_NAME": "ada",
        "SPACE_REPO_NAME": "headlight",
        "SPACE_HOST": "ada-headlight.hf.space",
        "GRADIO_SERVER_NAME": "0.0.0.0",
        "GRADIO_SERVER_PORT": str(free_port()),
        "HOME": os.devnull,  # nothing can be written there, not even by root
        "HF_HOME": str(tmp_path / "hf"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with served([str(venv / "bin/python"), card["app_file"]], space, settings, tmp_path / "log"):
        client = Client(f"http://127.0.0.1:{settings['GRADIO_SERVER_PORT']}", verbose=False)
        answer = client.predict("Ein kleiner Hund läuft durch den Schnee.", api_name="/translate")
        assert "dog" in answer["translation"]
    assert files(space) == before, "the page writes into its own folder"
    # To reload edited code, Gradio needs a package of the Space that requirements.txt need not name.
    log = (tmp_path / "log").read_text()
    assert log.count("Traceback") == log.count("`spaces` package is required to run hot-reloading")
    shutil.rmtree(venv)  # gigabytes, which pytest would keep


# A school's server: the files of docs/server

UNIT, CONTAINER = ROOT / "docs/server/headlight.service", ROOT / "docs/server/Containerfile"


def service() -> Mapping[str, str]:
    """The section [Service] of the unit."""
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read(UNIT)
    return unit["Service"]


def steps(word: str) -> list[str]:
    """What follows this instruction of the Containerfile, for each of its lines."""
    return re.findall(rf"^{word} (.*)$", CONTAINER.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_service_starts_what_the_page_installs() -> None:
    page = (ROOT / "docs/deployment.md").read_text(encoding="utf-8")
    folder = service()["WorkingDirectory"]
    assert re.search(rf"git clone \S+ {folder}$", page, re.MULTILINE)
    assert service()["ExecStart"].startswith(f"{folder}/.venv/bin/python app.py ")
    assert service()["Environment"] == f"NUMBA_CACHE_DIR=/var/cache/{service()['CacheDirectory']}"
    assert f"sudo cp {UNIT.relative_to(ROOT)} /etc/systemd/system/" in page
    assert f"--file {CONTAINER.relative_to(ROOT)}" in page


def test_systemd_accepts_the_service(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd, which reads the unit")
    python = f"{service()['WorkingDirectory']}/.venv/bin/python"
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(python, sys.executable))  # which must exist
    run = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_the_container_installs_the_locked_versions(tmp_path: Path) -> None:
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    lock, install = steps("RUN")[:2]
    subprocess.run(lock, shell=True, cwd=tmp_path, check=True)
    versions = (tmp_path / "versions.txt").read_text().splitlines()
    lock_file = (ROOT / "requirements.lock").read_text()
    assert len(versions) == len(re.findall(r"^\w", lock_file, re.MULTILINE))
    assert {pin.replace("_", "-") for pin in requirements("requirements.txt")} < set(versions)
    assert install == "pip install --no-cache-dir --constraint versions.txt -r requirements.txt"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["service", "container"])
def test_a_server_starts_in_a_clean_folder(kind: str, tmp_path: Path) -> None:
    """With the files, the commands and the user's rights of the container, or the command of the service."""
    folder, port = tmp_path / "headlight", str(free_port())
    folder.mkdir()
    for sources, target in (each.rsplit(maxsplit=1) for each in steps("COPY")):
        for source in map(ROOT.joinpath, sources.split()):
            if source.is_dir():
                shutil.copytree(source, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / target)
    settings = {
        "PATH": os.environ["PATH"],
        "HOME": os.devnull,  # nothing can be written there, not even by root
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GRADIO_SERVER_PORT": port,  # for `served`
    }
    if kind == "container":
        compile_kernels = steps("RUN")[-1].split()
        assert compile_kernels[0] == "python"
        subprocess.run([sys.executable, *compile_kernels[1:]], cwd=folder, env=settings, check=True)
        assert list((tmp_path / "cache").glob("kernels-*"))
        command = [*json.loads(steps("ENTRYPOINT")[0]), *json.loads(steps("CMD")[0])]
    else:
        command = service()["ExecStart"].split()
    before = files(folder)
    command = [sys.executable, *command[1:], "--port", port]  # the last port counts
    with served(command, folder, settings, tmp_path / "log"):
        answer = Client(f"http://127.0.0.1:{port}", verbose=False).predict("Der Hund.", api_name="/translate")
        assert "dog" in answer["translation"].lower()
    assert files(folder) == before, "the page writes into its own folder"
    assert "Traceback" not in (tmp_path / "log").read_text()
