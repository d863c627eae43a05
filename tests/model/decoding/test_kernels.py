"""The compiled kernels against the torch reference, for random shapes and weights."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from model.decoding.beam_tree import BeamTree
from model.decoding.kernels.model import MAX_ROWS, CompiledModel, Found, Steps
from model.decoding.kernels.packed import FIRST_POSITIONS, pack_decoder
from model.decoding.options import SearchOptions, length_penalty
from model.decoding.search import Candidate, encode_source, search
from model.network.attention import KeyValue
from model.network.config import ModelConfig
from model.network.transformer import Encoded, HeadGates, Transformer
from model.results import Token
from model.storage.checkpoint import SCALES, quantise_rows
from model.text.tokenizer import BOS_ID, PAD_ID
from tests.model.helpers import LimitedSearch, draw_weights, random_model, random_tokens
from tests.numerics import assert_float32

pytestmark = pytest.mark.numeric

SOME = settings(max_examples=10, deadline=None)
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
        "embedding_norm": st.booleans(),
    }
)
# Nats between candidates that rounding cannot exchange; each test checks that its error is below half.
CLOSE = 2e-3
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


def exact_steps(
    model: Transformer, encoded: Encoded, ids: tuple[int, ...], gates: HeadGates | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Self- and cross-attention weights and log-probabilities of one pass of the reference in float64."""
    read = torch.tensor([[BOS_ID, *ids[:-1]]])
    memory = [KeyValue(*(part.double() for part in layer)) for layer in encoded.cross_kv]
    decoded = model.decode(read, encoded._replace(cross_kv=memory), gates, explicit=True)
    assert decoded.self_weights is not None
    assert decoded.cross_weights is not None
    scores = model.output(decoded.hidden[0]).log_softmax(-1)
    return decoded.self_weights[0], decoded.cross_weights[0], scores


def assert_steps(
    steps: Steps,
    model: Transformer,
    encoded: Encoded,
    row: int,
    ids: tuple[int, ...],
    gates: HeadGates | None,
) -> None:
    """Weights, log-probabilities and likeliest tokens are those of one pass of the reference."""
    alone, places = sentence_of(encoded, row), torch.arange(len(ids))
    width = steps.cross_weights.shape[-1]
    real = width if alone.mask is None else int(alone.mask.sum())

    def reference(other: Transformer) -> tuple[Tensor, ...]:
        self_weights, cross_weights, scores = exact_steps(other, alone, ids, gates)
        chosen, found = scores[places, torch.tensor(ids)], scores.gather(1, steps.likeliest)
        return self_weights, cross_weights[..., :real], chosen, found, scores.topk(found.shape[1]).values

    likeliest = steps.likeliest_log_probabilities
    cross_weights = steps.cross_weights[..., :real]
    assert_float32(
        (steps.self_weights, cross_weights, steps.log_probabilities, likeliest, likeliest), reference, model
    )


def assert_same(
    ours: list[Candidate],
    reference: list[Candidate],
    model: Transformer,
    encoded: Encoded,
    gates: HeadGates | None,
    alpha: float,
) -> None:
    """The same translations, with the log-probabilities of the reference."""
    assert [candidate.ids for candidate in ours] == [candidate.ids for candidate in reference]
    for mine in ours:
        places, ids = torch.arange(len(mine.ids)), torch.tensor(mine.ids)

        def of_tokens(other: Transformer, mine=mine, places=places, ids=ids) -> tuple[Tensor, Tensor]:
            each = exact_steps(other, encoded, mine.ids, gates)[2][places, ids]
            return each, each.sum()

        bounds = assert_float32((mine.log_probabilities, mine.log_probability), of_tokens, model)
        assert bounds["/1"] < CLOSE / 2
        assert mine.score == pytest.approx(mine.log_probability / length_penalty(len(mine.ids), alpha))


def tree() -> BeamTree:
    return BeamTree(lambda index: Token(str(index), str(index), None, special=False))


def tied(tree: BeamTree) -> bool:
    """Whether two candidates of a search are so close that rounding may decide between them."""
    nodes = tree.nodes
    same_step = itertools.groupby(nodes, key=lambda node: node.step)
    groups = [[node.log_probability for node in group] for _, group in same_step]
    groups.append([node.score for node in nodes if node.status == "finished"])
    return any(right - left < CLOSE for group in groups for left, right in itertools.pairwise(sorted(group)))


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
    real = [slice(length) for length in lengths]

    def parts(encoded: Encoded) -> list[list[Tensor]]:
        """Of each sentence the weights, and keys and values for each decoder layer."""
        assert encoded.weights is not None
        return [
            [encoded.weights[row, ..., own, own]]
            + [part[row, :, own] for layer in encoded.cross_kv for part in layer]
            for row, own in enumerate(real)
        ]

    found = parts(CompiledModel(model).encode(source, gates))
    assert_float32(found, lambda other: parts(encode_source(other, source, gates, explicit=True)), model)


