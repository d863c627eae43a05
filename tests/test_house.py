"""The house around the code: who may import whom, what a clone holds, and that the README tells the truth."""

import ast
import graphlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import RepoCard

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("model", "training", "viz")
MAY_IMPORT = {
    "model": {"model"},
    "training": {"training", "model"},
    "viz": {"viz", "model"},
    "app": {"viz", "model"},
}
IGNORED_ANYWHERE = {".git", ".venv", "__pycache__", ".hypothesis", ".gradio"}
IGNORED_HERE = ("runs/", "data/", "tests/artifacts/")
PICKLES = {".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt"}
# Homes, mounts and work folders of somebody's machine; an address such as https://host/home/ is none.
SOMEBODYS_PATH = re.compile(r"(?<![\w.~/:$}>-])/(?:home|root|Users|mnt|opt|srv|work|workspace)/[\w.]")
MEGABYTE = 1_000_000


def committable_files() -> list[Path]:
    """Every file of a clone: what git tracks or would add; without git, what no ignored folder holds."""
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
README = (ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").exists() else ""


# The import rule


def modules_of_ours() -> dict[str, Path]:
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


def imports_of_ours() -> dict[str, set[str]]:
    """For each module of ours the modules of ours that it imports."""
    modules = modules_of_ours()
    graph = {}
    for module, path in modules.items():
        graph[module] = set()
        for name in imported_names(module, path):
            # `from model.config import ModelConfig` names the module model.config, not one called ModelConfig
            owner = name if name in modules else name.rpartition(".")[0]
            if name.split(".")[0] in {*MAY_IMPORT, "tests"}:
                graph[module].add(owner or name)
    return graph


def test_import_rule() -> None:
    graph = imports_of_ours()
    assert {module.split(".")[0] for module in graph} == set(MAY_IMPORT)
    wrong = [
        f"{module} imports {name}"
        for module, names in graph.items()
        for name in names
        if name.split(".")[0] not in MAY_IMPORT[module.split(".")[0]]
    ]
    assert not wrong


def test_no_import_cycles() -> None:
    graph = {module: names - {module} for module, names in imports_of_ours().items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail("modules import each other: " + " -> ".join(error.args[1]))


# Files


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = []
    for path in FILES:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # pictures and models
            continue
        found += [f"{relative(path)}: {match.group()}" for match in SOMEBODYS_PATH.finditer(text)]
    assert not found


@pytest.mark.parametrize("folder", ["home", "root", "Users", "mnt", "work"])
@pytest.mark.parametrize("before", ["", "see ", '"', "at=", "("])
def test_path_of_somebodys_machine_is_recognised(before: str, folder: str) -> None:
    assert SOMEBODYS_PATH.search(f"{before}/{folder}/ada")


@pytest.mark.parametrize(
    "text", ["https://example.org/home/ada", "tests/home/x", "$HOME/opt/x", "/usr/bin/env"]
)
def test_other_paths_are_left_alone(text: str) -> None:
    assert not SOMEBODYS_PATH.search(text)


def test_source_files_stay_readable_in_one_go() -> None:
    lengths = {
        relative(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in FILES
        if path.suffix in {".py", ".js"}
    }
    assert not {name: length for name, length in lengths.items() if length > 400}


def test_assets_are_small() -> None:
    size = sum(path.stat().st_size for path in FILES if relative(path).startswith("assets/"))
    assert size <= 48 * MEGABYTE


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


# The README


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """The commands in the README's shell blocks: one string each, without comments."""
    lines = "".join(code_blocks("bash")).replace("\\\n", " ").splitlines()
    return [command for line in lines if (command := line.partition("  #")[0].strip())]


def python_commands() -> dict[str, set[str]]:
    """What comes before the arguments (`python -m model translate`), with all options named for it."""
    found: dict[str, set[str]] = {}
    words = r"[a-z-]+(?: [a-z][a-z0-9-]*(?= ))?"  # the second one, a recipe, brings options of its own
    for command in commands():
        if match := re.match(rf"python (?:app\.py|-m (?:{'|'.join(PACKAGES)}) {words})", command):
            options = re.findall(r"(?<![\w-])--[a-z][a-z.-]*", command)
            found.setdefault(match.group(), set()).update(options)
    return found


def test_readme_front_matter_is_a_space() -> None:
    card = RepoCard.load(ROOT / "README.md").data.to_dict()
    pins = dict(pin.split("==") for pin in requirements("requirements.txt"))
    assert card["sdk"] == "gradio"
    assert card["sdk_version"] == pins["gradio"]
    assert re.fullmatch(r"3\.1[1-9]", card["python_version"])
    assert (ROOT / card["app_file"]).is_file()
    assert 0 < len(card["short_description"]) <= 60
    assert card["license"] == "apache-2.0"


def test_readme_names_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))
    code = [*commands(), *re.findall(r"`([^`\n]+)`", README)]
    named = {match.group(1) for line in code if (match := re.match(r"make ([a-z][a-z-]*)", line))}
    assert {"app", "test"} <= named <= targets


def test_readme_shows_each_command_line() -> None:
    shown = {command.split()[2] for command in python_commands() if command != "python app.py"}
    assert shown == set(PACKAGES)


@pytest.mark.parametrize("command", sorted(python_commands()))
def test_readme_commands_exist_with_their_options(command: str) -> None:
    words = [sys.executable, *command.split()[1:], "--help"]
    wide = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "PYTHONUTF8": "1"}
    run = subprocess.run(words, cwd=ROOT, env=wide, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    missing = {
        option for option in python_commands()[command] if not re.search(rf"{option}(?![\w.-])", run.stdout)
    }
    assert not missing


@pytest.mark.parametrize("block", code_blocks("python"))
def test_readme_python_runs(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(block, "README.md", "exec"), {})


def test_readme_tree_lists_every_file() -> None:
    """The tree exists line for line, and each file of app.py and the packages has its line."""
    block = next(block for block in code_blocks("text") if block.startswith("app.py"))
    listed, folders = set(), [""]
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        path = folders[depth] + line.split()[0]
        listed.add(path)
        folders = [*folders[: depth + 1], path]
    assert not sorted(path for path in listed if not (ROOT / path).exists())
    ours = {
        relative(path)
        for path in FILES
        if path.suffix in {".py", ".js", ".css", ".html"}
        and path.relative_to(ROOT).parts[0] in {"app.py", *PACKAGES}
    }
    assert not sorted(ours - listed)


def test_readme_links_and_pictures_exist() -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", README)
    ours = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert "assets/screenshots/light.png" in ours
    assert not [target for target in ours if not (ROOT / target).exists()]


def test_readme_names_tests_that_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", README)
    assert named
    missing = [
        f"{path}::{test}" for path, test in named if f"def {test}(" not in (ROOT / path).read_text("utf-8")
    ]
    assert not missing


def test_readme_is_finished() -> None:
    assert README
    assert "TODO" not in README
