"""How faithful measures are: what words lose without the tokens that a measure ranks first."""

from __future__ import annotations

from statistics import fmean

import pytest
import torch

from model.analysis.study import SourceRanking
from model.translator import Translator
from tests.model.helpers import SENTENCES, tiny_checkpoint
from tests.numerics import exact, translator_of
from training.evaluation.rankings import rank_sources

MEASURES = {"leave-one-out", "best free head", "ALTI+", "mean of all heads", "norm-based, last layer"}


@pytest.fixture(scope="module")
def translator() -> Translator:
    checkpoint = tiny_checkpoint(seed=1, taught_head=(1, 1), n_encoder_layers=1, n_decoder_layers=2)
    return translator_of(Translator(checkpoint, "tiny"), exact(checkpoint.model))


@pytest.fixture(scope="module")
def rankings(translator: Translator) -> dict[str, SourceRanking]:
    return {each.measure: each for each in rank_sources(translator, SENTENCES[:2])}


def test_no_measure_finds_a_better_token_than_leave_one_out(rankings):
    assert rankings.keys() == MEASURES | {"taught head", "rollout", "random"}
    best, *others = rankings.values()
    assert best.measure == "leave-one-out"
    assert [each.one for each in others] == sorted((each.one for each in others), reverse=True)


def test_a_loss_is_that_of_a_model_that_does_not_see_the_token(rankings, translator):
    text = SENTENCES[1]
    result = translator.translate(text)
    source, read = translator.pair(text, result.ids)
    words = [token.word for token in result.attention.predicted]
    losses = []
    for place, token in enumerate(result.attention.source):
        if token.special:
            continue
        mask = torch.ones(1, 1, 1, len(source), dtype=torch.bool)
        mask[..., place] = False
        with torch.no_grad():
            scores = translator.checkpoint.model(source[None], read[None], mask)[0].log_softmax(-1)
        chances = scores[torch.arange(len(read)), torch.tensor(result.ids)].tolist()
        change = [before - after for before, after in zip(result.log_probabilities, chances, strict=True)]
        losses.append(change)
    spelled = {
        word: [step for step, each in enumerate(words) if each == word] for word in words if word is not None
    }
    groups = list(spelled.values()) if len(spelled) > 1 else [[step] for step in next(iter(spelled.values()))]
    found = [max(sum(change[step] for step in group) for change in losses) for group in groups]
    assert rankings["leave-one-out"].one == pytest.approx(fmean(found), abs=1e-6)


def test_of_one_sentence_nothing_is_left_to_report(translator):
    assert rank_sources(translator, SENTENCES[:1]) == ()
