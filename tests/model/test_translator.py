from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model import Translator, UserError
from model.decoding.inference import Inference
from model.decoding.options import SearchOptions
from model.decoding.search import Candidate, search
from model.inputs import BATCH_TOKENS, MAX_TOKENS
from model.instruments import sentence_baseline
from model.network.masks import causal_mask
from model.network.transformer import HeadGates, Transformer
from model.notices import is_copied
from model.results import Head, Translation
from model.storage.checkpoint import save
from model.text.tokenizer import BOS_ID, EOS_ID, Tokenizer, pad
from tests.model.helpers import INFO, read_target, set_logits, tiny_checkpoint
from tests.numerics import UNIT, assert_float32
from tests.numerics import scores as exact_scores

TEXT = "Ein kleiner Hund läuft."


def fixed(logits: dict[int, float]) -> Translator:
    """A translator that has the same logits at each step, characters out."""
    checkpoint = tiny_checkpoint(tied=False)
    set_logits(checkpoint.model, logits)
    return Translator(checkpoint)


def words_of_one_token(translator: Translator, count: int) -> str:
    """A sentence of exactly `count` tokens."""
    tokenizer = translator.checkpoint.source_tokenizer
    pieces = tokenizer.pieces(range(len(tokenizer)))
    piece = next(piece for piece in pieces if piece.startswith("▁") and len(piece) > 1)
    text = " ".join([piece[1:]] * count)
    assert tokenizer.pieces(tokenizer.encode(text)) == [piece] * count
    return text


def found_by_search(translator: Translator, text: str, beam_size: int = 1) -> Candidate:
    source = torch.tensor([[*translator.checkpoint.source_tokenizer.encode(text), EOS_ID]])
    return search(translator.checkpoint.model, source, SearchOptions(beam_size))[0][0]


# The source and the options


@pytest.mark.parametrize(
    "work",
    [
        lambda translator: translator.translate(TEXT, 3, tree=True),
        lambda translator: translator.score(TEXT, "A dog"),
        lambda translator: translator.mute(TEXT, [Head("cross", 0, 1)], 2),
        lambda translator: translator.importance(TEXT),
        lambda translator: translator.norm_weights(TEXT, [9, EOS_ID]),
        lambda translator: sentence_baseline(translator, TEXT),
    ],
)
def test_a_sentence_is_tokenised_once(work: Callable[[Translator], object], monkeypatch) -> None:
    calls = []

    def counted(name: str) -> Callable[[Tokenizer, str], object]:
        original = getattr(Tokenizer, name)
        return lambda self, text: calls.append((name, text)) or original(self, text)

    for name in ("encode", "encode_spans", "encode_batch", "spans_batch", "source_tokens", "first_ids"):
        monkeypatch.setattr(Tokenizer, name, counted(name))
    work(Translator(tiny_checkpoint(tied=False)))
    read = [name for name, text in calls if text == TEXT]
    assert read == ["source_tokens", "encode_spans", "first_ids"]  # the first calls the second


def test_a_translation_knows_what_made_it(translator: Translator) -> None:
    heads = (Head("encoder", 0, 1), Head("cross", 1, 0))
    gates = HeadGates.ablating(translator.checkpoint.model.config, heads)
    found = translator.translate(TEXT, 3, 0.5, gates, n_best=2, forced=[9], hidden=[1])
    assert found.options == SearchOptions(3, 0.5, 2)
    assert (found.n_forced, found.hidden, found.ablated) == (1, (1,), heads)
    assert translator.mute(TEXT, heads, 2).ablated.ablated == heads
    assert translator.translate(found.source, 3).text == translator.translate(TEXT, 3).text


# The record


@pytest.mark.parametrize("beam_size", [1, 4])
def test_record_rows_sum_to_one_and_the_future_is_exactly_zero(
    translator: Translator, beam_size: int
) -> None:
    result = translator.translate(TEXT, beam_size=beam_size)
    record, config = result.attention, translator.checkpoint.model.config
    S, T, heads = len(record.source), len(record.predicted), config.n_heads
    assert S != T
    assert record.encoder.shape == (config.n_encoder_layers, heads, S, S)
    assert record.decoder.shape == (config.n_decoder_layers, heads, T, T)
    assert record.cross.shape == (config.n_decoder_layers, heads, T, S)
    for weights in (record.encoder, record.decoder, record.cross):
        assert weights.dtype == torch.float32
        # Each weight has the rounding of one quotient and of the exponentials' sum; adding them rounds again.
        assert (weights.sum(-1) - 1).abs().max() <= 3 * weights.shape[-1] * UNIT
    assert bool((record.decoder[..., ~causal_mask(T, T)] == 0).all())


