"""Leave one out: a hidden token is one that nothing reads, and nothing else changes."""

from __future__ import annotations

import pytest
import torch

from model import Translator
from model.analysis.leave_one_out import leave_one_out, tokens_and_words
from model.errors import UserError
from model.network.attention import MultiHeadAttention
from model.results import Token
from tests.model.analysis.random_pairs import model_of, sentence_pair, shapes
from tests.model.helpers import random_model, tiny_checkpoint
from tests.numerics import assert_exact

pytestmark = pytest.mark.usefixtures("float64")


@torch.no_grad()
def log_probabilities(model, hidden=(), monkeypatch=None):
    """Of all words at each step, without the weights of the hidden keys, the others scaled up to 1."""
    source, read, _ = sentence_pair()

    def without(module, query, key_value, mask=None, gate=None, explicit=False):
        scores = query @ key_value.key.transpose(-2, -1) * query.shape[-1] ** -0.5
        bias = module.bias(query.shape[-2], key_value.key.shape[-2])
        scores = scores if bias is None else scores + bias
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(-1)
        if mask is None:  # the source is read, by the encoder or by cross-attention
            weights = weights.clone()
            weights[..., list(hidden)] = 0
            weights = weights / weights.sum(-1, keepdim=True)
        heads = weights @ key_value.value
        y = module.output(heads.transpose(1, 2).flatten(-2))
        return original(module, query, key_value, mask, gate, explicit)._replace(y=y)

    original = MultiHeadAttention.forward
    if monkeypatch:
        monkeypatch.setattr(MultiHeadAttention, "forward", without)
    found = model(source[None], read[None])[0].log_softmax(-1)
    if monkeypatch:
        monkeypatch.undo()
    return found


@shapes
def test_a_hidden_token_has_no_weight_in_any_layer(shape, monkeypatch):
    model, (source, read, predicted) = model_of(shape), sentence_pair()
    groups = [(0,), (3,), (1, 2), (5,)]
    found = leave_one_out(model, source, read, predicted, groups)
    steps = torch.arange(len(read))
    intact = log_probabilities(model)
    for place, group in enumerate(groups):
        without = log_probabilities(model, group, monkeypatch)
        assert_exact(found.losses[place], (intact - without)[steps, predicted])
        assert found.likeliest[place].equal(without.argmax(-1))
    assert float(found.losses.abs().max()) > 0.01


def test_without_groups_each_token_is_hidden_alone_and_passes_and_threads_do_not_matter(monkeypatch):
    model, pair = random_model(), sentence_pair()
    alone = [(place,) for place in range(len(pair[0]))]
    found, expected = leave_one_out(model, *pair), leave_one_out(model, *pair, alone)
    monkeypatch.setattr("model.analysis.leave_one_out.ALL_THREADS", 3)
    in_threads = leave_one_out(model, *pair)
    monkeypatch.setattr("model.analysis.ablation.PASS_TOKENS", 1)
    in_turn = leave_one_out(model, *pair)
    assert found.losses.shape == found.likeliest.shape == (6, 5)
    for one, other in zip((*expected, *in_threads, *in_turn), found * 3, strict=True):
        assert_exact(one, other)


@torch.no_grad()
def test_a_token_that_the_model_cannot_see_costs_nothing():
    model, pair = random_model(), sentence_pair()
    for block in model.decoder:
        block.cross_attention.output.weight.zero_()
    assert_exact(leave_one_out(model, *pair).losses, torch.zeros(6, 5))  # the decoder reads no source
    assert_exact(leave_one_out(random_model(), *pair, [()]).losses, torch.zeros(1, 5))


def test_in_train_mode_it_is_that_of_eval_mode():
    model, pair = random_model(dropout=0.5), sentence_pair()
    expected = leave_one_out(model, *pair)
    model.train()
    assert leave_one_out(model, *pair).losses.equal(expected.losses)
    assert model.training


def test_groups_are_the_tokens_and_the_words_of_several():
    words = [None, 0, 1, 1, 1, 2, None]
    tokens = [Token(str(place), str(place), word, word is None, place) for place, word in enumerate(words)]
    assert tokens_and_words(tokens) == [*((place,) for place in range(7)), (2, 3, 4)]


def test_a_translation_without_source_tokens_chooses_what_is_the_likeliest_without_them():
    """A greedy search takes at each step the token that `leave_one_out` finds after the same beginning."""
    translator = Translator(tiny_checkpoint(seed=1), use_kernels=False)
    text, hidden = "Ein kleiner Hund läuft.", (1, 2)
    found = translator.translate(text, hidden=hidden)
    assert (found.attention.cross[..., list(hidden)] == 0).all()
    assert (found.attention.encoder[..., list(hidden)] == 0).all()
    source, read = translator.pair(text, found.ids)
    predicted = torch.tensor(found.ids)
    likeliest = leave_one_out(translator.checkpoint.model, source, read, predicted, [hidden]).likeliest
    assert likeliest[0].tolist() == list(found.ids)
    assert translator.translate(text, hidden=()).ids == translator.translate(text).ids


@pytest.mark.parametrize("hidden", [(99,), (-1,), tuple(range(50))])
def test_only_some_of_the_source_tokens_can_be_hidden(hidden):
    translator = Translator(tiny_checkpoint(seed=1), use_kernels=False)
    count = len(translator.translate("Ein Hund.").attention.source)
    with pytest.raises(UserError, match=f"some of the {count} source tokens"):
        translator.translate("Ein Hund.", hidden=hidden[:count] if len(hidden) > 1 else hidden)
