import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from model.decoding.options import MAX_BEAM, SearchOptions, length_penalty
from model.decoding.search import NEVER_PREDICTED, Candidate, encode_source, search
from model.decoding.step_decoder import IncrementalDecoder
from model.errors import UserError
from model.network.attention import KeyValue
from model.network.transformer import HeadGates, Transformer
from model.text.tokenizer import BOS_ID, EOS_ID, PAD_ID
from tests.model.helpers import LimitedSearch, random_model, random_tokens, set_logits
from tests.numerics import assert_float32, exact

pytestmark = pytest.mark.numeric
FEW = settings(max_examples=8, deadline=None)
seeds = st.integers(0, 10_000)
batches = st.lists(st.integers(1, 7), min_size=1, max_size=5)  # the length of each source sentence


def padded_batch(lengths: list[int], seed: int) -> Tensor:
    source = random_tokens(len(lengths), max(lengths), seed=seed, vocabulary=9)
    for row, length in enumerate(lengths):
        source[row, length:] = PAD_ID
    return source


def small_model(seed: int) -> Transformer:
    """A random model of one of both kinds of norm."""
    norm = "post" if seed % 2 else "pre"
    return random_model(seed, source_vocabulary=9, target_vocabulary=9, n_decoder_layers=2, norm=norm)


def forced(model: Transformer, source: Tensor, ids: tuple[int, ...]) -> Tensor:
    """Log-probability of each of the ids in one uncached pass."""
    target = torch.tensor([[BOS_ID, *ids[:-1]]])
    scores = model(source, target).log_softmax(-1)[0]
    return scores[torch.arange(len(ids)), torch.tensor(ids)]


def assert_log_probabilities(candidate: Candidate, model: Transformer, source: Tensor) -> None:
    """A search computes the log-probabilities of an uncached pass, and their sum."""
    assert_float32(
        (candidate.log_probabilities, candidate.log_probability),
        lambda other: (each := forced(other, source, candidate.ids), each.sum()),
        model,
    )


def greedy(model: Transformer, source: Tensor, limit: int) -> tuple[int, ...]:
    """Greedy decoding as anyone would first write it."""
    target = [BOS_ID]
    while len(target) <= limit and target[-1] != EOS_ID:
        logits = model(source, torch.tensor([target]))[0, -1]
        logits[list(NEVER_PREDICTED)] = float("-inf")
        target.append(int(logits.argmax()))
    return tuple(target[1:])


def best_ids(found: list[list[Candidate]]) -> list[tuple[int, ...]]:
    return [candidates[0].ids for candidates in found]


@FEW
@given(seed=seeds, length=st.integers(1, 7))
@torch.no_grad()
def test_beam_one_is_greedy_decoding(seed: int, length: int) -> None:
    model, source = small_model(seed), padded_batch([length], seed)
    found = search(model, source, LimitedSearch(max_length=8))
    assert best_ids(found) == [greedy(model, source, 8)]
    assert len(found[0]) == 1


@FEW
@given(seed=seeds, lengths=batches, beam_size=st.integers(1, 4))
def test_batch_equals_one_by_one(seed: int, lengths: list[int], beam_size: int) -> None:
    model, source = small_model(seed), padded_batch(lengths, seed)
    options = LimitedSearch(beam_size, max_length=8)
    together = search(model, source, options)
    for row, length in enumerate(lengths):
        (alone,) = search(model, source[row : row + 1, :length], options)
        assert [candidate.ids for candidate in together[row]] == [candidate.ids for candidate in alone]
        assert_log_probabilities(together[row][-1], model, source[row : row + 1, :length])


