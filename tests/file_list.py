"""Write the list of source files into docs/architecture.md: `make docs`."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
TOPS = ("app.py", "model", "training", "viz")
SUFFIXES = {".py", ".js", ".ts", ".css"}
BEGIN, END = "<!-- begin files -->", "<!-- end files -->"


def file_list() -> str:
    """Every source file and folder with its own description."""
    return "\n".join(line for top in TOPS for line in _lines(ROOT / top, ""))


def with_file_list(page: str) -> str:
    """`page` with the present list between its two markers."""
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n{file_list()}\n{END}{after}"


def _lines(path: Path, indent: str) -> list[str]:
    if path.is_file():
        return [f"{indent}- `{path.name}`: {describe(path)}"]
    texts = [path / "__init__.py", path / "README.md"]  # a folder of scripts has the second
    children = sorted(path.iterdir(), key=lambda child: (child.is_dir(), child.name))
    sources = [
        child for child in children if (child.is_dir() or child.suffix in SUFFIXES) and child not in texts
    ]
    inside = [line for child in sources for line in _lines(child, indent + "  ")]
    if not inside:  # a folder of caches
        return []
    description = next(describe(text) for text in texts if text.exists())
    return [f"{indent}- **{path.name}/** {description}", *inside]


def describe(path: Path) -> str:
    """The first line of a Python docstring or of a text, or the first sentence of the comment in line 1."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text.partition("\n")[0]
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    comment = re.match(r"(?://.*\n)+|/\*(?s:.*?)\*/", text)
    words = re.sub(r"^//|^/\*|\*/$", "", comment[0].strip(), flags=re.MULTILINE).split() if comment else []
    return re.split(r"(?<=[.!?])(?<!et al\.) ", " ".join(words))[0]


if __name__ == "__main__":
    PAGE.write_text(with_file_list(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
