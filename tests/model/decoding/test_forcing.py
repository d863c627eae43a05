"""Translations of which a part or the whole is given."""

from collections.abc import Sequence

import pytest
import torch

from model import Head, HeadGates, Translator, UserError
from model.inputs import MAX_TARGET_TOKENS
from model.text.tokenizer import EOS_ID
from tests.numerics import assert_float32, scores, translator_of

TEXT = "Ein kleiner Hund läuft."


def assert_scores(found: Sequence[float], translator: Translator, ids: Sequence[int]) -> None:
    """Check that these are the log-probabilities of the tokens, but for rounding."""
    assert_float32(found, scores(translator, TEXT, ids), translator.checkpoint.model)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_forcing_a_token_continues_behind_it(translator: Translator, beam_size: int) -> None:
    free = translator.translate(TEXT, beam_size)
    assert free.n_forced == 0
    for step in range(min(4, len(free.ids))):
        other = next(
            a.token.id for a in free.alternatives[step] if a.token.id not in (*range(4), free.ids[step])
        )
        prefix = (*free.ids[:step], other)
        result = translator.translate(TEXT, beam_size, forced=prefix)
        assert result.ids[: step + 1] == prefix
        assert len(result.ids) > step + 1
        assert result.n_forced == step + 1
        assert result.attention.read[1:] == result.attention.predicted[:-1]
        for found in (result.log_probabilities, result.hypotheses[0].log_probabilities):
            assert_scores(found, translator, result.ids)


def test_forcing_what_greedy_chose_anyway_changes_only_the_label(translator: Translator) -> None:
    free = translator.translate(TEXT)
    for size in (0, 1, 3, len(free.ids) - 1, len(free.ids)):
        result = translator.translate(TEXT, forced=free.ids[:size])
        assert result.ids == free.ids
        assert result.n_forced == size
        assert_scores(result.log_probabilities, translator, free.ids)


def test_prefix_may_be_text(joint: Translator) -> None:
    result = joint.translate(TEXT, forced="A dog")
    assert result.text.startswith("A dog")
    assert result.n_forced == len(joint.checkpoint.target_tokenizer.encode("A dog"))


def test_prefix_that_ends_is_the_whole_translation(translator: Translator) -> None:
    result = translator.translate(TEXT, 3, forced=(9, 11, EOS_ID))
    assert result.ids == (9, 11, EOS_ID)
    assert result.n_forced == 3
    assert [h.ids for h in result.hypotheses] == [(9, 11, EOS_ID)]


def test_score_is_the_forced_pass_over_a_given_target(translator: Translator) -> None:
    translator.inference.use_kernels = False  # torch computes every pass in one way, so the bits are equal
    free = translator.translate(TEXT)
    scored = translator.score(TEXT, free.ids)
    assert scored.ids == free.ids
    assert scored.n_forced == len(free.ids)
    assert scored.log_probabilities == free.log_probabilities
    assert torch.equal(scored.attention.cross, free.attention.cross)
    assert scored.hypotheses[0].log_probability == pytest.approx(sum(free.log_probabilities))


def test_score_of_text_reads_to_its_end(joint: Translator) -> None:
    scored = joint.score(TEXT, " A small  dog. ")
    assert scored.text == "A small dog."
    assert scored.ids == (*joint.checkpoint.target_tokenizer.encode("A small dog."), EOS_ID)
    assert not any("<unk>" in notice for notice in scored.notices)
    assert "has characters that the model reads as <unk>" in joint.score(TEXT, "A 😀 dog.").notices[-1]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_gates_act_on_forced_targets(joint: Translator, beam_size: int) -> None:
    gates = HeadGates.ablating(joint.checkpoint.model.config, [Head("cross", 0, 1)])
    plain, muted = joint.score(TEXT, "A dog."), joint.score(TEXT, "A dog.", gates)
    assert muted.log_probabilities != plain.log_probabilities
    result = joint.translate(TEXT, beam_size, gates=gates, forced=plain.ids[:2])
    assert_float32(
        result.log_probabilities,
        lambda model: translator_of(joint, model).score(TEXT, result.ids, gates).log_probabilities,
        joint.checkpoint.model,
    )
    opened = joint.translate(TEXT, beam_size, gates=HeadGates.open(joint.checkpoint.model.config))
    assert opened.log_probabilities == joint.translate(TEXT, beam_size).log_probabilities


@pytest.mark.parametrize("target", [(-1,), (10_000,), (9, 0), (2, 9)])
def test_tokens_that_no_translation_holds_are_refused(joint: Translator, target: tuple[int, ...]) -> None:
    for call in (lambda: joint.score(TEXT, target), lambda: joint.translate(TEXT, forced=target)):
        with pytest.raises(UserError, match="cannot contain token"):
            call()


def test_targets_without_sense_are_refused(joint: Translator) -> None:
    with pytest.raises(UserError, match="no translation to score"):
        joint.score(TEXT, "  ")
    with pytest.raises(UserError, match="continues after its </s>"):
        joint.score(TEXT, (9, EOS_ID, 9))
    with pytest.raises(
        UserError, match=f"has {MAX_TARGET_TOKENS + 1} tokens; the limit is {MAX_TARGET_TOKENS}"
    ):
        joint.score(TEXT, [9] * (MAX_TARGET_TOKENS + 1))
    with pytest.raises(UserError, match="has 10,000 characters"):
        joint.translate(TEXT, forced="x" * 10_000)
    assert joint.score(TEXT, [9] * MAX_TARGET_TOKENS).n_forced == MAX_TARGET_TOKENS


def test_beam_tree_is_there_when_asked_for(translator: Translator) -> None:
    result = translator.translate(TEXT, 3, tree=True)
    assert translator.translate(TEXT, 3).beam_tree == ()
    node = max((n for n in result.beam_tree if n.status == "finished"), key=lambda n: n.score)
    assert node.score == pytest.approx(result.hypotheses[0].score)
    path = []
    while node is not None:
        path.append(node.token.id)
        node = None if node.parent is None else result.beam_tree[node.parent]
    assert tuple(path[::-1]) == result.ids
