import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from model.analysis.definitions import MEASURES, ROLE_DEFINITIONS, ROLES
from model.analysis.marks import sink_tokens
from model.analysis.measures import (
    HeadMeasures,
    Positional,
    confidence,
    entropy,
    even_evidence,
    focus_offset,
    head_roles,
    measure_heads,
    measure_tables,
    positional,
    role_evidence,
    sink_mass,
    source_focus,
)
from model.network.masks import causal_mask
from model.results import AttentionRecord, Kind, Token
from model.translator import Translator

ROWS = torch.tensor([[0.5, 0.25, 0.25, 0.0], [0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0]])
SIZES = st.integers(2, 9)


def random_rows(*shape: int, seed: int = 0) -> Tensor:
    return (3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))).softmax(-1)


def causal_rows(*shape: int, seed: int = 0) -> Tensor:
    weights = random_rows(*shape, seed=seed).masked_fill(~causal_mask(*shape[-2:]), 0)
    return weights / weights.sum(-1, keepdim=True)


def looking_at(*keys: int, width: int) -> Tensor:
    """A head whose row q puts 0.6 on keys[q] and spreads the rest evenly."""
    rows = torch.full((len(keys), width), 0.4 / (width - 1))
    rows[torch.arange(len(keys)), torch.tensor(keys)] = 0.6
    return rows


def booleans(text: str) -> Tensor:
    return torch.tensor([letter == "1" for letter in text])


# Entropy


def test_entropy_by_hand() -> None:
    torch.testing.assert_close(entropy(ROWS), torch.tensor([1.5, 1.8464393, 0.0]))


@given(SIZES, SIZES)
def test_entropy_is_at_most_that_of_even_rows(queries: int, keys: int) -> None:
    even = torch.full((queries, keys), 1 / keys)
    torch.testing.assert_close(entropy(even), torch.full((queries,), math.log2(keys)))
    assert bool((entropy(random_rows(2, 3, queries, keys)) <= math.log2(keys) + 1e-5).all())


def test_entropy_of_masked_rows_has_no_nan() -> None:
    assert entropy(torch.zeros(2, 3)).tolist() == [0, 0]
    even = causal_mask(4, 4).float()
    even = even / even.sum(-1, keepdim=True)
    torch.testing.assert_close(entropy(even), torch.tensor([1.0, 2.0, 3.0, 4.0]).log2())


# Confidence


def test_confidence_by_hand() -> None:
    """Rows 0 and 1 count, the last key does not: (0.5 + 0.3) / 2."""
    assert float(confidence(ROWS, booleans("110"), booleans("1110"))) == pytest.approx(0.4)
    assert float(confidence(ROWS, booleans("111"), booleans("1111"))) == pytest.approx(1.9 / 3)


def test_confidence_without_a_real_token_is_zero() -> None:
    assert float(confidence(ROWS, booleans("000"), booleans("1110"))) == 0


# Position


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
def test_a_positional_head_is_found_at_any_offset(offset: int) -> None:
    """Rows at the edge cannot look outside the sentence: they look at the last word and do not count."""
    inside = [q for q in range(6) if 0 <= q + offset < 6]
    head = looking_at(*(q + offset if q in inside else 5 for q in range(6)), width=6)
    found = positional(head)
    assert int(found.offset) == offset
    # With +2, row 3 is the last inside; with -2, two rows look at key 5.
    assert int(found.queries) == len(inside) == 6 - abs(offset)
    assert float(found.share) == 1


def test_positional_share_by_hand() -> None:
    """Offsets 2, -1, -1, 1, -1, 0: three of the five queries that have a previous token."""
    found = positional(looking_at(2, 0, 1, 4, 3, 5, width=6))
    assert int(found.offset) == -1
    assert int(found.queries) == 5
    assert float(found.share) == pytest.approx(3 / 5)


def test_axes_of_position_are_query_then_key() -> None:
    previous = looking_at(5, 0, 1, 2, 3, 4, width=6)
    assert int(positional(previous).offset) == -1
    assert int(positional(previous.T / previous.T.sum(-1, keepdim=True)).offset) == 1


