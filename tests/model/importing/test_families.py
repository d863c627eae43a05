"""Imported models of BART, mBART-25, Pegasus, FSMT, T5, mT5 and ByT5 compute what transformers computes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

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

SPARE = 4  # rows of T5's embedding that no entry of the vocabulary has


def bart(directory: Path, **settings: Any) -> tuple[Any, Any]:
    tokenizer = families.write_bart_tokenizer(directory)
    return families.random_bart(len(tokenizer) + 2, **settings), tokenizer


def pegasus(directory: Path, **settings: Any) -> tuple[Any, Any]:
    tokenizer = families.write_pegasus_tokenizer(directory)
    return families.random_pegasus(len(tokenizer), **settings), tokenizer


def mbart_25(directory: Path, **settings: Any) -> tuple[Any, Any]:
    tokenizer = families.write_mbart_25_tokenizer(directory)
    start = tokenizer.convert_tokens_to_ids("en_XX")
    return families.random_mbart(len(tokenizer), **settings, decoder_start_token_id=start), tokenizer


def fsmt(directory: Path, **settings: Any) -> tuple[Any, Any]:
    tokenizer = families.write_fsmt_tokenizer(directory)
    return families.random_fsmt((len(tokenizer.encoder), len(tokenizer.decoder)), **settings), tokenizer


def t5(directory: Path, **settings: Any) -> tuple[Any, Any]:
    tokenizer = families.write_t5_tokenizer(directory)
    return families.random_t5(len(tokenizer) + SPARE, **settings), tokenizer


def mt5(directory: Path, **settings: Any) -> tuple[Any, Any]:
    tokenizer = families.write_t5_tokenizer(directory)
    return families.random_mt5(len(tokenizer) + SPARE, **settings), tokenizer


def byt5(directory: Path, **settings: Any) -> tuple[Any, Any]:
    tokenizer = families.write_byt5_tokenizer(directory)
    return families.random_t5(len(tokenizer) + SPARE, **settings), tokenizer


class Case(NamedTuple):
    """A model of random weights, with settings that differ from those of its family."""

    make: Callable[..., tuple[Any, Any]]  # writes the tokenizer; returns the model and the tokenizer
    settings: dict[str, Any]
    quick: bool = False


TWO_HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
GATED = {"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"}
FEW_BUCKETS = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
CASES = {
    "BART": Case(bart, {"forced": 0}, quick=True),
    "BART, two heads": Case(bart, TWO_HEADS),
    "BART, scaled": Case(bart, {"scale_embedding": True, "activation_function": "relu"}),
    "Pegasus": Case(pegasus, {"scale_embedding": True}, quick=True),
    "Pegasus, embeddings not scaled": Case(pegasus, {"activation_function": "relu"}),
    "Pegasus, two heads": Case(pegasus, TWO_HEADS),
    "mBART-25": Case(mbart_25, {"scale_embedding": True}, quick=True),
    "mBART-25, embeddings not scaled": Case(mbart_25, {"activation_function": "gelu_new"}),
    "mBART-25, two heads": Case(mbart_25, TWO_HEADS),
    "FSMT": Case(fsmt, {}, quick=True),
    "FSMT, embeddings not scaled": Case(fsmt, {"scale_embedding": False}),
    "FSMT, GELU, two heads": Case(fsmt, {"activation_function": "gelu", **TWO_HEADS}),
    "T5 1.0": Case(t5, {}, quick=True),
    "T5 1.1, six heads of width 4": Case(t5, {**GATED, "num_heads": 6, "d_kv": 4}, quick=True),
    "T5, SiLU with a gate, few buckets": Case(t5, {"feed_forward_proj": "gated-silu", **FEW_BUCKETS}),
    "mT5": Case(mt5, {"d_kv": 12}),
    "ByT5": Case(byt5, GATED),
}
# Tokens of a source that are not part of the sentence.
SPECIAL = {
    "bart": ["<s>", "</s>"],
    "pegasus": ["</s>"],
    "mbart": ["</s>", ">>de_DE<<"],
    "fsmt": ["</s>"],
    "t5": ["</s>"],
    "mt5": ["</s>"],
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[] if case.quick else [pytest.mark.slow]) for name, case in CASES.items()
    ],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    directory, case = tmp_path_factory.mktemp("checkpoint"), CASES[request.param]
    return pair_of(directory, *case.make(directory, **case.settings))


def test_tokens_are_equal(pair: Pair) -> None:
    check_tokens(pair, joint=pair.theirs.config.model_type != "fsmt")


def test_attention_and_log_probabilities_are_equal(pair: Pair) -> None:
    check_numbers(pair)


@pytest.mark.parametrize(("beam", "count"), SEARCHES)
def test_translations_are_equal(pair: Pair, beam: int, count: int) -> None:
    check_translations(pair, beam, count)


def test_the_directory_opens_without_the_checkpoint(pair: Pair, tmp_path: Path) -> None:
    check_directory(pair, tmp_path / "imported")


def test_tokens_say_what_is_not_part_of_the_sentence(pair: Pair) -> None:
    found = pair.ours.translate("Der kleine Hund läuft.")
    special = [token.piece for token in found.attention.source if token.special]
    assert special == SPECIAL[pair.theirs.config.model_type]
    assert "<s>" not in found.text
    assert ">>" not in found.text
