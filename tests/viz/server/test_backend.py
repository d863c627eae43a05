"""Answers to the viewer's requests agree with the model, and a wrong request is refused in one sentence."""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.inputs import MAX_TARGET_TOKENS, MAX_TOKENS
from model.results import KINDS, Head
from model.storage.probes import PROBES
from model.storage.training_log import METRICS
from model.text.tokenizer import EOS_ID
from tests.viz.questions import BACKEND, COMMON, GOOD, IDS, PAIRS, TEXT, TRANSLATOR, ask, train
from viz.about import NO_CURVES, NO_TRAINING
from viz.payload import decode, to_json
from viz.server.backend import UNEXPECTED
from viz.server.fields import MAX_CHARACTERS
from viz.server.handlers import HANDLERS
from viz.server.handlers.training import BROKEN_TRAINING


@pytest.fixture(scope="module", autouse=True)
def trained(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tiny")
    train(directory)
    return directory


def refused(**request) -> str:
    reply = BACKEND.answer(request)
    assert list(reply) == ["error", "said"], reply
    template, values = reply["said"]
    assert (template.format(**values) if values else template) == reply["error"]
    return reply["error"]


def test_every_handler_has_a_good_request_here():
    assert set(GOOD) == set(HANDLERS)


def test_answers_that_are_large_or_read_files_or_show_what_visitors_paste_are_not_cached():
    uncached = {name for name, each in HANDLERS.items() if not each.is_cached}
    assert uncached == {
        "corpus",
        "examples",
        "export",
        "portable",
        "training",
        "training_heads",
        "training_step",
    }


def test_a_forced_beginning_stays_and_the_model_goes_on():
    record = decode(ask("translate"))
    assert list(record.ids[:2]) == IDS[:2]
    assert record.n_forced == 2
    assert record.ids == TRANSLATOR.translate(TEXT, forced=IDS[:2]).ids


def test_a_target_is_shown_as_it_is():
    record = decode(ask("target"))
    assert list(record.ids) == IDS
    assert record.n_forced == len(IDS)
    exact = TRANSLATOR.score(TEXT, IDS).attention.cross
    assert (record.attention.cross - exact).abs().max() <= 1.01 / 65535  # the next code


def test_a_given_translation_is_scored():
    record, expected = decode(ask("score")), TRANSLATOR.score(TEXT, "A dog.")
    assert record.text == expected.text
    assert record.log_probabilities == pytest.approx(expected.log_probabilities, abs=1e-6)


def test_an_answer_carries_the_options_of_the_record():
    answer = ask("translate", beam_size=2, length_penalty=0.5)
    assert answer["options"] == {"beam_size": 2, "length_penalty": 0.5}
    assert answer["model"]["name"] == "tiny"


def test_mute_returns_the_words_and_the_change_of_each_token():
    answer = ask("mute")
    heads = [Head("cross", 3, 1), Head("encoder", 0, 2)]
    muted = TRANSLATOR.mute(TEXT, heads, target=IDS)
    assert answer["text"] == muted.ablated.text == decode(answer["payload"]).text
    assert answer["words"] == [[word.text, word.changed] for word in muted.ablated_words]
    assert answer["original_words"] == [[word.text, word.changed] for word in muted.original_words]
    assert answer["differences"] == pytest.approx(muted.differences, abs=1e-6)
    assert len(answer["differences"]) == len(IDS)


def test_a_head_that_is_named_twice_is_muted_once():
    twice = ask("mute", heads=[["cross", 3, 1], ["cross", 3, 1]])
    once = ask("mute", heads=[["cross", 3, 1]])
    assert twice["differences"] == once["differences"]


def test_importance_has_a_number_for_each_head():
    answer, expected = ask("importance"), TRANSLATOR.importance(TEXT, IDS)
    for kind in KINDS:
        torch.testing.assert_close(torch.tensor(answer[kind]), getattr(expected, kind), rtol=0, atol=1e-5)


def test_norms_have_the_four_digits_of_the_models():
    answer, expected = ask("transformed_norm"), TRANSLATOR.norm_weights(TEXT, IDS)._asdict()
    for kind in KINDS:
        packed, exact = answer[kind], expected[kind].double().numpy()
        codes = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), dtype="<u4")
        assert packed["shape"] == list(exact.shape)
        assert packed["scale"] == pytest.approx(exact.max())
        assert abs(codes.reshape(exact.shape) * packed["unit"] - exact).max() <= 0.5001 * packed["unit"]


