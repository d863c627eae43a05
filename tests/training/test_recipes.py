"""The named recipes: each is complete, can be written as JSON, and trains."""

from __future__ import annotations

import dataclasses
import json

import datasets
import pytest

from model.errors import UserError
from model.translator import Translator
from tests.training.tiny import parallel_files, prepared, sentences, word_list
from training.config import TrainConfig
from training.corpus.sources import MAX_LETTERS
from training.corpus.splits import read_corpus
from training.recipes import RECIPES
from training.trainer import Trainer

each_recipe = pytest.mark.parametrize("config", RECIPES.values(), ids=RECIPES)


def small(config: TrainConfig) -> TrainConfig:
    """The recipe with a tiny model and two steps."""
    return dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, d_model=16, d_ff=16, n_heads=2),
        validation_rows=5,
        test_rows=min(config.test_rows, 5),
        max_steps=2,
        random_words=min(config.random_words, 500),
    )


@each_recipe
def test_a_recipe_is_plain_json_and_its_numbers_fit_together(config):
    values = json.loads(json.dumps(dataclasses.asdict(config)))
    assert values["model"]["d_model"] == config.model.d_model
    assert {field.name for field in dataclasses.fields(config)} == set(values)
    assert 0 <= config.warmup_steps < config.max_steps
    # If there is a limit of pairs, it is reached before the limit of tokens.
    assert (config.pairs_per_batch or 1) * (config.max_tokens + 1) <= config.tokens_per_batch
    assert 0 <= config.label_smoothing < 1
    assert config.save_every <= config.max_steps
    assert config.validate_every <= config.max_steps
    assert config.title


@each_recipe
def test_a_recipe_without_data_says_what_to_give(config):
    if config.hub or config.random_words:
        pytest.skip("it needs none")
    with pytest.raises(UserError, match="--data DIR"):
        read_corpus(config, [])


@each_recipe
def test_a_recipe_trains_on_local_files_once_made_small(config, tmp_path):
    languages = config.source_language, config.target_language
    data = (
        word_list(tmp_path / "data")
        if config.reverse_words
        else parallel_files(tmp_path / "data", sentences(40), languages=languages)
    )
    best = prepared(small(config), data, tmp_path / "run").run()
    sentence = "abc" if config.reverse_words else "eins zwei"
    cross = Translator.load(best).translate(sentence).attention.cross
    assert cross.shape[:2] == (config.model.n_decoder_layers, 2)


@pytest.mark.parametrize("name", [name for name, config in RECIPES.items() if config.hub])
def test_a_recipe_trains_on_the_layout_of_its_data_on_the_hub(name, tmp_path):
    """A folder with named configurations, parquet files and rows of {"translation": {...}}."""
    config = RECIPES[name]
    _, pair = config.hub
    languages = config.source_language, config.target_language
    features = datasets.Features({"translation": datasets.Translation(languages=languages)})
    rows = [{"translation": dict(zip(languages, row, strict=True))} for row in sentences(40)]
    for part in ("train", "validation") if "wmt" in name else ("train",):
        file = tmp_path / "hub" / pair / f"{part}-00000-of-00001.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_list(rows, features=features).to_parquet(file)
    files = [
        f"  - split: {part}\n    path: {pair}/{part}-*"
        for part in ("train", "validation")
        if any((tmp_path / "hub" / pair).glob(f"{part}-*"))
    ]
    listed = "\n".join(files)
    front = f"---\nconfigs:\n- config_name: {pair}\n  data_files:\n{listed}\n---\n"
    (tmp_path / "hub" / "README.md").write_text(front)
    local = dataclasses.replace(small(config), hub=(str(tmp_path / "hub"), pair))
    trainer = Trainer(local, [], tmp_path / "run")
    trainer.prepare()
    held = 0 if "wmt" in name else 5
    assert len(trainer.train) == 40 - held
    Translator.load(trainer.run())


def test_a_share_of_the_pairs_may_be_held_out(tmp_path):
    config = dataclasses.replace(RECIPES["opus-books-en-fr"], validation_rows=0.1)
    corpus = read_corpus(config, [parallel_files(tmp_path, sentences(120), languages=("en", "fr"))])
    assert (len(corpus.train), len(corpus.validation)) == (108, 12)


def test_recipes_have_the_numbers_of_their_documents():
    """The numbers that the four documents give."""
    wmt, french, italian, words = (
        RECIPES[name] for name in ("wmt14-de-en", "opus-books-en-fr", "opus-books-en-it", "reverse-words")
    )
    models = [recipe.model for recipe in (wmt, french, italian, words)]
    shapes = [(m.d_model, m.d_ff, m.n_heads, m.n_encoder_layers) for m in models]
    assert shapes == [(128, 512, 8, 1), (512, 2048, 8, 6), (512, 2048, 8, 6), (256, 1024, 4, 3)]
    assert [m.norm for m in models] == ["post", "pre", "pre", "post"]
    assert [r.pairs_per_batch for r in (wmt, french, italian, words)] == [32, 8, 8, 32]
    assert (wmt.vocabulary, wmt.max_steps, wmt.max_tokens + 2) == (18_000, 30_000, 100)
    assert wmt.model.tied
    assert wmt.model.separate_output
    assert (french.peak_learning_rate, french.validation_rows) == (1e-4, 0.1)
    assert (italian.min_frequency, italian.label_smoothing, italian.max_tokens + 2) == (2, 0.1, 350)
    assert (words.peak_learning_rate, words.decay_factor, words.schedule) == (1e-3, 0.9, "step")


def test_reverse_words_holds_out_enough_words_and_fits_the_longest():
    config = RECIPES["reverse-words"]
    assert config.validation_rows + config.test_rows >= 2000
    assert config.max_tokens >= MAX_LETTERS
    assert config.tokenizer == "character"
    assert config.best_by == "exact_match"
