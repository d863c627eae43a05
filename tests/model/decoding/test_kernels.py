"""The compiled kernels against the torch reference, for random shapes and weights."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from model.config import ModelConfig
from model.decoding.beam_tree import BeamTree
from model.decoding.kernels.model import CompiledModel, Found, Steps
from model.decoding.kernels.packed import FIRST_POSITIONS, pack_decoder
from model.decoding.search import Candidate, SearchOptions, encode_source, search
from model.network.transformer import Encoded, HeadGates, Transformer
from model.results import Token
from model.storage.checkpoint import SCALES, quantise_rows
from model.tokenizer import BOS_ID, PAD_ID
from tests.model.helpers import LimitedSearch, random_model, random_tokens

SOME = settings(max_examples=40, deadline=None)
shapes = st.fixed_dictionaries(
    {
        "width": st.sampled_from([(6, 3), (12, 1), (16, 2), (34, 2), (72, 8)]),  # d_model and n_heads
        "d_ff": st.integers(1, 40),
        "n_encoder_layers": st.integers(1, 3),
        "n_decoder_layers": st.integers(1, 3),
        "vocabulary": st.integers(6, 40),
        "norm": st.sampled_from(["pre", "post"]),
        "tied": st.booleans(),
        "activation": st.sampled_from(["relu", "silu", "gelu", "gelu_new"]),
        "output_bias": st.booleans(),
    }
)
lengths_of_sources = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def model_of(seed: int, shape: dict, eight_bit: bool) -> Transformer:
    (d_model, n_heads), vocabulary = shape["width"], shape["vocabulary"]
    others = {name: value for name, value in shape.items() if name not in ("width", "vocabulary")}
    sizes = {"source_vocabulary": vocabulary, "target_vocabulary": vocabulary, "d_model": d_model}
    model = random_model(seed, n_heads=n_heads, **sizes, **others)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.6)  # scores as large as those of trained models, whose rounding is as small
    if eight_bit:
        quantise(model)
    return model


@torch.no_grad()
def quantise(model: Transformer) -> None:
    """Round every matrix as a model directory in 8 bits holds it."""
    for parameter in model.parameters():
        if parameter.ndim == 2:
            stored = quantise_rows({"": parameter})
            parameter.copy_(stored[""] * stored[SCALES])


def padded(lengths: list[int], seed: int, vocabulary: int) -> Tensor:
    source = random_tokens(len(lengths), max(lengths), seed=seed, vocabulary=vocabulary)
    for row, length in enumerate(lengths):
        source[row, length:] = PAD_ID
    return source


def random_gates(model: Transformer) -> HeadGates:
    return HeadGates(*map(torch.rand_like, HeadGates.open(model.config)))


def sentence_of(encoded: Encoded, row: int) -> Encoded:
    return Encoded(
        [type(layer)(*(part[row : row + 1] for part in layer)) for layer in encoded.cross_kv],
        None if encoded.mask is None else encoded.mask[row : row + 1],
    )


def assert_steps(
    steps: Steps,
    model: Transformer,
    encoded: Encoded,
    row: int,
    ids: tuple[int, ...],
    gates: HeadGates | None,
) -> None:
    """Weights, log-probabilities and likeliest tokens are those of one pass of the reference."""
    read = torch.tensor([[BOS_ID, *ids[:-1]]])
    decoded = model.decode(read, sentence_of(encoded, row), gates, explicit=True)
    assert decoded.self_weights is not None
    assert decoded.cross_weights is not None
    torch.testing.assert_close(steps.self_weights, decoded.self_weights[0], atol=1e-5, rtol=0)
    width = steps.cross_weights.shape[-1]
    real = width if encoded.mask is None else int(encoded.mask[row].sum())
    expected = decoded.cross_weights[0][..., :real]
    torch.testing.assert_close(steps.cross_weights[..., :real], expected, atol=1e-5, rtol=0)
    scores = model.output(decoded.hidden[0]).log_softmax(-1)
    chosen = scores[torch.arange(len(ids)), torch.tensor(ids)]
    assert steps.log_probabilities == pytest.approx(chosen.tolist(), abs=1e-4)
    found = scores.gather(1, steps.likeliest)
    torch.testing.assert_close(steps.likeliest_log_probabilities, found, atol=1e-4, rtol=0)
    torch.testing.assert_close(found, scores.topk(found.shape[1]).values, atol=1e-4, rtol=0)


def assert_same(ours: list[Candidate], reference: list[Candidate]) -> None:
    assert [candidate.ids for candidate in ours] == [candidate.ids for candidate in reference]
    for mine, theirs in zip(ours, reference, strict=True):
        assert mine.score == pytest.approx(theirs.score, abs=1e-4)
        assert mine.log_probability == pytest.approx(theirs.log_probability, abs=1e-4)
        assert mine.log_probabilities == pytest.approx(theirs.log_probabilities, abs=1e-4)


def tree() -> BeamTree:
    return BeamTree(lambda index: Token(str(index), str(index), None, special=False))


def tied(tree: BeamTree) -> bool:
    """Whether two candidates of a search are so close that rounding may decide between them."""
    nodes = tree.nodes
    same_step = itertools.groupby(nodes, key=lambda node: node.step)
    groups = [[node.log_probability for node in group] for _, group in same_step]
    groups.append([node.score for node in nodes if node.status == "finished"])
    return any(right - left < 1e-4 for group in groups for left, right in itertools.pairwise(sorted(group)))


@SOME
@given(
    seed=st.integers(0, 10_000),
    shape=shapes,
    lengths=lengths_of_sources,
    eight_bit=st.booleans(),
    gated=st.booleans(),
)
@torch.no_grad()
def test_encoder_equals_the_reference(
    seed: int, shape: dict, lengths: list[int], eight_bit: bool, gated: bool
) -> None:
    model = model_of(seed, shape, eight_bit)
    source, gates = padded(lengths, seed, shape["vocabulary"]), random_gates(model) if gated else None
    ours, reference = (
        CompiledModel(model).encode(source, gates),
        encode_source(model, source, gates, explicit=True),
    )
    assert ours.weights is not None
    assert reference.weights is not None
    for row, length in enumerate(lengths):
        for mine, theirs in zip(ours.cross_kv, reference.cross_kv, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                torch.testing.assert_close(a[row, :, :length], b[row, :, :length], atol=1e-4, rtol=1e-4)
        read = (row, ..., slice(length), slice(length))
        torch.testing.assert_close(ours.weights[read], reference.weights[read], atol=1e-5, rtol=0)


@SOME
@given(
    seed=st.integers(0, 10_000),
    shape=shapes,
    lengths=lengths_of_sources,
    prefix=st.integers(0, 3),
    beam_size=st.integers(1, 4),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    eight_bit=st.booleans(),
    gated=st.booleans(),
)
@torch.no_grad()
def test_search_equals_the_reference(
    seed: int,
    shape: dict,
    lengths: list[int],
    prefix: int,
    beam_size: int,
    alpha: float,
    eight_bit: bool,
    gated: bool,
) -> None:
    model, vocabulary = model_of(seed, shape, eight_bit), shape["vocabulary"]
    source, gates = padded(lengths, seed, vocabulary), random_gates(model) if gated else None
    forced = random_tokens(len(lengths), prefix, seed=seed + 1, vocabulary=vocabulary)
    options = LimitedSearch(beam_size, alpha, (beam_size + 1) // 2, max_length=9)
    encoded = encode_source(model, source, gates)
    ours: list[Found] = CompiledModel(model).search(encoded, options, gates, prefix=forced)
    reference = search(model, source, options, gates, prefix=forced, encoded=encoded)
    for row, (found, candidates) in enumerate(zip(ours, reference, strict=True)):
        alone, nodes = source[row : row + 1, : lengths[row]], tree()
        search(model, alone, options, gates, prefix=forced[row : row + 1], tree=nodes)
        if not tied(nodes):
            assert_same(found.candidates, candidates)
        assert_steps(found.steps, model, encoded, row, found.candidates[0].ids, gates)


@SOME
@given(seed=st.integers(0, 10_000), shape=shapes, lengths=lengths_of_sources, eight_bit=st.booleans())
@torch.no_grad()
def test_forced_steps_equal_the_reference(
    seed: int, shape: dict, lengths: list[int], eight_bit: bool
) -> None:
    model, vocabulary = model_of(seed, shape, eight_bit), shape["vocabulary"]
    source, gates = padded(lengths, seed, vocabulary), random_gates(model)
    encoded = encode_source(model, source, gates)
    target = random_tokens(len(lengths), 1 + seed % 6, seed=seed + 1, vocabulary=vocabulary)
    ours = CompiledModel(model)
    for row, ids in enumerate(target):
        alone = sentence_of(encoded, row)
        assert_steps(ours.read(alone, ids[None], gates), model, alone, 0, tuple(ids.tolist()), gates)


@SOME
@given(seed=st.integers(0, 10_000), shape=shapes, beam_size=st.integers(1, 4), prefix=st.integers(0, 2))
@torch.no_grad()
def test_beam_tree_is_that_of_the_reference(seed: int, shape: dict, beam_size: int, prefix: int) -> None:
    model, vocabulary = model_of(seed, shape, eight_bit=True), shape["vocabulary"]
    source = random_tokens(1, 6, seed=seed, vocabulary=vocabulary)
    forced = random_tokens(1, prefix, seed=seed, vocabulary=vocabulary)
    options, encoded = LimitedSearch(beam_size, 0.6, max_length=7), encode_source(model, source)
    ours, reference = tree(), tree()
    CompiledModel(model).search(encoded, options, prefix=forced, tree=ours)
    search(model, source, options, prefix=forced, encoded=encoded, tree=reference)
    if tied(reference):
        return
    for mine, theirs in zip(ours.nodes, reference.nodes, strict=True):
        assert mine.log_probability == pytest.approx(theirs.log_probability, abs=1e-4)
        assert mine.score == pytest.approx(theirs.score, abs=1e-4)
        assert (mine.step, mine.token, mine.parent) == (theirs.step, theirs.token, theirs.parent)
        assert (mine.status, mine.reason) == (theirs.status, theirs.reason)


@pytest.mark.parametrize("eight_bit", [True, False])
@torch.no_grad()
def test_default_shape_and_more_positions_than_are_packed(eight_bit: bool) -> None:
    model = Transformer(ModelConfig(8000, 8000)).eval()
    if eight_bit:
        quantise(model)
    source = random_tokens(1, FIRST_POSITIONS // 2, vocabulary=8000)
    ours, reference = CompiledModel(model), encode_source(model, source, explicit=True)
    encoded = ours.encode(source)
    torch.testing.assert_close(encoded.weights, reference.weights, atol=1e-5, rtol=0)
    (found,) = ours.search(encoded, SearchOptions(2))
    assert_steps(found.steps, model, reference, 0, found.candidates[0].ids, None)


# Packed weights


@torch.no_grad()
def test_integers_and_scales_of_eight_bits_come_back() -> None:
    model = random_model()
    quantise(model)
    integers, scales = quantise_rows({"": model.decoder[0].feed_forward.inner.weight}).values()
    packed = pack_decoder(model)
    assert np.array_equal(packed.inner.integers[0], integers.numpy())
    assert np.array_equal(packed.inner.scale[0], scales[:, 0].numpy())
    assert packed.inner.floats.size == 0
    assert packed.vocabulary is packed.embedding


@torch.no_grad()
def test_one_weight_that_no_integer_gives_keeps_its_matrix_in_float32() -> None:
    model = random_model()
    quantise(model)
    model.decoder[1].feed_forward.inner.weight[0, 0] += 1e-6
    packed = pack_decoder(model)
    assert packed.inner.integers.size == 0
    assert np.array_equal(packed.inner.floats[1], model.decoder[1].feed_forward.inner.weight.numpy())
    assert packed.outer.integers.size > 0


@torch.no_grad()
def test_change_of_a_weight_is_noticed() -> None:
    model = random_model()
    ours = CompiledModel(model)
    assert ours.is_current()
    model.decoder[0].feed_forward.inner.weight.mul_(2)
    assert not ours.is_current()
