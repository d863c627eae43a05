"""Whatever happens to a byte or a value of a model directory: one sentence or a model that works."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.errors import UserError
from model.storage.checkpoint import Checkpoint, load, save
from model.translator import Translator
from tests.hostile.changes import change, changes
from tests.model.helpers import assert_sentence, tiny_checkpoint

SECONDS = 10  # of the processor, for what takes some hundredths


@pytest.fixture(scope="module", params=["16 bits", "8 bits", "separate"])
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound")
    tied = request.param != "separate"
    save(
        tiny_checkpoint(tied, d_model=6, d_ff=4),
        path,
        card={"title": "Tiny"},
        eight_bit=request.param == "8 bits",
    )
    return path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_bytes_is_refused_or_harmless(data: st.DataObject, sound: Path, tmp_path: Path) -> None:
    directory = fresh_copy(sound, tmp_path / "changed")
    name = data.draw(st.sampled_from(sorted(path.name for path in directory.iterdir())))
    change(directory / name, data.draw(changes((directory / name).stat().st_size)))
    started = time.process_time()
    assert_refused_or_works(directory)
    assert time.process_time() - started < SECONDS


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_other_value_is_refused_or_harmless(data: st.DataObject, sound: Path, tmp_path: Path) -> None:
    """One value of one JSON file becomes any other JSON value, one name goes or one is added."""
    directory = fresh_copy(sound, tmp_path / "changed")
    path = data.draw(st.sampled_from(sorted(directory.glob("*.json"))))
    values = json.loads(path.read_text(encoding="utf-8"))
    inside = values
    while data.draw(st.booleans()):
        dicts = [value for value in inside.values() if isinstance(value, dict) and value]
        if not dicts:
            break
        inside = data.draw(st.sampled_from(dicts))
    name = data.draw(st.sampled_from(sorted(inside)) | st.text(max_size=9))
    if name in inside and data.draw(st.booleans()):
        del inside[name]
    else:
        inside[name] = data.draw(json_values)
    path.write_text(json.dumps(values), encoding="utf-8")
    assert_refused_or_works(directory)


def fresh_copy(sound: Path, directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    return Path(shutil.copytree(sound, directory))


def assert_refused_or_works(directory: Path) -> None:
    try:
        checkpoint = load(directory)
    except UserError as error:
        assert_sentence(error)
    else:
        assert_works(checkpoint)


def assert_works(checkpoint: Checkpoint) -> None:
    translator = Translator(checkpoint)
    assert translator.title
    try:
        translator.translate("Hund")
    except UserError as error:  # such as: the model knows none of these characters
        assert_sentence(error)
