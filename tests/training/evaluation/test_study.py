"""The study of heads: its sample, what it pools, the order in which heads fall silent, and what it keeps."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch

from model.analysis.measures import positional
from model.analysis.study import AblationCurve, Study, load_studies
from model.errors import UserError
from model.network.masks import causal_mask
from model.results import Head
from model.storage.checkpoint import save
from model.translator import Translator
from tests.model.helpers import SENTENCES, tiny_checkpoint
from tests.training.tiny import parallel_files, word_list, words, write_lines
from training.__main__ import main
from training.evaluation.study import (
    findings,
    nearest_role,
    offset_votes,
    pool,
    read,
    sample,
    score_without,
    silence,
    study,
)
from training.recipes import REVERSE_WORDS_SMALL

PAIRS = [(SENTENCES[place], SENTENCES[place + 4]) for place in range(4)]


@pytest.fixture(scope="module")
def translator() -> Translator:
    checkpoint = tiny_checkpoint(seed=1)
    info = replace(checkpoint.info, source_language="de", target_language="en")
    return Translator(replace(checkpoint, info=info), "tiny")


@pytest.fixture(scope="module")
def readings(translator):
    return [read(translator, pair) for pair in PAIRS]


@pytest.fixture
def corpora(tmp_path):
    """Two corpora with a development set, one in other languages, and gold links of two pairs."""
    corpora = tmp_path / "corpora"
    parallel_files(corpora / "a", PAIRS, "dev")
    parallel_files(corpora / "b", PAIRS[:2], "val")
    parallel_files(corpora / "c", PAIRS, "dev", ("en", "fr"))
    parallel_files(tmp_path / "gold", [("Ein Hund", "A dog"), ("Die Tür", "The door")], "test")
    write_lines(tmp_path / "gold" / "gold.talp", ["1-1 2-2", "1-1 2p2"])
    return corpora


# The sample


def test_the_sample_is_spread_over_all_development_sets_of_the_languages(corpora):
    found = sample(corpora, ("de", "en"), 100)
    assert found.sets == ("a/dev", "b/val")
    assert found.pairs == PAIRS + PAIRS[:2]
    assert sample(corpora, ("de", "en"), 3).pairs == [PAIRS[0], PAIRS[2], PAIRS[0]]


def test_words_come_from_those_held_out(tmp_path, monkeypatch):
    word_list(tmp_path / "words", words(lengths=(2, 3, 4)))
    recipe = replace(REVERSE_WORDS_SMALL, validation_rows=9, test_rows=9)
    monkeypatch.setattr("training.evaluation.study.REVERSE_WORDS_SMALL", recipe)
    found = sample(tmp_path, ("word", "reversed"), 100)
    assert len(found.pairs) == 9
    assert all(target == source[::-1] for source, target in found.pairs)


def test_without_a_development_set_there_is_no_study(corpora):
    with pytest.raises(UserError, match=r"dev\.en and dev\.it"):
        sample(corpora, ("en", "it"), 100)


# Heads


def test_cost_and_gradient_are_means_over_sentences_in_the_order_of_the_heads(translator, readings):
    heads = findings(readings)
    config = translator.checkpoint.model.config
    assert [head.name for head in heads[:4]] == ["encoder 1.1", "encoder 1.2", "encoder 1.3", "encoder 2.1"]
    assert len(heads) == (config.n_encoder_layers + 2 * config.n_decoder_layers) * config.n_heads
    place = next(place for place, head in enumerate(heads) if head.name == "cross 3.2")
    changes = [float(translator.importance(*pair).cross[2, 1]) for pair in PAIRS]
    assert heads[place].cost == pytest.approx(-sum(changes) / len(PAIRS), abs=1e-4)
    assert heads[place].gradient >= 0


def test_one_sentence_pools_to_its_own_measures(readings):
    one = readings[0]
    for kind, measures in one.measures.items():
        pooled = pool(kind, [one])
        for name in ("entropy", "confidence", "sink_mass"):
            torch.testing.assert_close(getattr(pooled, name), getattr(measures, name))
    assert all(head.agreement == 1 for head in findings([one]))


def test_pooled_rows_count_the_same(readings):
    pooled = pool("encoder", readings)
    rows = [reading.measures["encoder"].queries for reading in readings]
    total = sum(n * r.measures["encoder"].entropy for n, r in zip(rows, readings, strict=True))
    assert len(set(rows)) > 1
    torch.testing.assert_close(pooled.entropy, total / sum(rows))
    assert pooled.queries == sum(rows)


@pytest.mark.parametrize(
    ("kind", "offset"),
    [("encoder", -1), ("encoder", 0), ("encoder", 1), ("decoder", -1), ("decoder", 0)],
)
def test_offset_votes_are_those_of_positional(kind, offset):
    """Where one offset has nearly all rows, both ways of counting agree."""
    mask = causal_mask(7, 7) if kind == "decoder" else None
    places = (torch.arange(7) + offset).clamp(0, 6)
    weights = torch.eye(7)[places][None, None]
    votes, able = offset_votes(weights, kind, [offset])
    theirs = positional(weights, mask)
    assert theirs.offset.item() == offset
    assert able.item() == theirs.queries.item()
    assert votes.item() / able.item() == pytest.approx(theirs.share.item())


def test_a_mixed_head_leans_to_what_it_is_nearest_to(readings):
    measures = pool("cross", readings)
    zeros = torch.zeros_like(measures.entropy)
    made = replace(measures, sink_mass=zeros + 0.2, rare_share=zeros + 0.4, source_focus=zeros + 0.3)
    role, evidence = nearest_role(made, 0, 0, "mixed")
    assert (role, evidence) == ("rare word", pytest.approx(0.4))
    role, evidence = nearest_role(made, 0, 0, "aligned")
    assert (role, evidence) == ("aligned", pytest.approx(0.3))


# Silence


def test_heads_fall_silent_from_the_least_important_on(translator, readings, monkeypatch):
    heads = findings(readings)
    silent = []

    def scored(translator, pairs, heads, exact):
        silent.append(list(heads))
        return 50.0 - len(heads)

    monkeypatch.setattr("training.evaluation.study.score_without", scored)
    importances = [float((7 * place) % len(heads)) for place in range(len(heads))]
    found = silence(translator, PAIRS, heads, importances, "some measure", False)
    assert [importances[place] for place in found.order] == sorted(importances)
    assert silent[:3] == [
        [],
        [Head(*_place(heads[found.order[0]]))],
        [Head(*_place(heads[place])) for place in found.order[:2]],
    ]
    assert found.scores == (50.0, 49.0, 48.0, 47.0, 46.0, 45.0)  # and no further


def _place(head):
    return head.kind, head.layer, head.head


def test_silent_heads_change_what_is_translated(translator):
    sources, silent = [pair[0] for pair in PAIRS], [Head("cross", 0, 0), Head("cross", 1, 1)]
    pairs = [(source, translator.mute(source, silent).ablated.text) for source in sources]
    assert score_without(translator, pairs, silent, True) == 100
    assert score_without(translator, pairs, [], True) < 100


@pytest.mark.parametrize(
    ("scores", "spare"), [((40.0, 39.5, 39.2, 39.0, 41.0), 2), ((40.0, 38.0), 0), ((40.0, 41.0, 40.0), 2)]
)
def test_spare_heads_are_those_before_the_first_fall(scores, spare):
    assert AblationCurve("cost", tuple(range(9)), scores).spare() == spare


# The whole


def test_the_command_measures_every_model_and_what_it_writes_reads_back(
    translator, corpora, tmp_path, monkeypatch, capsys
):
    save(translator.checkpoint, tmp_path / "models" / "tiny")
    options = ["--data", corpora, "--gold", tmp_path / "gold", "--models", tmp_path / "models"]
    words = ["study", *options, "--output", tmp_path / "study", "--pairs", 3]
    monkeypatch.setattr(sys, "argv", ["training", *map(str, words)])
    main()
    assert "tiny.json: 30 heads on 3 pairs." in capsys.readouterr().out
    (found,) = load_studies(tmp_path / "study")
    assert (found.model, found.pairs, found.gold_pairs) == ("tiny", 3, 2)
    assert [head.errors is not None for head in found.heads] == [head.kind == "cross" for head in found.heads]
    assert [found.heads[each.head].kind for each in found.aligners] == ["cross", "cross"]
    assert [each.shifted for each in found.aligners] == [False, True]
    assert all(0 <= rate <= 1 for head in found.heads for rate in head.errors or ())
    found.save(tmp_path / "again.json")
    assert Study.load(tmp_path / "again.json") == found


def test_without_gold_links_there_are_no_alignment_errors(translator, corpora):
    found = study(translator, corpora, None, 2)
    assert found.aligners == ()
    assert {head.errors for head in found.heads} == {None}


def test_what_is_no_study_is_refused(tmp_path):
    with pytest.raises(UserError, match="There is no study"):
        load_studies(tmp_path)
    write_lines(tmp_path / "x.json", ['{"model": "x"}'])
    with pytest.raises(UserError, match="is not a valid study"):
        load_studies(tmp_path)
