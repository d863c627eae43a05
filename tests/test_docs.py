"""README.md, CONTRIBUTING.md and docs/ say what is true: commands, code, links, names of files and tests."""

import ast
import importlib
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest
import tyro
from huggingface_hub import RepoCard

from tests.file_list import PAGE, TOPS, describe, with_file_list
from tests.test_house import FILES, IGNORED_HERE, PACKAGES, ROOT, SOURCES, relative, requirements

README = ROOT / "README.md"
PAGES = {
    relative(path): path.read_text(encoding="utf-8")
    for path in [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
}
TEXT = "\n".join(PAGES.values())


def code_blocks(language: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def code_spans(text: str = TEXT) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def commands() -> list[str]:
    """The commands in all shell blocks: one string each, without comments."""
    lines = "".join(code_blocks("bash")).replace("\\\n", " ").splitlines()
    return [command for line in lines if (command := line.partition("  #")[0].strip())]


def python_commands() -> dict[str, set[str]]:
    """What comes before the arguments (`python -m model translate`), with all options shown for it."""
    found: dict[str, set[str]] = {}
    words = r"[a-z-]+(?: [a-z][a-z0-9-]*(?= ))?"  # the second one, a recipe, has options of its own
    variables = r"(?:[A-Z_]+=\S+ )*"
    for command in [*commands(), *code_spans()]:
        if match := re.match(
            rf"{variables}(python (?:app\.py|-m (?:{'|'.join(PACKAGES)}) {words}))", command
        ):
            options = re.findall(r"(?<![\w-])--[a-z][a-z.-]*", command)
            found.setdefault(match[1], set()).update(options)
    return found


# The README


def test_front_matter_describes_a_space() -> None:
    card = RepoCard.load(README).data.to_dict()
    pins = dict(pin.split("==") for pin in requirements("requirements.txt"))
    assert card["sdk"] == "gradio"
    assert card["sdk_version"] == pins["gradio"]
    assert re.fullmatch(r"3\.1[1-9]", card["python_version"])
    assert (ROOT / card["app_file"]).is_file()
    assert 0 < len(card["short_description"]) <= 60
    assert card["license"] == "apache-2.0"


def test_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) < 160


def test_readme_leads_to_every_page_and_shows_a_picture() -> None:
    targets = set(links(PAGES["README.md"]))
    assert "assets/screenshots/light.png" in targets
    assert set(PAGES) - {"README.md"} <= targets


# Commands and code


def test_named_targets_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))
    lines = [*commands(), *code_spans()]
    named = {match[1] for line in lines if (match := re.match(r"make ([a-z][a-z-]*)", line))}
    assert {"app", "test"} <= named <= targets


def test_each_command_line_is_shown() -> None:
    shown = {command.split()[2] for command in python_commands() if command != "python app.py"}
    assert shown == set(PACKAGES)


@pytest.mark.parametrize("command", sorted(python_commands()))
def test_commands_exist_with_their_options(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, *words = command.split()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.argv", [words[0], *words[2:], "--help"])
    with pytest.raises(SystemExit) as end:
        command_line(words)()
    help_text = capsys.readouterr().out
    assert end.value.code == 0
    assert help_text
    assert not {
        option for option in python_commands()[command] if not re.search(rf"{option}(?![\w.-])", help_text)
    }


def command_line(words: list[str]) -> Callable[[], object]:
    """What the command calls. It runs in this process: importing everything again would take seconds."""
    if words == ["app.py"]:
        return partial(tyro.cli, importlib.import_module("app").main)
    main: Callable[[], object] = importlib.import_module(f"{words[1]}.__main__").main
    return main


@pytest.mark.parametrize("block", code_blocks("python"))
def test_python_blocks_run(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(block, "documentation", "exec"), {})


# Names


def links(text: str) -> list[str]:
    """The targets of all links and pictures that are not web addresses, without their anchors."""
    return [link for link in re.findall(r"\]\(([^)#\s]+)", text) if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("page", sorted(PAGES))
def test_links_and_pictures_exist(page: str) -> None:
    folder = (ROOT / page).parent
    assert not [link for link in links(PAGES[page]) if not (folder / link).exists()]


def test_named_tests_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", TEXT)
    assert named
    missing = [
        f"{path}::{test}" for path, test in named if f"def {test}(" not in (ROOT / path).read_text("utf-8")
    ]
    assert not missing


@pytest.mark.parametrize("page", sorted(PAGES))
def test_named_files_functions_and_methods_exist(page: str) -> None:
    """`model/translator.py`, `model/translator.py: Translator.translate` and `Translator.translate`."""
    assert not [span for span in code_spans(PAGES[page]) if is_missing(span)]


def is_missing(span: str) -> bool:
    path, _, name = span.partition(": ")
    if re.fullmatch(rf"(?:{'|'.join((*PACKAGES, 'tests', 'docs', 'assets'))})/[\w./-]+|app\.py", path):
        if "NAME" in path or f"{path}/".startswith(IGNORED_HERE):  # any name, or a folder made by running
            return False
        return not (ROOT / path).exists() or bool(name and name not in definitions(ROOT / path))
    is_method = re.fullmatch(r"[A-Z]\w+\.[a-z_]\w*(?<!\.md)", span)
    return bool(is_method and span not in all_definitions())


@cache
def definitions(path: Path) -> set[str]:
    """What a file defines: functions, classes, constants, and `Class.method` or `Class.field` in Python."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        return set(
            re.findall(r"^(?:export )?(?:async )?(?:function|const|class|let) (\w+)", text, re.MULTILINE)
        )
    found = set()
    for node in ast.parse(text).body:
        found |= _names(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for each in node.body for name in _names(each)}
    return found


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


@cache
def all_definitions() -> set[str]:
    ours = [path for path in FILES if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in TOPS]
    return set().union(*(definitions(path) for path in ours))


# The list of files


def test_the_file_list_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_file_list(page) == page, "run `make docs`"


def test_every_source_file_describes_itself() -> None:
    ours = [path for path in FILES if path.suffix in SOURCES and path.relative_to(ROOT).parts[0] in TOPS]
    assert not [relative(path) for path in ours if not describe(path)]


def test_the_pages_are_finished() -> None:
    assert "TODO" not in TEXT
