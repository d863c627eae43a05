"""Word links: they stay with their pairs, and sub-words inherit the links of their words."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import UserError
from model.text.tokenizer import Tokenizer, normalise
from tests.training.tiny import PARALLEL, as_dataset, as_lists, parallel_files, sentences, write_lines
from training.corpus.encoding import encode_pairs, train_tokenizers
from training.corpus.links import WORD, join_links, parse, token_links, with_links, words
from training.corpus.mixing import CONCATENATED
from training.corpus.splits import read_corpus

TEXTS = ["Ich weiß, dass du's weißt.", "„Wie geht es dir?“, fragte er - leise!", "3,5 % der Gäste-WCs"]
BPE = Tokenizer.train(TEXTS, "bpe", 60)
text = st.lists(st.sampled_from([*"abß.,'- 1%", "Gäste", "weiß"]), max_size=20).map("".join).map(normalise)


@given(text, text, st.data())
def test_tokens_inherit_exactly_the_links_of_their_words(source, target, data):
    counts = len(words(source)), len(words(target))
    links = set()
    if all(counts):
        places = st.tuples(*(st.integers(0, count - 1) for count in counts))
        links = data.draw(st.sets(places, max_size=6))
    line = " ".join(f"{i}-{j}" for i, j in links)
    spans = [BPE.encode_spans(side)[1] for side in (source, target)]
    flat = token_links(line, (source, target), spans)
    found = list(zip(flat[1::2], flat[::2], strict=True))
    assert len(set(found)) == len(found)

    def overlapping(side, tokens, word):
        start, end = [match.span() for match in WORD.finditer(side)][word]
        # A token that is only a space belongs to the word after it.
        return {
            t
            for t, (first, last) in enumerate(tokens)
            if first < end and last + (side[first:last] == " ") > start
        }

    wanted = {
        (s, t)
        for i, j in links
        for s in overlapping(source, spans[0], i)
        for t in overlapping(target, spans[1], j)
    }
    assert set(found) == wanted


def test_punctuation_marks_are_words_and_hyphens_and_apostrophes_join_them():
    assert words(TEXTS[0]) == ["Ich", "weiß", ",", "dass", "du's", "weißt", "."]
    assert words(TEXTS[2]) == ["3", ",", "5", "%", "der", "Gäste-WCs"]


def test_links_of_joined_pairs_are_those_of_the_joined_text():
    first, second = ("0-0 1-1", "eins zwei.", "one two."), ("0-1 1-0", "drei vier", "four three")
    joined = parse(join_links([first, second]))
    assert joined == [(0, 0), (1, 1), (3, 4), (4, 3)]
    source, target = (" ".join(pair[side] for pair in (first, second)) for side in (1, 2))
    assert [(words(source)[i], words(target)[j]) for i, j in joined] == [
        ("eins", "one"),
        ("zwei", "two"),
        ("drei", "three"),
        ("vier", "four"),
    ]


WAYS = list(itertools.permutations(range(3), 2))


def linked_corpus(tmp_path, **settings):
    """A corpus whose links name the number of their pair: pair i links words 0 and 1 in one of six ways."""
    pairs = sentences(60)
    parallel_files(tmp_path / "data", [*pairs[:20], pairs[5], ("", "x"), *pairs[20:]])
    lines = [f"0-{WAYS[i % 6][0]} 1-{WAYS[i % 6][1]}" for i in range(60)]
    write_lines(tmp_path / "links", [*lines[:20], lines[5], "", *lines[20:]])
    config = dataclasses.replace(PARALLEL, **settings)
    return config, read_corpus(config, [tmp_path / "data"], tmp_path / "links")


def test_links_stay_with_their_pairs_through_cleaning_splitting_joining_and_encoding(tmp_path):
    config, corpus = linked_corpus(tmp_path, concatenate=0.5)
    assert corpus.dropped["duplicate"] == corpus.dropped["empty"] == 1
    tokenizers = train_tokenizers(config, corpus.train)
    encoded, kept = encode_pairs(corpus.train, tokenizers, 100)
    assert len(kept) == len(corpus.train) > 50
    numbers = {pair: i for i, pair in enumerate(sentences(60))}
    for pair, links in zip(corpus.train, as_lists(encoded.links), strict=True):
        if pair["origin"] == CONCATENATED:
            assert len(links) == 4 * len(pair["source"].split()) // 3
            continue
        first, second = WAYS[numbers[pair["source"], pair["target"]] % 6]
        assert links == [first, 0, second, 1]  # every word is one token


def test_the_split_tells_other_links_apart(tmp_path):
    _, corpus = linked_corpus(tmp_path / "one")
    _, same = linked_corpus(tmp_path / "two")
    lines = (tmp_path / "two" / "links").read_text().splitlines()
    write_lines(tmp_path / "two" / "links", ["0-2 1-1", *lines[1:]])
    other = read_corpus(PARALLEL, [tmp_path / "two" / "data"], tmp_path / "two" / "links")
    assert corpus.split == same.split != other.split


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0-0"], "has 1 lines for 2 training pairs"),
        (["0-0", "1-2"], "Line 2 of .* link '1-2', but its pair has 2 and 2 words"),
        (["0-0", "1-1 2-0"], "link '2-0'"),
        (["0-0", "1p1"], "link '1p1'"),
        (["0-0 -1-0", ""], "Line 1 of .* link '-1-0'"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_its_line(tmp_path, lines, message):
    write_lines(tmp_path / "links", lines)
    with pytest.raises(UserError, match=message):
        with_links(as_dataset([("ein Hund", "a dog"), ("zwei .", "two .")]), tmp_path / "links")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="There is no file .*missing; check the path"):
        with_links(as_dataset([("ein Hund", "a dog")]), tmp_path / "missing")
