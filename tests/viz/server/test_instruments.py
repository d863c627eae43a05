"""The answers of the instruments are the numbers of model.analysis, in the page's words."""

from __future__ import annotations

import pytest
import torch

from model.analysis.patching import head_outputs
from model.results import KINDS, Head
from tests.viz.questions import GOOD, IDS, PATCH, TEXT, TRANSLATOR, ask

OTHER = "Die Tür ist heiß."


def logits():
    model = TRANSLATOR.checkpoint.model
    source, read = TRANSLATOR.pair(TEXT, IDS)
    with torch.no_grad():
        return model(source[None], read[None])[0]


def test_the_lens_ends_with_the_models_alternatives():
    answer, record = ask("lens"), TRANSLATOR.score(TEXT, IDS)
    for step, alternatives in enumerate(record.alternatives):
        assert answer["words"][-1][step] == [one.token.id for one in alternatives]
        values = [one.log_probability for one in alternatives]
        assert answer["log_probabilities"][-1][step] == pytest.approx(values, abs=1e-4)
        assert answer["chosen"][-1][step] == pytest.approx(record.log_probabilities[step], abs=1e-4)
    for alternative in record.alternatives[0]:
        token = alternative.token
        assert answer["tokens"][str(token.id)]["text"] == token.text
    assert len(answer["leads_from"]) == len(IDS)


def test_without_a_word_the_translation_is_scored_with_its_tokens_masked():
    answer, record = ask("leave_one_out"), TRANSLATOR.score(TEXT, IDS)
    model, (source, read) = TRANSLATOR.checkpoint.model, TRANSLATOR.pair(TEXT, IDS)
    words = {token.word for token in record.attention.source if token.word is not None}
    assert len(answer["groups"]) == len(source) + sum(
        len([1 for token in record.attention.source if token.word == word]) > 1 for word in words
    )
    for group, losses, likeliest in zip(answer["groups"], answer["losses"], answer["likeliest"], strict=True):
        mask = torch.ones(1, 1, 1, len(source), dtype=torch.bool)
        mask[..., group] = False
        with torch.no_grad():
            found = model(source[None], read[None], mask)[0].log_softmax(-1)
        after = found[torch.arange(len(IDS)), torch.tensor(IDS)].tolist()
        both = zip(record.log_probabilities, after, strict=True)
        assert losses == pytest.approx([before - now for before, now in both], abs=1e-5)
        assert likeliest == found.argmax(-1).tolist()
    assert set(answer["tokens"]) == {str(word) for line in answer["likeliest"] for word in line}


def test_the_shares_of_a_route_sum_to_one():
    answer = ask("routes")
    assert sum(answer["source"]) + sum(answer["prefix"]) == pytest.approx(1, abs=1e-5)
    top = [one for one in answer["connections"] if (one["kind"], one["layer"]) == ("cross", 3)]
    assert {one["row"] for one in top} == {2}
    for one in top:
        assert one["flow"] == pytest.approx(one["share"], abs=1e-6)


def total(shares):
    numbers = [shares["tokens"], shares["positions"], shares["feed_forward"], *shares["heads"].values()]
    return sum(float(torch.tensor(one).sum()) for one in numbers) + shares["bias"]


@pytest.mark.parametrize("other", [None, 5])
def test_contributions_sum_to_the_logit_or_the_difference(other):
    answer = ask("contributions", other=other)
    row = logits()[1]
    expected = float(row[IDS[1]] - (0 if other is None else row[other]))
    assert answer["logit"] == pytest.approx(expected, abs=1e-4)
    assert total(answer["decoder"]) == pytest.approx(expected, abs=2e-4)
    cross = torch.tensor(answer["decoder"]["heads"]["cross"]).sum()
    assert total(answer["encoder"]) == pytest.approx(float(cross), abs=2e-4)
    for kind in KINDS:
        assert (
            torch.tensor(answer["gradient"][kind]).shape == getattr(TRANSLATOR.importance(TEXT), kind).shape
        )
    assert len(answer["tokens"]) == (1 if other is None else 2)


def test_the_score_is_that_of_the_cell():
    answer, cell = ask("score_split"), ask("cell", **GOOD["score_split"])
    assert answer["score"] == pytest.approx(cell["score"], abs=1e-5)
    matrix = torch.tensor(answer["matrix"])
    assert matrix.shape == (len(answer["query_parts"]), len(answer["key_parts"]))
    assert float(matrix.sum()) == pytest.approx(cell["score"], abs=1e-3)
    assert {"name": "head", "kind": "decoder", "layer": 2, "head": 0} in answer["query_parts"]


def test_writing_names_words_of_the_right_vocabulary():
    answer, cell = ask("writing"), ask("cell", **GOOD["writing"])
    assert answer["weight"] == pytest.approx(cell["weights"][1], abs=1e-5)
    assert answer["weight"] * answer["norm"] == pytest.approx(cell["norm"], abs=1e-4)
    changes = [change for _, change in answer["up"]]
    assert changes == sorted(changes, reverse=True)
    words = [word for word, _ in (*answer["up"], *answer["down"])]
    assert set(answer["tokens"]) == {str(word) for word in words}
    assert ask("writing", kind="encoder", layer=0)["up"]


