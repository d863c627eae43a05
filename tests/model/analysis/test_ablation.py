import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from model import Translator, UserError
from model.analysis.ablation import changed_words, gradient_importance, importance
from model.analysis.patching import Rows, ablation_gates, head_outputs, mean_outputs
from model.decoding.progress import WorkCancelled, listening
from model.network.transformer import HeadGates, Transformer
from model.results import KINDS, Head, HeadValues
from model.text.tokenizer import BOS_ID
from tests.model.helpers import random_model, random_tokens, set_logits, tiny_checkpoint
from tests.numerics import EXACT, assert_exact, assert_slope

pytestmark = pytest.mark.usefixtures("float64")


SOURCE = random_tokens(6, seed=1)
PREDICTED = random_tokens(5, seed=2)
READ = torch.cat((torch.tensor([BOS_ID]), PREDICTED[:-1]))
TEXT = "Ein kleiner Hund läuft."
HEADS = (Head("encoder", 0, 1), Head("cross", 3, 2))


def log_probability(
    model: Transformer, source: torch.Tensor, target: torch.Tensor, gates: HeadGates | None = None
) -> float:
    read = torch.cat((torch.full((1, 1), BOS_ID), target[:, :-1]), 1)
    hidden = model.decode(read, model.encode(source, None, gates), gates).hidden
    return float(model.output(hidden).log_softmax(-1).gather(2, target[..., None]).sum())


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("pass_tokens", [1, 100, 4096])
@torch.no_grad()
def test_importance_equals_ablating_one_head_after_another(
    norm: str, pass_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.analysis.ablation.PASS_TOKENS", pass_tokens)
    monkeypatch.setattr("model.analysis.ablation.BLOCK_WORDS", 7)
    monkeypatch.setattr("model.analysis.ablation.ALL_THREADS", 3)
    model, source, target = random_model(norm=norm), random_tokens(1, 6), random_tokens(1, 5, seed=1)
    values = importance(model, source, target)
    whole = log_probability(model, source, target)
    for kind, gate, value in zip(KINDS, HeadGates.open(model.config), values, strict=True):
        assert value.shape == gate.shape
        for layer, head in gate.nonzero().tolist():
            gates = HeadGates.ablating(model.config, [Head(kind, layer, head)])
            expected = log_probability(model, source, target, gates) - whole
            assert float(value[layer, head]) == pytest.approx(expected, abs=EXACT)
            assert abs(expected) > 1e-4


@torch.no_grad()
def test_importance_with_a_baseline_equals_replacing_one_head_after_another() -> None:
    model, source, target = random_model(), random_tokens(1, 6), random_tokens(1, 5, seed=1)
    outputs = head_outputs(model, random_tokens(1, 4, seed=2)[0], random_tokens(1, 9, seed=3)[0])
    whole = log_probability(model, source, target)
    for baseline in (outputs, mean_outputs([outputs])):
        values = importance(model, source, target, baseline)
        for kind, gate, value in zip(KINDS, HeadGates.open(model.config), values, strict=True):
            for layer, head in gate.nonzero().tolist():
                rows = Rows(source.shape[1], target.shape[1])
                gates = ablation_gates(model.config, [Head(kind, layer, head)], rows, baseline)
                expected = log_probability(model, source, target, gates) - whole
                assert float(value[layer, head]) == pytest.approx(expected, abs=EXACT)


def test_importance_says_how_many_heads_are_done(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.analysis.ablation.PASS_TOKENS", 5)
    model, seen = translator.checkpoint.model, []
    source, target = random_tokens(1, 6), random_tokens(1, 5, seed=1)
    with listening(seen.append):
        importance(model, source, target)
    heads = sum(gate.numel() for gate in HeadGates.open(model.config))
    assert seen == [f"{done} of {heads} heads" for done in range(heads)]

    def cancel(_: str) -> None:
        raise WorkCancelled

    with listening(cancel), pytest.raises(WorkCancelled):
        translator.importance(TEXT)


def test_heads_that_do_not_reach_the_output_have_no_importance() -> None:
    model = set_logits(random_model(tied=False), {7: 3.0})
    for values in importance(model, random_tokens(1, 6), random_tokens(1, 5)):
        assert bool((values == 0).all())


def test_importance_of_the_translation_and_of_a_given_one(translator: Translator) -> None:
    own = translator.importance(TEXT)
    assert isinstance(own, HeadValues)
    again = translator.importance(TEXT, translator.translate(TEXT).ids)
    other = translator.importance(TEXT, "A dog.")
    for left, right, different in zip(own, again, other, strict=True):
        assert torch.equal(left, right)
        assert not torch.equal(left, different)


@torch.no_grad()
def test_gates_of_a_batch_are_those_of_each_sentence() -> None:
    model, source, target = random_model(), random_tokens(3, 6), random_tokens(3, 5)
    gates = HeadGates(*(torch.rand(3, *gate.shape) for gate in HeadGates.open(model.config)))
    together = model.decode(target, model.encode(source, None, gates), gates, explicit=True)
    for row in range(3):
        part = slice(row, row + 1)
        own = HeadGates(*(gate[row] for gate in gates))
        alone = model.decode(target[part], model.encode(source[part], None, own), own, explicit=True)
        assert_exact(together.hidden[part], alone.hidden)
        assert_exact(together.cross_weights[part], alone.cross_weights)


# Importance by gradient


def loss(model: Transformer, gates: HeadGates) -> float:
    """Negative log-probability of the whole target in nats."""
    with torch.no_grad():
        encoded = model.encode(SOURCE[None], None, gates)
        logits = model.output(model.decode(READ[None], encoded, gates).hidden)
    return float(torch.nn.functional.cross_entropy(logits[0], PREDICTED, reduction="sum"))


@pytest.mark.parametrize("norm", ["pre", pytest.param("post", marks=pytest.mark.slow)])
def test_gradient_importance_is_the_slope_of_the_loss_at_each_gate(norm: str) -> None:
    """Every head of every kind against a central difference, in double precision."""
    model = random_model(norm=norm).double()
    found = gradient_importance(model, SOURCE, READ, PREDICTED)
    gates = HeadGates(*(gate.double() for gate in HeadGates.open(model.config)))
    for kind, slopes in zip(gates, found, strict=True):
        assert slopes.shape == kind.shape
        for layer, head in torch.cartesian_prod(*map(torch.arange, kind.shape)).tolist():

            def changed(by: float, gate: Tensor = kind[layer, head]) -> float:
                gate.fill_(1 + by)
                value = loss(model, gates)
                gate.fill_(1)
                return value

            sign = 1 if changed(1e-4) > changed(-1e-4) else -1
            assert_slope(sign * float(slopes[layer, head]), changed, 1e-4)


def test_a_head_that_adds_nothing_has_no_gradient_importance() -> None:
    model = random_model()
    with torch.no_grad():
        model.decoder[2].cross_attention.output.weight[:, 4:8] = 0  # head 1 of width 4
    found = gradient_importance(model, SOURCE, READ, PREDICTED)
    assert float(found.cross[2, 1]) == 0
    assert sum(int((kind == 0).sum()) for kind in found) == 1


def test_gradient_importance_needs_neither_eval_mode_nor_enabled_gradients() -> None:
    model = random_model(dropout=0.5)
    expected = gradient_importance(model, SOURCE, READ, PREDICTED)
    model.train()
    with torch.inference_mode():
        found = gradient_importance(model, SOURCE.clone(), READ.clone(), PREDICTED.clone())
    for mine, other in zip(found, expected, strict=True):
        assert mine.equal(other)
        assert not mine.requires_grad
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


# Muting


@pytest.mark.parametrize("beam_size", [1, 3])
def test_mute_compares_both_translations(translator: Translator, beam_size: int) -> None:
    muted = translator.mute(TEXT, HEADS, beam_size)
    gates = HeadGates.ablating(translator.checkpoint.model.config, HEADS)
    assert muted.heads == HEADS
    assert muted.original.ids == translator.translate(TEXT, beam_size).ids
    assert muted.ablated.ids == translator.translate(TEXT, beam_size, gates=gates).ids
    assert (muted.original_words, muted.ablated_words) == changed_words(
        muted.original.text, muted.ablated.text
    )
    ablated = translator.score(TEXT, muted.original.ids, gates).log_probabilities
    for difference, after, before in zip(
        muted.differences, ablated, muted.original.log_probabilities, strict=True
    ):
        assert difference == after - before
    assert any(muted.differences)


def test_mute_scores_the_translation_that_it_is_given(translator: Translator) -> None:
    given = translator.score(TEXT, "A dog.")
    muted = translator.mute(TEXT, HEADS, target=given.ids)
    gates = HeadGates.ablating(translator.checkpoint.model.config, HEADS)
    ablated = translator.score(TEXT, given.ids, gates).log_probabilities
    assert muted.original.ids == given.ids
    assert muted.ablated.ids == translator.translate(TEXT, gates=gates).ids
    expected = [after - before for after, before in zip(ablated, given.log_probabilities, strict=True)]
    assert list(muted.differences) == expected


def test_muting_nothing_changes_nothing(translator: Translator) -> None:
    translator.inference.use_kernels = False  # torch computes every pass in one way, so the bits are equal
    muted = translator.mute(TEXT, ())
    assert muted.ablated.text == muted.original.text
    assert not any(word.changed for word in (*muted.original_words, *muted.ablated_words))
    assert set(muted.differences) == {0.0}


def test_muting_every_head_leaves_a_translation_that_ignores_the_source() -> None:
    translator = Translator(tiny_checkpoint(seed=1))
    config = translator.checkpoint.model.config
    gates = HeadGates.open(config)
    heads = [Head(k, *at) for k, gate in zip(KINDS, gates, strict=True) for at in gate.nonzero().tolist()]
    first, second = (translator.mute(text, heads).ablated for text in (TEXT, "Der Schnee ist da."))
    length = min(len(first.ids), len(second.ids))  # the limit follows the source
    assert first.ids[:length] == second.ids[:length]
    assert translator.translate(TEXT).ids[:3] != translator.translate("Der Schnee ist da.").ids[:3]


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        (Head("encoder", 2, 0), "no encoder head 0 in layer 2; layers go from 0 to 1 and heads from 0 to 2"),
        (Head("cross", 0, 3), "no cross head 3 in layer 0; layers go from 0 to 3"),
        (Head("decoder", -1, 0), "no decoder head 0 in layer -1"),
        (Head("self", 0, 0), "no kind 'self' of attention; give one of encoder, decoder, cross"),
    ],
)
def test_head_that_does_not_exist_is_refused(translator: Translator, head: Head, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        translator.mute(TEXT, [head])


def test_changed_words_by_hand() -> None:
    before, after = changed_words("a small dog runs", "a dog runs home")
    assert [word.text for word in before if word.changed] == ["small"]
    assert [word.text for word in after if word.changed] == ["home"]
    assert changed_words("", "x") == ((), (("x", True),))
    before, after = changed_words("for the bus for two hours.", "for the bus two hours for the bus.")
    assert [word.changed for word in before] == [False, False, False, True, False, False]
    assert [word.changed for word in after] == [False, False, False, False, False, True, True, True]


words = st.lists(st.sampled_from("abc"), max_size=8).map(" ".join)


@settings(max_examples=20, deadline=None)
@given(words, words)
def test_unchanged_words_are_the_same_in_the_same_order(left: str, right: str) -> None:
    before, after = changed_words(left, right)
    assert " ".join(word.text for word in before) == left
    assert [w.text for w in before if not w.changed] == [w.text for w in after if not w.changed]
    assert (left == right) == (not any(word.changed for word in (*before, *after)))
