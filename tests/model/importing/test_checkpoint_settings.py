"""Every setting of a checkpoint that transformers reads is obeyed, refused, said, or without effect."""

import dataclasses
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedTokenizerBase

from model.errors import UserError
from model.importing.checkpoint_settings import (
    MODEL_SETTINGS,
    SEARCH_SETTINGS,
    TOKENIZER_SETTINGS,
    Fate,
    Refused,
    Said,
    WithoutEffect,
    check_settings,
)
from model.importing.importer import import_model, read_checkpoint
from model.storage.checkpoint import load
from model.translator import Translator
from tests.model.helpers import assert_sentence
from tests.model.importing import checkpoints as marian
from tests.model.importing import families

CONFIGS = ("Marian", "Pegasus", "M2M100", "MBart", "Bart", "FSMT", "T5", "MT5")
TOKENIZERS = (
    *("MarianTokenizer", "PegasusTokenizer", "M2M100Tokenizer", "NllbTokenizer", "MBartTokenizer"),
    *("MBart50Tokenizer", "BartTokenizer", "FSMTTokenizer", "T5Tokenizer", "ByT5Tokenizer"),
)
FILES = {
    "config.json": MODEL_SETTINGS,
    "generation_config.json": SEARCH_SETTINGS,
    "tokenizer_config.json": TOKENIZER_SETTINGS,
}
ODD = 0.7  # no setting does nothing with this value


def settings_of(kind: type[Fate]) -> list[tuple[str, str]]:
    return [(file, name) for file, table in FILES.items() for name in table if isinstance(table[name], kind)]


def write(directory: Path, file: str, **settings: Any) -> None:
    path = directory / file
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(old | settings))


def test_the_tables_have_every_setting_that_transformers_reads() -> None:
    configs = [getattr(transformers, f"{name}Config") for name in CONFIGS]
    read = {field.name for each in (*configs, PreTrainedConfig) for field in dataclasses.fields(each)}
    read |= {alias for each in configs for alias in each.attribute_map}
    search = {name for name in vars(GenerationConfig()) if not name.startswith("_")}
    assert not read - MODEL_SETTINGS.keys() - SEARCH_SETTINGS.keys()
    assert not search - SEARCH_SETTINGS.keys()
    named = set(PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES)
    for name in TOKENIZERS:
        named |= set(inspect.signature(getattr(transformers, name).__init__).parameters)
    own = {name for name in named if name.startswith("_")} | {"self", "args", "kwargs", "merges"}
    assert not named - TOKENIZER_SETTINGS.keys() - own


def test_special_settings_of_the_base_class_are_known() -> None:
    """The base class takes them out of its keyword arguments."""
    source = inspect.getsource(PreTrainedTokenizerBase.__init__)
    taken = {part.split('"')[1] for part in source.split("kwargs.pop(")[1:] if part.startswith('"')}
    assert len(taken) > 10
    own = {"model_specific_special_tokens"}  # made of other settings
    assert not taken - TOKENIZER_SETTINGS.keys() - own


@pytest.mark.parametrize(("file", "name"), settings_of(Refused))
def test_what_is_refused_is_named(file: str, name: str, checkpoint: Path) -> None:
    write(checkpoint, file, **{name: {"0": [1]}})
    with pytest.raises(UserError, match=name) as caught:
        check_settings(checkpoint, "marian")
    assert_sentence(caught.value)
    for value in FILES[file][name].unless:  # type: ignore[union-attr]
        write(checkpoint, file, **{name: value})
        assert not check_settings(checkpoint, "marian")


@pytest.mark.parametrize(("file", "name"), settings_of(Said))
def test_what_is_done_in_another_way_is_said(file: str, name: str, checkpoint: Path) -> None:
    write(checkpoint, file, **{name: ODD})
    (note,) = check_settings(checkpoint, "marian")
    assert note.startswith(name)
    assert_sentence(UserError(note))
    for value in FILES[file][name].unless:  # type: ignore[union-attr]
        write(checkpoint, file, **{name: value})
        assert not check_settings(checkpoint, "marian")


