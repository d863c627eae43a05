"""Model directories that others made, by mistake or on purpose: one sentence for each, no other error."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.errors import UserError
from model.files import MAX_JSON_BYTES, MAX_TEXT_BYTES
from model.network.config import LARGEST, MOST_HEADS, MOST_QUERIES, ModelConfig
from model.network.transformer import Transformer
from model.storage.card import CARD
from model.storage.checkpoint import MAX_PARAMETERS, find_model, list_models, load, save
from model.text.tokenizer import Tokenizer
from model.translator import Translator
from tests.model.helpers import SENTENCES, assert_sentence, tiny_checkpoint, tiny_config, trained

ROOT = Path(__file__).resolve().parents[3]
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
Damage = Callable[[Path], object]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save(tiny_checkpoint(), tmp_path / "tiny", card={"title": "Tiny"})
    return tmp_path / "tiny"


ALLOWED = LARGEST | {"positions": "learned", "n_buckets": 0, "max_distance": 0}
ALLOWED |= {"n_heads": MOST_HEADS // 96, "d_key": MOST_QUERIES // MOST_HEADS}  # in 32 layers of each kind


def config(**changes: Any) -> Damage:
    """Other values beside the shape."""
    return edited(CONFIG, lambda values: values.update(changes))


def shape(**changes: Any) -> Damage:
    """Other values of the shape."""
    return edited(CONFIG, lambda values: values["model"].update(changes))


def rules(**changes: Any) -> Damage:
    """Other rules of the tokenizer."""
    return edited(TOKENIZER, lambda values: values.update(changes))


def bpe(**changes: Any) -> Damage:
    """Another model of the tokenizer."""
    return edited(TOKENIZER, lambda values: values["model"].update(changes))


def edited(name: str, change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(directory: Path) -> None:
        path = directory / name
        values = json.loads(path.read_text(encoding="utf-8"))
        change(values)
        path.write_text(json.dumps(values), encoding="utf-8")

    return damage


def written(name: str, content: str | bytes) -> Damage:
    data = content.encode() if isinstance(content, str) else content
    return lambda directory: (directory / name).write_bytes(data)


def replaced(old: str, new: str) -> Damage:
    def damage(directory: Path) -> None:
        text = (directory / CONFIG).read_text(encoding="utf-8")
        assert old in text
        (directory / CONFIG).write_text(text.replace(old, new, 1), encoding="utf-8")

    return damage


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    def damage(directory: Path) -> None:
        tensors = load_file(directory / WEIGHTS)
        change(tensors)
        save_file(tensors, directory / WEIGHTS)

    return damage


def header(**entries: Any) -> Damage:
    """A weights file whose header says this, with eight bytes behind it."""
    text = json.dumps(entries).encode()
    return written(WEIGHTS, struct.pack("<Q", len(text)) + text + bytes(8))


def instead(name: str, make: Callable[[Path], object]) -> Damage:
    def damage(directory: Path) -> None:
        (directory / name).unlink()
        make(directory / name)

    return damage


def sparse(name: str, size: int) -> Damage:
    """A file of that size which takes no room on the disk."""
    return lambda directory: os.truncate(directory / name, size)


def outside(path: Path) -> None:
    """The very file, but somewhere else, and a link to it."""
    elsewhere = path.parents[1] / "elsewhere"
    shutil.copytree(ROOT / "assets/models/reverse", elsewhere)
    path.symlink_to(elsewhere / path.name)


def first_matrix(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return next(tensor for tensor in tensors.values() if tensor.ndim == 2)


BIAS = "encoder.0.self_attention.project.bias"
DEEP = "[" * 100_000
HANGING = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
DAMAGE: dict[str, tuple[Damage, str]] = {
    # shapes that ask for more than there is
    "a billion layers": (shape(n_encoder_layers=10**9), "n_encoder_layers is 1000000000; give 1 to 32"),
    "ten million wide": (shape(d_model=10**7), "d_model is 10000000; give 1 to 4,096"),
    "a number of 4000 digits": (shape(d_ff=10**4000), "d_ff is 1000.*give 1 to"),
    "no words": (shape(source_vocabulary=0, target_vocabulary=0), "model needs 0 and 0"),
    "fewer than no words": (shape(source_vocabulary=-8, target_vocabulary=-8), "source_vocabulary is -8"),
    "other vocabularies": (shape(source_vocabulary=99, target_vocabulary=99), "model needs 99 and 99"),
    "as large as allowed": (shape(**ALLOWED | {"source_vocabulary": 150, "target_vocabulary": 150}), "needs"),
    "too many heads": (shape(n_heads=64, d_key=1, n_encoder_layers=32), "has 2,560 heads"),
    "wider heads than allowed": (shape(n_heads=64, d_key=256), "queries of 163,840 numbers"),
    "more than is in the file": (shape(d_model=1536, d_ff=4000), "lacks weights: it has .* asks for"),
    # types
    "layers as text": (shape(n_encoder_layers="2"), "n_encoder_layers is '2'; it must be int"),
    "layers as a fraction": (shape(n_encoder_layers=2.0), "n_encoder_layers is 2.0; it must be int"),
    "heads as truth": (shape(n_heads=True), "n_heads is True; it must be int"),
    "truth as a number": (shape(tied=1), "tied is 1; it must be bool"),
    "dropout as null": (shape(dropout=None), "dropout is None; it must be float"),
    "dropout as a whole number": (shape(dropout=-24562), "dropout is -24562; it must be float"),
    "norm as a list": (shape(norm=[[]]), "norm is .*; it must be str"),
    "norm of another name": (shape(norm="x"), "norm is 'x'; it must be one of 'pre', 'post'"),
    "shape as a list": (config(model=[]), "not a Headlight model's config"),
    "format as text": (config(format="1"), "not a Headlight model's config"),
    "format of 4000 digits": (config(format=10**4000), "format 1000.*update"),
    "title as a number": (config(title=7), "title in .* visible text"),
    "title without end": (config(title="x" * 10_000), "title in .* visible text"),
    "title of half a character": (config(title="\ud800"), "title in .* visible text"),
    "title that turns the line": (config(title="a\u202eb"), "title in .* visible text"),
    "language of two lines": (config(source_language="de\nen"), "source_language in .* visible text"),
    "scores as a list": (config(scores=[1]), "scores in .* at most 20 named numbers"),
    "scores without end": (
        config(scores={str(n): n for n in range(1000)}),
        "scores in .* at most 20 named numbers",
    ),
    "score as text": (config(scores={"BLEU": "40"}), "score 'BLEU' in .* not a valid number"),
    "prompts as text": (config(prompts="translate: "), "prompts in .* not short lines of visible text"),
    "prompt as a number": (config(prompts=[7]), "prompts in .* not short lines of visible text"),
    "prompt without end": (config(prompts=["x" * 10_000]), "prompts in .* not short lines of visible text"),
    "prompt of two lines": (config(prompts=["to\nGerman"]), "prompts in .* not short lines of visible text"),
    "score of 4000 digits": (config(scores={"BLEU": 10**4000}), "score 'BLEU' in .* not a valid number"),
    # JSON that readers read differently
    "not a number": (replaced('"dropout": 0.1', '"dropout": NaN'), "NaN is not a valid number"),
    "infinite": (replaced('"dropout": 0.1', '"dropout": -Infinity'), "-Infinity is not a valid number"),
    "infinite without the word": (replaced('"dropout": 0.1', '"dropout": 1e999'), "dropout inf"),
    "a name twice": (replaced('"dropout"', '"d_ff": 4, "dropout"'), "'d_ff' is repeated"),
    "deep": (written(CONFIG, DEEP), "nested too deeply"),
    "deep tokenizer": (written(TOKENIZER, DEEP), "nested too deeply"),
    "deep value": (
        written(CONFIG, '{"format": 1, "model": {"d_model": ' + "[" * 90_000),
        "nested too deeply",
    ),
    "number too long to read": (
        written(CONFIG, '{"format": ' + "1" * 5000 + "}"),
        "not valid JSON .Exceeds the limit",
    ),
    "bytes that are no text": (written(CONFIG, b"\xff\xfe{}"), "is not UTF-8"),
    "card that is no text": (written(CARD, b"\xff\xfe"), "card.json is not UTF-8"),
    "card without a title": (written(CARD, "{}"), "card.json is not the card of a model"),
    "card with other facts": (
        written(CARD, '{"title": "T", "facts": {"a": 1}}'),
        "is not the card of a model",
    ),
    "card with broken text": (written(CARD, '{"title": "", "facts": [["a", "\\ud800"]]}'), "is not the card"),
    "deep card": (written(CARD, DEEP), "nested too deeply"),
    # sizes
    "config without end": (sparse(CONFIG, MAX_JSON_BYTES + 1), "config.json has .* bytes; at most"),
    "tokenizer without end": (sparse(TOKENIZER, MAX_JSON_BYTES + 1), "tokenizer.json has .* bytes; at most"),
    "card without end": (sparse(CARD, MAX_TEXT_BYTES + 1), "card.json has .* bytes; at most"),
    "weights without end": (sparse(WEIGHTS, 1 << 40), "model.safetensors has .* bytes; at most"),
    # what is no file
    "folder for config": (instead(CONFIG, Path.mkdir), "config.json is not a file"),
    "folder for weights": (instead(WEIGHTS, Path.mkdir), "model.safetensors is not a file"),
    "folder for tokenizer": (instead(TOKENIZER, Path.mkdir), "tokenizer.json"),
    "folder for card": (instead(CARD, Path.mkdir), "card.json is not a file"),
    "pipe": (instead(CONFIG, os.mkfifo), "config.json is not a file"),
    "endless device": (instead(WEIGHTS, lambda path: path.symlink_to("/dev/zero")), "is not a file"),
    "link to nothing": (instead(WEIGHTS, lambda path: path.symlink_to("gone")), "safetensors is missing"),
    "link to itself": (instead(CONFIG, lambda path: path.symlink_to(path.name)), "cannot be read"),
    "link out": (instead(CONFIG, outside), "is a link to a file in another folder"),
    "card that links out": (instead(CARD, outside), "is a link to a file in another folder"),
    # weights
    "weights of no numbers": (
        weights(lambda w: first_matrix(w).fill_(torch.nan)),
        "weights that are infinite or not numbers",
    ),
    "endless weights": (
        weights(lambda w: first_matrix(w).fill_(torch.inf)),
        "weights that are infinite or not numbers",
    ),
    "integers": (
        weights(lambda w: w.update({BIAS: w[BIAS].to(torch.int64)})),
        f"'{BIAS}' in .* is I64; only",
    ),
    "a strange name": (weights(lambda w: w.update({"a\n" + "b" * 999: w.pop(BIAS)})), "lacks weights"),
    "one too many": (weights(lambda w: w.update({"a\n" + "b" * 999: torch.zeros(1)})), r"unknown.*'a\\nbbb"),
    "far too many": (weights(lambda w: w.update(more=torch.zeros(10**6))), "has unknown weights: it has"),
    "header too long": (written(WEIGHTS, struct.pack("<Q", 1 << 40) + b"{}"), "header is too long"),
    "header of no JSON": (written(WEIGHTS, struct.pack("<Q", 4) + b"\xff" * 12), "truncated or broken"),
    "deep header": (written(WEIGHTS, struct.pack("<Q", 99_999) + b"[" * 99_999), "truncated or broken"),
    "a header that promises": (
        header(a={"dtype": "F16", "shape": [2**40], "data_offsets": [0, 2**41]}),
        "truncated or broken",
    ),
    "a header that overflows": (
        header(a={"dtype": "F16", "shape": [2**40, 2**40], "data_offsets": [0, 8]}),
        "truncated or broken",
    ),
    "a header with nothing in it": (
        header(a={"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}),
        "lacks weights",
    ),
    # tokenizers
    "a pattern that hangs": (rules(pre_tokenizer=HANGING), "not a tokenizer file of Headlight"),
    "a setting that aborts": (bpe(continuing_subword_prefix="####"), "not a tokenizer file of Headlight"),
    "normaliser": (rules(normalizer={"type": "Lowercase"}), "not a tokenizer file of Headlight"),
    "word pieces": (bpe(type="WordPiece"), "not a tokenizer file of Headlight"),
    "other specials": (rules(added_tokens=[]), "not a tokenizer file of Headlight"),
    "tokenizer of nothing": (bpe(vocab={}, merges=[]), "must begin with the entries"),
    "entries as a list": (bpe(vocab=["<pad>"]), "must begin with the entries"),
    "an id far off": (
        edited(TOKENIZER, lambda values: values["model"]["vocab"].update(zzz=2**31)),
        "missing or repeated ids",
    ),
    "an id twice": (
        edited(TOKENIZER, lambda values: values["model"]["vocab"].update(zzz=9)),
        "missing or repeated ids",
    ),
    "an id of no kind": (
        edited(TOKENIZER, lambda values: values["model"]["vocab"].update(zzz=None)),
        "missing or repeated ids",
    ),
    "merges of nothing": (bpe(merges=[["nothing", "known"]]), "not a tokenizer file"),
    "merges as a number": (bpe(merges=7), "not a tokenizer file"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_broken_directory_is_told_in_one_sentence(damage: Damage, message: str, directory: Path) -> None:
    damage(directory)
    with pytest.raises(UserError, match=message) as caught:
        load(directory)
    assert_sentence(caught.value)


def test_row_times_its_scales_is_not_made_a_square(directory: Path) -> None:
    """[N] in 8 bits times [N, 1] has N * N numbers, in a file of 5 N bytes."""
    rows = 100_000

    def square(tensors: dict[str, torch.Tensor]) -> None:
        tensors[BIAS] = torch.ones(rows, dtype=torch.int8)
        tensors[BIAS + ".scales"] = torch.ones(rows, 1)

    shape(d_model=120, d_ff=200)(directory)  # so that the sizes fit
    save(tiny_checkpoint(d_model=120, d_ff=200), directory)
    weights(square)(directory)
    with pytest.raises(UserError, match=f"{BIAS} in .* has shape"):
        load(directory)


# Sizes


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "post"},
        {"separate_output": True},
        {"tied": False, "target_vocabulary": 17},
        {"tied": False, "separate_output": True},
        {"d_model": 24, "d_ff": 7, "n_heads": 4, "n_encoder_layers": 5, "n_decoder_layers": 1},
    ],
)
def test_number_of_weights_is_known_without_the_model(changes: dict[str, Any]) -> None:
    model = Transformer(tiny_config(**changes))
    assert model.config.n_parameters == sum(parameter.numel() for parameter in model.parameters())


def test_largest_config_is_more_than_is_read_and_the_papers_fits() -> None:
    assert ModelConfig(**ALLOWED).n_parameters > MAX_PARAMETERS
    words = {"source_vocabulary": 37_000, "target_vocabulary": 37_000, "d_model": 1024, "d_ff": 4096}
    big = ModelConfig(**words, n_heads=16, n_encoder_layers=6, n_decoder_layers=6)
    assert 200_000_000 < big.n_parameters <= MAX_PARAMETERS


READ = """
import resource, sys
from pathlib import Path
from model.storage.checkpoint import load
from model.errors import UserError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load(Path(sys.argv[1]))
except UserError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_config_that_asks_for_much_takes_no_memory(directory: Path) -> None:
    """150 million weights would be 600 MB; the file has some thousands."""
    shape(d_model=1536, d_ff=8192, n_decoder_layers=3)(directory)
    command = [sys.executable, "-c", READ, str(directory)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    sentence, kibibytes = run.stdout.splitlines()
    assert "lacks weights" in sentence
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(kibibytes) * unit < 50 * 2**20


# What the program must not be asked to do


def test_setting_that_aborts_does_abort_the_library(directory: Path) -> None:
    """Shows that the refusal is needed: the library ends in a panic, which is no Exception."""
    DAMAGE["a setting that aborts"][0](directory)
    text = (directory / TOKENIZER).read_text(encoding="utf-8")
    program = (
        "import sys, tokenizers\ntry: tokenizers.Tokenizer.from_str(sys.stdin.read())\nexcept Exception: pass"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], input=text.encode(), capture_output=True, check=False
    )
    assert run.returncode != 0
    assert b"PanicException" in run.stderr


