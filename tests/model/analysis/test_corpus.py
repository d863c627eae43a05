"""What heads do over a corpus: every figure of a card against a direct computation over the sentences."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict

import pytest

from model.analysis.corpus import (
    DIGITS,
    DRAWN,
    FARTHEST,
    INTERVALS,
    STRONGEST,
    Row,
    draw,
    heads_over,
    load_heads,
    save_heads,
)
from model.analysis.marks import sink_tokens
from model.instruments import measure_corpus
from model.results import Translation
from model.translator import Translator
from tests.model.helpers import SENTENCES, tiny_checkpoint
from tests.numerics import UNIT

KINDS = ("encoder", "decoder", "cross")
TERMS = 4096  # more than any sum here has: in float32 it is off by at most so many roundings of its size


def written(value: float, digits: int = DIGITS):
    """A sum of positive numbers as the file may have it: off by half a digit, and by float32's roundings."""
    return pytest.approx(value, rel=0, abs=0.5 * 10**-digits + TERMS * UNIT * abs(value))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(tiny_checkpoint(seed=1), "tiny")


@pytest.fixture(scope="module")
def translations(translator: Translator) -> list[Translation]:
    return [translator.translate(sentence, beam_size=4) for sentence in SENTENCES]


@pytest.fixture(scope="module")
def found(translations: list[Translation]) -> dict:
    return heads_over(translations)


def rows_of(translations, kind, layer, head):
    """Each row of a head: its sentence, its place, its token, the weights that it may give, and the keys."""
    for sentence, translation in enumerate(translations):
        record = translation.attention
        queries = record.source if kind == "encoder" else record.predicted
        keys = record.read if kind == "decoder" else record.source
        for row, token in enumerate(queries):
            allowed = row + 1 if kind == "decoder" else len(keys)
            weights = getattr(record, kind)[layer, head, row, :allowed].tolist()
            yield sentence, row, token, weights, keys


@pytest.mark.parametrize("kind", KINDS)
def test_the_histograms_count_every_row_that_has_a_choice(translations, found, kind):
    counts = {name: Counter() for name in ("distances", "largest", "entropies")}
    for _, row, _, weights, _ in rows_of(translations, kind, 1, 2):
        if len(weights) > 1:
            best = weights.index(max(weights))
            counts["distances"][max(-FARTHEST, min(FARTHEST, best - row)) + FARTHEST] += 1
            counts["largest"][min(9, int(10 * max(weights)))] += 1
            bits = -sum(weight * math.log2(weight) for weight in weights if weight > 0)
            counts["entropies"][min(9, int(10 * bits / math.log2(len(weights))))] += 1
    card = found["heads"][kind][1][2]
    assert card["distances"] == [counts["distances"][place] for place in range(2 * FARTHEST + 1)]
    for name in ("largest", "entropies"):  # a weight on the edge of two bins may be in either
        ours = [counts[name][place] for place in range(10)]
        assert sum(ours) == sum(card[name])
        assert sum(abs(one - other) for one, other in zip(ours, card[name], strict=True)) <= 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_share_that_a_role_explains(translations, found, kind):
    card = found["heads"][kind][1][2]
    role, _ = card["nearest"]
    total, rows = 0.0, 0
    for translation in translations:
        record = translation.attention
        weights = getattr(record, kind)[1, 2]
        keys = record.read if kind == "decoder" else record.source
        rows += len(weights)
        if role == "separator sink":
            total += float(weights[:, sink_tokens(keys)].sum())
        elif role.startswith("aligned"):
            total += sum(
                float(weights[:, place].max()) for place, key in enumerate(keys) if key.word is not None
            )
        else:
            offset = {"previous token": -1, "same token": 0, "next token": 1}[role]
            total += sum(
                float(weights[row, row + offset])
                for row in range(len(weights))
                if 0 <= row + offset < len(keys)
            )
    assert card["explained"] == written(total / rows)
    assert found["rows"][kind] == rows


@pytest.mark.parametrize("kind", KINDS)
def test_the_words_that_a_head_attends_to_and_from(translations, found, kind):
    received, expected, active = defaultdict(float), defaultdict(float), defaultdict(list)
    for _, _, token, weights, keys in rows_of(translations, kind, 0, 1):
        words = [place for place in range(len(weights)) if keys[place].word is not None]
        for place in words:
            received[keys[place].text.strip()] += weights[place]
            expected[keys[place].text.strip()] += 1 / len(weights)
        if token.word is not None and words:
            active[token.text.strip()].append(max(weights[place] for place in words))
    card = found["heads"][kind][0][1]
    excess = sorted((received[word] - expected[word] for word in received), reverse=True)
    rounding = TERMS * UNIT * sum(received.values())
    for place, (word, share, times) in enumerate(card["to"]):
        assert received[word] - expected[word] == pytest.approx(excess[place], abs=2 * rounding)
        assert share == written(received[word] / sum(received.values()))
        assert times == written(received[word] / expected[word], digits=1)
    every = [value for values in active.values() for value in values]
    mean, rounding = sum(every) / len(every), TERMS * UNIT * sum(every)
    excess = sorted((sum(values) - mean * len(values) for values in active.values()), reverse=True)
    for place, (word, share, rows) in enumerate(card["from"]):
        assert rows == len(active[word])
        assert share == written(sum(active[word]) / rows)
        assert sum(active[word]) - mean * rows == pytest.approx(
            excess[place], abs=2 * TERMS * UNIT * sum(every)
        )


