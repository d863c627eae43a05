"""Sources, splits and encoding: no pair is lost, and held-out pairs are not trained on."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import unicodedata

import datasets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import UserError
from model.text.tokenizer import UNK_ID, Tokenizer
from tests.training.tiny import (
    PARALLEL,
    REVERSE,
    as_dataset,
    as_lists,
    pairs_of,
    parallel_files,
    sentences,
    word_list,
    words,
    write_lines,
)
from training.corpus.cleaning import clean
from training.corpus.encoding import BLOCK, TOKENIZER_PAIRS, _sample, encode_pairs, train_tokenizers
from training.corpus.sources import fetch_pairs, read_training
from training.corpus.splits import read_corpus

LANGUAGES = ("de", "en")
OWN_VALIDATION = dataclasses.replace(PARALLEL, test_rows=0)


# Parallel files


def test_line_n_of_both_files_is_a_pair(tmp_path):
    pairs = sentences(30)
    assert pairs_of(read_training(parallel_files(tmp_path, pairs), LANGUAGES)) == pairs


def test_a_changed_file_is_read_again(tmp_path):
    for pairs in (sentences(5), sentences(6)):
        parallel_files(tmp_path, pairs)
        assert pairs_of(read_training(tmp_path, LANGUAGES)) == pairs


def test_several_directories_are_read_one_after_the_other(tmp_path):
    pairs = sentences(60)
    folders = [parallel_files(tmp_path / "a", pairs[:40]), parallel_files(tmp_path / "b", pairs[40:])]
    parallel_files(folders[1], sentences(3), "dev")  # only one of them has its own
    corpus = read_corpus(OWN_VALIDATION, folders)
    assert pairs_of(corpus.train) == pairs
    assert pairs_of(corpus.validation) == sentences(3)


LINE = {"train_de": ["x"], "train_en": ["y"]}


@pytest.mark.parametrize(
    ("config", "files", "message"),
    [
        (PARALLEL, {"train_de": ["x"] * 12, "train_en": ["y"] * 11}, r"\.de has 12 lines .*\.en has 11"),
        (PARALLEL, {"train_de": ["x"]}, r"train\.en is missing, but .*train\.de exists"),
        (PARALLEL, {**LINE, "dev_de": ["x"]}, r"dev\.en is missing, but .*dev\.de"),
        (PARALLEL, {"other_txt": []}, r"no train\.de and train\.en"),
        (PARALLEL, {}, "folder does not exist"),
        (PARALLEL, None, r"--data DIR with train\.de and train\.en"),
        (PARALLEL, {"train_de": [*"abcdefghij"], "train_en": ["y"] * 10}, "has 10 pairs, but 10 of them"),
        (PARALLEL, {"train_de": [], "train_en": []}, r"nothing to read in train\.de and train\.en"),
        (REVERSE, {"words_txt": ["1", "22", "x"]}, r"nothing to read in words\.txt"),
        *((REVERSE, files, r"a \.txt file, one word a line") for files in (None, {}, {"train_de": ["x"]})),
    ],
)
def test_data_that_cannot_be_read_is_refused_and_named(tmp_path, config, files, message):
    folders = [] if files is None else [tmp_path / "folder"]
    for name, lines in (files or {}).items():
        write_lines(tmp_path / "folder" / name.replace("_", "."), lines)
    with pytest.raises(UserError, match=message):
        read_corpus(config, folders)


def test_composed_and_decomposed_letters_become_the_same_text(tmp_path):
    words = ["schöne Grüße", "  schöne \t Grüße "]
    decomposed = [unicodedata.normalize("NFD", word) for word in words]
    parallel_files(tmp_path, [(word, "kind regards") for word in [*words, *decomposed]])
    found = read_training(tmp_path, LANGUAGES)
    assert set(found["source"]) == {"schöne Grüße"}


# The split


def test_training_validation_and_test_are_disjoint_and_complete(tmp_path):
    corpus = read_corpus(PARALLEL, [parallel_files(tmp_path, sentences(50))])
    parts = [pairs_of(part) for part in (corpus.train, corpus.validation, corpus.test)]
    assert [len(part) for part in parts] == [40, 6, 4]
    assert sorted(itertools.chain(*parts)) == sorted(sentences(50))
    for part, name in zip(parts[1:], ("validation", "test"), strict=True):
        assert part == [sentences(50)[row] for row in corpus.split[name]]


def test_the_split_depends_only_on_data_and_seed(tmp_path):
    parallel_files(tmp_path, sentences(50))
    corpora = [read_corpus(dataclasses.replace(PARALLEL, seed=seed), [tmp_path]) for seed in (1, 1, 2)]
    assert corpora[0].split == corpora[1].split
    assert corpora[0].split["validation"] != corpora[2].split["validation"]
    other = parallel_files(tmp_path / "other", [*sentences(49), ("ende", "end")])
    assert read_corpus(dataclasses.replace(PARALLEL, seed=1), [other]).split != corpora[0].split


def test_the_whole_validation_part_of_a_corpus_is_used(tmp_path):
    parallel_files(tmp_path, sentences(50))
    parallel_files(tmp_path, sentences(7), "val")
    corpus = read_corpus(OWN_VALIDATION, [tmp_path])
    assert pairs_of(corpus.validation) == sentences(7)
    assert pairs_of(corpus.train) == sentences(50)
    assert corpus.test is None


def test_tokenizers_know_only_the_words_of_the_training_part(tmp_path):
    """Every pair has a unique word, so the words of held-out pairs must be unknown."""
    pairs = [(f"satz{letters}", f"line{letters}") for letters in map(chr, range(0x4E00, 0x4E00 + 50))]
    corpus = read_corpus(PARALLEL, [parallel_files(tmp_path, pairs)])
    source, target = train_tokenizers(PARALLEL, corpus.train)
    for part, known in ((corpus.train, True), (corpus.validation, False), (corpus.test, False)):
        for text, tokenizer in ((part["source"], source), (part["target"], target)):
            assert all((UNK_ID not in ids) is known for ids in tokenizer.encode_batch(list(text)))


@pytest.mark.parametrize("tied", [True, False])
def test_tied_models_share_one_tokenizer_and_others_keep_the_languages_apart(tied, tmp_path):
    config = dataclasses.replace(PARALLEL, model=dataclasses.replace(PARALLEL.model, tied=tied))
    corpus = read_corpus(config, [parallel_files(tmp_path)])
    source, target = train_tokenizers(config, corpus.train)
    assert (source is target) is tied
    assert (UNK_ID in source.encode("one")) is not tied
    assert UNK_ID not in source.encode("eins")
    assert UNK_ID not in target.encode("one")


def test_validation_pairs_with_an_empty_side_are_left_out(tmp_path):
    parallel_files(tmp_path, sentences(50))
    parallel_files(tmp_path, [("", "one"), ("eins", " "), ("zwei", "two")], "dev")
    assert pairs_of(read_corpus(OWN_VALIDATION, [tmp_path]).validation) == [("zwei", "two")]


@given(st.integers(0, 10 * TOKENIZER_PAIRS))
def test_a_vocabulary_is_learned_from_the_allowed_number_of_pairs_spread_over_the_corpus(rows):
    blocks = [start / BLOCK for start in _sample(rows)]
    whole = math.ceil(rows / BLOCK)
    assert len(blocks) == min(whole, TOKENIZER_PAIRS / BLOCK)
    assert all(0 <= block < whole and block.is_integer() for block in blocks)
    gaps = np.diff([*blocks, whole])  # the first block is always among them
    assert sum(gaps) == whole
    assert not rows or (min(gaps) >= 1 and max(gaps) - min(gaps) <= 1)


def test_a_vocabulary_is_learned_from_every_pair_of_a_small_corpus(monkeypatch):
    rows = [(f"satz{letter}", f"line{letter}") for letter in map(chr, range(0x4E00, 0x4E00 + 25))]
    monkeypatch.setattr("training.corpus.encoding.BLOCK", 10)
    for allowed, wanted in ((30, range(25)), (10, range(10))):
        monkeypatch.setattr("training.corpus.encoding.TOKENIZER_PAIRS", allowed)
        tokenizer, _ = train_tokenizers(PARALLEL, as_dataset(rows))
        known = [place for place, row in enumerate(rows) if UNK_ID not in tokenizer.encode(" ".join(row))]
        assert known == list(wanted)


def test_a_vocabulary_counts_a_pair_as_often_as_an_epoch_reads_it(tmp_path):
    """Few pieces fit, so only frequent words are one piece."""
    parallel_files(tmp_path, [("unu", "ono")], "rare")
    parallel_files(tmp_path, [("eins", "one"), ("zwei", "two")] * 5, "common")
    pairs = read_training(tmp_path, ("de", "en"))
    pieces = {}
    for weight in (1.0, 50.0):
        weights = ((f"{tmp_path.name}/rare", weight),)
        config = dataclasses.replace(PARALLEL, tokenizer="bpe", vocabulary=20, weights=weights)
        pieces[weight] = len(train_tokenizers(config, pairs)[0].encode("unu"))
    assert pieces[50.0] == 1 < pieces[1.0]


# Encoding


@pytest.mark.parametrize(("entries", "width"), [(2**16, "uint16"), (2**16 + 1, "int32")])
def test_ids_take_two_bytes_if_that_is_enough_and_read_back_unchanged(entries, width):
    large = Tokenizer.train(words("abcdefghijklmnop", [4]), "word", entries)  # 2**16 words
    small = Tokenizer.train(["ja", "nein"], "word", 10)
    assert len(large) == entries
    last = large.pieces([entries - 1])[0]
    for tokenizers, pair in (((large, small), (last, "ja")), ((small, large), ("ja", last))):
        encoded, _ = encode_pairs(as_dataset([pair, *sentences(2)]), tokenizers, 100)
        assert {side.values.dtype.name for side in (encoded.source, encoded.target)} == {width}
        ids = [as_lists(side)[0] for side in (encoded.source, encoded.target)]
        assert ids == [tokenizer.encode(text) for tokenizer, text in zip(tokenizers, pair, strict=True)]
        assert [entries - 1] in ids


@pytest.mark.parametrize(("processes", "threads"), [(None, None), (2, "false")])
def test_tokenizers_use_one_thread_each_where_several_processes_encode(monkeypatch, processes, threads):
    whole_map, found = datasets.Dataset.map, []

    def noted_map(*arguments, num_proc, **options):
        found.append((num_proc, os.environ.get("TOKENIZERS_PARALLELISM")))
        return whole_map(*arguments, **options)

    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    monkeypatch.setattr("training.corpus.encoding.worker_processes", lambda rows: processes)
    monkeypatch.setattr(datasets.Dataset, "map", noted_map)
    data = as_dataset(sentences(20))
    assert len(encode_pairs(data, train_tokenizers(PARALLEL, data), 100)[0]) == 20
    assert found == [(processes, threads)]
    assert os.environ.get("TOKENIZERS_PARALLELISM") is None


@pytest.mark.parametrize("before", [None, "true"])
def test_the_threads_of_tokenizers_are_restored(monkeypatch, before):
    def failing_map(*_, **__):
        assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
        raise OSError("full")

    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    if before:
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", before)
    monkeypatch.setattr("training.corpus.encoding.worker_processes", lambda rows: 2)
    data = as_dataset(sentences(20))
    tokenizers = train_tokenizers(PARALLEL, data)
    monkeypatch.setattr(datasets.Dataset, "map", failing_map)
    with pytest.raises(OSError, match="full"):
        encode_pairs(data, tokenizers, 100)
    assert os.environ.get("TOKENIZERS_PARALLELISM") == before


def test_too_long_sentences_are_dropped_on_either_side_and_the_kept_rows_are_returned():
    long, data = " ".join(["eins"] * 500), as_dataset(sentences(20))
    with_long = as_dataset([(long, "one"), *sentences(20), ("eins", long)])
    kept, rows = encode_pairs(with_long, train_tokenizers(PARALLEL, with_long), max_tokens=3)
    assert rows.tolist() == list(range(1, 21))
    assert len(kept) == 20
    assert max(map(max, (kept.source.lengths, kept.target.lengths))) == 3
    limits = [len(encode_pairs(data, train_tokenizers(PARALLEL, data), limit)[1]) for limit in (2, 3)]
    assert limits == [0, 20]  # a pair as long as the limit is kept


def test_encoding_keeps_the_text_and_its_length():
    data = as_dataset(sentences(20))
    tokenizers = train_tokenizers(PARALLEL, data)
    encoded, _ = encode_pairs(data, tokenizers, 100)
    for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        ids = as_lists(getattr(encoded, side))
        assert [tokenizer.decode(row) for row in ids] == list(data[side])


# Hub data sets


HUB = datasets.Features({"translation": datasets.Translation(languages=["de", "en"])})
ROWS = [{"translation": {"de": source, "en": target}} for source, target in sentences(30)]


def hub_directory(directory, kind: str, **parts) -> str:
    directory.mkdir(exist_ok=True)
    for name, rows in parts.items():
        data = datasets.Dataset.from_list(rows, features=HUB)
        if kind == "parquet":
            data.to_parquet(directory / f"{name}.parquet")
        else:
            data.to_json(directory / f"{name}.jsonl", force_ascii=False)
    return str(directory)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_hub_rows_become_pairs_and_a_validation_part_is_used_if_there_is_one(tmp_path, kind):
    path = hub_directory(tmp_path / "data", kind, train=ROWS[:25], validation=ROWS[25:])
    parts = [pairs_of(part) for part in fetch_pairs(path, None, LANGUAGES)]
    assert parts == [sentences(30)[:25], sentences(30)[25:]]
    path = hub_directory(tmp_path / "whole", kind, train=ROWS)
    train, validation = fetch_pairs(path, None, LANGUAGES)
    assert (pairs_of(train), validation) == (sentences(30), None)
    train, _ = fetch_pairs(path, None, ("en", "de"))
    assert pairs_of(train) == [(target, source) for source, target in sentences(30)]


def test_hub_texts_are_normalised_and_missing_ones_count_as_empty(tmp_path):
    rows = [
        {"translation": {"de": unicodedata.normalize("NFD", " schöne\u2028Grüße "), "en": "regards"}},
        {"translation": {"de": None, "en": "nothing"}},
    ]
    train, _ = fetch_pairs(hub_directory(tmp_path / "data", "jsonl", train=rows), None, LANGUAGES)
    assert pairs_of(train) == [("schöne Grüße", "regards"), ("", "nothing")]
    assert clean(train)[1]["empty"] == 1


def test_hub_recipes_split_off_the_parts_that_the_data_set_lacks(tmp_path):
    path = hub_directory(tmp_path / "data", "parquet", train=ROWS)
    config = dataclasses.replace(PARALLEL, hub=(path, "default"))
    corpora = [read_corpus(config, []) for _ in range(2)]
    parts = [pairs_of(part) for part in (corpora[0].train, corpora[0].validation, corpora[0].test)]
    assert sorted(itertools.chain(*parts)) == sorted(sentences(30))
    assert corpora[0].split["validation"] == corpora[1].split["validation"]


def test_local_files_are_used_instead_of_the_hub(tmp_path):
    config = dataclasses.replace(PARALLEL, hub=("missing/missing", "de-en"))
    assert len(read_corpus(config, [parallel_files(tmp_path)]).train) == 30


def test_hub_data_that_is_missing_lacks_a_language_or_a_training_part_is_named(tmp_path):
    with pytest.raises(UserError, match="could not be loaded .* or give --data DIR"):
        fetch_pairs(str(tmp_path / "absent"), None, LANGUAGES)
    path = hub_directory(tmp_path / "data", "parquet", train=ROWS)
    with pytest.raises(UserError, match="has no fr sentences"):
        fetch_pairs(path, None, ("de", "fr"))
    path = hub_directory(tmp_path / "untrained", "parquet", validation=ROWS)
    with pytest.raises(UserError, match="has no training part"):
        fetch_pairs(path, None, LANGUAGES)


# Word lists


def test_word_lists_are_joined_without_repeats(tmp_path):
    folders = [word_list(tmp_path / "a"), word_list(tmp_path / "b")]
    one, both = (read_corpus(REVERSE, some) for some in (folders[:1], folders))
    assert len(one.train) == len(both.train)