@FEW
@given(seed=seeds, lengths=batches, beam_size=st.integers(1, 5), alpha=st.sampled_from([0.0, 0.6, 1.0]))
@torch.no_grad()
def test_candidates_are_what_they_claim(seed: int, lengths: list[int], beam_size: int, alpha: float) -> None:
    model, source = small_model(seed), padded_batch(lengths, seed)
    limit = 6
    n_best = (beam_size + 1) // 2
    found = search(model, source, LimitedSearch(beam_size, alpha, n_best, limit))
    for row, (length, candidates) in enumerate(zip(lengths, found, strict=True)):
        assert n_best <= len(candidates) <= beam_size
        assert len({candidate.ids for candidate in candidates}) == len(candidates)
        scores = [candidate.score for candidate in candidates]
        assert scores == sorted(scores, reverse=True)
        for candidate in candidates:
            ids, log_probability, score = candidate.ids, candidate.log_probability, candidate.score
            assert not set(ids) & set(NEVER_PREDICTED)
            assert EOS_ID not in ids[:-1]
            assert len(ids) == limit or ids[-1] == EOS_ID
            assert len(ids) <= limit
            assert log_probability == pytest.approx(sum(candidate.log_probabilities))
            assert score == pytest.approx(log_probability / length_penalty(len(ids), alpha))
        assert_log_probabilities(candidates[0], model, source[row : row + 1, :length])


def everything(model: Transformer, source: Tensor, limit: int) -> list[tuple[tuple[int, ...], float]]:
    """Each possible translation with its log-probability."""
    words = range(EOS_ID + 1, model.config.target_vocabulary)
    ended = [(*start, EOS_ID) for n in range(limit) for start in itertools.product(words, repeat=n)]
    translations = [*ended, *itertools.product(words, repeat=limit)]
    rows = [[BOS_ID, *ids, *[PAD_ID] * (limit - len(ids))] for ids in translations]
    target = torch.tensor(rows)
    logits = model(source.expand(len(target), -1), target[:, :-1])
    scores = logits.log_softmax(-1).gather(2, target[:, 1:, None])[..., 0]
    totals = (scores * (target[:, 1:] != PAD_ID)).sum(-1)
    return list(zip(translations, totals.tolist(), strict=True))


