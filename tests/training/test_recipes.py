"""The named recipes: each one is complete, writes down as JSON and trains."""

from __future__ import annotations

import dataclasses
import json

import pytest

from model.errors import UserError
from model.inputs import MAX_TOKENS
from model.translator import Translator
from tests.training.tiny import parallel_files, sentences, word_list
from training.data import MAX_LETTERS, read_corpus
from training.recipes import RECIPES
from training.trainer import Trainer

each_recipe = pytest.mark.parametrize("config", RECIPES.values(), ids=RECIPES)


@each_recipe
def test_numbers_of_a_recipe_fit_together(config):
    assert 0 < config.warmup_steps < config.max_steps
    assert config.max_tokens <= config.tokens_per_batch
    assert config.max_tokens < MAX_TOKENS  # what was trained can be translated, </s> included
    assert 0 <= config.label_smoothing < 1
    assert config.save_every <= config.max_steps
    assert config.validate_every <= config.max_steps
    assert config.title


@each_recipe
def test_a_recipe_is_plain_json(config):
    values = json.loads(json.dumps(config.to_json()))
    assert values["model"]["d_model"] == config.model.d_model
    assert {field.name for field in dataclasses.fields(config)} == set(values)


@each_recipe
def test_a_recipe_without_its_data_says_what_to_give(config):
    if config.hub:
        pytest.skip("its data comes from the hub")
    with pytest.raises(UserError, match="--data DIR"):
        read_corpus(config, [])


@each_recipe
def test_a_recipe_trains_once_made_small(config, tmp_path):
    small = dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, d_model=16, d_ff=16, n_heads=2),
        validation_rows=5,
        test_rows=min(config.test_rows, 5),
        max_steps=2,
    )
    data = word_list(tmp_path) if config.reverse_words else parallel_files(tmp_path, sentences(40))
    best = Trainer(small, [data], tmp_path / "run").run()
    text = data.joinpath("words.txt" if config.reverse_words else "train.de").read_text(encoding="utf-8")
    assert Translator.load(best).translate(text.splitlines()[0]).attention.cross.shape[0] == (
        config.model.n_decoder_layers
    )


def test_reverse_words_holds_out_enough_words_and_fits_the_longest():
    config = RECIPES["reverse-words"]
    assert config.validation_rows + config.test_rows >= 2000
    assert config.max_tokens >= MAX_LETTERS
    assert config.tokenizer == "character"
    assert config.best_by == "exact_match"
