"""The named endpoints answer as the viewer's requests do; only /attention returns the weights."""

from __future__ import annotations

import pytest

from model.errors import UserError
from model.instruments import ablate, mean_baseline, sentence_baseline
from model.results import Head
from model.translator import Translator
from tests.model.helpers import tiny_checkpoint
from tests.viz.loop import run
from viz.payload import decode
from viz.server.api import Api
from viz.server.backend import Backend
from viz.server.scheduler import Scheduler, key_of
from viz.server.snippets import call_of
from viz.server.validation import ExportRequest

TEXT = "Ein kleiner Hund läuft."
OTHER = "Die Tür ist heiß."
TRANSLATOR = Translator(tiny_checkpoint(seed=1), "tiny")


@pytest.fixture
def served() -> Api:
    return Api(Scheduler(Backend({"tiny": TRANSLATOR}).answer))


def test_a_translation_and_its_record(served):
    record = decode(run(served.attention(TEXT, "tiny", 2, 0.5)))
    expected = TRANSLATOR.translate(TEXT, 2, 0.5)
    assert record.ids == expected.ids
    summary = run(served.translate(TEXT, "tiny", 2, 0.5))
    assert summary["translation"] == expected.text
    assert "attention" not in summary
    forced = [expected.ids[0], 5]
    assert decode(run(served.attention(TEXT, "tiny", forced=forced))).ids[:2] == tuple(forced)


def test_scores_and_mutes(served):
    scored = run(served.score(TEXT, "A dog.", "tiny"))
    assert scored["translation"] == "A dog."
    assert len(scored["log_probabilities"]) == len(scored["target_tokens"])
    muted = run(served.mute(TEXT, [["cross", 3, 1]], "tiny"))
    own = TRANSLATOR.mute(TEXT, [Head("cross", 3, 1)])
    assert muted["translation"] == own.ablated.text
    assert muted["differences"] == pytest.approx(own.differences, abs=1e-6)


def test_a_call_of_the_export_menu_gives_what_is_on_screen(served):
    forced = list(TRANSLATOR.score(TEXT, "A small").ids[:2])
    heads = [Head("cross", 3, 1), Head("cross", 0, 0)]
    options = {"model": "tiny", "beam_size": 1, "length_penalty": 1.0, "address": "http://127.0.0.1/"}
    for given, baseline, row in (
        ({}, None, None),
        ({"row": 1}, None, 1),
        ({"baseline": "mean", "sample": [OTHER]}, mean_baseline(TRANSLATOR, [OTHER]), None),
        ({"baseline": "sentence", "other": OTHER, "row": 2}, sentence_baseline(TRANSLATOR, OTHER), 2),
    ):
        request = ExportRequest(text=TEXT, forced=forced, heads=heads, **options, **given)
        endpoint, arguments = call_of(request)
        expected = ablate(TRANSLATOR, TEXT, heads, baseline, row, forced=forced)
        for found in (
            run(getattr(served, endpoint)(**arguments)),
            run(getattr(served, endpoint)(*arguments.values())),
        ):
            assert found["translation"] == expected.ablated.text
            assert found["differences"] == pytest.approx(expected.differences, abs=1e-6)


@pytest.mark.parametrize("penalty", ["1", None, float("nan"), float("inf"), 10**30, 1e308])
def test_an_invalid_length_penalty_is_one_sentence(served, penalty):
    with pytest.raises(UserError, match="length_penalty"):
        run(served.attention(TEXT, "tiny", 2, penalty))


def test_an_error_is_the_same_sentence_as_on_the_page(served):
    with pytest.raises(UserError, match="There is no model 'xx'; choose one of: tiny"):
        run(served.score(TEXT, "A dog.", "xx"))


def test_a_whole_number_is_written_as_the_browser_writes_it(served):
    run(served.attention(TEXT, "tiny", 2, 1.0))
    request = {"do": "translate", "text": TEXT, "model": "tiny", "beam_size": 2, "length_penalty": 1}
    assert served.scheduler.cache.get(key_of(request | {"forced": []}))
