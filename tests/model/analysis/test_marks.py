"""Which tokens are separators."""

from __future__ import annotations

from model.analysis.marks import sink_tokens
from tests.model.analysis.test_measures import END, START, token


def test_sinks_are_specials_and_final_punctuation() -> None:
    sentence = [START, token("Ja"), token(","), token("gut"), token("!"), token("”"), END]
    assert sink_tokens(sentence).tolist() == [True, False, False, False, True, True, True]


def test_an_unknown_word_is_not_a_sink() -> None:
    sentence = [token("ist"), token("语", 1, special=True), END]
    assert sink_tokens(sentence).tolist() == [False, False, True]


def test_a_typed_special_or_symbol_is_a_word() -> None:
    assert sink_tokens([token("</s>"), token("€")]).tolist() == [False, False]


def test_sinks_of_an_unfinished_sentence() -> None:
    assert sink_tokens([START, token("Well"), token(",")]).tolist() == [True, False, True]
