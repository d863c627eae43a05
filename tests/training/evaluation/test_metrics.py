"""Scores of a corpus with their signatures, and the loss and speed of a window of steps."""

from __future__ import annotations

import pytest

from training.evaluation.metrics import TrainingWindow, name_recall, names, score, score_by_length

REFERENCES = [
    "A small dog runs through the snow.",
    "Two women are reading the newspaper in a café.",
    "It's five o'clock, isn't it?",
]


def test_identical_texts_are_perfect():
    scores = score(REFERENCES, REFERENCES)
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)
    assert (scores.wer, scores.cer, scores.exact_match) == (0, 0, 100)


def test_unrelated_texts_score_near_zero():
    scores = score(["zzz zzz", "qqq", "xxx"], REFERENCES)
    assert scores.bleu < 1
    assert scores.exact_match == 0
    assert scores.wer == pytest.approx(1)


def test_hypotheses_come_first():
    """A short hypothesis deletes words; with swapped arguments it would insert them."""
    short, long = ["a dog"], ["a dog runs through snow"]
    assert score(short, long).wer == pytest.approx(3 / 5)
    assert score(long, short).wer == pytest.approx(3 / 2)
    assert score(short, long).cer < 1 < score(long, short).cer


def test_bleu_lowers_the_score_of_short_translations():
    half = [" ".join(line.split()[:5]) for line in REFERENCES]
    assert score(half, REFERENCES).bleu < 70  # every n-gram is right


def test_case_and_spaces_before_punctuation_count():
    lower = score([line.lower() for line in REFERENCES], REFERENCES)
    assert lower.bleu < 100
    assert lower.exact_match == 0
    spaced = score([line.replace(".", " .") for line in REFERENCES], REFERENCES)
    assert spaced.exact_match == pytest.approx(100 / 3)
    assert spaced.wer > 0


def test_bleu_is_over_the_corpus_not_a_mean_of_sentences():
    hypotheses = [REFERENCES[0], "five"]
    references = [REFERENCES[0], REFERENCES[2]]
    singles = [score([h], [r]).bleu for h, r in zip(hypotheses, references, strict=True)]
    assert score(hypotheses, references).bleu != pytest.approx(sum(singles) / 2, abs=1)


def test_signatures_name_tokens_case_and_version():
    scores = score(REFERENCES, REFERENCES)
    for part in ("tok:13a", "case:mixed", "nrefs:1", "version:"):
        assert part in scores.bleu_signature
    assert "nc:6" in scores.chrf_signature


def test_there_must_be_as_many_hypotheses_as_references():
    with pytest.raises(ValueError, match="argument"):
        score(REFERENCES[:2], REFERENCES)


def test_an_empty_translation_is_scored_as_missing():
    scores = score(["", *REFERENCES[1:]], REFERENCES)
    assert 0 < scores.bleu < 100
    assert scores.wer == pytest.approx(7 / 21)


def test_an_empty_reference_is_scored_too():
    scores = score(REFERENCES, ["", *REFERENCES[1:]])
    assert 0 < scores.bleu < 100
    assert scores.wer > 0


def test_a_window_weighs_the_loss_by_tokens():
    window = TrainingWindow()
    window.add(1.0, 30, 2.0, 0.5)
    window.add(4.0, 10, 3.0, 0.25)
    values = window.values()
    assert values["loss"] == pytest.approx(1.75)
    assert (values["gradient_norm"], values["learning_rate"]) == (3.0, 0.25)
    assert values["tokens_per_second"] > 0


def test_length_buckets_hold_every_sentence_of_1_to_60_words_once():
    sources = [" ".join(["w"] * n) for n in range(62)]
    references = [f"one two three four {n}" for n in range(62)]
    hypotheses = [line if n <= 10 else "wrong" for n, line in enumerate(references)]
    found = score_by_length(sources, hypotheses, references)
    assert {name: each.sentences for name, each in found.items()} == {
        "1-10": 10,
        "11-20": 10,
        "21-35": 15,
        "36-60": 25,
    }
    assert found["1-10"].bleu == pytest.approx(100)
    assert found["36-60"].bleu == score(hypotheses[36:61], references[36:61]).bleu < 10
    assert list(score_by_length(sources[:5], hypotheses[:5], references[:5])) == ["1-10"]


def test_names_are_capitalised_words_inside_a_sentence():
    found = names(
        "Tom and I saw Anna, Max and Anna. On Monday I'm in New York. “Well, Bob!” He said: “Why not?” L"
    )
    assert found == {"Anna": 2, "Max": 1, "Monday": 1, "New": 1, "York": 1, "Bob": 1}


def test_name_recall_counts_each_name_of_a_reference_as_often_as_the_translation_has_it():
    references = ["I met Tom and Tom's Anna.", "He lives in Munich.", "no name"]
    hypotheses = ["Anna met Tom.", "He lives in coins.", "Paris"]
    assert name_recall(hypotheses, references) == (4, 2)