def test_what_has_no_effect_changes_nothing(checkpoint: Path) -> None:
    plain = read_checkpoint(str(checkpoint))
    for file, name in settings_of(WithoutEffect):
        write(checkpoint, file, **{name: ODD})
    other = read_checkpoint(str(checkpoint))
    assert other.source_tokenizer.to_json() == plain.source_tokenizer.to_json()
    assert not other.notes
    for one, two in zip(plain.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_an_own_limit_of_length_is_said_only_where_it_is_shorter(checkpoint: Path) -> None:
    for name in ("max_length", "max_new_tokens"):
        write(checkpoint, "generation_config.json", **{name: 512})
        assert not check_settings(checkpoint, "marian")
        write(checkpoint, "generation_config.json", **{name: 20})
        (note,) = check_settings(checkpoint, "marian")
        assert f"{name} is 20" in note
        write(checkpoint, "generation_config.json", **{name: None})


@pytest.mark.parametrize(
    ("file", "settings", "says"),
    [
        ("config.json", {"hidden_size": 64}, "two names of one setting"),
        ("config.json", {"num_hidden_layers": 6}, "two names of one setting"),
        ("config.json", {"num_attention_heads": 8}, "two names of one setting"),
        ("config.json", {"architectures": ["MarianForCausalLM"]}, "does not translate"),
        ("config.json", {"architectures": ["BartForSequenceClassification"]}, "does not translate"),
        ("config.json", {"tie_encoder_decoder": True}, "tie_encoder_decoder"),
        ("generation_config.json", {"eos_token_id": [0, 5]}, "eos_token_id"),
        ("generation_config.json", {"eos_token_id": 5}, "eos_token_id"),
        ("generation_config.json", {"forced_bos_token_id": "x"}, "forced_bos_token_id"),
        ("generation_config.json", {"forced_bos_token_id": 10**6}, "forced_bos_token_id"),
        ("tokenizer_config.json", {"unk_token": "[UNK]"}, r"'\[UNK\]' as unk_token"),
        ("tokenizer_config.json", {"eos_token": {"content": "<eos>"}}, "'<eos>' as eos_token"),
        ("special_tokens_map.json", {"pad_token": "[PAD]"}, "special_tokens_map.json has"),
        ("special_tokens_map.json", {"additional_special_tokens": ["<2de>"]}, "adds the token '<2de>'"),
        ("tokenizer_config.json", {"extra_special_tokens": {"tag": "<2de>"}}, "adds the token '<2de>'"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"9": {"content": "COVID"}}}, "'COVID'"),
        ("tokenizer_config.json", {"sp_model_kwargs": {"enable_sampling": True}}, "sp_model_kwargs"),
        ("added_tokens.json", {"<lang>": 293}, "added_tokens.json adds the token '<lang>'"),
    ],
)
def test_settings_that_would_change_the_result_are_refused_by_name(
    file: str, settings: Mapping[str, Any], says: str, checkpoint: Path
) -> None:
    write(checkpoint, file, **settings)
    with pytest.raises(UserError, match=says) as caught:
        read_checkpoint(str(checkpoint))
    assert_sentence(caught.value)


def test_usual_added_tokens_are_read(checkpoint: Path) -> None:
    usual = ["<eop>", "<mask>", "<extra_id_7>", "__fr__", "fra_Latn", ">>fra<<"]
    write(checkpoint, "special_tokens_map.json", additional_special_tokens=usual, eos_token="</s>")
    write(checkpoint, "generation_config.json", eos_token_id=[0])
    read_checkpoint(str(checkpoint))


def test_second_names_of_settings_are_read(checkpoint: Path) -> None:
    wanted = read_checkpoint(str(checkpoint)).model.config
    path = checkpoint / "config.json"
    settings = json.loads(path.read_text())
    settings["hidden_size"] = settings.pop("d_model")
    settings["num_hidden_layers"] = settings.pop("encoder_layers")
    path.write_text(json.dumps(settings))
    assert read_checkpoint(str(checkpoint)).model.config == wanted