def test_rows_without_a_choice_do_not_count() -> None:
    """The decoder's first row can only look at itself, so it does not count as looking at the same token."""
    mask = causal_mask(5, 5)
    previous = looking_at(0, 0, 1, 2, 3, width=5) * mask
    found = positional(previous, mask)
    assert (int(found.offset), float(found.share), int(found.queries)) == (-1, 1, 4)
    same = positional(looking_at(0, 1, 2, 3, 4, width=5) * mask, mask)
    assert (int(same.offset), float(same.share), int(same.queries)) == (0, 1, 4)


def test_an_offset_that_few_queries_can_have_is_left_out() -> None:
    """Both queries that can have offset -4 have it; of the six that can have 0, one has it."""
    found = positional(looking_at(0, 0, 4, 4, 0, 1, width=6))
    assert int(found.offset) == 0
    assert float(found.share) == pytest.approx(1 / 6)


def test_of_equally_common_offsets_the_one_more_queries_can_have_is_taken() -> None:
    found = positional(looking_at(1, 2, 2, 3, width=4))
    assert (int(found.offset), float(found.share)) == (0, 0.5)


def test_a_fully_masked_row_has_no_position() -> None:
    head = looking_at(0, 1, 2, 3, width=4)
    head[1] = 0
    assert float(positional(head).share) == pytest.approx(3 / 4)
    assert float(positional(torch.zeros(3, 3)).share) == 0


@given(SIZES, SIZES)
def test_share_of_the_offset_recounted(queries: int, keys: int) -> None:
    weights = random_rows(queries, keys, seed=queries * 10 + keys)
    found = positional(weights)
    offset = int(found.offset)
    able = [q for q in range(queries) if 0 <= q + offset < keys]
    there = [q for q in able if int(weights[q].argmax()) == q + offset]
    assert int(found.queries) == len(able) >= min(queries, keys) / 2
    assert float(found.share) == pytest.approx(len(there) / len(able))


def test_one_row_and_one_key_are_measured_without_error() -> None:
    assert float(positional(torch.ones(1, 1)).share) == 0
    assert float(positional(torch.ones(1, 1), causal_mask(1, 1)).share) == 0


# Sinks and focus


def token(text: str, word: int | None = 0, special: bool = False) -> Token:
    return Token(text, text, word, special)


END = token("</s>", None, True)
START = token("<s>", None, True)


def test_sink_mass_by_hand() -> None:
    """Keys 0 and 3: rows 0.5, 0.5 and 1."""
    assert float(sink_mass(ROWS, booleans("1001"))) == pytest.approx(2 / 3)
    assert float(sink_mass(ROWS, booleans("0000"))) == 0


def test_source_focus_by_hand() -> None:
    """Largest weights 1.0, 0.25 and 0.3 on the words, divided by 3 words."""
    assert float(source_focus(ROWS, booleans("1110"))) == pytest.approx(1.55 / 3)


def test_source_focus_of_perfect_lazy_and_even_heads() -> None:
    words = booleans("1110")
    assert float(source_focus(torch.eye(4)[[2, 0, 1]], words)) == 1
    assert float(source_focus(torch.eye(4)[[1, 1, 1]], words)) == pytest.approx(1 / 3)
    assert float(source_focus(torch.eye(4)[[3, 3, 3]], words)) == 0
    assert float(source_focus(torch.full((3, 4), 0.25), words)) == pytest.approx(0.25)


def test_source_focus_reaches_1_with_fewer_rows_than_words() -> None:
    assert float(source_focus(torch.eye(4)[[2, 0]], booleans("1111"))) == 1


def looking(source: list[int], keys: int = 5) -> Tensor:
    """A head whose row t gives all its weight to one key."""
    return torch.eye(keys)[source]


def test_focus_offset_is_told_by_most_heads() -> None:
    """The target words 0 to 3 translate the source words 2, 0, 1, 3; key 4 is </s>."""
    predicting, reading = looking([2, 0, 1, 3, 4]), looking([4, 2, 0, 1, 3])
    heads = torch.stack([predicting, predicting, reading, predicting])
    assert focus_offset(heads[None], booleans("11110")).tolist() == [[0, 0, -1, 0]]


def test_focus_offset_of_a_single_row_and_of_even_heads_is_0() -> None:
    assert focus_offset(torch.ones(1, 2, 1, 1), booleans("1")).tolist() == [[0, 0]]
    even = torch.full((1, 2, 3, 4), 0.25)
    assert focus_offset(even, booleans("1110")).tolist() == [[0, 0]]
    even[:, 1, 1:] += 1e-6  # as rounding could
    assert focus_offset(even, booleans("1110")).tolist() == [[0, 0]]


