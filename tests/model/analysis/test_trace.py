"""The trace holds the model's own numbers, and its parts sum to the residual stream."""

from __future__ import annotations

import pytest
import torch

from model.analysis.trace import norms_after, parts_before, parts_read, trace
from tests.model.analysis.random_pairs import model_of, sentence_pair, shapes
from tests.model.helpers import random_numbers
from tests.numerics import assert_exact

pytestmark = pytest.mark.usefixtures("float64")


@shapes
@torch.no_grad()
def test_the_trace_is_what_the_model_computes(shape):
    model = model_of(shape)
    source, read, _ = sentence_pair()
    encoded = model.encode(source[None], explicit=True)
    decoded = model.decode(read[None], encoded, explicit=True)
    found = trace(model, source, read)
    assert_exact(found.decoder.hidden, decoded.hidden[0])
    weights = {"encoder": encoded.weights, "decoder": decoded.self_weights, "cross": decoded.cross_weights}
    for kind, expected in weights.items():
        layers = [
            one.heads for one in (*found.encoder.sublayers, *found.decoder.sublayers) if one.kind == kind
        ]
        assert_exact(torch.stack([one.weights for one in layers]), expected[0])


@shapes
@torch.no_grad()
def test_parts_sum_to_the_stream_before_and_after_the_norm(shape):
    model = model_of(shape)
    source, read, _ = sentence_pair()
    for stack in trace(model, source, read):
        for place, one in enumerate(stack.sublayers):
            names, vectors = parts_before(stack, place, 2)
            assert len(names) == len(set(names)) == len(vectors)
            assert_exact(vectors.sum(0), one.x[2])
            _, vectors = parts_read(stack, place, 2)
            assert_exact(vectors.sum(0), one.residual.pre(one.x[None])[0, 2])
        _, vectors = parts_read(stack, len(stack.sublayers), 2)
        assert_exact(vectors.sum(0), stack.hidden[2])


@shapes
@torch.no_grad()
def test_what_the_keys_add_sums_to_what_the_sublayer_adds(shape):
    source, read, _ = sentence_pair()
    found = trace(model_of(shape), source, read)
    for one in (*found.encoder.sublayers, *found.decoder.sublayers):
        if one.heads is None:
            continue
        added = one.heads.added()
        assert_exact(added.sum(1) + one.heads.module.output.bias, one.y)
        rows, keys = torch.ones(*added.shape[:2]).nonzero().T
        by_heads = one.heads.added_by_heads(rows, keys).unflatten(1, added.shape[:2])
        assert_exact(by_heads.sum(0), added)
        assert_exact(by_heads.norm(dim=-1), one.heads.norms())


@pytest.mark.parametrize("shape", ["pre", "post"])
def test_norms_after_carry_a_part_to_the_output(shape):
    """A change too small to move a norm's scale changes the output by its image."""
    model = model_of(shape)
    source, read, _ = sentence_pair()
    stack = trace(model, source, read).decoder
    place = len(stack.sublayers) - 1
    last, change = stack.sublayers[place], random_numbers(12)
    image = change
    for norm in norms_after(stack, place, 2):
        image = norm.image(image)
    with torch.no_grad():
        after = stack.norm(last._replace(y=last.y + 1e-6 * change).after)[2]
    # The exact derivative of a norm also moves its scale, along the stream itself; the image leaves that out.
    difference = (after - stack.hidden[2]) / 1e-6 - image
    sigma_part = stack.hidden[2] - (model.decoder_norm if shape == "pre" else last.residual.norm).bias
    factor = (difference @ sigma_part) / (sigma_part @ sigma_part)
    # A step of 1e-6 leaves as much of the second derivative, which is below 100 here.
    torch.testing.assert_close(difference, factor * sigma_part, rtol=0, atol=1e-4)


@torch.no_grad()
def test_a_trace_leaves_the_model_as_it_was():
    model = model_of("pre")
    source, read, _ = sentence_pair()
    before = model(source[None], read[None])
    model.train()
    trace(model, source, read)
    assert model.training
    model.eval()
    assert model(source[None], read[None]).equal(before)
    hooks = [(*module._forward_hooks, *module._forward_pre_hooks) for module in model.modules()]
    assert not any(hooks)