def test_a_cell_adds_up():
    answer = ask("cell")
    assert sum(answer["products"]) * answer["scale"] == pytest.approx(answer["score"], abs=1e-5)
    assert answer["scores"][1] == pytest.approx(answer["score"], abs=1e-5)
    assert [score is None for score in answer["scores"]] == [column > 2 for column in range(len(IDS))]
    allowed = torch.tensor([score for score in answer["scores"] if score is not None])
    assert answer["weights"][:3] == pytest.approx(allowed.softmax(-1).tolist(), abs=1e-5)
    record = TRANSLATOR.score(TEXT, IDS).attention
    assert answer["weights"] == pytest.approx(record.decoder[2, 1, 2].tolist(), abs=1e-6)
    assert answer["norm"] == pytest.approx(answer["row_norms"][1], abs=1e-6)


def test_the_beam_tree_leads_to_its_hypotheses():
    answer = ask("beams")
    nodes = answer["nodes"]
    assert answer["beam_size"] == len(answer["hypotheses"]) == 3
    ends = []
    for node in nodes:
        if node["status"] != "finished":
            continue
        path = [node["token"]["id"]]
        while node["parent"] is not None:
            node = nodes[node["parent"]]
            path.insert(0, node["token"]["id"])
        ends.append(path)
    assert sorted(ends) == sorted(one["ids"] for one in answer["hypotheses"])
    for one in answer["hypotheses"]:
        assert sum(one["log_probabilities"]) == pytest.approx(one["log_probability"], abs=1e-4)


def test_training_returns_its_curves_steps_and_sentences():
    answer = ask("training")
    assert answer["steps"] == [0, 4]
    assert answer["sentences"] == [pair._asdict() for pair in PAIRS]
    assert [row["train/loss"] for row in answer["curves"]] == [7.5, 6.5]


def test_a_step_of_the_training_is_a_record_of_its_sentence():
    record = decode(ask("training_step"))
    expected = TRANSLATOR.score(*PAIRS[1]).attention
    assert (record.source_text, record.text) == PAIRS[1]
    assert record.n_forced == len(record.ids)
    assert record.attention.predicted == expected.predicted
    assert (record.attention.cross - expected.cross).abs().max() < 1 / 255 + 1e-4


def without_record(reason: str) -> dict[str, Any]:
    """The answer about a training that has no record, with the reason."""
    lists: dict[str, Any] = {name: [] for name in ("curves", "steps", "sentences", "earlier")}
    return lists | {"goes_on": False, "begins_trained": False, "notice": reason, "said": [reason, {}]}


