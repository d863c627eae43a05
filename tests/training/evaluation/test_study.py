"""The study of heads: its sample, its pooled measures, its ablation curves and its file."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from model.analysis.definitions import ROLE_DEFINITIONS
from model.analysis.measures import positional
from model.analysis.pooling import nearest_role
from model.analysis.study import AblationCurve, Study, load_studies
from model.errors import UserError
from model.network.masks import causal_mask
from model.results import Head
from model.storage.checkpoint import save
from model.translator import Translator
from tests.model.helpers import SENTENCES, tiny_checkpoint
from tests.numerics import assert_float32, translator_of
from tests.training.tiny import parallel_files, word_list, words, write_lines
from training.evaluation.study import (
    ablation_curve,
    findings,
    measure_pair,
    pool_measures,
    sample_pairs,
    score_without,
    study,
)
from training.recipes import REVERSE_WORDS_SMALL

PAIRS = [(SENTENCES[place], SENTENCES[place + 4]) for place in range(4)]


def german_english(**overrides: int) -> Translator:
    checkpoint = tiny_checkpoint(seed=1, **overrides)
    info = replace(checkpoint.info, source_language="de", target_language="en")
    return Translator(replace(checkpoint, info=info), "tiny")


@pytest.fixture(scope="module")
def translator() -> Translator:
    return german_english()


@pytest.fixture(scope="module")
def small() -> Translator:
    """A model with half as many heads, for whole studies."""
    return german_english(n_encoder_layers=1, n_decoder_layers=2)


@pytest.fixture(scope="module")
def measured(translator):
    return [measure_pair(translator, pair) for pair in PAIRS]


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
    assert sample_pairs(corpora, ("de", "en"), 100) == (PAIRS + PAIRS[:2], ("a/dev", "b/val"))
    assert sample_pairs(corpora, ("de", "en"), 3)[0] == [PAIRS[0], PAIRS[2], PAIRS[0]]


def test_words_come_from_those_held_out(tmp_path, monkeypatch):
    word_list(tmp_path / "words", words(lengths=(2, 3, 4)))
    recipe = replace(REVERSE_WORDS_SMALL, validation_rows=9, test_rows=9)
    monkeypatch.setattr("training.evaluation.study.REVERSE_WORDS_SMALL", recipe)
    pairs, _ = sample_pairs(tmp_path, ("word", "reversed"), 100)
    assert len(pairs) == 9
    assert all(target == source[::-1] for source, target in pairs)


def test_without_a_development_set_there_is_no_study(corpora):
    with pytest.raises(UserError, match=r"dev\.en and dev\.it"):
        sample_pairs(corpora, ("en", "it"), 100)


# Heads


def mean_cost(translator, model):
    """What cross-attention 3.2 is worth, over the pairs."""
    exact = translator_of(translator, model)
    return -sum(float(exact.importance(*pair).cross[2, 1]) for pair in PAIRS) / len(PAIRS)


def test_cost_and_gradient_are_means_over_sentences_in_the_order_of_the_heads(translator, measured):
    heads = findings(measured)
    config = translator.checkpoint.model.config
    assert [head.name for head in heads[:4]] == ["encoder 1.1", "encoder 1.2", "encoder 1.3", "encoder 2.1"]
    assert len(heads) == (config.n_encoder_layers + 2 * config.n_decoder_layers) * config.n_heads
    place = next(place for place, head in enumerate(heads) if head.name == "cross 3.2")
    assert_float32(heads[place].cost, partial(mean_cost, translator), translator.checkpoint.model)
    assert heads[place].gradient >= 0


def test_one_sentence_pools_to_its_own_measures(measured):
    one = measured[0]
    for kind, measures in one.measures.items():
        pooled = pool_measures(kind, [one])
        for name in ("entropy", "confidence", "sink_mass"):
            torch.testing.assert_close(getattr(pooled, name), getattr(measures, name))
    assert all(head.agreement == 1 for head in findings([one]))


def test_pooled_rows_count_the_same(measured):
    pooled = pool_measures("encoder", measured)
    rows = [pair.measures["encoder"].queries for pair in measured]
    total = sum(n * r.measures["encoder"].entropy for n, r in zip(rows, measured, strict=True))
    assert len(set(rows)) > 1
    torch.testing.assert_close(pooled.entropy, total / sum(rows))
    assert pooled.queries == sum(rows)


@pytest.mark.parametrize(
    ("kind", "offset"), [("encoder", -1), ("encoder", 0), ("encoder", 1), ("decoder", -1), ("decoder", 0)]
)
def test_the_pooled_offset_of_one_sentence_is_its_own(measured, kind, offset):
    """Where one offset has nearly all rows, pooling and `positional` agree."""
    mask = causal_mask(7, 7) if kind == "decoder" else None
    places = (torch.arange(7) + offset).clamp(0, 6)
    weights = torch.eye(7)[places][None, None]
    record = replace(measured[0].record, encoder=weights, decoder=weights, cross=weights)
    pooled = pool_measures(kind, [measured[0]._replace(record=record)]).positional
    theirs = positional(weights, mask)
    assert theirs.offset.item() == offset
    assert [each.item() for each in pooled] == pytest.approx([each.item() for each in theirs])


def test_a_mixed_head_gets_the_role_that_it_comes_nearest_to(measured):
    measures = pool_measures("cross", measured)
    zeros = torch.zeros_like(measures.entropy)
    made = replace(measures, sink_mass=zeros + 0.4, source_focus=zeros + 0.3)
    role, evidence = nearest_role(made, 0, 0, "mixed")
    assert (role, evidence) == ("separator sink", pytest.approx(0.4))
    offset = int(measures.focus_offset[0, 0])
    aligned = next(
        name for name, one in ROLE_DEFINITIONS.items() if (one.measure, one.offset) == ("focus", offset)
    )
    role, evidence = nearest_role(made, 0, 0, aligned)
    assert (role, evidence) == (aligned, pytest.approx(0.3))


# Ablation


def test_heads_are_ablated_from_the_least_important_on(translator, measured, monkeypatch):
    heads = findings(measured)
    heads = [replace(head, cost=float((7 * place) % len(heads))) for place, head in enumerate(heads)]
    ablated = []

    def scored(translator, pairs, heads):
        ablated.append(list(heads))
        return 50.0 - len(heads)

    monkeypatch.setattr("training.evaluation.study.score_without", scored)
    found = ablation_curve(translator, PAIRS, heads, "cost")
    assert [heads[place].cost for place in found.order] == sorted(head.cost for head in heads)
    assert ablated[:3] == [
        [],
        [Head(*_place(heads[found.order[0]]))],
        [Head(*_place(heads[place])) for place in found.order[:2]],
    ]
    assert found.scores == (50.0, 49.0, 48.0, 47.0, 46.0, 45.0)  # and no further


def _place(head):
    return head.kind, head.layer, head.head


def test_ablated_heads_change_the_translations(translator, monkeypatch):
    monkeypatch.setattr("training.evaluation.study.WORDS", ("de", "en"))  # so that exact matches count
    sources, heads = [pair[0] for pair in PAIRS], [Head("cross", 0, 0), Head("cross", 1, 1)]
    pairs = [(source, translator.mute(source, heads).ablated.text) for source in sources]
    assert score_without(translator, pairs, heads) == 100
    assert score_without(translator, pairs, []) < 100


def test_the_score_does_not_depend_on_what_a_processor_is_fast_in(translator, monkeypatch):
    def never(*_):
        raise AssertionError("the type of products was chosen by their speed")

    monkeypatch.setattr("model.decoding.inference.product_dtype", never)
    score_without(translator, PAIRS * 8, [])


@pytest.mark.parametrize(
    ("scores", "redundant"), [((40.0, 39.5, 39.2, 39.0, 41.0), 2), ((40.0, 38.0), 0), ((40.0, 41.0, 40.0), 2)]
)
def test_redundant_heads_are_those_before_the_first_fall(scores, redundant):
    assert AblationCurve("cost", tuple(range(9)), scores).redundant_heads() == redundant


# The whole


def test_the_command_measures_every_model_and_its_file_reads_back(small, corpora, tmp_path, command):
    save(small.checkpoint, tmp_path / "models" / "tiny")
    options = ["--data", corpora, "--gold", tmp_path / "gold", "--models", tmp_path / "models"]
    printed, _ = command("study", *options, "--output", tmp_path / "study", "--pairs", 2)
    assert "tiny.json: 15 heads on 2 pairs." in printed
    (found,) = load_studies(tmp_path / "study")
    assert (found.model, found.pairs, found.gold_pairs) == ("tiny", 2, 2)
    assert [head.errors is not None for head in found.heads] == [head.kind == "cross" for head in found.heads]
    assert [found.heads[each.head].kind for each in found.aligners] == ["cross", "cross"]
    assert [each.shifted for each in found.aligners] == [False, True]
    assert all(0 <= rate <= 1 for head in found.heads for rate in head.errors or ())
    found.save(tmp_path / "again.json")
    assert Study.load(tmp_path / "again.json") == found


def test_the_taught_head_is_beside_the_best_free_heads(corpora, tmp_path):
    taught = german_english(n_encoder_layers=1, n_decoder_layers=2, taught_head=(1, 2))
    found = study(taught, corpora, tmp_path / "gold", 1)
    assert [(each.shifted, each.taught) for each in found.aligners] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    *free, last = [found.heads[each.head].name for each in found.aligners]
    assert last == "cross 2.3"
    assert last not in free
    found.save(tmp_path / "taught.json")
    assert [each.taught for each in Study.load(tmp_path / "taught.json").aligners] == [False, False, True]


def test_without_gold_links_there_are_no_alignment_errors(small, corpora):
    found = study(small, corpora, None, 1)
    assert found.aligners == ()
    assert {head.errors for head in found.heads} == {None}


def test_an_invalid_study_is_refused(tmp_path):
    with pytest.raises(UserError, match="There is no study"):
        load_studies(tmp_path)
    write_lines(tmp_path / "x.json", ['{"model": "x"}'])
    with pytest.raises(UserError, match="is not a valid study"):
        load_studies(tmp_path)
