"""The payload keeps every number that the page shows, and stays small."""

from __future__ import annotations

import base64
import json
import tracemalloc
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from model.analysis import measures
from model.errors import UserError
from model.translator import Translator
from tests.model.helpers import assert_sentence, tiny_checkpoint
from tests.viz.fakes import random_translation
from viz import payload

# Bytes of BertViz's JSON for the same sizes, measured: (layers, heads, tokens) -> bytes.
BERTVIZ = {(4, 8, 20): 844_000, (6, 8, 64): 13_200_000}

OTHERS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.lists(st.integers() | st.text(max_size=3), max_size=5)
    | st.dictionaries(st.text(max_size=9), st.integers(), max_size=3)
)


@pytest.fixture
def joint() -> Translator:
    """A random translator, small enough to run in every test."""
    return Translator(tiny_checkpoint(seed=1))


def words(count: int) -> list[str]:
    return [f"word{number}" for number in range(count - 1)]  # the end of the sentence is one more


def test_a_translation_survives_the_round_trip():
    translation = random_translation(["Ein", "Hund"], ["a", "dog", "."], layers=2, heads=3)
    back = payload.decode(json.loads(payload.to_json(payload.encode(translation, "de-en"))))
    assert back.text == translation.text
    assert back.attention.source == translation.attention.source
    assert back.attention.predicted == translation.attention.predicted
    assert [[one.token for one in step] for step in back.alternatives] == [
        [one.token for one in step] for step in translation.alternatives
    ]
    assert back.log_probabilities == pytest.approx(translation.log_probabilities, abs=1e-6)
    for kind in ("encoder", "decoder", "cross"):
        torch.testing.assert_close(
            getattr(back.attention, kind), getattr(translation.attention, kind), rtol=0, atol=1.6e-5
        )


def test_the_taught_head_survives_the_round_trip_and_may_be_missing():
    translation = Translator(tiny_checkpoint(seed=1, taught_head=(2, 1))).translate("Ein Hund")
    encoded = json.loads(payload.to_json(payload.encode(translation, "de-en")))
    assert encoded["taught"] == [2, 1]
    assert payload.decode(encoded).attention.taught == (2, 1)
    del encoded["taught"]  # as release 0.1 wrote it
    assert payload.decode(encoded).attention.taught is None


def test_a_forced_prefix_and_its_hypotheses_survive_the_round_trip(joint):
    translation = joint.translate("Ein Hund läuft.", beam_size=3, n_best=3, forced="A")
    back = payload.decode(json.loads(payload.to_json(payload.encode(translation, "tiny"))))
    assert back.n_forced == translation.n_forced > 0
    assert back.ids == translation.ids
    assert len(back.hypotheses) == 3
    for found, original in zip(back.hypotheses, translation.hypotheses, strict=True):
        assert (found.text, found.ids) == (original.text, original.ids)
        assert found.log_probabilities == pytest.approx(original.log_probabilities, abs=1e-6)


def test_the_options_are_those_of_the_translation(joint):
    data = payload.encode(joint.translate("Ein Hund läuft.", beam_size=3, length_penalty=0.5), "tiny", "Tiny")
    assert data["options"] == {"beam_size": 3, "length_penalty": 0.5}


def test_measures_and_roles_are_those_of_the_model(joint):
    translation = joint.translate("Ein kleiner Hund läuft durch den Schnee.")
    data = json.loads(payload.to_json(payload.encode(translation, "tiny")))
    measured = measures.measure_heads(translation.attention)
    fields = {"confidence": "confidence", "entropy": "entropy", "sinks": "sink_mass"}
    for kind, heads in measured.items():
        shown = data["measures"][kind]
        for name, field in fields.items():
            torch.testing.assert_close(torch.tensor(shown[name]), getattr(heads, field), rtol=0, atol=5.1e-5)
        assert shown["offset"] == heads.positional.offset.tolist()
        assert shown["offset_queries"] == heads.positional.queries.tolist()
        roles = [[measures.ROLES[role] for role in row] for row in measures.head_roles(heads).tolist()]
        assert data["roles"][kind] == roles