def test_without_probes_the_sentence_names_no_path_of_the_server(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(TRANSLATOR, "directory", tmp_path)
    nothing = without_record(NO_TRAINING)
    assert ask("training") == nothing
    assert refused(**COMMON, do="training_step", step=0, sentence=0) == NO_TRAINING
    monkeypatch.setattr(TRANSLATOR, "directory", None)
    assert ask("training") == nothing
    assert refused(**COMMON, do="training_step", step=0, sentence=0) == NO_TRAINING


def test_broken_lines_of_the_training_log_are_counted_and_the_others_returned(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(TRANSLATOR, "directory", tmp_path)
    with (tmp_path / METRICS).open("ab") as file:
        file.write(b'\x00\xff{"step": 5, "train/lo')
    answer = ask("training")
    assert [row["step"] for row in answer["curves"]] == answer["steps"] == [0, 4]
    assert answer["notice"] == "1 line of this training's log cannot be read; the curves leave it out."
    (tmp_path / METRICS).write_bytes(b'\x00{"step": NaN}\n' * 1000)
    assert ask("training")["curves"] == []
    (tmp_path / METRICS).unlink()
    assert ask("training")["notice"] == NO_CURVES
    assert ask("training_step")["text"] == PAIRS[1].target
    assert ask("translate")["text"]


def test_broken_probes_are_reported_and_the_model_translates(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(TRANSLATOR, "directory", tmp_path)
    os.truncate(tmp_path / PROBES, 100)
    assert ask("training") == without_record(BROKEN_TRAINING)
    assert refused(**COMMON, do="training_step", step=0, sentence=0) == BROKEN_TRAINING
    assert ask("translate")["text"]


WHOLE = [None, "1", 1.5, True, -1, 10**30, [], math.nan]
NO_IDS = [
    None,
    "1",
    [1.5],
    ["a"],
    [True],
    [[1]],
    [-1],
    [10**9],
    [0],
    [EOS_ID, 5],
    [5] * (MAX_TARGET_TOKENS + 1),
]
NO_HEADS = [
    None,
    "cross",
    [None],
    [["cross", 0]],
    [["self", 0, 0]],
    [["cross", 99, 0]],
    [["cross", 0, -1]],
    [["cross", 0.5, 0]],
    [["cross", True, 0]],
    [[["cross"], 0, 0]],
    [["cross", 0, 0]] * 1000,
]
NO_TEXT = [None, 5, ["a"], "", "x " * 100_000]
BAD = [
    *[("translate", "model", value) for value in (None, 5, [], "../tiny", "")],
    *[("translate", "text", value) for value in NO_TEXT],
    *[("translate", "beam_size", value) for value in (*WHOLE, 0, 9)],
    *[
        ("translate", "length_penalty", value)
        for value in (None, "1", True, -0.1, 2.1, math.nan, math.inf, [])
    ],
    *[("translate", "forced", value) for value in NO_IDS],
    *[("target", "ids", value) for value in (*NO_IDS, [])],
    *[("score", "target", value) for value in NO_TEXT],
    *[("mute", "ids", value) for value in NO_IDS],
    *[("mute", "heads", value) for value in NO_HEADS],
    *[("importance", "ids", value) for value in NO_IDS],
    *[("transformed_norm", "ids", value) for value in NO_IDS],
    *[("cell", "ids", value) for value in NO_IDS],
    *[("cell", "kind", value) for value in (None, "self", 5, {})],
    *[("cell", name, value) for name in ("layer", "head", "row", "column") for value in (*WHOLE, 99)],
    *[(do, "ids", value) for do in ("lens", "links", "removal", "contributions") for value in (*NO_IDS, [])],
    *[("contributions", name, value) for name in ("step", "word") for value in (*WHOLE, 10**6)],
    *[("contributions", "other", value) for value in ("1", 1.5, True, -1, 10**30, [])],
    *[(do, name, 99) for do in ("score_split", "writing") for name in ("layer", "head", "row", "column")],
    *[("removal", name, value) for name in ("layer", "row", "step") for value in (*WHOLE, 99)],
    *[("routes", "step", value) for value in (*WHOLE, 99)],
    *[("leave_one_out", "ids", value) for value in NO_IDS],
    *[("removal", "head", value) for value in ("1", 1.5, True, -1, 99, [])],
    *[("mute", "baseline", value) for value in (None, "median", 5, {}, "mean", "sentence")],
    *[("mute", "row", value) for value in ("1", 1.5, True, -1, 99, [])],
    *[("mute", "other", value) for value in NO_TEXT if value != ""],
    *[("links", "head", value) for value in ("cross", ["cross", 0], ["cross", 99, 0], ["encoder", 0, 0])],
    *[("links", "gold", value) for value in (None, 5, "1:1", "99-0", "0-99", "9" * 9000 + "-0", "0-0-0")],
    *[("examples", "sentences", value) for value in (None, "a", [5], ["a"] * 26, ["x " * 100_000])],
    *[("training_step", name, value) for name in ("step", "sentence") for value in (*WHOLE, 2, 3, 5)],
    *[("beams", "do", value) for value in (None, "ask", "__class__", 5, ["beams"], {})],
]


@pytest.mark.parametrize(("do", "name", "value"), BAD, ids=lambda value: repr(value)[:24])
def test_a_field_that_is_not_what_it_should_be_is_refused_in_one_sentence(do, name, value):
    sentence = refused(**{**COMMON, "do": do, **GOOD[do], name: value})
    assert sentence != UNEXPECTED
    assert sentence.endswith(".")
    assert len(sentence) < 400


@pytest.mark.parametrize("request_", [None, [], "translate", 5, {}, {"do": "translate"}])
def test_a_request_that_is_not_an_object_or_lacks_fields_is_refused(request_):
    assert BACKEND.answer(request_)["error"] != UNEXPECTED


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["cross", "norm"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(GOOD)),
    st.dictionaries(
        st.sampled_from(
            ["model", "text", "beam_size", "ids", "heads", "kind", "layer", "row", "mode", "forced"]
        ),
        anything,
        min_size=1,
        max_size=3,
    ),
)
def test_every_request_is_answered_or_refused_in_one_sentence(do, fields):
    reply = BACKEND.answer({**COMMON, "do": do, **GOOD[do], **fields})
    assert list(reply) in (["answer"], ["error", "said"])
    assert reply.get("error") != UNEXPECTED
    to_json(reply)


def test_an_unexpected_error_reveals_nothing_about_the_server(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr(TRANSLATOR, "translate", fail)
    assert refused(**COMMON, do="translate", forced=[]) == UNEXPECTED


def test_an_export_is_the_record_as_files_and_calls():
    view = "#kind=cross&layer=1&head=2"
    address = "http://127.0.0.1:7860/"
    request = {**COMMON, "do": "export", "forced": IDS[:2], "heads": [], "address": address, "view": view}
    name, page = (
        "headlight-tiny-ein-kleiner-hund-läuft",
        "headlight-tiny-cross-1-2-ein-kleiner-hund-läuft.html",
    )

    def file(exported, file_name):
        return base64.b64decode(exported["files"][file_name])

    taken = BACKEND.answer(request)["answer"]
    record = decode(json.loads(file(taken, f"{name}.json")))
    assert record.ids == TRANSLATOR.translate(TEXT, forced=IDS[:2]).ids
    assert set(taken["files"]) == {page, f"{name}.json", f"{name}.npz"}
    assert b"kind=cross" in file(taken, page)
    assert "/attention" in taken["python"]
    assert "/attention" in taken["curl"]
    heads = [["cross", 0, 0]]
    muted = BACKEND.answer({**request, "heads": heads, "shows_muted": True})["answer"]
    record = json.loads(file(muted, f"{name}-muted.json"))
    assert decode(record).ids == TRANSLATOR.mute(TEXT, [Head("cross", 0, 0)], forced=IDS[:2]).ablated.ids
    assert record["muted"] == {"heads": heads, "ablation": {"baseline": "zero", "sentence": "", "row": None}}
    whole = BACKEND.answer({**request, "forced": IDS})["answer"]  # all of it was given
    assert decode(json.loads(file(whole, f"{name}.json"))).ids == tuple(IDS)


@pytest.mark.parametrize(
    ("name", "value"),
    [("address", None), ("address", 5), ("heads", None), ("forced", "1"), ("view", "x" * 70_000)],
)
def test_an_export_with_a_wrong_field_names_it(name, value):
    request = {**COMMON, "forced": [], "heads": [], "address": "http://127.0.0.1:7860/"}
    assert f"“{name}” must be" in refused(**{**request, "do": "export", name: value})


@pytest.mark.parametrize(
    ("do", "name", "value", "wanted"),
    [
        ("translate", "text", 5, f"text of at most {MAX_CHARACTERS:,} characters"),
        ("translate", "beam_size", True, "a whole number from 1 to 8"),
        ("translate", "length_penalty", "1", "a number from 0 to 2"),
        ("target", "ids", [1.0], f"a list of at most {MAX_TARGET_TOKENS} token ids"),
        ("cell", "kind", "self", "one of: encoder, decoder, cross"),
        ("beams", "do", "ask", "one of: " + ", ".join(HANDLERS)),
    ],
)
def test_a_refusal_names_the_field_and_what_it_must_be(do, name, value, wanted):
    assert refused(**{**COMMON, "do": do, **GOOD[do], name: value}) == f"“{name}” must be {wanted}."


def test_the_page_says_in_its_language_that_a_text_is_too_long():
    answer = BACKEND.answer({**COMMON, "do": "translate", "text": "w" * 12_000, "forced": []})
    assert answer["said"][1] == {"length": 12_000, "most": MAX_CHARACTERS, "tokens": MAX_TOKENS}


def test_half_a_surrogate_pair_is_not_refused():
    assert ask("translate", text=f"{TEXT} \ud800", forced=[])["source_text"] == f"{TEXT} ?"