@pytest.mark.parametrize(("vocabulary", "limit", "count"), [(7, 1, 4), (7, 3, 40), (6, 5, 63)])
@pytest.mark.parametrize("seed", [0, 1, 2])
@torch.no_grad()
def test_no_translation_is_better_than_that_of_a_beam_as_wide_as_all(
    vocabulary: int, limit: int, count: int, seed: int
) -> None:
    model = random_model(seed, source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    source = random_tokens(1, 5, seed=seed, vocabulary=vocabulary)
    scored = everything(exact(model), source, limit)
    assert len(scored) == count
    for alpha in (0.0, 0.6, 1.0):
        wanted, _ = max(scored, key=lambda pair: pair[1] / length_penalty(len(pair[0]), alpha))
        ((best, *_),) = search(model, source, LimitedSearch(count, alpha, max_length=limit))
        assert best.ids == wanted
        assert_log_probabilities(best, model, source)


@FEW
@given(seed=seeds, lengths=batches, beam_size=st.integers(2, 5), alpha=st.sampled_from([0.0, 0.6, 1.0, 3.0]))
def test_search_that_ends_early_misses_nothing_of_the_n_best(
    seed: int, lengths: list[int], beam_size: int, alpha: float
) -> None:
    model, source = small_model(seed), padded_batch(lengths, seed)
    # without a maximum each sentence has the limit of its own length
    patient = search(model, source, SearchOptions(beam_size, alpha, n_best=beam_size))
    for n_best in range(1, beam_size):
        found = search(model, source, SearchOptions(beam_size, alpha, n_best=n_best))
        for early, late in zip(found, patient, strict=True):
            assert [c.ids for c in early[:n_best]] == [c.ids for c in late[:n_best]]


def test_second_best_may_come_long_after_the_best() -> None:
    # One word a little likelier than </s>: here </s> alone is best, then 14 words, then word </s>.
    model = set_logits(random_model(tied=False), {EOS_ID: 8.9, 7: 9.0})
    ((first, second, *_),) = search(
        model, random_tokens(1, 5), LimitedSearch(3, 2.0, n_best=2, max_length=14)
    )
    assert first.ids == (EOS_ID,)
    assert second.ids == (7,) * 14


def test_limits_stay_with_their_sentences_when_others_are_dropped() -> None:
    # A word a little likelier than </s>: under this penalty 22 words beat </s> alone, 12 words do not.
    model = set_logits(random_model(tied=False), {EOS_ID: 8.9, 7: 9.0})
    found = search(model, padded_batch([1, 1, 1, 6], seed=0), SearchOptions(2, 2.0))
    assert best_ids(found) == [(EOS_ID,)] * 3 + [(7,) * 22]


def test_search_ends_as_soon_as_the_rest_is_hopeless(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    plain = IncrementalDecoder.step

    def counted(self: IncrementalDecoder, tokens: Tensor) -> Tensor:
        steps.append(len(tokens))
        return plain(self, tokens)

    monkeypatch.setattr(IncrementalDecoder, "step", counted)
    model = set_logits(random_model(tied=False), {EOS_ID: 20.0})
    search(model, random_tokens(2, 5), LimitedSearch(3, max_length=30))
    assert steps == [6]
    search(model, random_tokens(2, 5), LimitedSearch(3, max_length=30, n_best=3))
    assert len(steps) > 2


@FEW
@given(seed=seeds, lengths=batches, beam_size=st.integers(1, 3))
@torch.no_grad()
def test_no_step_reads_padding(seed: int, lengths: list[int], beam_size: int) -> None:
    model, source = small_model(seed), padded_batch(lengths, seed)
    options = LimitedSearch(beam_size, max_length=8)
    expected = search(model, source, options)
    encoded = encode_source(model, source)
    padding = (source == PAD_ID)[:, None, :, None]
    memory = [KeyValue(*(x.masked_fill(padding, 1e4) for x in layer)) for layer in encoded.cross_kv]
    assert search(model, source, options, encoded=encoded._replace(cross_kv=memory)) == expected


# Forced first tokens


@FEW
@given(seed=seeds, length=st.integers(1, 7), beam_size=st.integers(1, 3), size=st.integers(1, 5))
@torch.no_grad()
def test_every_translation_begins_with_the_prefix(seed: int, length: int, beam_size: int, size: int) -> None:
    model, source = small_model(seed), padded_batch([length], seed)
    forced = random_tokens(1, size, seed=seed + 1, vocabulary=9)
    (found,) = search(model, source, LimitedSearch(beam_size, max_length=4), forced=forced)
    for candidate in found:
        assert list(candidate.ids[:size]) == forced[0].tolist()
        assert size < len(candidate.ids) <= max(4, size + 1)
        assert_log_probabilities(candidate, model, source)


@FEW
@given(seed=seeds, lengths=batches)
def test_prefix_that_greedy_would_choose_changes_nothing(seed: int, lengths: list[int]) -> None:
    model, source = small_model(seed), padded_batch(lengths, seed)
    free = best_ids(search(model, source, LimitedSearch(max_length=8)))
    size = min(len(ids) for ids in free) - 1
    forced = torch.tensor([ids[:size] for ids in free], dtype=torch.long).view(len(free), size)
    assert best_ids(search(model, source, LimitedSearch(max_length=8), forced=forced)) == free


@FEW
@given(seed=seeds, lengths=batches, beam_size=st.integers(1, 3))
def test_prefixes_of_a_batch_stay_with_their_sentences(seed: int, lengths: list[int], beam_size: int) -> None:
    model, source = small_model(seed), padded_batch(lengths, seed)
    forced = random_tokens(len(lengths), 3, seed=seed + 1, vocabulary=9)
    options = LimitedSearch(beam_size, max_length=8)
    together = search(model, source, options, forced=forced)
    for row, length in enumerate(lengths):
        part = slice(row, row + 1)
        alone = search(model, source[part, :length], options, forced=forced[part])
        assert best_ids(alone) == [together[row][0].ids]


@torch.no_grad()
def test_length_penalty_turns_a_tie_between_short_and_long_to_the_long() -> None:
    # </s> and one word have the same chance at each step; with the penalty a longer hypothesis wins
    model = set_logits(random_model(tied=False), {EOS_ID: 8.0, 5: 8.0})
    source = random_tokens(1, 5)
    short = search(model, source, LimitedSearch(8, 0.0, max_length=6))[0][0]
    long = search(model, source, LimitedSearch(8, 5.0, max_length=6))[0][0]
    assert short.ids == (EOS_ID,)
    assert len(long.ids) == 6


def test_length_penalty_is_equation_14() -> None:
    assert length_penalty(1, 0.7) == 1
    assert length_penalty(13, 1.0) == 3
    assert length_penalty(13, 2.0) == 9
    assert length_penalty(13, 0.0) == 1


@pytest.mark.parametrize("beam_size", [1, 3])
def test_control_symbols_are_never_predicted_however_likely(beam_size: int) -> None:
    model = set_logits(random_model(tied=False), dict.fromkeys(NEVER_PREDICTED, 50.0) | {7: 1.0})
    for candidate in search(model, random_tokens(1, 5), LimitedSearch(beam_size, max_length=4))[0]:
        assert not set(candidate.ids) & set(NEVER_PREDICTED)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_search_that_never_sees_an_end_stops_at_the_limit(beam_size: int) -> None:
    model = set_logits(random_model(tied=False), {EOS_ID: -50.0, 7: 3.0})
    source = padded_batch([2, 5], seed=0)
    given_limit = search(model, source, LimitedSearch(beam_size, max_length=4))
    assert best_ids(given_limit) == [(7, 7, 7, 7)] * 2
    by_source = search(model, source, SearchOptions(beam_size))
    assert [len(ids) for ids in best_ids(by_source)] == [14, 20]


def test_end_at_once_is_one_token_long() -> None:
    model = set_logits(random_model(tied=False), {EOS_ID: 50.0})
    assert best_ids(search(model, random_tokens(3, 5))) == [(EOS_ID,)] * 3


def test_beam_wider_than_the_vocabulary_works() -> None:
    model = random_model(source_vocabulary=6, target_vocabulary=6)
    (found,) = search(model, random_tokens(1, 3, vocabulary=6), LimitedSearch(50, 1.0, max_length=2))
    assert {candidate.ids[0] for candidate in found} <= {EOS_ID, 4, 5}
    assert len(found) <= 7


@FEW
@given(seed=seeds, lengths=batches, beam_size=st.integers(1, 3))
def test_open_gates_change_nothing_to_the_bit(seed: int, lengths: list[int], beam_size: int) -> None:
    model, source = small_model(seed), padded_batch(lengths, seed)
    options = LimitedSearch(beam_size, max_length=8)
    assert search(model, source, options, HeadGates.open(model.config)) == search(model, source, options)


@torch.no_grad()
def test_gates_ablate_heads_during_the_search() -> None:
    model, source = small_model(3), padded_batch([6], 3)
    gates = HeadGates.open(model.config)
    gates.cross[0, 1] = 0.0
    gates.encoder[1, 2] = 0.0
    gates.decoder[1, 0] = 0.0
    gated = search(model, source, SearchOptions(3), gates)
    width = model.config.d_head
    model.decoder[0].cross_attention.output.weight[:, width : 2 * width] = 0
    model.encoder[1].self_attention.output.weight[:, 2 * width :] = 0
    model.decoder[1].self_attention.output.weight[:, :width] = 0
    (expected,) = search(model, source, SearchOptions(3))
    assert [candidate.ids for candidate in gated[0]] == [candidate.ids for candidate in expected]
    for candidate in gated[0]:
        assert_log_probabilities(candidate, model, source)


def test_impossible_options_are_refused() -> None:
    for beam_size in (0, -1, MAX_BEAM + 1):
        with pytest.raises(UserError, match=f"beam size is {beam_size}; give 1 to {MAX_BEAM}"):
            SearchOptions(beam_size)
    with pytest.raises(UserError, match="length penalty is -1"):
        SearchOptions(length_penalty=-1.0)
    for n_best in (0, 5):
        with pytest.raises(
            UserError, match=f"beam of 4 cannot find {n_best} translations; give n_best 1 to 4"
        ):
            SearchOptions(4, n_best=n_best)
