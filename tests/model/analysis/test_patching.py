"""Interventions: the same sentence changes nothing, zero is muting, and a row is one row."""

from __future__ import annotations

import pytest
import torch

from model.analysis.patching import HeadOutputs, Rows, ablation_gates, head_outputs, mean_outputs
from model.analysis.trace import trace
from model.decoding.inference import greedy_start
from model.decoding.kernels.model import Steps
from model.decoding.options import SearchOptions
from model.decoding.search import encode_source
from model.decoding.step_decoder import IncrementalDecoder
from model.errors import UserError
from model.instruments import Baseline, ablate, mean_baseline, sentence_baseline
from model.network.transformer import HeadGates
from model.results import KINDS, Head
from model.text.tokenizer import EOS_ID, UNK_ID
from tests.model.analysis.random_pairs import model_of, sentence_pair, shapes
from tests.model.helpers import random_model
from tests.numerics import EXACT, assert_exact

pytestmark = pytest.mark.usefixtures("float64")


TEXT, OTHER = "Ein kleiner Hund läuft.", "Die Tür ist heiß."
ROWS = Rows(6, 5)


def all_heads(config):
    gates = HeadGates.open(config)
    return [
        Head(kind, *place)
        for kind, gate in zip(KINDS, gates, strict=True)
        for place in gate.nonzero().tolist()
    ]


@torch.no_grad()
def hidden(model, source, read, gates=None):
    return model.decode(read[None], model.encode(source[None], None, gates), gates).hidden[0]


@shapes
def test_a_patch_from_the_same_sentence_changes_nothing(shape):
    model = model_of(shape)
    source, read, _ = sentence_pair()
    gates = ablation_gates(model.config, all_heads(model.config), ROWS, head_outputs(model, source, read))
    assert_exact(hidden(model, source, read, gates), hidden(model, source, read))


@shapes
def test_every_head_patched_makes_it_the_other_sentence(shape):
    """If the decoder reads the other one's translation: it learns of the source through its heads alone."""
    model = model_of(shape)
    source = sentence_pair()[0]
    other, other_read, _ = sentence_pair(seed=5)
    gates = ablation_gates(
        model.config, all_heads(model.config), ROWS, head_outputs(model, other, other_read)
    )
    mixed = hidden(model, source, other_read, gates)
    assert_exact(mixed, hidden(model, other, other_read))


@shapes
def test_zero_is_muting_to_the_bit_and_a_baseline_of_zeros_is_the_same(shape):
    model = model_of(shape)
    source, read, _ = sentence_pair()
    heads = [Head("encoder", 0, 1), Head("decoder", 0, 0), Head("cross", 0, 2)]
    muted = hidden(model, source, read, HeadGates.ablating(model.config, heads))
    zero = ablation_gates(model.config, heads, ROWS)
    assert not zero.baselines
    assert hidden(model, source, read, zero).equal(muted)
    zeros = HeadOutputs(*map(torch.zeros_like, head_outputs(model, source, read)))
    replaced = ablation_gates(model.config, heads, ROWS, zeros)
    assert_exact(hidden(model, source, read, replaced), muted)


def test_one_row_changes_no_step_before_it():
    model = random_model()
    source, read, _ = sentence_pair()
    gates = ablation_gates(model.config, [Head("cross", 1, 0)], ROWS, row=2)
    before, after = hidden(model, source, read), hidden(model, source, read, gates)
    assert after[:2].equal(before[:2])
    assert not after[2].isclose(before[2]).all()


def test_the_rows_of_all_single_row_patches_are_those_of_the_patch():
    """In the last layer a row's output depends on that row of the patch alone."""
    model = random_model()
    source, read, _ = sentence_pair()
    head, baseline = Head("cross", 3, 1), head_outputs(model, *sentence_pair(seed=9)[:2])
    whole = hidden(model, source, read, ablation_gates(model.config, [head], ROWS, baseline))
    for row in range(5):
        one = hidden(model, source, read, ablation_gates(model.config, [head], ROWS, baseline, row))
        assert_exact(one[row], whole[row])


def test_a_shorter_sentence_leaves_the_further_rows_as_they_are():
    model = random_model()
    source, read, _ = sentence_pair()
    short = head_outputs(model, *sentence_pair(seed=7, source=3, target=2)[:2])
    head = Head("cross", 3, 1)
    patched = hidden(model, source, read, ablation_gates(model.config, [head], ROWS, short))
    plain = hidden(model, source, read)
    assert patched[2:].equal(plain[2:])
    assert not patched[0].isclose(plain[0]).all()
    with pytest.raises(UserError, match="There is no row 3 to replace; rows go from 0 to 1."):
        ablation_gates(model.config, [head], ROWS, short, 3)