@settings(deadline=None)
@given(st.data())
def test_any_change_of_a_payload_is_refused_or_harmless(data: st.DataObject):
    """One value becomes another one, or goes; the others stay."""
    changed = json.loads(payload.to_json(payload.encode(random_translation(["a", "b"], ["c"]), "x")))
    inside = changed
    while data.draw(st.booleans()):
        places = inside if isinstance(inside, dict) else range(len(inside))
        nested = [place for place in places if isinstance(inside[place], dict | list) and inside[place]]
        if not nested:
            break
        inside = inside[data.draw(st.sampled_from(nested))]
    place = data.draw(st.sampled_from(sorted(inside) if isinstance(inside, dict) else range(len(inside))))
    if data.draw(st.booleans()):
        del inside[place]
    else:
        inside[place] = data.draw(OTHERS)
    try:
        payload.decode(changed)
    except UserError as error:
        assert_sentence(error)


def test_weights_that_unpack_to_more_than_their_shape_are_refused():
    bomb = base64.b64encode(zlib.compress(bytes(10**8), 9)).decode()
    changed = payload.encode(random_translation(["a", "b"], ["c"]), "x")
    for shape in ([1, 1, 2, 2], [1, 1, 5_000, 10_000], [-1, -1, 2, 2], [1, 1, "a", 10**12]):
        changed["attention"]["encoder"] = {"shape": shape, "data": bomb}
        tracemalloc.start()
        with pytest.raises(UserError, match="incomplete or changed"):
            payload.decode(changed)
        assert tracemalloc.get_traced_memory()[1] < 10**7
        tracemalloc.stop()


def test_every_measure_and_role_in_the_payload_is_defined():
    data = json.loads(payload.to_json(payload.encode(random_translation(["a"], ["b"]), "x")))
    definitions = data["definitions"]
    named = {one[table] for one in definitions["measures"] for table in ("name", "offset", "sample")}
    assert {name for tables in data["measures"].values() for name in tables} <= named
    assert {role for table in data["roles"].values() for row in table for role in row} <= set(
        definitions["roles"]
    )
    for one in (*definitions["measures"], *definitions["roles"].values()):
        assert one["definition"]


def test_a_measure_without_meaning_is_null():
    data = payload.encode(random_translation(["a", "b"], ["c"], layers=2, heads=3), "x")["measures"]
    assert data["decoder"]["focus"] == data["encoder"]["focus"] == [[None] * 3] * 2
    assert None not in data["cross"]["focus"][0]


def test_cells_that_the_mask_forbids_are_exactly_zero():
    translation = random_translation(["a"] * 5, ["b"] * 7)
    back = payload.decode(payload.encode(translation, "de-en"))
    assert (back.attention.decoder.triu(1) == 0).all()


@settings(deadline=None, max_examples=200)
@given(arrays.arrays(np.float32, st.integers(1, 64), elements=st.floats(0, 1, width=32)))
def test_every_weight_keeps_its_four_digits(weights):
    shown = payload.quantise(weights) / payload.SCALE
    assert [f"{value:.4f}" for value in shown] == [f"{float(value):.4f}" for value in weights]
    assert np.abs(shown - weights.astype(np.float64)).max() < 1.6e-5


@pytest.mark.parametrize(("layers", "heads", "tokens"), BERTVIZ)
def test_payload_is_at_most_one_eighth_of_bertviz(layers, heads, tokens):
    translation = random_translation(words(tokens), words(tokens), layers, heads, sharp=0.5)
    noise = torch.rand(layers, heads, tokens, tokens)  # no pattern to compress, but rows that sum to 1
    for kind in ("encoder", "decoder", "cross"):
        weights = getattr(translation.attention, kind)
        weights.copy_(noise * (weights > 0))
        weights.div_(weights.sum(-1, keepdim=True))
    size = len(payload.to_json(payload.encode(translation, "de-en")).encode())
    assert size <= BERTVIZ[layers, heads, tokens] / 8, f"{size} bytes"


def test_encoder_and_decoder_may_differ_in_depth():
    shallow, deep = random_translation(["a"], ["b"], layers=1), random_translation(["a"], ["b"], layers=3)
    object.__setattr__(shallow.attention, "encoder", deep.attention.encoder)
    shapes = payload.encode(shallow, "x")["attention"]
    assert shapes["encoder"]["shape"][0] == 3
    assert shapes["cross"]["shape"][0] == 1


def test_another_version_is_rejected():
    data = payload.encode(random_translation(["a"], ["b"]), "x") | {"version": 1}
    with pytest.raises(UserError, match="has version 1; this program reads 3"):
        payload.decode(data)


def test_json_cannot_end_a_script_or_a_comment():
    data = payload.encode(random_translation(["</script>", "<!--", "\u2028"], ["</textarea>"]), "x")
    text = payload.to_json(data)
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == data
