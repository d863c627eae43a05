"""Broken, hostile and other checkpoints are refused in one sentence, and nothing in them is run."""

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from model.errors import UserError
from model.importing.importer import Bits, import_model
from tests.model.helpers import assert_sentence

Change = Callable[[Path], object]
WEIGHTS, BIN = "model.safetensors", "pytorch_model.bin"


def setting(**values: Any) -> Change:
    def change(directory: Path) -> None:
        path = directory / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def entries(edit: Callable[[dict[str, Any]], object]) -> Change:
    def change(directory: Path) -> None:
        path = directory / "vocab.json"
        ids = json.loads(path.read_text())
        edit(ids)
        path.write_text(json.dumps(ids))

    return change


def weights(edit: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    def change(directory: Path) -> None:
        tensors = load_file(directory / WEIGHTS)
        edit(tensors)
        save_file(tensors, directory / WEIGHTS)

    return change


def missing(name: str) -> Change:
    return lambda directory: (directory / name).unlink()


def text(name: str, content: str) -> Change:
    return lambda directory: (directory / name).write_text(content)


def pickled(value: object, **options: Any) -> Change:
    def change(directory: Path) -> None:
        (directory / WEIGHTS).unlink()
        torch.save(value, directory / BIN, **options)

    return change


def unpickled(edit: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    def change(directory: Path) -> None:
        tensors = load_file(directory / WEIGHTS)
        edit(tensors)
        pickled(tensors)(directory)

    return change


def untied(embedding: torch.Tensor) -> Change:
    """An output matrix of its own, and this embedding of the decoder."""

    def change(directory: Path) -> None:
        setting(tie_word_embeddings=False)(directory)
        names = ("lm_head.weight", "model.decoder.embed_tokens.weight")
        unpickled(lambda t: t.update(zip(names, (t["model.shared.weight"].clone(), embedding), strict=True)))(
            directory
        )

    return change


def rename(entry: str) -> Callable[[dict[str, Any]], object]:
    """Gives the last entry of a vocabulary another text."""
    return lambda ids: ids.update({entry: ids.pop(max(ids, key=ids.__getitem__))})


def refused(directory: Path, output: Path, bits: Bits = 8) -> str:
    with pytest.raises(UserError) as caught:
        import_model(str(directory), output, bits)
    assert_sentence(caught.value)
    assert not output.exists()
    assert not list(output.parent.glob(".import-*"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (setting(model_type="bert"), "model_type"),
        (setting(normalize_embedding=True), "normalize_embedding"),
        (setting(static_position_embeddings=False), "static_position_embeddings"),
        (setting(is_encoder_decoder=False), "is_encoder_decoder"),
        (setting(quantization_config={"bits": 4}), "quantization_config"),
        (setting(activation_function="tanh"), "activation_function"),
        (setting(encoder_attention_heads=2), "attention_heads"),
        (setting(decoder_ffn_dim=96), "ffn_dim"),
    ],
)
def test_another_architecture_is_refused_by_name(
    change: Change, says: str, checkpoint: Path, tmp_path: Path
) -> None:
    change(checkpoint)
    assert says in refused(checkpoint, tmp_path / "imported")


@pytest.mark.parametrize(
    "change",
    [
        missing("config.json"),
        missing("vocab.json"),
        missing("source.spm"),
        missing("target.spm"),
        missing(WEIGHTS),
        text("config.json", "[]"),
        text("config.json", "{"),
        text("config.json", "[" * 100_000),
        text("tokenizer_config.json", "7"),
        text("tokenizer_config.json", '{"separate_vocabs": true}'),
        text("vocab.json", "[1, 2]"),
        text("README.md", "x" * (2 << 20)),
        text("source.spm", "not a protocol buffer"),
        setting(d_model="32"),
        setting(d_model=1 << 40),
        setting(d_model=31),
        setting(encoder_layers=10**9),
        setting(vocab_size=10**12),
        setting(eos_token_id=[0]),
        setting(eos_token_id=7),
        setting(pad_token_id=-1),
        text("generation_config.json", '{"decoder_start_token_id": 1000000000}'),
        text("generation_config.json", '{"decoder_start_token_id": [1]}'),
        setting(scale_embedding="yes"),
        setting(encoder_layers=3),
        setting(encoder_layers=1),
        setting(vocab_size=100),
        lambda d: (d / "source.spm").write_bytes((d / "source.spm").read_bytes() + b"\x12\x02\x1a\x00"),
        lambda d: (d / "source.spm").write_bytes((d / "source.spm").read_bytes() + b"\x08\x05"),
        entries(rename("")),
        entries(rename("\ud800x")),
        entries(lambda ids: ids.pop("<unk>")),
        entries(lambda ids: ids.update({"<unk>": 7})),
        entries(lambda ids: ids.update({"x": -5})),
        entries(lambda ids: ids.update({"x": "y"})),
        entries(lambda ids: ids.update({f"x{i}": 1000 + i for i in range(60_000)})),
        weights(lambda t: t.pop("model.encoder.layers.0.fc1.weight")),
        weights(lambda t: t.update({"model.encoder.layernorm_embedding.weight": torch.ones(32)})),
        weights(lambda t: t.update({"model.decoder.layers.0.fc2.bias": torch.ones(31)})),
        weights(lambda t: t.update({"model.shared.weight": t["model.shared.weight"].to(torch.int8)})),
        weights(lambda t: t.update({"final_logits_bias": t["final_logits_bias"] / 0})),
        weights(lambda t: t.update({"model.encoder.embed_positions.weight": torch.randn(512, 32)})),
        lambda d: (d / WEIGHTS).write_bytes((d / WEIGHTS).read_bytes()[:-100]),
        lambda d: (d / WEIGHTS).write_bytes(b"\xff" * 8 + b"{}"),
        untied(torch.ones(1, dtype=torch.half).expand(10**6, 10**6)),
        untied(torch.empty(3, device="meta")),
        unpickled(lambda t: t.update({"final_logits_bias": t["final_logits_bias"].to("meta")})),
        pickled([torch.ones(3)]),
        pickled({"model.shared.weight": "text"}),
        pickled({7: torch.ones(3)}),
        pickled({"model.shared.weight": torch.ones(1).expand(10**6, 10**6)}),
        pickled(
            {"model.shared.weight": torch.ones(1).expand(10**6, 10**6)}, _use_new_zipfile_serialization=False
        ),
    ],
)
def test_broken_checkpoints_are_refused_in_one_sentence(
    change: Change, checkpoint: Path, tmp_path: Path
) -> None:
    change(checkpoint)
    refused(checkpoint, tmp_path / "imported")


@pytest.mark.parametrize(
    ("name", "fitting", "too_small"),
    [
        ("model.encoder.layers.0.fc1.weight", (8, 32), (16,)),
        ("model.encoder.layers.0.fc1.bias", (32,), (8, 16)),
        ("final_logits_bias", (32,), (8, 16)),
    ],
)
def test_numbers_that_do_not_fit_16_bits_ask_for_32(
    name: str, fitting: tuple[Bits, ...], too_small: tuple[Bits, ...], checkpoint: Path, tmp_path: Path
) -> None:
    weights(lambda t: t[name].view(-1)[:1].fill_(7e4))(checkpoint)
    for bits in too_small:
        output = tmp_path / "new" / str(bits)
        assert "give --bits 32" in refused(checkpoint, output, bits)
        assert not output.parent.exists()
    for bits in fitting:
        import_model(str(checkpoint), tmp_path / str(bits), bits)


def test_an_output_that_cannot_be_written_is_one_sentence(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file" / "x", Path("/proc/nope/x")):
        assert "cannot be written" in refused(checkpoint, output)


def test_a_link_to_nothing_is_not_overwritten(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert "exists already" in refused(checkpoint, tmp_path / "link")
    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk_is_one_sentence(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("model.storage.checkpoint.save_file", full)
    assert "No space left" in refused(checkpoint, tmp_path / "imported")


class Payload:
    """Runs a command wherever it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("how", ["zip", "legacy", "plain"])
def test_pickled_code_is_not_run(how: str, checkpoint: Path, tmp_path: Path) -> None:
    proof, value = tmp_path / "run", {"model.shared.weight": Payload(tmp_path / "run")}
    (checkpoint / WEIGHTS).unlink()
    if how == "plain":
        (checkpoint / BIN).write_bytes(pickle.dumps(value))
    else:
        torch.save(value, checkpoint / BIN, _use_new_zipfile_serialization=how == "zip")
    assert "nothing of it was run" in refused(checkpoint, tmp_path / "imported")
    assert not proof.exists()


def test_code_in_the_folder_is_not_run(checkpoint: Path, tmp_path: Path) -> None:
    for name in ("modeling.py", "__init__.py", "tokenization_marian.py", "sitecustomize.py"):
        (checkpoint / name).write_text(f"open({str(tmp_path / 'run')!r}, 'w')")
    setting(auto_map={"AutoModel": "modeling.Model"}, trust_remote_code=True)(checkpoint)
    import_model(str(checkpoint), tmp_path / "imported")
    assert not (tmp_path / "run").exists()


def test_compressed_archives_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    """A few kilobytes of them could become many gigabytes."""
    pickled({"model.shared.weight": torch.zeros(1000, 1000)})(checkpoint)
    with zipfile.ZipFile(checkpoint / BIN) as stored:
        parts = {entry.filename: stored.read(entry) for entry in stored.infolist()}
    with zipfile.ZipFile(checkpoint / BIN, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in parts.items():
            packed.writestr(name, data)
    assert "compressed" in refused(checkpoint, tmp_path / "imported")


def test_links_to_other_folders_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text((checkpoint / "vocab.json").read_text())
    (checkpoint / "vocab.json").unlink()
    (checkpoint / "vocab.json").symlink_to(tmp_path / "secret.json")
    refused(checkpoint, tmp_path / "imported")


@pytest.mark.parametrize("name", ["no such folder", "../../no-such-folder", "a/b/c", "https://example.org/a"])
def test_names_of_nothing_are_refused_without_a_network(name: str, tmp_path: Path) -> None:
    assert "There is no directory" in refused(Path(name), tmp_path / "imported")