@pytest.mark.parametrize("kind", KINDS)
def test_the_sentences_are_of_every_interval_of_activity(translations, found, kind):
    activity = {}
    for sentence, row, token, weights, keys in rows_of(translations, kind, 1, 0):
        words = [weights[place] for place in range(len(weights)) if keys[place].word is not None]
        if token.word is not None and words:
            activity[sentence, row] = max(words)
    most = max(activity.values())
    intervals = found["heads"][kind][1][0]["intervals"]
    assert sum(rows for rows, _ in intervals) == len(activity)
    assert len(intervals) == INTERVALS
    for place, (rows, cells) in enumerate(intervals):
        high = most * (INTERVALS - place) / INTERVALS
        inside = [value for value in activity.values() if high - most / INTERVALS <= value <= high]
        assert abs(rows - len(inside)) <= 1  # a row on the edge of two intervals may be in either
        assert len({cell[0] for cell in cells}) == len(cells) <= (STRONGEST if place == 0 else DRAWN)
        for sentence, row, column, weight, key, *texts in cells:
            record = translations[sentence].attention
            assert weight == written(activity[sentence, row], digits=2)
            assert weight == written(float(getattr(record, kind)[1, 0, row, column]), digits=2)
            keys = record.read if kind == "decoder" else record.source
            assert key == keys[column].text.strip()
            names = [record.source[row]] if kind == "encoder" else [record.predicted[row], record.read[row]]
            assert texts == [token.text.strip() for token in names]
    strongest, weakest = intervals[0][1][0], next(cells for _, cells in reversed(intervals) if cells)[-1]
    assert strongest[3] == written(most, digits=2)
    if intervals[-1][0] > 0:
        assert weakest[3] == written(min(activity.values()), digits=2)


def test_the_measures_and_roles_are_over_all_rows(translations, found):
    for kind in KINDS:
        confident = found["measures"][kind]["sinks"][1][2]
        total = rows = 0.0
        for translation in translations:
            record = translation.attention
            keys = record.read if kind == "decoder" else record.source
            weights = getattr(record, kind)[1, 2]
            total += float(weights[:, sink_tokens(keys)].sum())
            rows += len(weights)
        assert confident == written(total / rows)


def test_a_seed_draws_the_same_rows_and_another_seed_others():
    rows = [Row((place % 97 + 1) / 97, place, 0, 0) for place in range(400)]
    assert draw(rows, "1") == draw(rows, "1")
    assert draw(rows, "1") != draw(rows, "2")
    assert draw(rows, "1")[0] == draw(rows, "2")[0]  # the strongest are not drawn
    assert draw(rows, "1")[-1][1][-1].activity == 1 / 97
    assert draw([], "1") == [(0, [])] * INTERVALS


def test_the_file_is_read_as_it_was_written(translator, tmp_path):
    made = measure_corpus(translator, [*SENTENCES[:3], ""])
    assert made["count"] == 3
    save_heads(made, tmp_path)
    assert load_heads(tmp_path) == json.loads(json.dumps(made))
    assert load_heads(tmp_path / "none") is None
    (tmp_path / "heads.json").write_text("{")
    assert load_heads(tmp_path) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: made.pop("roles"),
        lambda made: made.update(version=0),
        lambda made: made["roles"]["cross"][0].pop(),
        lambda made: made["roles"]["cross"][0].__setitem__(0, "<b>"),
        lambda made: made["measures"]["encoder"]["sinks"][0].__setitem__(0, "1"),
        lambda made: made["heads"]["decoder"][0][0]["intervals"][0][1].append([99, 0, 0, 1, "a", "b"]),
        lambda made: made["heads"]["decoder"][0].__setitem__(0, None),
    ],
)
def test_a_file_that_the_page_could_not_draw_is_no_file(found, tmp_path, spoil):
    made = json.loads(json.dumps(found | {"beam": 4}))
    save_heads(made, tmp_path)
    assert load_heads(tmp_path) == made
    spoil(made)
    save_heads(made, tmp_path)
    assert load_heads(tmp_path) is None
