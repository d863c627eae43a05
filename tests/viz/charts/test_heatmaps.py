"""Plotly figures and altair charts show each token once, as text."""

from __future__ import annotations

import pytest
import torch

import viz
from model.results import HeadValues
from tests.viz.fakes import random_translation
from viz.charts import head_maps, heatmaps

RESULT = random_translation(["the", "<b>dog</b>", "the"], ["der", "Hund", "der"], layers=2, heads=5)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_head_shows_the_tensor(kind):
    figure = heatmaps.head_figure(RESULT.attention, kind, layer=1, head=2)
    weights = getattr(RESULT.attention, kind)[1, 2]
    shown = figure.data[0].z
    for row in range(weights.shape[0]):
        for column in range(weights.shape[1]):
            masked = kind == "decoder" and column > row
            assert shown[row][column] == (None if masked else pytest.approx(weights[row, column].item()))


def test_a_repeated_word_keeps_its_places_and_markup_stays_text():
    axis = heatmaps.head_figure(RESULT.attention, "cross", 0, 0).layout.xaxis
    assert list(axis.tickvals) == [0, 1, 2, 3]
    assert list(axis.ticktext) == ["the", "&lt;b&gt;dog&lt;/b&gt;", "the", "&lt;/s&gt;"]


def test_layer_grid_has_every_head():
    assert len(heatmaps.layer_grid(RESULT.attention, "cross", layer=0).data) == 5


def test_head_map_has_every_head():
    chart = head_maps.head_map([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], "confidence").to_dict()
    values = chart["data"]["values"]
    assert len(values) == 6
    assert values[-1] == {"layer": 2, "head": 3, "value": 0.6}


def test_importance_map_shows_every_head_of_each_kind_on_one_scale():
    importance = HeadValues(-torch.rand(2, 5), torch.rand(3, 5), torch.zeros(3, 5))
    maps = head_maps.importance_map(importance).to_dict()["hconcat"]
    assert [one["title"] for one in maps] == ["Encoder", "Decoder", "Cross"]
    most = max(float(values.abs().max()) for values in importance)
    for one, values in zip(maps, importance, strict=True):
        shown = [[row["layer"], row["head"], row["value"]] for row in one["data"]["values"]]
        places = torch.ones_like(values).nonzero().tolist()
        assert shown == [[layer + 1, head + 1, values[layer, head].item()] for layer, head in places]
        assert one["encoding"]["color"]["scale"]["domain"] == [-most, 0, most]


def test_a_notebook_needs_one_line():
    assert viz.head_figure is heatmaps.head_figure
    assert viz.importance_map is head_maps.importance_map


def test_step_probabilities_keep_repeated_tokens_apart():
    chart = head_maps.step_probabilities(RESULT).to_dict()
    values = chart["data"]["values"]
    assert [row["token"] for row in values] == ["der", "Hund", "der", "</s>"]
    assert [row["step"] for row in values] == [1, 2, 3, 4]
    assert all(0 <= row["probability"] <= 1 for row in values)