def test_a_forced_first_token_begins_every_translation(checkpoint: Path, tmp_path: Path) -> None:
    """As `generate` does it."""
    tokenizer = marian.tokenizer(checkpoint)
    theirs = transformers.MarianMTModel.from_pretrained(checkpoint).eval()
    write(checkpoint, "generation_config.json", forced_bos_token_id=9)
    import_model(str(checkpoint), tmp_path / "imported", 32)
    ours = Translator(load(tmp_path / "imported"))
    entries = {index: entry for entry, index in tokenizer.encoder.items()}
    for text in marian.sentences(marian.GERMAN, 4, seed=5):
        inputs = tokenizer(text, return_tensors="pt")
        limit = 2 * inputs["input_ids"].shape[1] + 10
        options = {"max_new_tokens": limit, "num_beams": 1, "forced_bos_token_id": 9}
        banned = [[tokenizer.pad_token_id], [tokenizer.unk_token_id]]
        wanted = theirs.generate(**inputs, **options, bad_words_ids=banned)[0, 1:].tolist()
        found = [token.piece for token in ours.translate(text).attention.predicted]
        assert found == [entries[index] for index in wanted]


def test_a_code_that_a_model_of_many_languages_always_writes_needs_no_code_before_the_sentence(
    tmp_path: Path,
) -> None:
    """As mBART-50 from many languages to English."""
    tokenizer = families.write_mbart_tokenizer(tmp_path / "theirs")
    model = families.random_mbart(len(tokenizer))
    model.generation_config.forced_bos_token_id = tokenizer.convert_tokens_to_ids("en_XX")
    model.save_pretrained(tmp_path / "theirs")
    import_model(str(tmp_path / "theirs"), tmp_path / "imported", 32)
    ours = Translator(load(tmp_path / "imported"))
    plain = ours.translate("Der kleine Hund läuft.")
    assert plain.attention.predicted[0].piece == ">>en_XX<<"
    assert not any("Begin the sentence" in notice for notice in plain.notices)
    assert ours.translate(">>fr_XX<< Der Hund.").attention.predicted[0].piece == ">>fr_XX<<"


@pytest.mark.parametrize("add", [True, False])
def test_a_space_before_a_text_of_bart_is_what_its_class_believes(add: bool, tmp_path: Path) -> None:
    """The class believes tokenizer_config.json and not tokenizer.json; the generic class the other way."""
    tokenizer = families.write_bart_tokenizer(tmp_path)
    families.random_bart(len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    for name, wanted in (("BartTokenizer", add), ("PreTrainedTokenizerFast", False)):
        write(tmp_path, "tokenizer_config.json", add_prefix_space=add, tokenizer_class=name)
        theirs = getattr(transformers, name).from_pretrained(tmp_path)
        ours = read_checkpoint(str(tmp_path)).source_tokenizer
        assert ours.segmenter.add_space == wanted  # type: ignore[attr-defined]
        assert len(ours.encode("Hund und Katze")) + 1 == len(theirs("Hund und Katze")["input_ids"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda j: j["model"].update(dropout=0.1), "dropout"),
        (lambda j: j["model"].update(byte_fallback=True), "byte_fallback"),
        (lambda j: j["model"].update(end_of_word_suffix="</w>"), "end_of_word_suffix"),
        (lambda j: j["added_tokens"].append({"id": 5, "content": "<2de>"}), "adds the token"),
        (lambda j: j.update(post_processor=None), "does not put </s> after"),
    ],
)
def test_rules_of_tokenizer_json_are_refused_by_name(change: Any, says: str, tmp_path: Path) -> None:
    tokenizer = families.write_nllb_tokenizer(tmp_path)
    families.random_m2m(len(tokenizer)).save_pretrained(tmp_path)
    rules = json.loads((tmp_path / "tokenizer.json").read_text())
    change(rules)
    (tmp_path / "tokenizer.json").write_text(json.dumps(rules))
    write(tmp_path, "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    with pytest.raises(UserError, match=says) as caught:
        read_checkpoint(str(tmp_path))
    assert_sentence(caught.value)