@SOME
@given(
    seed=st.integers(0, 10_000),
    shape=shapes,
    lengths=lengths_of_sources,
    n_forced=st.integers(0, 3),
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
    n_forced: int,
    beam_size: int,
    alpha: float,
    eight_bit: bool,
    gated: bool,
) -> None:
    model, vocabulary = model_of(seed, shape, eight_bit), shape["vocabulary"]
    source, gates = padded(lengths, seed, vocabulary), random_gates(model) if gated else None
    forced = random_tokens(len(lengths), n_forced, seed=seed + 1, vocabulary=vocabulary)
    options = LimitedSearch(beam_size, alpha, (beam_size + 1) // 2, max_length=9)
    encoded = encode_source(model, source, gates)
    ours: list[Found] = CompiledModel(model).search(encoded, options, gates, forced=forced)
    reference = search(model, source, options, gates, forced=forced, encoded=encoded)
    for row, (found, candidates) in enumerate(zip(ours, reference, strict=True)):
        alone, nodes = source[row : row + 1, : lengths[row]], tree()
        search(model, alone, options, gates, forced=forced[row : row + 1], tree=nodes)
        assume(not tied(nodes))
        assert_same(found.candidates, candidates, model, sentence_of(encoded, row), gates, alpha)
        assert_steps(found.steps, model, encoded, row, found.candidates[0].ids, gates)


@SOME
@given(
    seed=st.integers(0, 10_000),
    shape=shapes,
    lengths=st.lists(st.integers(1, 9), min_size=MAX_ROWS + 1, max_size=2 * MAX_ROWS),
    beam_size=st.integers(1, 2),
    eight_bit=st.booleans(),
)
@torch.no_grad()
def test_batches_equal_the_reference(
    seed: int, shape: dict, lengths: list[int], beam_size: int, eight_bit: bool
) -> None:
    model, options = model_of(seed, shape, eight_bit), LimitedSearch(beam_size, 0.6, max_length=9)
    source, gates = padded(lengths, seed, shape["vocabulary"]), random_gates(model)
    found = CompiledModel(model).search_batch(source, options, gates, [5])
    assert len(found) == len(lengths)
    for row in (0, MAX_ROWS - 1, len(lengths) - 1):
        alone, forced, nodes = source[row : row + 1, : lengths[row]], torch.tensor([[5]]), tree()
        encoded = encode_source(model, alone, gates)
        (reference,) = search(model, alone, options, gates, forced=forced, encoded=encoded, tree=nodes)
        assume(not tied(nodes))
        assert_same(found[row], reference, model, encoded, gates, 0.6)


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
        assert_steps(ours.score(alone, ids[None], gates), model, alone, 0, tuple(ids.tolist()), gates)


@SOME
@given(seed=st.integers(0, 10_000), shape=shapes, beam_size=st.integers(1, 4), n_forced=st.integers(0, 2))
@torch.no_grad()
def test_beam_tree_is_that_of_the_reference(seed: int, shape: dict, beam_size: int, n_forced: int) -> None:
    model, vocabulary = model_of(seed, shape, eight_bit=True), shape["vocabulary"]
    source = random_tokens(1, 6, seed=seed, vocabulary=vocabulary)
    forced = random_tokens(1, n_forced, seed=seed, vocabulary=vocabulary)
    options, encoded = LimitedSearch(beam_size, 0.6, max_length=7), encode_source(model, source)
    ours, reference = tree(), tree()
    CompiledModel(model).search(encoded, options, forced=forced, tree=ours)
    search(model, source, options, forced=forced, encoded=encoded, tree=reference)
    assume(not tied(reference))
    for mine, theirs in zip(ours.nodes, reference.nodes, strict=True):
        # What rounding can change is checked for the same searches above.
        assert mine.log_probability == pytest.approx(theirs.log_probability, abs=CLOSE / 2)
        assert mine.score == pytest.approx(theirs.score, abs=CLOSE / 2)
        assert (mine.step, mine.token, mine.parent) == (theirs.step, theirs.token, theirs.parent)
        assert (mine.status, mine.reason) == (theirs.status, theirs.reason)


@pytest.mark.parametrize("eight_bit", [True, pytest.param(False, marks=pytest.mark.slow)])
@torch.no_grad()
def test_default_shape_and_more_positions_than_are_packed(eight_bit: bool) -> None:
    model = draw_weights(Transformer(ModelConfig(8000, 8000)), scale=1.0).eval()
    if eight_bit:
        quantise(model)
    source = random_tokens(1, FIRST_POSITIONS // 2, vocabulary=8000)
    ours, reference = CompiledModel(model), encode_source(model, source, explicit=True)
    encoded = ours.encode(source)
    assert_float32(encoded.weights, lambda other: encode_source(other, source, explicit=True).weights, model)
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
