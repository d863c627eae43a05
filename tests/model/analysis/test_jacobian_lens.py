"""The Jacobian lens: finite differences give its matrices, and its file is read as it was written."""

from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from model.analysis.jacobian_lens import LENS, STACKS, load_lens, mean_jacobians, measure, save_lens, states
from model.analysis.lens import lens, nearness, words_of
from model.analysis.trace import trace
from model.network.masks import causal_mask
from tests.model.analysis.random_pairs import model_of, sentence_pair, shapes
from tests.model.helpers import random_model
from tests.numerics import UNIT, assert_exact

pytestmark = pytest.mark.usefixtures("float64")

STEP = 1e-4
LARGEST_ERROR = 1e-6  # of a matrix, relative


def last_states(model, pair, stack, layer, x):
    """The sum over rows of the last state of a stack, if the state after `layer` is x."""
    source, read = pair
    if stack == "encoder":
        for block in model.encoder[layer + 1 :]:
            x = block(x, None, None, True).x
        return x.sum(1)[0]
    keys_values = model.encode(source[None], explicit=True).cross_kv
    causal = causal_mask(len(read), len(read), read.device)
    for block, each in zip(model.decoder[layer + 1 :], keys_values[layer + 1 :], strict=True):
        x = block(x, causal, each, None, None, None, True).x
    return x.sum(1)[0]


def differences(model, pair, stack, layer, x, step):
    """Central differences: all rows of x move together, which sums the effects of all."""
    columns = []
    for place in range(x.shape[-1]):
        change = torch.zeros(x.shape[-1])
        change[place] = step
        ends = [last_states(model, pair, stack, layer, x + each) for each in (change, -change)]
        columns.append((ends[0] - ends[1]) / (2 * step * x.shape[1]))
    return torch.stack(columns, 1)


@shapes
def test_the_matrices_are_finite_differences(shape):
    model = model_of(shape)
    source, read, _ = sentence_pair()
    pair = source, read
    found, inner = mean_jacobians(model, [pair]), states(model, pair)
    for stack in STACKS:
        assert len(found[stack]) == len(getattr(model, stack)) - 1
        for layer, matrix in enumerate(found[stack]):
            x = inner[stack][layer + 1].detach()
            with torch.no_grad():
                near, far = (differences(model, pair, stack, layer, x, each) for each in (STEP, 2 * STEP))
            wanted = (4 * near - far) / 3  # without the error of the order step²
            assert (matrix - wanted).norm() <= LARGEST_ERROR * wanted.norm()


def test_several_sentences_have_the_mean_of_their_matrices():
    model = random_model()
    pairs = [sentence_pair(seed)[:2] for seed in (0, 5)]
    both = mean_jacobians(model, pairs)
    alone = [mean_jacobians(model, [pair]) for pair in pairs]
    for stack in STACKS:
        assert_exact(both[stack], (alone[0][stack] + alone[1][stack]) / 2)


def test_states_are_those_of_the_trace():
    model = random_model()
    source, read, _ = sentence_pair()
    traced = trace(model, source, read)
    found = states(model, (source, read))
    for stack in STACKS:
        assert_exact(torch.cat(found[stack][1:]).detach(), getattr(traced, stack).layers)


@shapes
def test_matrices_that_change_nothing_give_the_logit_lens(shape):
    model = model_of(shape)
    source, read, predicted = sentence_pair()
    same = {stack: torch.eye(12).expand(len(getattr(model, stack)) - 1, -1, -1) for stack in STACKS}
    encoder, decoder = trace(model, source, read)
    direct, through = (
        lens(model, source, read, predicted),
        words_of(model, decoder, predicted, same["decoder"]),
    )
    assert_exact(through.log_probabilities, direct.log_probabilities)
    assert through.leads_from == direct.leads_from
    assert_exact(nearness(encoder, same["encoder"]), nearness(encoder))
    assert_exact(nearness(encoder)[-1], torch.ones(len(source)))


def test_what_the_lenses_are_worth_is_counted_over_all_rows():
    model = random_model()
    pairs = [sentence_pair(seed, source=4 + seed, target=3 + seed) for seed in range(3)]
    matrices = mean_jacobians(model, [pair[:2] for pair in pairs])
    found = measure(model, matrices, pairs)
    assert found["sentences"] == 3
    right, near = [], []
    for source, read, predicted in pairs:
        encoder, decoder = trace(model, source, read)
        right.append(words_of(model, decoder, predicted, matrices["decoder"]).words[0, :, 0] == predicted)
        near.append(nearness(encoder, matrices["encoder"])[0])
    assert found["decoder"]["jacobian"][0] == pytest.approx(float(torch.cat(right).double().mean()), abs=5e-4)
    assert found["encoder"]["jacobian"][0] == pytest.approx(float(torch.cat(near).mean()), abs=5e-4)


def written(tmp_path, model):
    source, read, predicted = sentence_pair()
    matrices = mean_jacobians(model, [(source, read)])
    measured = {"fitted": 1, **measure(model, matrices, [(source, read, predicted)])}
    save_lens(matrices["decoder"], measured, tmp_path)
    return matrices["decoder"]


def test_the_file_is_read_as_it_was_written(tmp_path):
    model = random_model()
    matrices = written(tmp_path, model)
    found = load_lens(tmp_path, model)
    largest = matrices.abs().amax(-1, keepdim=True)
    bound = largest / 254 + 256 * UNIT * largest  # half a step of 8 bits, and scales in float32
    assert ((found.decoder - matrices).abs() <= bound).all()
    assert found.measured["sentences"] == 1
    assert load_lens(None, model) is None
    assert load_lens(tmp_path / "none", model) is None


@pytest.mark.parametrize("spoil", ["cut", "other model", "not finite", "no figures", "no number"])
def test_a_file_that_does_not_fit_is_no_file(tmp_path, spoil):
    model = random_model()
    written(tmp_path, model)
    path = tmp_path / LENS
    if spoil == "cut":
        path.write_bytes(path.read_bytes()[:100])
    if spoil == "other model":
        model = random_model(n_decoder_layers=5)
    if spoil == "not finite":
        stored = load_file(path)
        stored["decoder.0.scales"][0] = torch.inf
        save_file(stored, path, {"lens": "{}"})
    if spoil == "no figures":
        save_file(load_file(path), path, {"lens": '{"version": 1, "sentences": 1, "decoder": {}}'})
    if spoil == "no number":
        with safe_open(path, "pt") as file:
            figures = json.loads(file.metadata()["lens"])
        figures["decoder"]["direct"][0] = math.nan
        save_file(load_file(path), path, {"lens": json.dumps(figures)})
    assert load_lens(tmp_path, model) is None