# Roles


def measured(kind: str = "encoder", **overrides: object) -> HeadMeasures:
    """One head with the role mixed."""
    cell = torch.full((1, 1), 0.3)
    values = {"entropy": cell, "confidence": cell, "sink_mass": cell}
    values |= {"positional": at(-1, 0.3), "source_focus": cell if kind == "cross" else None}
    values |= {"focus_offset": torch.zeros(1, 1, dtype=torch.long) if kind == "cross" else None}
    values |= {"even": {name: 0.1 for name, one in ROLE_DEFINITIONS.items() if kind in one.kinds}}
    return HeadMeasures(kind=kind, queries=9, **(values | overrides))


def at(offset: int, share: float) -> Positional:
    return Positional(torch.tensor([[offset]]), torch.tensor([[share]]), torch.tensor([[8]]))


def role(measures: HeadMeasures) -> str:
    return ROLES[int(head_roles(measures))]


@pytest.mark.parametrize(
    ("offset", "name"), [(-1, "previous token"), (0, "same token"), (1, "next token"), (2, "mixed")]
)
def test_role_by_position(offset: int, name: str) -> None:
    assert role(measured(positional=at(offset, 0.9))) == name
    assert role(measured("decoder", positional=at(offset, 0.95))) == name
    assert role(measured(positional=at(offset, 0.89))) == "mixed"
    assert role(measured("cross", positional=at(offset, 1.0))) == "mixed"


def test_role_by_each_threshold() -> None:
    half, less = torch.full((1, 1), 0.5), torch.full((1, 1), 0.49)
    for name, field in (("separator sink", "sink_mass"), ("aligned to the word it writes", "source_focus")):
        assert role(measured("cross", **{field: half})) == name
        assert role(measured("cross", **{field: less})) == "mixed"


def test_the_first_role_that_applies_is_taken() -> None:
    full = torch.ones(1, 1)
    everything = {"sink_mass": full, "source_focus": full}
    assert role(measured(positional=at(0, 1.0), sink_mass=full)) == "same token"
    assert role(measured("cross", **everything)) == "separator sink"
    aligned = everything | {"sink_mass": 0 * full}
    assert role(measured("cross", **aligned)) == "aligned to the word it writes"
    aligned["focus_offset"] = torch.full((1, 1), -1)
    assert role(measured("cross", **aligned)) == "aligned to the word just written"


# Rows without any preference


def test_even_shares_by_hand() -> None:
    """Of "Ja . </s>" two tokens are separators: even rows give them two thirds of their weight."""
    keys = (token("Ja", 0), token(".", 1), END)
    encoder = even_evidence("encoder", 3, keys)
    assert encoder == pytest.approx(
        {"previous token": 1 / 3, "next token": 1 / 3, "same token": 1 / 3, "separator sink": 2 / 3}, abs=1e-6
    )
    # The decoder reads <s>, then <s> or "Ja", then also the final mark; its first row has no choice.
    decoder = even_evidence("decoder", 3, (START, token("Ja", 0), token(".", 1)), causal_mask(3, 3))
    assert decoder["separator sink"] == pytest.approx((1 + 1 / 2 + 2 / 3) / 3, abs=1e-6)
    assert decoder["previous token"] == pytest.approx((1 / 2 + 1 / 3) / 2, abs=1e-6)
    assert decoder["next token"] == 1  # no row can read it
    cross = even_evidence("cross", 3, keys)
    assert cross["aligned to the word it writes"] == pytest.approx(1 / 3, abs=1e-6)


@given(st.sampled_from(("encoder", "decoder", "cross")), SIZES, SIZES)
def test_an_even_share_is_the_measure_of_even_rows(kind: Kind, queries: int, keys: int) -> None:
    tokens = (START, *(token("a", place) for place in range(keys - 2)), token(".", keys - 2))
    mask = causal_mask(keys, keys) if kind == "decoder" else None
    rows = torch.ones(keys if kind == "decoder" else queries, keys) if mask is None else mask.float()
    even = rows / rows.sum(-1, keepdim=True)
    found = even_evidence(kind, len(even), tokens, mask)
    assert found["separator sink"] == pytest.approx(float(sink_mass(even, sink_tokens(tokens))), abs=1e-5)
    if kind == "cross":
        words = torch.tensor([each.word is not None for each in tokens])
        focus = found["aligned to the word it writes"]
        assert focus == pytest.approx(float(source_focus(even, words)), abs=1e-5)