@pytest.mark.parametrize(("beam_size", "gated"), [(1, True), (4, False)])
@torch.no_grad()
def test_record_equals_the_weights_seen_step_by_step(
    translator: Translator, beam_size: int, gated: bool
) -> None:
    model = translator.checkpoint.model
    gates = None
    if gated:
        gates = HeadGates(*(torch.rand_like(gate) for gate in HeadGates.open(model.config)))
    record = translator.translate(TEXT, beam_size=beam_size, gates=gates).attention
    source = torch.tensor([[*translator.checkpoint.source_tokenizer.encode(TEXT), EOS_ID]])
    candidate = search(model, source, SearchOptions(beam_size), gates)[0][0]
    read = torch.tensor([[BOS_ID, *candidate.ids[:-1]]])

    def step_by_step(model: Transformer) -> dict[str, Tensor]:
        encoded = model.encode(source, None, gates, explicit=True)
        steps = [model.decode(read[:, : t + 1], encoded, gates, explicit=True) for t in range(read.shape[1])]
        own = [
            F.pad(step.self_weights[0, :, :, -1], (0, read.shape[1] - t - 1)) for t, step in enumerate(steps)
        ]
        cross = [step.cross_weights[0, :, :, -1] for step in steps]
        return {
            "encoder": encoded.weights[0],
            "decoder": torch.stack(own, dim=2),
            "cross": torch.stack(cross, dim=2),
        }

    assert len(record.predicted) == read.shape[1]
    found = {"encoder": record.encoder, "decoder": record.decoder, "cross": record.cross}
    assert_float32(found, step_by_step, model)


def test_record_of_a_model_left_in_train_mode_is_free_of_dropout(joint: Translator) -> None:
    target = found_by_search(joint, TEXT).ids
    expected, scores = read_target(joint, TEXT, target)
    joint.checkpoint.model.train()
    record, again = read_target(joint, TEXT, target)
    assert torch.equal(record.encoder, expected.encoder)
    assert torch.equal(record.decoder, expected.decoder)
    assert torch.equal(record.cross, expected.cross)
    assert torch.equal(again, scores)


def test_decoder_rows_carry_what_is_read_and_what_is_predicted(translator: Translator) -> None:
    result = translator.translate(TEXT, beam_size=3)
    record, target = result.attention, translator.checkpoint.target_tokenizer
    assert record.read[0].piece == "<s>"
    assert record.read[1:] == record.predicted[:-1]
    ids = found_by_search(translator, TEXT, 3).ids
    assert [token.piece for token in record.predicted] == target.pieces(ids)
    assert result.text == target.decode(ids)
    assert record.source == translator.checkpoint.source_tokenizer.source_tokens(TEXT)
    assert record.source[-1].piece == "</s>"


def test_muting_a_head_leaves_its_own_first_weights_and_changes_what_follows(joint: Translator) -> None:
    target = found_by_search(joint, TEXT).ids
    gates = HeadGates.open(joint.checkpoint.model.config)
    gates.encoder[0, 1] = 0.0
    plain, plain_scores = read_target(joint, TEXT, target)
    muted, muted_scores = read_target(joint, TEXT, target, gates)
    assert torch.equal(muted.encoder[0], plain.encoder[0])
    assert not torch.equal(muted.encoder[1], plain.encoder[1])
    assert not torch.equal(muted_scores, plain_scores)


# Probabilities


@pytest.mark.parametrize("beam_size", [1, 4])
def test_log_probabilities_are_those_of_the_chosen_tokens(translator: Translator, beam_size: int) -> None:
    translator.inference.use_kernels = False  # torch computes every pass in one way, so the bits are equal
    result = translator.translate(TEXT, beam_size=beam_size)
    ids = found_by_search(translator, TEXT, beam_size).ids
    _, scores = read_target(translator, TEXT, ids)
    torch.testing.assert_close(scores.exp().sum(-1), torch.ones(len(ids)))
    assert result.log_probabilities == tuple(float(row[i]) for row, i in zip(scores, ids, strict=True))
    for found in (result.log_probabilities, result.hypotheses[0].log_probabilities):
        assert_float32(found, exact_scores(translator, TEXT, ids), translator.checkpoint.model)


