"""The notebook's instruments draw the numbers that the model gives."""

from __future__ import annotations

import math

import pytest

import viz
from model import Head, Translator
from model.analysis.lens import log_probabilities
from model.analysis.trace import trace
from model.instruments import make_lens
from tests.model.helpers import SENTENCES, tiny_checkpoint
from tests.numerics import EXACT
from viz.instruments import lens_values, link_values, score_values

TRANSLATOR = Translator(tiny_checkpoint(seed=1))
TEXT = "Ein kleiner Hund läuft."
TARGET = "A small dog runs."
IDS = TRANSLATOR.score(TEXT, TARGET).ids


def rows(chart):
    return chart.to_dict()["data"]["values"]


def test_lens_has_a_word_for_each_layer_and_step():
    found = rows(viz.lens(TRANSLATOR, TEXT, TARGET))
    model = TRANSLATOR.checkpoint.model
    best = log_probabilities(model, trace(model, *TRANSLATOR.pair(TEXT, IDS)).decoder).max(-1)
    assert len(found) == best.values.numel()
    for row in found:
        expected = math.exp(best.values[row["layer"] - 1, row["step"] - 1])
        assert row["probability"] == pytest.approx(expected, abs=1e-4)
    assert len(rows(viz.lens(TRANSLATOR, TEXT))) == 4 * len(TRANSLATOR.translate(TEXT).ids)


def test_the_lens_goes_through_the_matrices_of_the_model(tmp_path):
    translator = Translator(TRANSLATOR.checkpoint, "tiny", directory=tmp_path)
    make_lens(translator, [translator.translate(TEXT)], tmp_path)
    direct, through = (rows(viz.lens(translator, TEXT, TARGET, jacobian=way)) for way in (False, True))
    assert direct == rows(viz.lens(TRANSLATOR, TEXT, TARGET))
    values = lens_values(translator, TEXT, IDS)["jacobian"]["log_probabilities"]
    for row in through:
        expected = math.exp(values[row["layer"] - 1][row["step"] - 1][0])
        assert row["probability"] == pytest.approx(expected, rel=EXACT)


def test_contributions_are_one_map_for_each_kind():
    maps = viz.contributions(TRANSLATOR, TEXT, 1, other=5, target=TARGET).to_dict()["hconcat"]
    assert [len(one["data"]["values"]) for one in maps] == [6, 12, 12]
    assert maps[0]["encoding"]["color"]["title"] == "logit"


def test_a_score_split_has_every_pair_of_parts():
    head = Head("cross", 1, 2)
    found = rows(viz.score_split(TRANSLATOR, TEXT, head, 2, 1, TARGET))
    score = score_values(TRANSLATOR, TEXT, IDS, *head, 2, 1)["score"]
    assert sum(row["score"] for row in found) == pytest.approx(score, abs=1e-3)
    assert "decoder 1.1" in {row["query"] for row in found}


def test_writing_lists_words_from_up_to_down():
    changes = [row["change"] for row in rows(viz.writing(TRANSLATOR, TEXT, Head("cross", 1, 2), 2, 1))]
    assert changes == sorted(changes, reverse=True)


def test_removal_has_five_curves():
    found = rows(viz.removal(TRANSLATOR, TEXT, "cross", 1, 2, target=TARGET))
    assert {row["by"] for row in found} == {"weight", "norm", "rollout", "value zeroing", "random"}


def test_word_links_show_a_persons_own():
    chart = viz.word_links(TRANSLATOR, TEXT, TARGET, gold="0-0 2-2").to_dict()
    values = link_values(TRANSLATOR, TEXT, IDS)
    own = [row for row in chart["data"]["values"] if row["by"] == "yours"]
    assert [(row["source"], row["target"]) for row in own] == [(0, 0), (2, 2)]
    assert [row["word"] for row in chart["datasets"]["source"]] == values["source_words"]


def test_examples_have_a_role_for_every_head():
    found = rows(viz.examples(TRANSLATOR, SENTENCES[:3], "cross"))
    assert len(found) == 12
    assert all(0 < row["share"] <= 1 and row["role"] for row in found)


def test_two_translations_stand_side_by_side():
    left, right = TRANSLATOR.translate(TEXT), TRANSLATOR.score(TEXT, TARGET)
    page = viz.compare(left, right, ("one", "two"))._repr_html_()
    assert page.count("<iframe") == 2
    assert page.index("one") < page.index("two")
