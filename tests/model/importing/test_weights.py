"""Weights in several files and unused rows are read; a folder without weights says what it holds."""

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file
from transformers import MarianMTModel

from model.errors import UserError
from model.importing.families import FAMILIES
from model.importing.files import weights
from model.importing.importer import import_model, read_checkpoint
from model.storage.checkpoint import Checkpoint
from model.translator import Translator
from tests.model.helpers import assert_sentence
from tests.model.importing import checkpoints as marian
from tests.model.importing import families

WEIGHTS, BIN, INDEX = "model.safetensors", "pytorch_model.bin", ".index.json"


def assert_equal(one: Checkpoint, two: Checkpoint) -> None:
    for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True):
        assert torch.equal(a, b)


def shard(directory: Path) -> None:
    """Write the weights in several files of safetensors."""
    model = MarianMTModel.from_pretrained(directory)
    (directory / WEIGHTS).unlink()
    model.save_pretrained(directory, max_shard_size="20kB")
    assert len(list(directory.glob("model-*.safetensors"))) > 2


def test_several_files_of_safetensors(original: Path, checkpoint: Path) -> None:
    shard(checkpoint)
    assert_equal(read_checkpoint(str(checkpoint)), read_checkpoint(str(original)))


def test_several_pickles(original: Path, checkpoint: Path) -> None:
    tensors = load_file(checkpoint / WEIGHTS)
    (checkpoint / WEIGHTS).unlink()
    places = {}
    for number, part in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2]), start=1):
        name = f"pytorch_model-0000{number}-of-00002.bin"
        torch.save({each: tensors[each] for each in part}, checkpoint / name)
        places |= dict.fromkeys(part, name)
    (checkpoint / (BIN + INDEX)).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    assert_equal(read_checkpoint(str(checkpoint)), read_checkpoint(str(original)))


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.update(weight_map=[]),
        lambda index: index.update(weight_map={}),
        lambda index: index.pop("weight_map"),
        lambda index: index["weight_map"].update(x="../model-1.safetensors"),
        lambda index: index["weight_map"].update(x="/etc/model-1.safetensors"),
        lambda index: index["weight_map"].update(x="vocab.json"),
        lambda index: index["weight_map"].update(x="model-9.safetensors"),
        lambda index: index["weight_map"].update(x=7),
    ],
)
def test_a_broken_index_is_refused(change: Any, checkpoint: Path) -> None:
    shard(checkpoint)
    path = checkpoint / (WEIGHTS + INDEX)
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))
    with pytest.raises(UserError) as caught:
        read_checkpoint(str(checkpoint))
    assert_sentence(caught.value)


def test_a_missing_part_is_named(checkpoint: Path) -> None:
    shard(checkpoint)
    part = sorted(checkpoint.glob("model-*.safetensors"))[1]
    part.unlink()
    with pytest.raises(UserError, match=part.name):
        read_checkpoint(str(checkpoint))


def test_all_parts_together_have_at_most_the_bytes_of_one_file(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (checkpoint / WEIGHTS).stat().st_size
    shard(checkpoint)
    monkeypatch.setattr(weights, "MAX_WEIGHTS_BYTES", size // 2)
    with pytest.raises(UserError, match="at most"):
        read_checkpoint(str(checkpoint))


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_unused_rows_of_an_embedding(rows: int, checkpoint: Path, tmp_path: Path) -> None:
    """As after resize_token_embeddings; the numbers of both are the same."""
    model = MarianMTModel.from_pretrained(checkpoint, attn_implementation="eager").eval()
    model.resize_token_embeddings(model.config.vocab_size + rows)
    model.save_pretrained(checkpoint)
    import_model(str(checkpoint), tmp_path / "imported", 32)
    ours = Translator.load(tmp_path / "imported")
    tokenizer = marian.tokenizer(checkpoint)
    text, target = "Der kleine Hund läuft.", "The little dog runs."
    ids = [*tokenizer(text_target=target)["input_ids"]]
    start = model.config.decoder_start_token_id
    with torch.no_grad():
        logits = model(
            **tokenizer(text, return_tensors="pt"), decoder_input_ids=torch.tensor([[start, *ids[:-1]]])
        ).logits
    logits[..., model.config.pad_token_id] = -torch.inf  # the conversion added it
    wanted = logits[0].log_softmax(-1)[range(len(ids)), ids]
    found = torch.tensor(ours.score(text, target).log_probabilities)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("adapter_config.json", "adapter alone"),
        ("tf_model.h5", "TensorFlow"),
        ("flax_model.msgpack", "Flax"),
        ("model.gguf", "llama.cpp"),
        ("encoder_model.onnx", "ONNX"),
        ("model.bin", "CTranslate2"),
        ("model.npz", "Marian"),
        ("checkpoint-500", "such as checkpoint-500"),
        ("nothing.txt", "neither model.safetensors nor"),
    ],
)
def test_a_folder_without_weights_says_what_it_holds(name: str, says: str, checkpoint: Path) -> None:
    (checkpoint / WEIGHTS).unlink()
    (checkpoint / name).write_text("x")
    with pytest.raises(UserError, match=says) as caught:
        read_checkpoint(str(checkpoint))
    assert_sentence(caught.value)


def test_a_file_that_git_has_not_fetched_is_named(checkpoint: Path) -> None:
    (checkpoint / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(UserError, match="git lfs pull"):
        read_checkpoint(str(checkpoint))


def test_a_byte_order_mark_in_json_is_dropped(original: Path, checkpoint: Path) -> None:
    for name in ("config.json", "vocab.json", "tokenizer_config.json"):
        (checkpoint / name).write_bytes(b"\xef\xbb\xbf" + (checkpoint / name).read_bytes())
    assert_equal(read_checkpoint(str(checkpoint)), read_checkpoint(str(original)))


@pytest.mark.parametrize("family", ["t5", "mt5"])
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_pieces_of_bytes_keep_the_ids_of_sentencepiece(family: str, kind: str, tmp_path: Path) -> None:
    """The file of mT5 has <pad> </s> <unk>, then 256 bytes, then the words."""
    lines = (*marian.sentences(marian.GERMAN, 800), *marian.sentences(marian.ENGLISH, 800))
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    data = marian.trained(lines, kind, "nmt_nfkc", 300, bytes_=True, **ids)
    (tmp_path / "spiece.model").write_bytes(data)
    reference = sentencepiece.SentencePieceProcessor(model_proto=data)
    make = families.random_t5 if family == "t5" else families.random_mt5
    make(reference.vocab_size() + 12).save_pretrained(tmp_path)
    ours = read_checkpoint(str(tmp_path)).source_tokenizer
    rows = FAMILIES[family].read_plan(tmp_path).sides.source.order.tolist()
    for text in (*marian.sentences(marian.GERMAN, 20, seed=3), "日本 ☃ naïve", "\t\x7f"):
        wanted = reference.encode(text)
        assert [rows[index] for index in ours.encode(text)] == wanted
        assert ours.decode(ours.encode(text)) == reference.decode(wanted).strip()
