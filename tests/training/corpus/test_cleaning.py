"""Cleaning: each rule drops and counts what it names, and nothing else."""

from __future__ import annotations

import dataclasses

import pytest

from tests.training.tiny import PARALLEL, as_dataset, pairs_of, parallel_files, sentences
from training.corpus.cleaning import RULES, clean
from training.corpus.splits import read_corpus


def test_bytes_that_are_not_utf8_drop_only_their_pair(tmp_path):
    parallel_files(tmp_path, sentences(40), "train")
    parallel_files(tmp_path, sentences(3), "dev")
    lines = (tmp_path / "train.de").read_bytes().splitlines(keepends=True)
    lines[7] = "Grüße\n".encode("latin-1")
    (tmp_path / "train.de").write_bytes(b"".join(lines))
    corpus = read_corpus(dataclasses.replace(PARALLEL, test_rows=0), [tmp_path])
    assert corpus.dropped == {**dict.fromkeys(RULES, 0), "not_text": 1}
    assert pairs_of(corpus.train) == [pair for i, pair in enumerate(sentences(40)) if i != 7]


BAD_PAIRS = {
    "empty": ("", "there was nothing"),
    "not_text": ("Gr\ufffd\ufffde", "regards"),
    "length_ratio": ("kurz", "this is much more than anybody could have said with so little"),
    "copy": ("the very same five words", "the very same five words"),
    "duplicate": sentences(1)[0],
}


@pytest.mark.parametrize("rule", BAD_PAIRS)
def test_each_rule_drops_and_counts_only_its_pair(rule):
    good = sentences(20)
    kept, counts, _ = clean(as_dataset([*good[:10], BAD_PAIRS[rule], *good[10:]]))
    assert pairs_of(kept) == good
    assert counts == {**dict.fromkeys(RULES, 0), rule: 1}


@pytest.mark.parametrize("rule", ["empty", "not_text", "length_ratio"])
def test_either_side_can_break_a_rule(rule):
    source, target = BAD_PAIRS[rule]
    assert clean(as_dataset([(target, source), *sentences(2)]))[1][rule] == 1


def test_good_pairs_that_look_odd_are_kept():
    odd = [
        ("New York", "New York"),  # a name is its own translation
        ("ja", "yes, certainly it is"),  # a long ratio of short texts
        ("eins", "a one"),
        ("eins", "the one"),  # one source, two translations
        ("uno", "the one"),
    ]
    kept, counts, _ = clean(as_dataset(odd))
    assert pairs_of(kept) == odd
    assert sum(counts.values()) == 0


def test_pairs_with_too_few_linked_words_are_dropped_only_where_links_are_known():
    pairs = as_dataset([("eins zwei drei", "one two three"), ("vier fünf drei", "four five three")])
    assert len(clean(pairs)[0]) == 2
    for second, kept in (("0-0 1-1", 2), ("0-0 0-1", 1), ("0-0 1-0", 1), ("", 1)):
        found, counts, _ = clean(pairs.add_column("links", ["0-0 1-1 2-2", second]))
        assert (len(found), counts["unaligned"]) == (kept, 2 - kept)


def text(length: int) -> str:
    return "x" * length


@pytest.mark.parametrize(
    ("source", "target", "rule"),
    [
        (text(11), text(33), None),  # three times as long
        (text(11), text(34), "length_ratio"),
        (text(5), text(25), None),  # 20 characters more
        (text(5), text(26), "length_ratio"),
        (text(100), text(121), None),
        ("one two", "one two", None),
        ("one two three", "one two three", None),
        ("one two three four", "one two three four", "copy"),
        ("one two three four", "one two three fours", None),
    ],
)
def test_rules_have_exact_limits(source, target, rule):
    for pair in ((source, target), (target, source)):
        kept, counts, _ = clean(as_dataset([pair]))
        assert counts == dict.fromkeys(RULES, 0) | ({rule: 1} if rule else {})
        assert len(kept) == (rule is None)


def test_kept_and_dropped_pairs_are_all_pairs():
    pairs = [*BAD_PAIRS.values(), *sentences(9), *sentences(4)]
    kept, counts, _ = clean(as_dataset(pairs))
    assert len(kept) + sum(counts.values()) == len(pairs)
    again, counts, _ = clean(kept)
    assert pairs_of(again) == pairs_of(kept)
    assert sum(counts.values()) == 0
