import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from model.analysis.alignment import (
    NO_WORD,
    GoldAlignment,
    alignment_error_rate,
    format_pharaoh,
    grow_diag,
    links,
    merge_to_words,
    parse_gold,
    strongest_words,
)
from model.errors import UserError
from model.results import AttentionRecord, Token
from model.translator import Translator
from tests.model.helpers import pharaoh_links

LINKS = st.frozensets(st.tuples(st.integers(0, 40), st.integers(0, 40)))
SHORT_LINKS = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)))
# Between <s> and </s> target words of 1 and 2 tokens; before </s> source words of 2, 1 and 1 tokens.
QUERY_WORDS = [None, 0, 1, 1, None]
KEY_WORDS = [0, 0, 1, 2, None]
WEIGHTS = torch.tensor(
    [
        [0.0, 0.0, 0.0, 0.9, 0.1],
        [0.1, 0.2, 0.3, 0.1, 0.3],
        [0.3, 0.1, 0.2, 0.2, 0.2],
        [0.2, 0.4, 0.2, 0.0, 0.2],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ]
)


def random_weights(*shape: int) -> Tensor:
    return torch.rand(*shape).softmax(-1)


def test_words_sum_over_keys_and_average_over_queries() -> None:
    merged = merge_to_words(WEIGHTS, QUERY_WORDS, KEY_WORDS)
    torch.testing.assert_close(merged, torch.tensor([[0.3, 0.3, 0.1], [0.5, 0.2, 0.1]]))


def test_words_of_all_heads_are_merged_in_one_call() -> None:
    weights = random_weights(2, 3, 5, 5)
    merged = merge_to_words(weights, QUERY_WORDS, KEY_WORDS)
    assert merged.shape == (2, 3, 2, 3)
    torch.testing.assert_close(merged[1, 2], merge_to_words(weights[1, 2], QUERY_WORDS, KEY_WORDS))
    kept = 1 - weights[..., 4]  # what is not on </s>
    expected = torch.stack((kept[..., 1], kept[..., 2:4].mean(-1)), dim=-1)
    torch.testing.assert_close(merged.sum(-1), expected)


def test_strongest_word_is_strongest_by_its_sum() -> None:
    """Token 2 is the strongest token of word 1's rows together, but the two tokens of word 0 outweigh it."""
    weights = torch.tensor([[0.3, 0.3, 0.4]])
    assert strongest_words(weights, [0], [0, 0, 1]).tolist() == [0]
    assert strongest_words(weights, [0], [0, 1, 2]).tolist() == [2]


def test_specials_are_never_aligned_however_strong() -> None:
    weights = torch.tensor([[0.8, 0.05, 0.15], [0.1, 0.2, 0.7]])
    assert strongest_words(weights, [0, None], [None, 0, 1]).tolist() == [1]


def test_a_word_without_weight_has_no_link() -> None:
    weights = torch.tensor([[0.0, 0.0, 1.0], [0.5, 0.2, 0.3]])
    assert strongest_words(weights, [0, 2], [0, 1, None]).tolist() == [NO_WORD, NO_WORD, 0]
    assert strongest_words(weights, [0, 1], [None, None, None]).tolist() == [NO_WORD, NO_WORD]
    assert strongest_words(weights, [None, None], [0, 1, None]).tolist() == []
    assert links([NO_WORD, NO_WORD, 0]) == {(0, 2)}


def token(text: str, word: int | None) -> Token:
    return Token(text, text, word, word is None)


def record(cross: Tensor) -> AttentionRecord:
    """A source of 3 words and a target of 2."""
    source = (token("a", 0), token("b", 1), token("c", 2), token("</s>", None))
    x, y = token("x", 0), token("y", 1)
    return AttentionRecord(
        encoder=random_weights(2, 1, 4, 4),
        decoder=random_weights(1, 1, 3, 3),
        cross=cross,
        source=source,
        read=(token("<s>", None), x, y),
        predicted=(x, y, token("</s>", None)),
    )


def aligned(record: AttentionRecord, shifted: bool = False) -> Tensor:
    """The source word of each target word, for each cross-attention head."""
    queries = record.read if shifted else record.predicted
    return strongest_words(record.cross, [t.word for t in queries], [t.word for t in record.source])


def test_unshifted_takes_the_row_that_predicts_and_shifted_the_row_that_reads() -> None:
    cross = torch.tensor([[[[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.6, 0.1, 0.2]]]])
    assert aligned(record(cross)).tolist() == [[[0, 2]]]
    assert aligned(record(cross), shifted=True).tolist() == [[[2, 1]]]


