"""Which words of a sentence seem to be missing from its translation."""

from dataclasses import replace

import pytest
import torch

from model import Translator
from model.analysis.omissions import absence, missing_words, surprise_of_end
from model.analysis.thresholds import THRESHOLDS
from model.results import AttentionRecord, Source, Token, Translation


def token(text: str, word: int | None) -> Token:
    return Token(piece=f"▁{text}", text=text, word=word, special=word is None)


# "Haus" is in two tokens; the translation is "a garden".
SOURCE = (token("Ein", 0), token("Haus", 1), token("tür", 1), token("Garten", 2), token("</s>", None))
PREDICTED = (token("a", 0), token("garden", 1), token("</s>", None))
READ = (token("<s>", None), *PREDICTED[:-1])
LOOKED_UP = torch.tensor([[0.9, 0, 0, 0, 0.1], [0, 0.004, 0, 0.9, 0.096], [0, 0.5, 0.5, 0, 0]])


def record(
    taught: tuple[int, int] | None, *heads: torch.Tensor, source: tuple[Token, ...] = SOURCE
) -> AttentionRecord:
    """A record of one layer with these heads of cross-attention."""
    cross = torch.stack(heads)[None]
    n_heads, n_source = len(heads), len(source)
    encoder, decoder = torch.zeros(1, n_heads, n_source, n_source), torch.zeros(1, n_heads, 3, 3)
    return AttentionRecord(encoder, decoder, cross, source, READ, PREDICTED, taught)


def missing(found: AttentionRecord, end: float = 0.0) -> tuple[int, ...]:
    """The missing words of a translation whose </s> has the log-probability `end`."""
    chances = (0.0, 0.0, end)
    return missing_words(Translation(Source("", found.source), "", "", "", found, chances, (), ()))


def test_a_word_that_no_word_of_the_translation_looks_up_is_missing():
    """The row that writes </s> belongs to no word, although it reads both tokens of “Haustür”."""
    assert missing(record((0, 0), LOOKED_UP)) == (1,)


def test_the_absence_is_worked_out_by_hand():
    letters = torch.tensor([3.0, 7, 6])
    weights = torch.tensor([0.9, 0.002, 0.9])
    expected = THRESHOLDS["letter"] * letters - (weights + THRESHOLDS["unread"]).log()
    torch.testing.assert_close(absence(record((0, 0), LOOKED_UP)), expected)


def test_a_surprising_end_makes_every_word_likelier_to_be_missing():
    """Without an end nothing surprises: the translation was cut."""
    found = record((0, 0), LOOKED_UP)
    more = absence(found, 2.0) - absence(found)
    torch.testing.assert_close(more, torch.full((3,), 2 * THRESHOLDS["early_end"]))
    assert set(missing(found, -40.0)) == {0, 1, 2}
    cut = replace(found, predicted=(*PREDICTED[:2], token("of", 2)))
    assert surprise_of_end(Translation(Source("", SOURCE), "", "", "", cut, (0.0, 0.0, -9.0), (), ())) == 0


def test_of_a_head_that_looks_up_the_word_just_read_the_row_after_counts():
    """Shifted by one row, the row that writes </s> reads the last word."""
    shifted = torch.stack([torch.eye(5)[4], LOOKED_UP[0], LOOKED_UP[1]])
    others = [LOOKED_UP] * 3  # the mean of all heads decides which rows align
    assert missing(record((0, 0), shifted, *others)) == (1,)
    torch.testing.assert_close(absence(record((0, 0), shifted, *others)), absence(record((0, 0), LOOKED_UP)))


def test_without_a_taught_head_the_two_most_focused_heads_decide_together():
    spread = torch.full((3, 5), 0.2)
    other = LOOKED_UP.clone()
    other[1] = torch.tensor([0, 0.5, 0.1, 0.3, 0.1])
    assert missing(record(None, LOOKED_UP, LOOKED_UP, spread)) == (1,)
    assert missing(record(None, LOOKED_UP, other, spread)) == ()


def test_a_number_and_a_sentence_of_one_word_are_not_judged():
    digits = (token("1", 0), token("234567", 1), token("89", 1), *SOURCE[3:])
    assert missing(record((0, 0), LOOKED_UP, source=digits)) == ()
    alone = (token("Haus", 0), token("tür", 0), SOURCE[4])
    assert missing(record((0, 0), torch.full((3, 3), 0.001), source=alone)) == ()


@pytest.mark.parametrize(
    ("name", "sentence", "translation", "expected"),
    [
        ("de-en", "Zwei Männer halten einen Basketball.", "Two men are holding a basketball.", []),
        ("de-en", "Zwei Männer springen und halten einen Basketball.", "Two men jump.", ["Basketball"]),
        ("en-fr", "The prisoner was given his freedom.", "On lui a donné sa liberté.", ["prisoner"]),
        ("en-fr", "The prisoner was given his freedom.", "On a rendu sa liberté au prisonnier.", []),
    ],
)
def test_the_shipped_models_name_what_a_translation_leaves_out(
    name: str, sentence: str, translation: str, expected: list[str]
):
    found = Translator.load(f"assets/models/{name}").score(sentence, translation)
    source = found.attention.source
    named = ["".join(one.text for one in source if one.word == word) for word in missing_words(found)]
    assert [name.strip() for name in named[:1]] == expected


@pytest.mark.parametrize(
    ("translation", "fits"), [("The dog is sleeping.", True), ("Shares fell again.", False)]
)
def test_a_given_translation_of_another_sentence_is_said(translation: str, fits: bool):
    found = Translator.load("assets/models/de-en").score("Der Hund schläft.", translation)
    assert (found.notices == ()) == fits
