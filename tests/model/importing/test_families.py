"""Imported models of every family but MarianMT compute what transformers computes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from model.text.multilingual import MultilingualTokenizer
from tests.model.importing import families
from tests.model.importing.comparison import (
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


def mbart_50(directory: Path, **settings: Any) -> tuple[Any, Any]:
    tokenizer = families.write_mbart_tokenizer(directory)
    return families.random_mbart(len(tokenizer), **settings), tokenizer


def nllb(directory: Path, **settings: Any) -> tuple[Any, Any]:
    tokenizer = families.write_nllb_tokenizer(directory)
    return families.random_m2m(len(tokenizer) + 2, **settings), tokenizer


def m2m(directory: Path, **settings: Any) -> tuple[Any, Any]:
    tokenizer = families.write_m2m_tokenizer(directory)
    rows = len(tokenizer.encoder) + len(tokenizer.lang_code_to_id) + 10
    return families.random_m2m(rows, **settings), tokenizer


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
    code: str = ""  # of English, in a model of many languages


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
    "mBART-50": Case(mbart_50, {"scale_embedding": True}, quick=True, code="en_XX"),
    "mBART-50, ReLU": Case(mbart_50, {"activation_function": "relu"}, code="en_XX"),
    "mBART-50, two heads": Case(mbart_50, TWO_HEADS, code="en_XX"),
    "NLLB": Case(nllb, {}, quick=True, code="eng_Latn"),
    "NLLB, SiLU, two heads": Case(nllb, {"activation_function": "swish", **TWO_HEADS}, code="eng_Latn"),
    "M2M100": Case(m2m, {}, code="en"),
    "M2M100, embeddings not scaled": Case(
        m2m, {"scale_embedding": False, "activation_function": "gelu"}, code="en"
    ),
    "FSMT": Case(fsmt, {}, quick=True),
    "FSMT, embeddings not scaled": Case(fsmt, {"scale_embedding": False}),
    "FSMT, GELU, two heads": Case(fsmt, {"activation_function": "gelu", **TWO_HEADS}),
    "T5 1.0": Case(t5, {}, quick=True),
    "T5 1.1, six heads of width 4": Case(t5, {**GATED, "num_heads": 6, "d_kv": 4}, quick=True),
    "T5, SiLU with a gate, few buckets": Case(t5, {"feed_forward_proj": "gated-silu", **FEW_BUCKETS}),
    "mT5": Case(mt5, {"d_kv": 12}),
    "ByT5": Case(byt5, GATED),
}
# Beams and groups of eight sentences.
SEARCHES = [(4, 2), pytest.param(1, 6, marks=pytest.mark.slow), pytest.param(4, 6, marks=pytest.mark.slow)]
# Tokens of a source that are not part of the sentence.
SPECIAL = {
    "bart": ["<s>", "</s>"],
    "pegasus": ["</s>"],
    "mbart": ["</s>", ">>de_DE<<"],
    "fsmt": ["</s>"],
    "t5": ["</s>"],
    "mt5": ["</s>"],
}


def parameters(many: bool = False) -> list[Any]:
    """The names of all cases, or of those of many languages."""
    return [
        pytest.param(name, marks=[] if case.quick else [pytest.mark.slow])
        for name, case in CASES.items()
        if case.code or not many
    ]


def make_pair(name: str, directory: Path) -> Pair:
    case = CASES[name]
    return pair_of(directory, *case.make(directory, **case.settings), case.code)


@pytest.fixture(scope="module", params=parameters())
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(request.param, tmp_path_factory.mktemp("checkpoint"))


def test_tokens_are_equal(pair: Pair) -> None:
    # FSMT has two vocabularies, and M2M100Tokenizer leaves the code of the language in the text.
    check_tokens(pair, joint=pair.theirs.config.model_type != "fsmt" and pair.code != ">>en<< ")


def test_attention_and_log_probabilities_are_equal(pair: Pair) -> None:
    check_numbers(pair)


@pytest.mark.parametrize(("beam", "groups"), SEARCHES)
def test_translations_are_equal(pair: Pair, beam: int, groups: int) -> None:
    check_translations(pair, beam, groups)


def test_the_directory_opens_without_the_checkpoint(pair: Pair, tmp_path: Path) -> None:
    check_directory(pair, tmp_path / "imported")


def test_tokens_say_what_is_not_part_of_the_sentence(pair: Pair) -> None:
    found = pair.ours.translate(f"{pair.code}Der kleine Hund läuft.")
    special = [token.piece for token in found.attention.source if token.special]
    tokenizer = pair.ours.checkpoint.source_tokenizer
    many = [tokenizer.source_code, "</s>"] if isinstance(tokenizer, MultilingualTokenizer) else None
    assert special == many or special == SPECIAL[pair.theirs.config.model_type]