def test_rows_cannot_show_a_role_that_even_rows_would_have() -> None:
    full = torch.ones(1, 1)
    even = measured().even
    for share, name in ((0.49, "separator sink"), (0.5, "mixed")):
        heads = measured(sink_mass=full, even=even | {"separator sink": share})
        assert role(heads) == name
        assert (role_evidence("separator sink", heads) is None) == (name == "mixed")


def test_every_role_is_decided_by_a_measure_and_the_last_by_none() -> None:
    names = {one.name for one in MEASURES}
    *decided, memory, last = ROLE_DEFINITIONS.values()
    assert all(one.measure in names and one.least > 0 and "{share}" in one.evidence for one in decided)
    assert (memory, last) == (ROLE_DEFINITIONS["memory"], ROLE_DEFINITIONS["mixed"])
    assert memory.measure is last.measure is None


# The whole table


def a_record() -> AttentionRecord:
    """'Gut gemacht !' in 2 encoder layers and 'Well done !' in 4 decoder layers, 3 heads each."""
    source = (token("Gut", 0), token("gemacht", 1), token("!", 2), END)
    words = (token("Well", 0), token("done", 1), token("!", 2))
    return AttentionRecord(
        encoder=random_rows(2, 3, 4, 4),
        decoder=causal_rows(4, 3, 4, 4),
        cross=random_rows(4, 3, 4, 4, seed=1),
        source=source,
        read=(START, *words),
        predicted=(*words, END),
    )


def test_table_of_a_record_equals_the_functions_for_each_head() -> None:
    record = a_record()
    table = measure_heads(record)
    words, no_end = booleans("1110"), booleans("1110")
    everything, last_two, first_or_last = booleans("1111"), booleans("0011"), booleans("1001")
    for layer, head in ((1, 2), (0, 1)):
        here = (layer, head)
        rows = record.encoder[here]
        encoder = table["encoder"]
        assert encoder.entropy[here] == pytest.approx(float(entropy(rows).mean()))
        assert encoder.confidence[here] == pytest.approx(float(confidence(rows, words, no_end)))
        assert encoder.sink_mass[here] == pytest.approx(float(sink_mass(rows, last_two)))
        assert [field[here] for field in encoder.positional] == list(positional(rows))
        rows = record.decoder[here]
        decoder = table["decoder"]
        assert decoder.confidence[here] == pytest.approx(float(confidence(rows, words, everything)))
        assert decoder.sink_mass[here] == pytest.approx(float(sink_mass(rows, first_or_last)))
        assert [field[here] for field in decoder.positional] == list(positional(rows, causal_mask(4, 4)))
        rows = record.cross[here]
        cross = table["cross"]
        assert cross.confidence[here] == pytest.approx(float(confidence(rows, words, no_end)))
        assert cross.sink_mass[here] == pytest.approx(float(sink_mass(rows, last_two)))
        assert cross.source_focus[here] == pytest.approx(float(source_focus(rows, words)))
        assert [field[here] for field in cross.positional] == list(positional(rows))


def test_table_of_a_translation(translator: Translator) -> None:
    text = "Ein kleiner Hund läuft durch den Schnee."
    record = translator.translate(text).attention
    table = measure_heads(record)
    assert list(table) == ["encoder", "decoder", "cross"]
    for kind, measures in table.items():
        shape = getattr(record, kind).shape[:2]
        assert measures.queries == getattr(record, kind).shape[2]
        shares = [measures.confidence, measures.sink_mass, measures.positional.share]
        shares += [measures.source_focus] if measures.source_focus is not None else []
        for share in shares:
            assert share.shape == shape
            assert bool(((share >= 0) & (share <= 1)).all())
        assert head_roles(measures).shape == shape
    assert [kind for kind in table if table[kind].source_focus is not None] == ["cross"]


def test_every_measure_has_its_tables() -> None:
    table = measure_heads(a_record())
    named = {name for one in MEASURES for name in (one.name, one.offset, one.sample) if name}
    assert set(measure_tables(table["cross"])) == named
    assert measure_tables(table["decoder"])["focus"] is None