def test_the_mean_is_over_all_positions_of_all_sentences():
    model = random_model()
    outputs = [head_outputs(model, *sentence_pair(seed, 6 - seed, 5)[:2]) for seed in range(2)]
    mean = mean_outputs(outputs)
    together = torch.cat((outputs[0].encoder[1, 2], outputs[1].encoder[1, 2])).mean(0)
    assert_exact(mean.encoder[1, 2, 0], together)
    assert mean.cross.shape == (4, 3, 1, 4)
    gates = ablation_gates(model.config, [Head("encoder", 1, 2)], ROWS, mean)
    (found,) = {tuple(row) for row in gates.baselines["encoder"].outputs[1, 2].tolist()}
    assert found == tuple(mean.encoder[1, 2, 0].tolist())


@pytest.mark.parametrize("beam_size", [1, 3])
@torch.no_grad()
def test_the_steps_of_a_search_apply_the_same_ablation(beam_size):
    model = random_model(output_bias=True)
    source, read, _ = sentence_pair()
    heads = [Head("encoder", 1, 0), Head("decoder", 2, 1), Head("cross", 3, 2)]
    gates = ablation_gates(
        model.config, heads, ROWS, head_outputs(model, *sentence_pair(seed=4, target=4)[:2])
    )
    encoded = encode_source(model, source[None], gates)
    decoder = IncrementalDecoder(model, encoded, beam_size, gates, torch.float64)
    steps = torch.stack([decoder.step(token.expand(beam_size)) for token in read], 1)
    expected = model.output(hidden(model, source, read, gates))
    for row in steps:
        assert_exact(row, expected)


def test_to_ablate_with_zero_is_to_mute(joint):
    heads = [Head("cross", 2, 1), Head("encoder", 0, 0)]
    assert ablate(joint, TEXT, heads).differences == joint.mute(TEXT, heads).differences
    zero = ablate(joint, TEXT, heads, Baseline(), beam_size=2)
    assert zero.ablated.ids == joint.mute(TEXT, heads, 2).ablated.ids


def test_to_ablate_with_the_same_sentence_changes_nothing(joint):
    heads = all_heads(joint.checkpoint.model.config)
    result = ablate(joint, TEXT, heads, sentence_baseline(joint, TEXT))
    assert result.ablated.ids == result.original.ids
    assert max(map(abs, result.differences)) < EXACT


def test_the_mean_of_one_sentence_differs_from_zero_and_names_its_sample(joint):
    baseline = mean_baseline(joint, [OTHER, "", TEXT, "漢字"])
    assert (baseline.name, baseline.sentences) == ("mean", 2)
    heads = [Head("cross", 2, 1)]
    mean, zero = ablate(joint, TEXT, heads, baseline), ablate(joint, TEXT, heads)
    assert mean.differences != zero.differences
    for sentences in ([], ["漢字"], [TEXT] * 51):
        with pytest.raises(UserError):
            mean_baseline(joint, sentences)


def test_a_row_that_does_not_exist_or_belongs_to_both_sides_is_refused(joint):
    with pytest.raises(UserError, match="There is no row 99"):
        ablate(joint, TEXT, [Head("cross", 0, 0)], row=99)
    with pytest.raises(UserError, match="choose heads of one of them"):
        ablate(joint, TEXT, [Head("cross", 0, 0), Head("encoder", 0, 0)], row=1)
    with pytest.raises(UserError, match="There is no cross head 9"):
        ablate(joint, TEXT, [Head("cross", 0, 9)])


def test_a_free_translation_may_become_longer_than_the_original(joint):
    result = ablate(joint, TEXT, [Head("cross", 0, 0)], sentence_baseline(joint, OTHER), target="A dog.")
    assert len(result.ablated.ids) <= SearchOptions().limit(len(result.original.attention.source))
    found = trace(joint.checkpoint.model, *joint.pair(TEXT, result.original.ids))
    assert len(found.decoder.tokens) == len(result.original.ids)


def test_greedy_start_ends_where_the_search_may_choose_otherwise():
    def steps(*rows: list[tuple[int, float]]) -> Steps:
        ids, values = (torch.tensor([[each[i] for each in row] for row in rows]) for i in (0, 1))
        return Steps(torch.empty(0), torch.empty(0), (0.0,) * len(rows), ids, values)

    sure, close = [(7, -0.1), (8, -3.0), (9, -4.0)], [(7, -0.7), (8, -0.7001), (9, -4.0)]
    unknown = [(UNK_ID, -0.1), (7, -1.0), (8, -2.0)]  # which is never chosen
    end = [(EOS_ID, -0.1), (8, -3.0), (9, -4.0)]
    assert greedy_start(steps(sure, sure, sure), [7, 7, 7], 0, 10) == 3
    assert greedy_start(steps(sure, unknown, sure), [7, 7, 8], 0, 10) == 2
    assert greedy_start(steps(sure, close, sure), [7, 7, 7], 0, 10) == 1
    assert greedy_start(steps(sure, end, sure), [7, EOS_ID, 7], 0, 10) == 2
    assert greedy_start(steps(sure, sure, sure), [7, 7, 7], 0, 2) == 2
    assert greedy_start(steps(sure, sure, sure), [9, 7, 8], 1, 10) == 2  # the first is given
    assert greedy_start(steps(sure, sure), [9, 9], 2, 1) == 2
