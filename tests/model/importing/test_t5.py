"""Imported models of T5, mT5 and ByT5 compute what transformers computes."""

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from model.errors import UserError
from model.importing.importer import import_model, read_checkpoint
from model.storage.checkpoint import load
from model.tokenizer import EOS_ID
from model.translator import Translator
from tests.model.importing import families
from tests.model.importing.checkpoints import ENGLISH, GERMAN, sentences
from tests.numerics import assert_float32, parts, scored

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


class Pair(NamedTuple):
    """The same model twice."""

    theirs: Any
    ours: Translator
    tokenizer: Any
    directory: Path


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in SHAPES],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    directory = tmp_path_factory.mktemp("checkpoint")
    write = families.write_byt5_tokenizer if request.param == "ByT5" else families.write_t5_tokenizer
    tokenizer = write(directory)
    make = families.random_mt5 if request.param == "mT5" else families.random_t5
    theirs = make(len(tokenizer) + SPARE, **SHAPES[request.param])
    theirs.save_pretrained(directory)
    return Pair(theirs, Translator(read_checkpoint(str(directory))), tokenizer, directory)


def theirs_of(ids: list[int]) -> list[int]:
    """Our ids, which begin with <pad> <unk> <s> </s>, as theirs, which begin with <pad> </s> <unk>."""
    return [{0: 0, 1: 2, 2: 0, 3: 1}.get(index, index - 1) for index in ids]


def without_ties(count: int, seed: int) -> list[str]:
    """Sentences without …, which becomes three points: a unigram model has two cuts of equal score for it."""
    return [text for text in sentences(GERMAN, count + 20, seed=seed) if "…" not in text][:count]


def test_tokens_are_equal(pair: Pair) -> None:
    source = pair.ours.checkpoint.source_tokenizer
    for text in without_ties(40, seed=1):
        ids = pair.tokenizer(text)["input_ids"]
        assert theirs_of([*source.encode(text), EOS_ID]) == ids
        assert source.decode(source.encode(text)) == pair.tokenizer.decode(ids, skip_special_tokens=True)


def test_attention_and_log_probabilities_are_equal(pair: Pair) -> None:
    for text, target in zip(sentences(GERMAN, 4, seed=3), sentences(ENGLISH, 4, seed=4), strict=True):
        found = pair.ours.score(text, target)
        ids = theirs_of(list(found.ids))
        with torch.no_grad():
            theirs = pair.theirs(
                **pair.tokenizer(text, return_tensors="pt"),
                decoder_input_ids=torch.tensor([[0, *ids[:-1]]]),
                output_attentions=True,
            )
        chosen = theirs.logits[0].log_softmax(-1)[range(len(ids)), ids]
        kinds = theirs.encoder_attentions, theirs.decoder_attentions, theirs.cross_attentions
        exact = partial(scored, pair.ours, text, target)
        for one in ((chosen, *(torch.stack(kind)[:, 0] for kind in kinds)), parts(found)):
            assert_float32(one, exact, pair.ours.checkpoint.model)


@pytest.mark.parametrize(
    ("beam", "count"),
    [(4, 6), pytest.param(1, 40, marks=pytest.mark.slow), pytest.param(4, 40, marks=pytest.mark.slow)],
)
def test_translations_are_equal(pair: Pair, beam: int, count: int) -> None:
    """With no length penalty, where both conventions agree; ours never predicts <pad> and <unk>."""
    options = {} if beam == 1 else {"num_beams": beam, "length_penalty": 0.0}
    for text in without_ties(count, seed=5):
        inputs = pair.tokenizer(text, return_tensors="pt")
        generated = pair.theirs.generate(
            **inputs,
            max_new_tokens=2 * inputs["input_ids"].shape[1] + 10,
            bad_words_ids=[[0], [2]],
            do_sample=False,
            **options,
        )[0, 1:]
        found = pair.ours.translate(text, beam_size=beam, length_penalty=0.0)
        assert theirs_of(list(found.ids)) == generated.tolist()


def test_the_directory_opens_without_the_checkpoint(pair: Pair, tmp_path: Path) -> None:
    import_model(str(pair.directory), tmp_path / "imported", 32)
    opened = load(tmp_path / "imported")
    assert opened.model.config == pair.ours.checkpoint.model.config
    text = "Der kleine Hund läuft."
    assert Translator(opened).translate(text).ids == pair.ours.translate(text).ids


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