def test_alignment_of_a_translation_covers_its_words(translator: Translator) -> None:
    attention = translator.translate("Ein kleiner Hund läuft durch den Schnee.").attention
    words = 1 + max(t.word for t in attention.source if t.word is not None)
    for shifted, tokens in ((False, attention.predicted), (True, attention.read)):
        found = aligned(attention, shifted)
        target_words = {t.word for t in tokens} - {None}
        assert found.shape == (*attention.cross.shape[:2], len(target_words))
        assert int(found.min()) >= 0
        assert int(found.max()) < words


def test_links_are_source_first_and_target_second() -> None:
    assert links([2, 0]) == {(2, 0), (0, 1)}


def test_grow_diag_by_hand() -> None:
    """Both have 2-2. It is touched by 1-1, 2-3 and 3-2, each with a word of its own; 0-0 comes by way of 1-1.

    3-3 touches too, but word 3 has a link on either side by then. 7-7 touches nothing.
    """
    forward = {(0, 0), (1, 1), (2, 2), (3, 3), (7, 7)}
    backward = {(2, 2), (2, 3), (3, 2)}
    assert grow_diag(forward, backward) == {(0, 0), (1, 1), (2, 2), (2, 3), (3, 2)}
    assert grow_diag({(0, 0)}, {(0, 1)}) == frozenset()


@given(SHORT_LINKS, SHORT_LINKS)
def test_grow_diag_leaves_out_only_what_touches_nothing_or_links_no_new_word(
    forward: frozenset[tuple[int, int]], backward: frozenset[tuple[int, int]]
) -> None:
    found = grow_diag(forward, backward)
    assert forward & backward <= found <= forward | backward
    sources, targets = {source for source, _ in found}, {target for _, target in found}
    for source, target in (forward | backward) - found:
        touches = any(abs(source - s) <= 1 and abs(target - t) <= 1 for s, t in found)
        assert not touches or (source in sources and target in targets)


def test_pharaoh_lines_are_in_order_and_count_from_0() -> None:
    assert format_pharaoh({(10, 0), (2, 3), (2, 1)}) == "2-1 2-3 10-0"
    assert format_pharaoh([]) == ""


@given(LINKS)
def test_pharaoh_round_trip(alignment: frozenset[tuple[int, int]]) -> None:
    assert pharaoh_links(format_pharaoh(alignment)) == alignment


def test_gold_counts_from_1_and_knows_sure_and_possible() -> None:
    gold = parse_gold("9-8 1p2 3-3 ")
    assert gold.sure == {(8, 7), (2, 2)}
    assert gold.possible == {(8, 7), (2, 2), (0, 1)}
    assert parse_gold("") == GoldAlignment(frozenset(), frozenset())


@pytest.mark.parametrize("line", ["1-1 2", "1-1 2+3", "a-b", "1--1", "1p", "1-2-3", "²-1"])
def test_a_broken_link_is_refused(line: str) -> None:
    with pytest.raises(UserError, match="is not a valid link"):
        parse_gold(line)


def test_gold_that_counts_from_0_is_refused() -> None:
    with pytest.raises(UserError, match="names word 0"):
        parse_gold("1-1 0-2")
    with pytest.raises(UserError, match="names word 0"):
        parse_gold("1-1 2-0")


def test_error_rate_by_hand() -> None:
    """|A| = 3, |S| = 2, |A n S| = 1, |A n P| = 2: 1 - 3/5."""
    gold = GoldAlignment(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (1, 2)}))
    assert alignment_error_rate([{(0, 0), (1, 2), (2, 2)}], [gold]) == pytest.approx(0.4)


def test_error_rate_sums_counts_over_the_corpus() -> None:
    """Hits 2 + 0 of 2 + 4: the mean of the sentences' rates would be 1/2."""
    one = GoldAlignment(frozenset({(0, 0)}), frozenset({(0, 0)}))
    three = GoldAlignment(*[frozenset({(0, 0), (1, 1), (2, 2)})] * 2)
    assert alignment_error_rate([{(0, 0)}, {(0, 1)}], [one, three]) == pytest.approx(1 - 2 / 6)


@given(LINKS, LINKS)
def test_error_rate_bounds(sure: frozenset[tuple[int, int]], other: frozenset[tuple[int, int]]) -> None:
    gold = GoldAlignment(sure, sure | other)
    assert alignment_error_rate([sure], [gold]) == 0  # all that is sure and nothing impossible
    assert 0 <= alignment_error_rate([other], [gold]) <= 1
    wrong = {(source + 100, target) for source, target in sure}
    assert alignment_error_rate([wrong], [gold]) == (1 if sure else 0)


def test_error_rate_needs_a_reference_for_each_sentence() -> None:
    with pytest.raises(ValueError, match="argument"):
        alignment_error_rate([set(), set()], [parse_gold("1-1")])
