"""Rules for the whole repository: which module may import which, and what the files may be like.

README.md and docs/ are checked by test_docs.py.
"""

import ast
import graphlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("model", "training", "viz")
MAY_IMPORT = {
    "model": {"model"},
    "training": {"training", "model"},
    "viz": {"viz", "model"},
    "app": {"viz", "model"},
}
# Inside model/, the lower folders do not import the facade above them; the network imports none of its users.
NEVER_IMPORTS = {
    "model.network": ("model.translator", "model.decoding", "model.analysis", "model.storage", "model.text"),
    "model.text": ("model.translator", "model.decoding", "model.analysis", "model.storage"),
    "model.decoding": ("model.translator",),
    "model.analysis": ("model.translator",),
    "model.storage": ("model.translator",),
}
# The scripts of viz/viewer by folder. Those outside a folder are the pages; they may import every script.
SCRIPTS = ROOT / "viz" / "viewer"
SHARED = {"locales", "domain", "drawing", "values", "state", "instruments", "transport"}  # by all panels
SCRIPTS_MAY_IMPORT = {
    "locales": set(),
    "domain": {"locales"},
    "drawing": {"domain", "locales"},
    "values": {"drawing", "domain", "locales"},
    "state": SHARED - {"transport"},
    "instruments": SHARED,
    "transport": SHARED,
    "engine": {"domain", "locales"},
    "prefix": SHARED,
    "strip": SHARED | {"inspector", "summary"},
    "heads": SHARED,
    "matrix": SHARED | {"heads"},
    "summary": SHARED,
    "inspector": SHARED | {"heads", "corpus"},
    "corpus": SHARED,
    "beside": SHARED | {"strip", "heads", "matrix"},
    "learn": SHARED | {"matrix"},
    "playground": SHARED | {"engine", "heads", "matrix"},
}
SOURCES = {".py", ".js", ".css"}
IGNORED_ANYWHERE = {".git", ".venv", "__pycache__", ".hypothesis", ".gradio"}
IGNORED_HERE = ("runs/", "data/", "tests/artifacts/")
PICKLES = {".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt"}
# A home, mount or work folder of one machine. An address such as https://host/home/ does not match.
LOCAL_PATH = re.compile(r"(?<![\w.~/:$}>-])/(?:home|root|Users|mnt|opt|srv|work|workspace)/[\w.]")
MEGABYTE = 1_000_000


def committable_files() -> list[Path]:
    """Every file of a clone: what git tracks or would add; without git, all outside ignored folders."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, check=False) if shutil.which("git") else None
    if listing is not None and listing.returncode == 0:
        paths = [ROOT / os.fsdecode(name) for name in listing.stdout.split(b"\0") if name]
        return sorted(path for path in paths if path.is_file())
    return sorted(path for path in ROOT.rglob("*") if path.is_file() and not is_ignored(path))


def is_ignored(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return relative(path).startswith(IGNORED_HERE) or any(
        part in IGNORED_ANYWHERE or part.endswith("_cache") for part in parts
    )


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


FILES = committable_files()


# The import rules


def own_modules() -> dict[str, Path]:
    """Dotted name of each module of the packages and of app.py, with its file."""
    names = {}
    for path in FILES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.suffix == ".py" and (parts[0] in PACKAGES or parts == ("app",)):
            names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imported_names(module: str, path: Path) -> set[str]:
    """Dotted names that a module imports anywhere in its file, relative ones made absolute."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found.update(f"{origin}.{alias.name}" for alias in node.names)
    return found


def own_imports() -> dict[str, set[str]]:
    """For each own module, the own modules that it imports."""
    modules = own_modules()
    graph = {}
    for module, path in modules.items():
        graph[module] = set()
        for name in imported_names(module, path):
            # `from model.errors import UserError` names the module model.errors, not one called UserError
            owner = name if name in modules else name.rpartition(".")[0]
            if name.split(".")[0] in {*MAY_IMPORT, "tests"}:
                graph[module].add(owner or name)
    return graph


def test_import_rule() -> None:
    graph = own_imports()
    assert {module.split(".")[0] for module in graph} == set(MAY_IMPORT)
    wrong = [
        f"{module} imports {name}"
        for module, names in graph.items()
        for name in names
        if name.split(".")[0] not in MAY_IMPORT[module.split(".")[0]]
    ]
    assert not wrong


def script_imports() -> dict[str, set[str]]:
    """For each script of viz/viewer, the scripts that it imports; paths from there."""
    return {
        path.relative_to(SCRIPTS).as_posix(): {
            os.path.relpath(path.parent / name, SCRIPTS)
            for name in re.findall(
                r"^(?:import|export|\}) .*'(\..+)';$", path.read_text("utf-8"), re.MULTILINE
            )
        }
        for path in FILES
        if path.suffix == ".js" and path.is_relative_to(SCRIPTS)
    }


def test_typescript_checks_every_script_of_ours() -> None:
    scripts = [path for path in FILES if path.suffix == ".js" and path.is_relative_to(SCRIPTS)]
    unchecked = {path.name for path in scripts if "@ts-nocheck" in path.read_text("utf-8")}
    assert unchecked == {"lean_qr.js"}


