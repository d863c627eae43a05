"""Imported models of M2M100, NLLB and mBART-50 compute what transformers computes."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from model.errors import UserError
from model.importing.importer import import_model, read_checkpoint
from model.storage.checkpoint import load
from model.text.tokenizer import EOS_ID
from model.translator import Translator
from tests.model.importing import families
from tests.model.importing.checkpoints import ENGLISH, GERMAN, sentences
from tests.numerics import assert_float32, parts, scored

SHAPES: dict[str, dict[str, Any]] = {
    "NLLB": {},
    "M2M100": {},
    "GELU, embeddings not scaled": {"scale_embedding": False, "activation_function": "gelu"},
    "mBART-50": {"scale_embedding": True},
    "mBART-50, embeddings not scaled": {"scale_embedding": False, "activation_function": "relu"},
    "mBART-50, two heads": {"encoder_attention_heads": 2, "decoder_attention_heads": 2},
    "SiLU, two heads": {
        "activation_function": "swish",
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    },
}


def slow(*values: int) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


QUICK = ("NLLB", "mBART-50")


class Pair(NamedTuple):
    """The same model twice, with the code of English in both."""

    theirs: Any
    ours: Translator
    tokenizer: Any
    directory: Path
    english: int
    code: str


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in SHAPES],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    directory, settings = tmp_path_factory.mktemp("checkpoint"), SHAPES[request.param]
    if request.param.startswith("mBART"):
        tokenizer = families.write_mbart_tokenizer(directory)
        theirs, code = families.random_mbart(len(tokenizer), **settings), "en_XX"
    elif request.param in ("NLLB", "SiLU, two heads"):
        tokenizer = families.write_nllb_tokenizer(directory)
        theirs, code = families.random_m2m(len(tokenizer) + 2, **settings), "eng_Latn"
    else:
        tokenizer = families.write_m2m_tokenizer(directory)
        rows = len(tokenizer.encoder) + len(tokenizer.lang_code_to_id) + 8
        theirs, code = families.random_m2m(rows + 2, **settings), "en"
    theirs.save_pretrained(directory)
    ours = Translator(read_checkpoint(str(directory)), use_kernels=False)
    english = tokenizer.get_lang_id("en") if code == "en" else tokenizer.convert_tokens_to_ids(code)
    return Pair(theirs, ours, tokenizer, directory, english, f">>{code}<<")


def theirs_of(pair: Pair, ids: list[int]) -> list[int]:
    """Our ids as theirs."""
    order = read_order(pair)
    return [order[index] for index in ids]


def read_order(pair: Pair) -> list[int]:
    """Their id of each of ours: <pad> <unk>, the start token, </s>, and the others in their order."""
    special = [1, 3, 2]
    rest = [index for index in range(pair.theirs.config.vocab_size) if index not in special]
    return [1, 3, 2, 2, *rest]


def german(count: int, seed: int) -> list[str]:
    """Sentences without …, which becomes three points: a unigram model has two cuts of equal score for it."""
    return [text for text in sentences(GERMAN, count + 20, seed=seed) if "…" not in text][:count]


def test_tokens_are_equal(pair: Pair) -> None:
    source = pair.ours.checkpoint.source_tokenizer
    for text in german(40, seed=1):
        assert theirs_of(pair, [*source.encode(text), EOS_ID]) == pair.tokenizer(text)["input_ids"]
    codes = source.language_codes
    assert pair.code in codes
    assert source.pieces(source.encode(f"{codes[0]} {pair.code} Hund"))[0] == codes[0]
    assert source.first_ids(f"{codes[0]} {pair.code} Hund") == source.first_ids(f"{pair.code} Hund")
    assert source.first_ids(">>xyz<< Hund") == source.first_ids("Hund") == []


def test_attention_and_log_probabilities_are_equal(pair: Pair) -> None:
    for text, target in zip(sentences(GERMAN, 4, seed=3), sentences(ENGLISH, 4, seed=4), strict=True):
        found = pair.ours.score(f"{pair.code} {text}", target)
        assert found.attention.predicted[0].piece == pair.code
        ids = theirs_of(pair, list(found.ids))
        assert ids[0] == pair.english
        with torch.no_grad():
            theirs = pair.theirs(
                **pair.tokenizer(text, return_tensors="pt"),
                decoder_input_ids=torch.tensor([[2, *ids[:-1]]]),
                output_attentions=True,
            )
        chosen = theirs.logits[0].log_softmax(-1)[range(len(ids)), ids]
        kinds = theirs.encoder_attentions, theirs.decoder_attentions, theirs.cross_attentions
        exact = partial(scored, pair.ours, f"{pair.code} {text}", target)
        for one in ((chosen, *(torch.stack(kind)[:, 0] for kind in kinds)), parts(found)):
            assert_float32(one, exact, pair.ours.checkpoint.model)


@pytest.mark.parametrize(("beam", "count"), [(4, 6), slow(1, 40), slow(4, 40)])
def test_translations_are_equal(pair: Pair, beam: int, count: int) -> None:
    """With no length penalty, where both conventions agree; ours never predicts <pad> and <unk>."""
    options = {} if beam == 1 else {"num_beams": beam, "length_penalty": 0.0}
    for text in german(count, seed=5):
        inputs = pair.tokenizer(text, return_tensors="pt")
        generated = pair.theirs.generate(
            **inputs,
            forced_bos_token_id=pair.english,
            max_new_tokens=2 * inputs["input_ids"].shape[1] + 10,
            bad_words_ids=[[1], [3]],
            do_sample=False,
            **options,
        )[0, 1:]
        found = pair.ours.translate(f"{pair.code} {text}", beam_size=beam, length_penalty=0.0)
        assert theirs_of(pair, list(found.ids)) == generated.tolist()
        assert found.source.language_prefix == f"{pair.code} "
        assert found.source.sentence == text
        assert pair.code not in found.text


def test_kernels_give_the_same(pair: Pair) -> None:
    text, compiled = f"{pair.code} Der kleine Hund läuft.", Translator(pair.ours.checkpoint)
    found = compiled.score(text, "The little dog runs.")
    exact = partial(scored, pair.ours, text, "The little dog runs.")
    assert_float32(parts(found), exact, pair.ours.checkpoint.model)
    assert compiled.translate(text, beam_size=4).ids == pair.ours.translate(text, beam_size=4).ids


def test_batches_give_the_same(pair: Pair) -> None:
    other = next(code for code in pair.ours.checkpoint.source_tokenizer.language_codes if code != pair.code)
    texts = [f"{code} {text}" for text in sentences(GERMAN, 4, seed=6) for code in (pair.code, other)]
    wanted = [pair.ours.translate(text) for text in texts]
    assert pair.ours.translate_batch(texts) == [one.text for one in wanted]
    assert {one.attention.predicted[0].piece for one in wanted} == {pair.code, other}


def test_the_directory_opens_without_the_checkpoint(pair: Pair, tmp_path: Path) -> None:
    imported = import_model(str(pair.directory), tmp_path / "imported", 32)
    opened = load(tmp_path / "imported")
    assert opened.source_tokenizer.to_json() == pair.ours.checkpoint.source_tokenizer.to_json()
    assert opened.model.config == imported.model.config
    translator = Translator(opened, use_kernels=False)
    text = f"{pair.code} Der kleine Hund läuft."
    assert translator.translate(text).ids == pair.ours.translate(text).ids
    without = translator.translate("Der kleine Hund läuft.")
    said = "Begin the sentence" in " ".join(without.notices)
    assert said != (without.attention.predicted[0].piece in opened.info.target_languages)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("tokenizer.json", lambda j: j["model"].update(type="WordPiece")),
        ("tokenizer.json", lambda j: j["model"].update(merges=[["a"]])),
        ("tokenizer.json", lambda j: j["model"]["vocab"].update(x=10**9)),
        ("tokenizer.json", lambda j: j["model"]["vocab"].update(x="y")),
        ("tokenizer.json", lambda j: j.update(normalizer={"type": "Replace", "pattern": {"Regex": "(a+)+"}})),
        ("tokenizer.json", lambda j: j["normalizer"]["normalizers"][0].update(precompiled_charsmap="!")),
        ("tokenizer.json", lambda j: j.update(pre_tokenizer={"type": "ByteLevel"})),
        ("tokenizer.json", lambda j: j.update(pre_tokenizer=[])),
        ("tokenizer.json", lambda j: j.update(added_tokens=[{"id": -1, "content": "x"}])),
        ("tokenizer.json", lambda j: j.update(added_tokens=[])),
        ("tokenizer.json", lambda j: j.update(added_tokens=7)),
        ("config.json", lambda j: j.update(vocab_size=10)),
        ("config.json", lambda j: j.update(vocab_size=10**9)),
        ("config.json", lambda j: j.update(pad_token_id=0)),
        ("config.json", lambda j: j.update(eos_token_id=[2])),
        ("generation_config.json", lambda j: j.update(decoder_start_token_id=-1)),
        ("config.json", lambda j: j.update(tie_word_embeddings=False)),
        ("config.json", lambda j: j.update(d_model=2, encoder_attention_heads=1)),
        ("generation_config.json", lambda j: j.update(bad_words_ids=[["a"]])),
    ],
)
def test_hostile_directories_are_refused(name: str, change: Any, tmp_path: Path) -> None:
    tokenizer = families.write_nllb_tokenizer(tmp_path)
    families.random_m2m(len(tokenizer), encoder_layers=1, decoder_layers=1).save_pretrained(tmp_path)
    settings = json.loads((tmp_path / name).read_text())
    change(settings)
    (tmp_path / name).write_text(json.dumps(settings))
    with pytest.raises(UserError):
        read_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", {"max_position_embeddings": 100}, "has 100 positions; Headlight needs"),
        ("config.json", {"max_position_embeddings": 400}, "embed_positions.weight"),
        ("generation_config.json", {"decoder_start_token_id": 303}, "decoder_start_token_id"),
        ("tokenizer_config.json", {"tokenizer_class": "MBartTokenizer"}, "without a target language"),
    ],
)
def test_other_mbart_models_are_refused(
    name: str, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    tokenizer = families.write_mbart_tokenizer(tmp_path)
    families.random_mbart(len(tokenizer), encoder_layers=1, decoder_layers=1).save_pretrained(tmp_path)
    settings = json.loads((tmp_path / name).read_text())
    (tmp_path / name).write_text(json.dumps(settings | change))
    with pytest.raises(UserError, match=message):
        read_checkpoint(str(tmp_path))


def test_a_checkpoint_of_mbart_without_tokenizer_json_has_the_same_tokens(pair: Pair, tmp_path: Path) -> None:
    if pair.theirs.config.model_type != "mbart":
        return
    for file in pair.directory.iterdir():
        if file.name != "tokenizer.json":
            shutil.copy(file, tmp_path)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(families.spm("unigram"))
    other = read_checkpoint(str(tmp_path)).source_tokenizer
    assert other.to_json() == pair.ours.checkpoint.source_tokenizer.to_json()