def test_names_are_looked_up_in_the_list(directory: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    shutil.copytree(directory, models / "good")
    assert find_model("good", models) == models / "good"
    for name in ("../tiny", str(models / "good"), "other", "good/../good", ".", ""):
        assert find_model(name, models) == Path(name)


def test_list_holds_broken_models_and_no_other_folders(directory: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        shutil.copytree(directory, tmp_path / "models" / name)
    (tmp_path / "models" / "a" / CONFIG).unlink()
    (tmp_path / "models" / "b" / WEIGHTS).unlink()
    instead(CONFIG, lambda path: path.symlink_to("gone"))(tmp_path / "models" / "c")
    (tmp_path / "models" / "d" / CONFIG).unlink()
    (tmp_path / "models" / "d" / WEIGHTS).unlink()
    (tmp_path / "models" / "file").write_text("")
    assert [path.name for path in list_models(tmp_path / "models")] == ["a", "b", "c"]


def test_directory_may_be_a_link_itself(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(directory)
    assert load(tmp_path / "link").model.config == load(directory).model.config


@pytest.mark.parametrize("kind", ["bpe", "word", "character"])
def test_rules_of_every_kind_are_known(kind: Any, tmp_path: Path) -> None:
    trained(kind).save(tmp_path / TOKENIZER)
    loaded = Tokenizer.load(tmp_path / TOKENIZER)
    assert [loaded.encode(text) for text in SENTENCES] == [trained(kind).encode(text) for text in SENTENCES]


def test_whole_number_is_a_score_too(directory: Path) -> None:
    config(scores={"BLEU": 40})(directory)
    assert Translator.load(directory).title.endswith("BLEU 40.0")


@pytest.mark.parametrize("path", list_models(ROOT / "assets" / "models"), ids=lambda path: path.name)
def test_shipped_models_pass(path: Path) -> None:
    assert re.fullmatch(r"\w+", Translator.load(path).checkpoint.info.source_language)