def test_import_rule_of_the_scripts() -> None:
    graph = script_imports()
    assert {name.split("/")[0] for name in graph if "/" in name} == SCRIPTS_MAY_IMPORT.keys()
    wrong = [
        f"{script} imports {name}"
        for script, names in graph.items()
        for name in names
        for folder, other in [(script.split("/")[0], name.split("/")[0])]
        if "/" in script and other != folder and other not in SCRIPTS_MAY_IMPORT[folder]
    ]
    assert not wrong
    assert set().union(*graph.values()) <= graph.keys()


@pytest.mark.parametrize("imports", [own_imports, script_imports])
def test_no_import_cycles(imports: Callable[[], dict[str, set[str]]]) -> None:
    graph = {module: names - {module} for module, names in imports().items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail("modules import each other: " + " -> ".join(error.args[1]))


def test_folders_of_model_do_not_import_upwards() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, names in own_imports().items()
        for name in names
        for folder, forbidden in NEVER_IMPORTS.items()
        if is_inside(module, folder) and any(is_inside(name, one) for one in forbidden)
    ]
    assert not wrong


def is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


# Files


def test_no_file_names_a_path_of_one_machine() -> None:
    found = []
    for path in FILES:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # pictures and models
            continue
        found += [f"{relative(path)}: {match.group()}" for match in LOCAL_PATH.finditer(text)]
    assert not found


def test_no_source_file_is_longer_than_400_lines() -> None:
    lengths = {
        relative(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in FILES
        if path.suffix in SOURCES
    }
    assert not {name: lines for name, lines in lengths.items() if lines > 400}


def test_no_function_is_longer_than_50_lines() -> None:
    long = []
    for path in FILES:
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                long += [f"{relative(path)}: {node.name} has {lines} lines"] if lines > 50 else []
    assert not long


def test_assets_are_small() -> None:
    size = sum(path.stat().st_size for path in FILES if relative(path).startswith("assets/"))
    assert size <= 48 * MEGABYTE


# What else reads files, with their own text: our own code and assets, and what the person who runs a command
# names or has written. A stranger's model is not among it.
READERS = {
    "app.py": "assets",
    "model/decoding/kernels/compilation.py": "its own code",
    "model/files.py": "the checks",
    "model/importing/exporting.py": "what it has just written",
    "model/importing/files/pickles.py": "a file that was checked",
    "training/corpus/sources.py": "its own code",
    "training/hardware.py": "the kernel's tables",
    "training/run/directory.py": "a run",
    "training/run/resume.py": "a run, with its checksum",
    "viz/static/site.py": "its own files, and a former page of the command",
    "viz/viewer/__init__.py": "its own code",
}


def test_files_of_models_are_read_only_through_the_checks() -> None:
    """A file of a stranger's model can be a pipe or a device; model/files.py refuses it unread."""
    reads = re.compile(r"\.read_bytes\(|\.read_text\(|\.open\(\"r|\bsafe_open\(|(?<!def )\bopen\(.*\"r")
    sources = [ROOT / "app.py", *(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))]
    found = {relative(path) for path in sources if reads.search(path.read_text("utf-8"))}
    assert found == READERS.keys()


def test_no_pickles() -> None:
    assert not [relative(path) for path in FILES if path.suffix.lower() in PICKLES]


def requirements(name: str) -> list[str]:
    lines = (
        line.partition("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
    )
    return [line for line in lines if line]


@pytest.mark.parametrize(
    "name", ["requirements.txt", "tests/requirements.txt", "tests/benchmarks/requirements.txt"]
)
def test_requirements_are_pinned(name: str) -> None:
    pins = requirements(name)
    assert pins
    assert not [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9_.-]+==\d[\w.]*", pin)]


def test_the_lock_has_every_pin_and_a_hash_for_each_package() -> None:
    """Else `make lock` has not been run since requirements.txt changed."""
    locked = re.split(r"(?m)^(?=[A-Za-z0-9])", (ROOT / "requirements.lock").read_text(encoding="utf-8"))[1:]
    pins = {re.match(r"[\w.-]+==[\w.+]+", package)[0].replace("_", "-") for package in locked}  # type: ignore[index]
    assert {pin.replace("_", "-") for pin in requirements("requirements.txt")} <= pins
    assert all("--hash=sha256:" in package for package in locked)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_installs_the_versions_of_the_lock(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip").touch()
    versions = tmp_path / "locked-versions.txt"
    command = ["make", f"VENV={tmp_path}"]
    subprocess.run([*command, str(versions)], cwd=ROOT, check=True)
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    wanted = [line.removesuffix(" \\") for line in lock.splitlines() if re.match("[A-Za-z0-9]", line)]
    assert versions.read_text(encoding="utf-8").splitlines() == wanted

    def installs(target: str) -> list[str]:
        run = subprocess.run([*command, "-n", target], cwd=ROOT, check=True, capture_output=True, text=True)
        return [line for line in run.stdout.splitlines() if " pip install " in line]

    assert [f"--constraint {versions}" in line for line in installs("lint")] == [True, True]
    assert [f"--constraint {versions}" in line for line in installs("lock")] == [False]  # it may contradict
