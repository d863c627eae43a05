"""Collects the English texts that the page shows, wherever they are written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import app
from model.analysis.definitions import MEASURES, ROLE_DEFINITIONS
from model.analysis.faithfulness import RANDOM
from model.storage.card import read_card
from tests.file_list import ROOT
from viz.export import NO_SCRIPT, OPEN_PAGE, START_PAGE
from viz.server.scheduler import Scheduler
from viz.static.document import element
from viz.viewer import HERE
from viz.widgets import BEAM, PENALTY, WIDGETS

LITERAL = r"""('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
SAID = re.compile(rf"(?<!\w)(?<!\w\.)(?:say|sayNote|sayParts|fault|message)\(\s*(?:{LITERAL}|(.))")
COUNTED = re.compile(rf"(?<!\w)(?<!\w\.)sayCount\(\s*[^,]+,\s*(?:{LITERAL}\s*,\s*{LITERAL}|(.))")
PLACE = re.compile(r"\{(\w+(?::(?:,|\.\df))?)\}")
PARTS = ("token", "position")  # what a score is split into; model/analysis/trace.py names them
RANKINGS = ("weight", "norm", "rollout", "value zeroing", RANDOM)  # of model/analysis/faithfulness.py
# That a model reads or writes.
LANGUAGES = (
    "German",
    "English",
    "French",
    "Italian",
    "Spanish",
    "lower-case letters",
    "Word",
    "reversed word",
)
# What Gradio itself writes into the labels of its sliders.
OF_GRADIO = {
    "Reset to default value",
    *(
        f"{what} for {label}"
        for what in ("number input", "range slider")
        for label in (BEAM.label, PENALTY.label)
    ),
}
ATTRIBUTES = ("aria-label", "label", "placeholder", "title")


def scripts() -> dict[str, str]:
    """The viewer's modules by their paths, without the one that defines `say`."""
    paths = {path.relative_to(HERE).as_posix(): path for path in sorted(HERE.rglob("*.js"))}
    return {name: path.read_text("utf-8") for name, path in paths.items() if name != "locales/language.js"}


def not_literal() -> list[str]:
    """Where the first text of `say` and its like is not a literal, so that it cannot be collected."""
    return [
        f"{name}: {found[0]}"
        for name, text in scripts().items()
        for pattern in (SAID, COUNTED)
        for found in pattern.finditer(text)
        if found[1] is None
    ]


def script_texts() -> tuple[set[str], set[str]]:
    """The texts of the scripts, and those of them that are about a count."""
    plain, counted = set(), set()
    for text in scripts().values():
        plain |= {_unquote(found[1]) for found in SAID.finditer(text) if found[1]}
        counted |= {_unquote(found[2]) for found in COUNTED.finditer(text) if found[1]}
    return plain - {""} | counted, counted


def plain_texts() -> set[str]:
    """The texts of the course and of the glossary, which are data: who shows them says them."""
    files = [(HERE / name).read_text("utf-8") for name in ("learn/chapters.js", "learn/quiz.js")]
    keyed = rf"^ +(?:title|text|because|learned):\s+{LITERAL},$"
    found = {literal for text in files for literal in re.findall(keyed, text, re.MULTILINE)}
    for text in files:
        for answers in re.findall(r"\b(?:answers|text): \[([^\]]*)\]", text):
            found |= set(re.findall(LITERAL, answers))
    glossary = (HERE / "drawing/glossary.js").read_text("utf-8")
    pairs = re.findall(rf"^  (?:{LITERAL}|(\w+)):\s+{LITERAL},$", glossary, re.MULTILINE)
    found |= {literal for quoted, word, meaning in pairs for literal in (quoted or f"'{word}'", meaning)}
    return {_unquote(literal) for literal in found}


def letter_texts() -> dict[str, str]:
    """What is said of a model of letters, by what is said of others."""
    text = (HERE / "locales/letters.js").read_text("utf-8")
    pairs = re.findall(rf"^  {LITERAL}:\s+{LITERAL},$", text, re.MULTILINE)
    return {_unquote(words): _unquote(letters) for words, letters in pairs}


def _unquote(literal: str) -> str:
    return str(ast.literal_eval(literal))


def sentences() -> set[str]:
    """The templates of every `Sentence` in the Python code."""
    found = set()
    for path in [*ROOT.glob("model/**/*.py"), *ROOT.glob("viz/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_sentence = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Sentence"
            if is_sentence and isinstance(node.args[0], ast.Constant):
                found.add(node.args[0].value)
    return found


def data_texts() -> set[str]:
    """Texts that come with the data: measures, roles, parts, rankings, languages, and names in cards."""
    measures = {text for one in MEASURES for text in (one.label, one.definition, one.comparison, one.unit)}
    roles = {text for name, one in ROLE_DEFINITIONS.items() for text in (name, one.definition)}
    return (measures | roles) - {""} | set(PARTS) | set(RANKINGS) | set(LANGUAGES) | _card_names()


def _card_names() -> set[str]:
    """The names of what the cards of the shipped models say, for the dialog about a model."""
    facts = {name for path in (ROOT / "assets" / "models").iterdir() for name, _ in read_card(path)["facts"]}
    return {"size", "shape", "tokens"} | facts


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.tag = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tag = tag
        self.found |= {value for name, value in attributes if name in ATTRIBUTES and value}

    def handle_data(self, data: str) -> None:
        if self.tag not in ("script", "style", "title", "noscript") and "{" not in data:
            self.found.add(data.strip())


def page_texts() -> set[str]:
    """The texts around the viewer: of the two pages' widgets and of the exported file."""
    parser = _Texts()
    parser.feed("".join(element(each) for each in WIDGETS))
    page = app.build({}, Scheduler(lambda request: {}))
    for one in page.get_config_file()["components"]:
        parser.found |= set(_labels(one["type"], one["props"]))
        parser.feed(str(one["props"].get("html_template") or "").replace("${value}", ""))
    return parser.found - {"", "Headlight"} | {NO_SCRIPT, OPEN_PAGE, START_PAGE} | OF_GRADIO


def _labels(kind: str, properties: dict[str, object]) -> Iterator[str]:
    names = ("label", "info", "placeholder", *(["value"] if kind == "button" else []))
    shown = [
        name for name in names if name != "label" or kind in ("textbox", "slider", "code", "downloadbutton")
    ]
    yield from (str(properties[name]) for name in shown if properties.get(name))


def all_texts() -> set[str]:
    """Every text that a catalogue must have."""
    return (
        script_texts()[0]
        | plain_texts()
        | set(letter_texts().values())
        | sentences()
        | data_texts()
        | page_texts()
    )


def places(text: str) -> set[str]:
    return set(PLACE.findall(text))
