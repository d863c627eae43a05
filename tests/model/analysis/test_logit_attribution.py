"""Contributions sum to the logit, the encoder's to the cross-attention's, and a removed part is missing."""

from __future__ import annotations

import pytest
import torch

from model.analysis.logit_attribution import contributions
from model.errors import UserError
from model.network.transformer import HeadGates
from tests.model.analysis.random_pairs import model_of, sentence_pair, shapes
from tests.model.helpers import random_model
from tests.numerics import EXACT, assert_exact, assert_slope

pytestmark = pytest.mark.usefixtures("float64")


WORD, OTHER, STEP = 7, 9, 3


@shapes
@pytest.mark.parametrize("other", [None, OTHER])
@torch.no_grad()
def test_parts_sum_to_the_logit(shape, other):
    model = model_of(shape)
    source, read, _ = sentence_pair()
    logits = model(source[None], read[None])[0, STEP]
    expected = float(logits[WORD] - (0 if other is None else logits[other]))
    found = contributions(model, source, read, STEP, WORD, other)
    assert found.logit == pytest.approx(expected, abs=EXACT)
    assert found.decoder.total == pytest.approx(expected, abs=EXACT)
    assert found.encoder.total == pytest.approx(float(found.decoder.heads["cross"].sum()), abs=EXACT)
    assert set(found.decoder.heads) == {"decoder", "cross"}
    assert set(found.encoder.heads) == {"encoder"}


def test_a_contrast_is_the_difference_of_two_logits_part_by_part():
    model = model_of("post")
    source, read, _ = sentence_pair()
    one, two = (contributions(model, source, read, STEP, word) for word in (WORD, OTHER))
    both = contributions(model, source, read, STEP, WORD, OTHER)
    for kind in ("decoder", "cross"):
        difference = one.decoder.heads[kind] - two.decoder.heads[kind]
        assert_exact(both.decoder.heads[kind], difference)
    assert_exact(both.gradient.cross, one.gradient.cross - two.gradient.cross)


def test_only_the_tokens_row_of_the_step_has_a_direct_path():
    found = contributions(model_of("pre"), *sentence_pair()[:2], STEP, WORD)
    assert len(found.decoder.tokens) == STEP + 1
    assert not found.decoder.tokens[:STEP].any()
    assert found.encoder.tokens.all()


@torch.no_grad()
def test_without_any_norm_in_between_the_last_head_adds_what_ablating_it_takes_away():
    """A model without feed-forward networks and with a frozen scale: the direct path is the only one."""
    model = random_model(n_decoder_layers=1)
    block = model.decoder[0]
    block.feed_forward.outer.weight.zero_()
    source, read, _ = sentence_pair()
    found = contributions(model, source, read, STEP, WORD, OTHER)
    full = model.decode(read[None], model.encode(source[None])).hidden[0, STEP]
    for head in range(3):
        gates = HeadGates.open(model.config)
        gates.cross[0, head] = 0
        joined = {}

        def keep(_, inputs, head=head, joined=joined):
            joined[head] = inputs[0][0, STEP]

        hook = model.decoder_norm.register_forward_pre_hook(keep)
        model.decode(read[None], model.encode(source[None]), gates)
        without = joined[head]
        model.decode(read[None], model.encode(source[None]))
        whole = joined[head]
        hook.remove()
        sigma = (whole.var(unbiased=False) + model.decoder_norm.eps).sqrt()
        part = whole - without
        image = (part - part.mean()) / sigma * model.decoder_norm.weight
        direction = model.output.weight[WORD] - model.output.weight[OTHER]
        assert float(found.decoder.heads["cross"][0, head]) == pytest.approx(
            float(image @ direction), abs=EXACT
        )
    assert found.logit == pytest.approx(float(full @ direction), abs=EXACT)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_gradient_is_the_slope_at_each_gate(norm):
    model = random_model(norm=norm, n_encoder_layers=1, n_decoder_layers=2).double()
    source, read, _ = sentence_pair()
    found = contributions(model, source, read, STEP, WORD, OTHER)
    gates = HeadGates(*(gate.double() for gate in HeadGates.open(model.config)))
    for kind, gate in zip(("encoder", "decoder", "cross"), gates, strict=True):

        @torch.no_grad()
        def lead(change, gate=gate):
            gate[0, 1] = 1 + change
            hidden = model.decode(read[None], model.encode(source[None], None, gates), gates).hidden
            gate[0, 1] = 1
            logits = model.output(hidden[0, STEP])
            return float(logits[WORD] - logits[OTHER])

        assert_slope(float(getattr(found.gradient, kind)[0, 1]), lead, 1e-4)


def test_a_step_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match=r"There is no step 5; the last one is 4\."):
        contributions(random_model(), *sentence_pair()[:2], 5, WORD)
