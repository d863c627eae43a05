"""Reversed words, and the error of the first attempt: labels that were not shifted."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from model.network.transformer import Transformer
from model.storage.checkpoint import Checkpoint, ModelInfo
from model.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from model.translator import Translator
from tests.training.tiny import REVERSE, SHAPE, collate, word_list, words
from training.corpus.batching import Batch
from training.corpus.splits import read_corpus
from training.loss import SequenceLoss

CPU = torch.device("cpu")
WORDS = words("abcd", (2, 3))
ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def test_words_of_two_to_twenty_letters_are_kept_and_reversed(tmp_path):
    listed = [(ALPHABET * 2)[start : start + length] for length in range(1, 26) for start in range(3)]
    config = dataclasses.replace(REVERSE, validation_rows=5, test_rows=0)
    corpus = read_corpus(config, [word_list(tmp_path, listed)])
    pairs = [
        pair
        for part in (corpus.train, corpus.validation)
        for pair in zip(part["source"], part["target"], strict=True)
    ]
    assert sorted(source for source, _ in pairs) == sorted(w for w in listed if 2 <= len(w) <= 20)
    assert all(target == source[::-1] for source, target in pairs)
    assert sum(corpus.dropped.values()) == 0


def test_invalid_words_are_left_out_and_case_is_ignored(tmp_path):
    listed = ["Apple", "apple", "APPLE", "don't", "b2b", "two words", "", "über", "-", *WORDS]
    config = dataclasses.replace(REVERSE, validation_rows=1, test_rows=0)
    corpus = read_corpus(config, [word_list(tmp_path, listed)])
    found = [*corpus.train["source"], *corpus.validation["source"]]
    assert sorted(found) == sorted(["apple", "über", *WORDS])


# Labels


def test_labels_are_the_tokens_that_follow_those_read():
    """The decoder reads <s> + target and predicts target + </s>."""
    targets = [[7, 8, 9], [5]]
    batch = collate([[4], [6, 6]], targets, CPU)
    for row, target in enumerate(targets):
        n = len(target)
        assert batch.read[row, : n + 1].tolist() == [BOS_ID, *target]
        assert batch.labels[row, : n + 1].tolist() == [*target, EOS_ID]
        assert batch.labels[row, :n].equal(batch.read[row, 1 : n + 1])
        assert set(batch.read[row, n + 1 :].tolist()) <= {PAD_ID}
        assert set(batch.labels[row, n + 1 :].tolist()) <= {PAD_ID}
    assert batch.source.tolist() == [[4, EOS_ID, PAD_ID, PAD_ID], [6, 6, EOS_ID, PAD_ID]]


def unshifted(batch: Batch) -> Batch:
    """The batches of the seed notebook: the decoder reads the same tokens that it must predict."""
    return batch._replace(read=batch.labels)


def train(prepare) -> tuple[float, float]:
    """Loss per token after training on every word, and the share of words that generation reverses."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(WORDS, "character")
    size = len(tokenizer)
    config = dataclasses.replace(
        SHAPE, source_vocabulary=size, target_vocabulary=size, d_model=32, d_ff=64, dropout=0.0
    )
    net = Transformer(config)
    loss = SequenceLoss(net, 0.0)
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
    ids = tokenizer.encode_batch(WORDS)
    batch = prepare(collate(ids, [row[::-1] for row in ids], CPU))
    tokens = int((batch.labels != PAD_ID).sum())
    for _ in range(120):
        optimizer.zero_grad()
        value = loss(batch).translation / tokens
        value.backward()
        optimizer.step()
    checkpoint = Checkpoint(net.eval(), tokenizer, tokenizer, ModelInfo("word", "reversed", "Reverse"))
    generated = Translator(checkpoint).translate_batch(WORDS)
    right = sum(word[::-1] == found for word, found in zip(WORDS, generated, strict=True))
    return float(value.detach()), right / len(WORDS)


@pytest.mark.parametrize(("prepare", "learns"), [(lambda batch: batch, True), (unshifted, False)])
def test_only_a_model_trained_on_shifted_labels_can_generate(prepare, learns):
    """Both losses fall to nearly zero; without the shift the model only learns to copy."""
    loss, right = train(prepare)
    assert loss < 0.05
    assert right > 0.95 if learns else right < 0.1
