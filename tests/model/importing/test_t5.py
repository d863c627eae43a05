"""Imported models of T5, mT5 and ByT5 compute what transformers computes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from model.errors import UserError
from model.importing.importer import import_model, read_checkpoint
from tests.model.importing import families
from tests.model.importing.comparison import (
    SEARCHES,
    Pair,
    check_directory,
    check_numbers,
    check_tokens,
    check_translations,
    pair_of,
)

SHAPES: dict[str, dict[str, Any]] = {
    "T5 1.0": {},
    "T5 1.1, six heads of width 4": {
        "tie_word_embeddings": False,
        "feed_forward_proj": "gated-gelu",
        "num_heads": 6,
        "d_kv": 4,
    },
    "SiLU with a gate, few buckets": {
        "feed_forward_proj": "gated-silu",
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 20,
    },
    "mT5": {"d_kv": 12},
    "ByT5": {"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"},
}
QUICK = ("T5 1.0", "T5 1.1, six heads of width 4")
SPARE = 4  # rows of the embedding that no entry of the vocabulary has


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in SHAPES],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    directory = tmp_path_factory.mktemp("checkpoint")
    write = families.write_byt5_tokenizer if request.param == "ByT5" else families.write_t5_tokenizer
    tokenizer = write(directory)
    make = families.random_mt5 if request.param == "mT5" else families.random_t5
    return pair_of(directory, make(len(tokenizer) + SPARE, **SHAPES[request.param]), tokenizer)


def test_tokens_are_equal(pair: Pair) -> None:
    check_tokens(pair)


def test_attention_and_log_probabilities_are_equal(pair: Pair) -> None:
    check_numbers(pair)


@pytest.mark.parametrize(("beam", "count"), SEARCHES)
def test_translations_are_equal(pair: Pair, beam: int, count: int) -> None:
    check_translations(pair, beam, count)


def test_the_directory_opens_without_the_checkpoint(pair: Pair, tmp_path: Path) -> None:
    check_directory(pair, tmp_path / "imported")


def test_eight_bits_keep_the_biases_of_positions(tmp_path: Path) -> None:
    tokenizer = families.write_t5_tokenizer(tmp_path / "theirs")
    families.random_t5(len(tokenizer)).save_pretrained(tmp_path / "theirs")
    whole = read_checkpoint(str(tmp_path / "theirs")).model
    opened = import_model(str(tmp_path / "theirs"), tmp_path / "imported", 8).model
    for name, parameter in opened.named_parameters():
        if "biases" in name:
            torch.testing.assert_close(parameter, whole.get_parameter(name).half().float(), rtol=0, atol=0)


def test_prompts_are_kept(tmp_path: Path) -> None:
    tokenizer = families.write_t5_tokenizer(tmp_path / "theirs")
    tasks = {
        "summarization": {"prefix": "summarize: "},
        "translation_en_to_de": {"prefix": "translate English to German: ", "num_beams": 4},
        "translation_en_to_fr": {"prefix": "translate English to French: "},
        "translation_odd": {"prefix": 7},
        "translation_line": {"prefix": "a\nb"},
    }
    model = families.random_t5(len(tokenizer), task_specific_params=tasks)
    model.save_pretrained(tmp_path / "theirs")
    settings = json.loads((tmp_path / "theirs/config.json").read_text())
    (tmp_path / "theirs/config.json").write_text(json.dumps(settings | {"task_specific_params": tasks}))
    info = import_model(str(tmp_path / "theirs"), tmp_path / "imported").info
    assert info.prompts == ("translate English to German: ", "translate English to French: ")
    assert (info.source_language, info.target_language) == ("en", "mul")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feed_forward_proj": "gated-tanh"}, "feed_forward_proj"),
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon"),
        ({"num_decoder_layers": "3"}, "num_decoder_layers"),
        ({"num_decoder_layers": 1}, "is not part of a model"),
        ({"d_kv": 9}, "SelfAttention.q.weight"),
        ({"relative_attention_num_buckets": 30}, "n_buckets"),
        ({"relative_attention_num_buckets": 16}, "relative_attention_bias.weight"),
        ({"relative_attention_max_distance": 10}, "max_distance"),
        ({"vocab_size": 10**9}, "source_vocabulary"),
        ({"vocab_size": 10}, "does not fit"),
        ({"model_type": "umt5"}, "only models of"),
        ({"d_model": 64}, "shape"),
    ],
)
def test_other_settings_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    tokenizer = families.write_t5_tokenizer(tmp_path)
    families.random_t5(len(tokenizer)).save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | change))
    with pytest.raises(UserError, match=message):
        read_checkpoint(str(tmp_path))