def test_muted_heads_give_nothing_in_all_rows_or_in_one():
    expected = TRANSLATOR.mute(TEXT, [Head(*head) for head in GOOD["mute"]["heads"]], target=IDS)
    answer, one = ask("mute"), ask("mute", heads=[["cross", 3, 1]], row=1)
    assert answer["differences"] == pytest.approx(expected.differences, abs=1e-6)
    assert "baseline" not in answer
    assert one["differences"][0] == 0
    assert any(one["differences"][1:])


def test_a_patch_says_how_many_rows_the_other_sentence_has():
    answer = ask("mute", heads=[["cross", 3, 1]], **PATCH)
    translation = TRANSLATOR.translate(OTHER)
    outputs = head_outputs(TRANSLATOR.checkpoint.model, *TRANSLATOR.pair(OTHER, translation.ids))
    rows = {kind: getattr(outputs, kind).shape[2] for kind in KINDS}
    assert answer["baseline"]["rows"] == rows
    assert answer["baseline"]["translation"] == translation.text
    assert answer["differences"][0] == 0  # row 1 cannot change the step before it
    assert any(answer["differences"][1:])


def test_a_mean_says_over_how_many_sentences():
    answer = ask("mute", baseline="mean", sample=[TEXT, OTHER, "漢字"])
    assert answer["baseline"]["sentences"] == 2
    assert set(answer["baseline"]["rows"].values()) == {1}


def test_heads_are_tried_with_the_baseline_of_the_muted_heads():
    mean, zero = ask("importance", baseline="mean", sample=[TEXT, OTHER]), ask("importance")
    assert mean["baseline"]["sentences"] == 2
    assert "baseline" not in zero
    for kind, layer, head in (("encoder", 1, 2), ("cross", 3, 1)):
        for answer, given in ((mean, {"baseline": "mean", "sample": [TEXT, OTHER]}), (zero, {})):
            alone = ask("mute", heads=[[kind, layer, head]], **given)
            assert answer[kind][layer][head] == pytest.approx(sum(alone["differences"]), abs=1e-5)


def test_removal_begins_at_the_probability_of_the_record():
    answer, record = ask("removal"), TRANSLATOR.score(TEXT, IDS)
    names = [curve["name"] for curve in answer["curves"]]
    assert names == ["weight", "norm", "rollout", "value zeroing", "random"]
    for curve in answer["curves"]:
        expected = torch.tensor(record.log_probabilities[2]).exp()
        assert curve["probabilities"][0] == pytest.approx(float(expected), abs=1e-5)
    weights = record.attention.cross[1, 2, 2]
    order = answer["curves"][0]["order"]
    assert order == weights.argsort(descending=True).tolist()[: len(order)]
    assert ask("removal", head=None)["curves"][0]["probabilities"] != answer["curves"][0]["probabilities"]


def test_links_are_between_the_words_of_the_record():
    answer = ask("links")
    assert answer["source_words"] == ["Ein", "kleiner", "Hund", "läuft", "."]
    assert answer["target_words"] == ["A", "small", "dog", "runs", "."]
    assert answer["gold"] == [[0, 0], [1, 1]]
    assert [one["name"] for one in answer["methods"]] == ["best head", "average", "head"]
    for one in answer["methods"]:
        assert all(source < 5 and target < 5 for source, target in one["links"])
        linked = {source for source, _ in one["grown"]}
        assert one["unlinked"] == [word for word in range(5) if word not in linked]
        assert 0 <= one["errors"]["links"] <= 1
    assert answer["methods"][2]["head"] == list(Head("cross", 3, 1))
    assert len(answer["coverage"]) == 5
    plain = ask("links", head=None, gold="")
    assert plain["gold"] is None
    assert {one["errors"] for one in plain["methods"]} == {None}


def test_examples_name_cells_of_the_translations():
    answer = ask("examples", sentences=[*GOOD["examples"]["sentences"], "漢字"])
    assert set(answer["sentences"]) == {"0", "1"}
    assert answer["skipped"][0][0] == 2
    cross = answer["kinds"]["cross"]
    records = [TRANSLATOR.translate(text).attention for text in GOOD["examples"]["sentences"]]
    assert cross["rows"] == sum(len(record.predicted) for record in records)
    for layer, heads in enumerate(cross["heads"]):
        for head, one in enumerate(heads):
            assert sum(one["roles"].values()) == 2
            for weight, sentence, row, column in one["hits"]:
                assert weight == pytest.approx(
                    float(records[sentence].cross[layer, head, row, column]), abs=1e-4
                )


def test_examples_without_a_readable_sentence_are_empty():
    answer = ask("examples", sentences=["", "漢字"])
    assert (answer["sentences"], answer["kinds"]) == ({}, {})
    assert [place for place, _ in answer["skipped"]] == [0, 1]
