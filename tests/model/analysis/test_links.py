"""Word links and coverage, by hand."""

from __future__ import annotations

import pytest
import torch

from model.analysis.alignment import best_links, coverage, parse_gold, sentence_error, unlinked, word_links
from model.errors import UserError
from model.results import AttentionRecord, Head, Token


def token(text, word):
    return Token(text, text, word, word is None)


SOURCE = (token("Hund", 0), token("e", 0), token("lau", 1), token("fen", 1), token("</s>", None))
PREDICTED = (token("dogs", 0), token("run", 1), token("</s>", None))
READ = (token("<s>", None), *PREDICTED[:-1])
CROSS = torch.tensor(
    [
        [  # head 0.0: each word reads its own, in the row that predicts it
            [[0.5, 0.4, 0.0, 0.0, 0.1], [0.1, 0.0, 0.4, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]],
            # head 0.1: all rows read the end
            [[0.1, 0.0, 0.0, 0.0, 0.9], [0.1, 0.0, 0.0, 0.0, 0.9], [0.1, 0.0, 0.0, 0.0, 0.9]],
        ]
    ]
)
RECORD = AttentionRecord(torch.zeros(1, 2, 5, 5), torch.zeros(1, 2, 3, 3), CROSS, SOURCE, READ, PREDICTED)


def test_the_sharp_head_links_each_word_to_its_own():
    found = word_links(RECORD, Head("cross", 0, 0), shifted=False)
    assert found.forward == found.grown == {(0, 0), (1, 1)}
    assert found.agreement == 1
    assert unlinked(found.forward, RECORD) == ()


def test_the_best_head_is_the_sharp_one_in_the_rows_that_predict():
    found = best_links(RECORD)
    assert (found.head, found.shifted) == (Head("cross", 0, 0), False)


def test_the_best_head_may_look_at_the_word_that_it_reads():
    words = tuple(token(text, place) for place, text in enumerate("abcd"))
    source, predicted = (*words, token("</s>", None)), (*words, token("</s>", None))
    looks_back = torch.zeros(5, 5)  # row t looks at the word before: the word of the token which it reads
    looks_back[range(1, 5), range(4)] = looks_back[0, 4] = 1.0
    blurred = 0.5 * torch.eye(5) + 0.1  # each row looks at its own word, less clearly
    cross = torch.stack([looks_back, blurred, blurred, blurred])[None]
    read = (token("<s>", None), *predicted[:-1])
    other = torch.zeros(1, 4, 5, 5)
    found = best_links(AttentionRecord(other, other, cross, source, read, predicted))
    assert (found.head, found.shifted) == (Head("cross", 0, 0), True)
    assert found.forward == {(word, word) for word in range(4)}


def test_shifted_rows_are_those_that_read_the_word():
    """Row 1 reads `dogs` and looks at the second word; row 2 reads `run` and looks at no word."""
    found = word_links(RECORD, Head("cross", 0, 0), shifted=True)
    assert found.forward == {(1, 0)}
    assert unlinked(found.forward, RECORD) == (0,)


def test_a_head_that_reads_no_second_word_leaves_it_out():
    found = word_links(RECORD, Head("cross", 0, 1), shifted=False)
    assert found.forward == {(0, 0), (0, 1)}
    assert unlinked(found.grown, RECORD) == (1,)


def test_the_average_is_over_all_heads():
    found = word_links(RECORD, None, shifted=False)
    assert found.forward == {(0, 0), (1, 1)}


def test_coverage_is_the_weight_that_all_rows_give_to_a_word():
    # By hand: ((.5 + .4 + .1 + 0) + (.1 + .1 + .1)) / 2 and ((.4 + .5) + 0) / 2.
    torch.testing.assert_close(coverage(RECORD), torch.tensor([0.65, 0.45]))


def test_errors_of_one_sentence():
    found = frozenset({(0, 0), (1, 0)})
    assert sentence_error(found, parse_gold("0-0 1-1", first=0), RECORD) == pytest.approx(0.5)
    assert sentence_error(found, parse_gold("0-0 1p0", first=0), RECORD) == 0
    with pytest.raises(UserError, match="The link 2-0 is outside the sentence; its words are 0 to 1"):
        sentence_error(found, parse_gold("2-0", first=0), RECORD)


def test_pharaoh_counts_from_zero():
    assert parse_gold("0-0 2p1", first=0).possible == {(0, 0), (2, 1)}
    assert parse_gold("0-0 2p1", first=0).sure == {(0, 0)}
    with pytest.raises(UserError):
        parse_gold("9" * 5000 + "-0", first=0)