def test_alternatives_are_the_likeliest_tokens_in_order(translator: Translator) -> None:
    translator.inference.use_kernels = False  # torch computes every pass in one way, so the bits are equal
    result = translator.translate(TEXT)
    _, scores = read_target(translator, TEXT, found_by_search(translator, TEXT).ids)
    assert len(result.alternatives) == len(result.log_probabilities)
    for row, alternatives in zip(scores, result.alternatives, strict=True):
        values = [alternative.log_probability for alternative in alternatives]
        assert values == sorted(row.tolist(), reverse=True)[:5]
        pieces = translator.checkpoint.target_tokenizer.pieces(row.argsort(descending=True)[:5].tolist())
        assert [alternative.token.piece for alternative in alternatives] == pieces


def test_hypotheses_are_the_n_best_the_best_first(translator: Translator) -> None:
    result = translator.translate(TEXT, beam_size=4)
    scores = [hypothesis.score for hypothesis in result.hypotheses]
    assert scores == sorted(scores, reverse=True)
    assert 1 < len(scores) <= 4
    assert result.hypotheses[0].text == result.text


# Inputs


@pytest.mark.parametrize("text", ["", " ", "\n\t \u2581"])
def test_nothing_to_translate(translator: Translator, text: str) -> None:
    with pytest.raises(UserError, match="nothing to translate"):
        translator.translate(text)


@pytest.mark.parametrize("text", ["😀", "😀 🎉", "שלום עולם", "مرحبا", "漢字 漢字"])
def test_text_of_unknown_characters_alone_is_refused(translator: Translator, text: str) -> None:
    with pytest.raises(UserError, match="knows none of these characters; it reads German"):
        translator.translate(text)


@pytest.mark.parametrize("text", ["Hund 😀 Schnee.", "Hund שלום"])
def test_unknown_parts_are_named_in_a_notice(translator: Translator, text: str) -> None:
    unknown = text.split()[1]
    (notice,) = (n for n in translator.translate(text).notices if "<unk>" in n)
    assert f"does not know “{unknown}”" in notice


def test_known_text_has_no_notice_of_unknown_parts(translator: Translator) -> None:
    assert not [notice for notice in translator.translate(TEXT).notices if "<unk>" in notice]


@pytest.mark.parametrize(
    "text", ["<script>alert('Hund')</script>", "Hund</textarea>", "<s> Hund </s>", "\ud83d Hund", "Hund\x00"]
)
def test_markup_and_control_symbols_are_text_like_any_other(joint: Translator, text: str) -> None:
    record = joint.translate(text).attention
    assert [token.piece for token in record.source if token.word is None] == ["</s>"]
    shown = "".join(token.text.strip() for token in record.source[:-1])
    assert shown == text.replace("\ud83d", "?").replace(" ", "")


@pytest.mark.parametrize("text", ["Hund " * 2000, "H" * 10_000])
def test_ten_thousand_characters_are_refused(translator: Translator, text: str) -> None:
    with pytest.raises(UserError, match="10,000 characters.*at most 128 tokens"):
        translator.translate(text)


def test_sentence_of_exactly_the_limit_works_and_one_more_token_does_not(translator: Translator) -> None:
    translator.checkpoint.model.requires_grad_(False)
    set_logits(translator.checkpoint.model, {EOS_ID: 9.0})  # ends at once: this is about the source
    longest = words_of_one_token(translator, MAX_TOKENS - 1)
    assert len(translator.translate(longest).attention.source) == MAX_TOKENS
    with pytest.raises(UserError, match=f"has {MAX_TOKENS + 1} tokens; the limit is {MAX_TOKENS}"):
        translator.translate(words_of_one_token(translator, MAX_TOKENS))


def test_spaces_around_and_between_do_not_matter(joint: Translator) -> None:
    plain, spaced = joint.translate(TEXT), joint.translate(f"  {TEXT.replace(' ', '   ')}\n")
    assert spaced.text == plain.text
    assert spaced.source_text == plain.source_text == TEXT


def test_translation_says_its_languages_and_times(joint: Translator) -> None:
    result = joint.translate(TEXT)
    assert (result.source_language, result.target_language) == (INFO.source_language, INFO.target_language)
    assert set(result.timings) == {"encode", "search", "record"}
    assert all(milliseconds > 0 for milliseconds in result.timings.values())


# Notices


