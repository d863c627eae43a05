"""The lines of docs/interoperability.md run in their order, where the tools that they name are installed."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.model.importing.checkpoints import GERMAN, sentences

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/interoperability.md").read_text(encoding="utf-8")
TOOLS = ("bertviz", "inseq", "ctranslate2")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that the page's code defines."""
    for tool in TOOLS:
        pytest.importorskip(tool, reason=f"needs {tool} of tests/benchmarks/requirements.txt")
    folder = tmp_path_factory.mktemp("page")
    (folder / "assets").symlink_to(ROOT / "assets")
    for command in re.findall(r"^python (-m model export .*)$", PAGE, re.MULTILINE):
        environment = {"PYTHONPATH": ":".join([str(ROOT), *sys.path])}
        subprocess.run([sys.executable, *command.split()], cwd=folder, env=environment, check=True)
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
            exec(block, names)
    return names


def test_every_tool_says_the_same(lines: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    translation, tokenizer = lines["translation"], lines["tokenizer"]
    assert tuple(lines["ids"][0, 1:].tolist()) == translation.ids
    for layer, theirs in enumerate(lines["output"].cross_attentions):
        assert (theirs[0] - translation.attention.cross[layer]).abs().max() < 1e-5
    assert "attention" in lines["html"].data
    target = lines["result"].sequence_attributions[0].target
    assert [token.token for token in target][1:] == tokenizer.convert_ids_to_tokens(translation.ids)
    assert tokenizer.convert_tokens_to_ids(lines["found"].hypotheses[0]) == list(translation.ids[:-1])


def test_translations_of_ctranslate2_are_equal(lines: dict[str, Any]) -> None:
    for text in sentences(GERMAN, 20, seed=3):
        found = lines["translator"].translate(text)
        source = [token.piece for token in found.attention.source]
        (theirs,) = lines["fast"].translate_batch(
            [source], beam_size=1, max_decoding_length=2 * len(source) + 10, suppress_sequences=lines["never"]
        )
        pieces = [token.piece for token in found.attention.predicted if token.piece != "</s>"]
        assert theirs.hypotheses[0] == pieces