def test_translation_cut_at_the_limit_carries_a_notice() -> None:
    result = fixed({EOS_ID: -50.0, 9: 20.0}).translate("Hund")
    assert result.notices == ("The translation was cut at the length limit.",)


def test_unsure_translation_carries_a_notice_and_a_sure_one_none() -> None:
    unsure, sure = fixed({EOS_ID: 0.5}).translate("Hund"), fixed({EOS_ID: 20.0}).translate("Hund")
    assert unsure.notices == ("The model is unsure of this translation; it reads German.",)
    assert sure.notices == ()


def test_a_translation_that_repeats_the_sentence_says_which_language_the_model_reads() -> None:
    sentence = "The dog is sleeping on the sofa."
    assert is_copied(sentence, "The dog is sleeping the sofa.")
    assert not is_copied(sentence, "Der Hund schläft auf dem Sofa.")
    assert not is_copied("Hotel Berlin, Taxi", "Hotel Berlin, Taxi")  # names stay as they are


@pytest.mark.parametrize(
    "changed",
    [
        lambda translator: translator.translate("Hund", forced=[9]),
        lambda translator: translator.mute("Hund", [Head("cross", 0, 0)]).ablated,
    ],
)
def test_an_unsure_translation_after_a_change_says_nothing_about_the_language(
    changed: Callable[[Translator], Translation],
) -> None:
    assert changed(fixed({EOS_ID: 0.5})).notices == (
        "After your change, the model is unsure of this translation.",
    )
    # A forced word that is unlikely itself says nothing about what follows.
    assert changed(fixed({EOS_ID: 20.0})).notices == ()


# Batches


@pytest.mark.parametrize("beam_size", [1, 3])
def test_batch_keeps_order_and_empty_lines_and_equals_one_by_one(
    translator: Translator, beam_size: int
) -> None:
    lines = ["Ein Hund läuft.", "", "Hund", " \t", "Öffne die Tür!", "Hund", "Wie geht's?"]
    expected = [translator.translate(line, beam_size).text if line.strip() else "" for line in lines]
    assert translator.translate_batch(lines, beam_size) == expected
    assert len(set(expected)) > 3


def test_batch_is_cut_into_pieces_that_fit(joint: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["Ein Hund läuft.", "Öffne die Tür!", "Wie geht's?", "Hund", "Schnee", "Ein kleiner Hund"]
    whole = joint.translate_batch(lines)
    sizes, widths = [], []
    search_batch = Inference.search_batch

    def watched(self: Inference, source: torch.Tensor, *others: object) -> list[list[Candidate]]:
        sizes.append(source.numel())
        widths.append(source.shape[1])
        return search_batch(self, source, *others)

    monkeypatch.setattr(Inference, "search_batch", watched)
    monkeypatch.setattr("model.inputs.BATCH_TOKENS", 24)
    assert joint.translate_batch(lines) == whole
    assert len(sizes) > 2
    assert widths == sorted(widths, reverse=True)
    assert max(sizes) <= 24 < BATCH_TOKENS


def test_batch_names_the_line_that_is_too_long(joint: Translator) -> None:
    with pytest.raises(UserError, match="Line 3: The sentence has .* tokens; the limit is 128"):
        joint.translate_batch(["Hund", "", words_of_one_token(joint, MAX_TOKENS)])


def test_batch_leaves_empty_what_the_model_cannot_read(translator: Translator) -> None:
    empty, full = translator.translate_batch(["😀 🎉", "Hund 😀"])
    assert empty == ""
    assert full == translator.translate("Hund 😀").text != ""


@pytest.mark.parametrize("lines", [[], [""], ["", " "]])
def test_batch_of_nothing(joint: Translator, lines: Sequence[str]) -> None:
    assert joint.translate_batch(lines) == [""] * len(lines)


def test_pad_stands_on_the_right() -> None:
    assert pad([[5], [6, 7, 8]]).tolist() == [[5, 0, 0], [6, 7, 8]]


# Loading


def test_saved_translator_loads_and_translates_alike(tmp_path: Path) -> None:
    save(tiny_checkpoint(seed=1), tmp_path / "de-en")
    first = Translator.load(tmp_path / "de-en")
    save(first.checkpoint, tmp_path / "again")
    second = Translator.load(str(tmp_path / "again"))
    assert first.name == "de-en"
    assert first.title.startswith(INFO.title)
    assert second.translate(TEXT).text == first.translate(TEXT).text


def test_missing_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no model directory"):
        Translator.load(tmp_path / "nothing")
