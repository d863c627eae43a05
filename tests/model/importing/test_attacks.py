"""Files made to take memory or time are refused in under a second of work and in one sentence."""

import io
import json
import pickle
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard

from model.errors import UserError
from model.importing.card import import_card, model_info
from model.importing.files import pickles
from model.importing.files.pickles import read_pickle
from model.importing.files.weights import BIN, SAFETENSORS, read_weights
from model.importing.importer import read_checkpoint
from model.network.config import ModelConfig
from model.storage.card import readme
from tests.model.helpers import assert_sentence
from tests.model.importing import checkpoints as marian

# What reading a hostile file may add to the memory of the process and take of its processor. The readers need
# about a second at most. The limit only tells them from readers without limits, which some of these files
# keep busy for a minute.
MEGABYTES, SECONDS = 150, 5.0


class Memory:
    """Asks for three gigabytes when it is unpickled, by a name that PyTorch allows."""

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return bytearray, (3_000_000_000,)


def saved(value: object) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def bytearray_of_3_gb(directory: Path) -> None:
    (directory / BIN).write_bytes(saved({"model.shared.weight": Memory()}))


def plain_bytearray_of_3_gb(directory: Path) -> None:
    (directory / BIN).write_bytes(pickle.dumps({"model.shared.weight": Memory()}, protocol=2))


def second_directory(directory: Path) -> None:
    """A compressed archive with a directory before its own that calls the same entries stored."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", saved({"a": torch.ones(3)}))
        archive.writestr("x/data/0", bytes(200 << 20))
    real = stream.getvalue()
    begin, end = real.index(b"PK\1\2"), real.index(b"PK\5\6")
    fake = bytearray(real[begin:end])
    place = 0
    while (place := fake.find(b"PK\1\2", place)) >= 0:
        fake[place + 10 : place + 12] = bytes(2)  # stored
        fake[place + 24 : place + 28] = fake[place + 20 : place + 24]  # as long as it is compressed
        place += 4
    last = bytearray(real[end:])
    last[16:20] = struct.pack("<I", begin)
    (directory / BIN).write_bytes(real[:begin] + bytes(fake) + bytes(last) + real[begin:])


def overlapping_entries(directory: Path) -> None:
    """Sixty entries of an archive that are the same bytes."""
    numbers = bytes(50 << 20)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x/data.pkl", saved({"a": torch.ones(3)}))
        archive.writestr("x/data/0", numbers)
        entry = archive.getinfo("x/data/0")
        for number in range(1, 60):
            copy = zipfile.ZipInfo(f"x/data/{number:01d}")
            for name in ("header_offset", "CRC", "compress_size", "file_size"):
                setattr(copy, name, getattr(entry, name))
            archive.filelist.append(copy)
            archive.NameToInfo[copy.filename] = copy
    (directory / BIN).write_bytes(stream.getvalue())


def long_archive_directory(directory: Path) -> None:
    """An archive with half a million entries."""
    entry = b"PK\1\2" + struct.pack("<6H3I5H2I", *[0] * 16) + b""
    entry = entry[:28] + struct.pack("<H", 1) + entry[30:] + b"x"
    entries = entry * 500_000
    end = b"PK\5\6" + struct.pack("<4H2IH", 0, 0, 65535, 65535, len(entries), 4, 0)
    (directory / BIN).write_bytes(b"PK\3\4" + entries + end)


def long_pickle(directory: Path) -> None:
    """A list of two million numbers where a few hundred names belong."""
    (directory / BIN).write_bytes(pickle.dumps(dict.fromkeys(range(10**6)), protocol=2))


def nested_key(directory: Path) -> None:
    """A key whose hash takes 2^60 steps: each tuple holds the one before it twice."""
    pairs = b"".join(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(60))
    (directory / BIN).write_bytes(b"\x80\x02})q\x00" + pairs + b"K\x01s.")


def long_header(directory: Path) -> None:
    """A header of 90 MB with 1.5 million empty tensors."""
    tensor = '"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    header = ("{" + ",".join(tensor % number for number in range(1_500_000)) + "}").encode()
    (directory / SAFETENSORS).write_bytes(struct.pack("<Q", len(header)) + header)


def many_tensors(directory: Path) -> None:
    """A header just under the limit of its length, with tensors of no numbers."""
    tensor = '"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    header = ("{" + ",".join(tensor % number for number in range(30_000)) + "}").encode()
    (directory / SAFETENSORS).write_bytes(struct.pack("<Q", len(header)) + header)


def huge_tensor(directory: Path) -> None:
    """A tensor of 10^12 numbers that are one number."""
    (directory / BIN).write_bytes(saved({"a": torch.ones(1).expand(10**6, 10**6)}))


SIDES = ("encoder", "decoder")
ATTACKS = [
    bytearray_of_3_gb,
    plain_bytearray_of_3_gb,
    second_directory,
    overlapping_entries,
    long_archive_directory,
    long_pickle,
    nested_key,
    long_header,
    many_tensors,
    huge_tensor,
]
# Reads a file for each line it gets: the name of a reader and a path.
READ = """
import gc, json, resource, sys
from pathlib import Path
from model.errors import UserError
from model.importing.files.spm import read_spm
from model.importing.files.weights import read_weights
def memory(kind):
    return int(Path("/proc/self/status").read_text().split(kind)[1].split()[0]) / 1024
def usage():
    return [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
def seconds():
    return sum(each.ru_utime + each.ru_stime for each in usage())
for line in sys.stdin:
    name, path = json.loads(line)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    held, started = memory("VmRSS:"), seconds()
    try:
        {"spm": read_spm, "weights": read_weights}[name](Path(path))
        raise SystemExit("it was read")
    except UserError as error:
        peak = max(memory("VmHWM:"), usage()[1].ru_maxrss / 1024)
        print(json.dumps([str(error), seconds() - started, peak - held]), flush=True)
"""
Refuse = Callable[[str, Path], None]


@pytest.fixture(scope="module")
def refuse() -> Iterator[Refuse]:
    """Check that a process of its own refuses a file with a sentence, within its limits."""
    command = [sys.executable, "-c", READ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout

        def refused(name: str, path: Path) -> None:
            print(json.dumps([name, str(path)]), file=process.stdin, flush=True)
            sentence, seconds, megabytes = json.loads(process.stdout.readline())
            assert_sentence(UserError(sentence))
            assert seconds < SECONDS, (seconds, megabytes)
            assert megabytes < MEGABYTES, (seconds, megabytes)

        yield refused
        process.stdin.close()


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_weights_take_neither_time_nor_memory(
    attack: Callable[[Path], None], refuse: Refuse, tmp_path: Path
) -> None:
    attack(tmp_path)
    refuse("weights", tmp_path)


@pytest.mark.parametrize("field", [b"\x0a\x00", b"\x0a\x03\x0a\x01a"], ids=["empty", "one letter"])
def test_millions_of_pieces_take_neither_time_nor_memory(
    field: bytes, refuse: Refuse, tmp_path: Path
) -> None:
    (tmp_path / "source.spm").write_bytes(field * ((16 << 20) // len(field)))
    refuse("spm", tmp_path / "source.spm")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("value", [{"a": print}, {"a": {1, 2}}, {"a": b"x"}, [1], {"a": [1, {"b": ()}]}, 7])
def test_other_pickles_are_refused(value: object, protocol: int, tmp_path: Path) -> None:
    (tmp_path / BIN).write_bytes(pickle.dumps(value, protocol=protocol))
    with pytest.raises(UserError, match="nothing of it was run"):
        read_weights(tmp_path)


@pytest.mark.parametrize("legacy", [False, True])
def test_pickles_cut_short_or_changed_are_refused_or_give_tensors(legacy: bool, tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4, dtype=torch.half)}
    stream = io.BytesIO()
    torch.save(tensors, stream, _use_new_zipfile_serialization=not legacy)
    process = pickles.START.Process(target=read_changed, args=(stream.getvalue(), tmp_path / BIN))
    process.start()
    process.join()
    assert process.exitcode == 0


def read_changed(data: bytes, path: Path) -> None:
    """As read_pickle reads, but all in one process: a copy of it for each file would take a minute."""
    path.write_bytes(data)
    pickles.SECONDS = 60  # for all of them
    pickles._limit(path)
    torch.set_num_threads(1)  # the other threads were not copied
    for place in range(0, len(data), 3):
        for changed in (data[:place], data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :]):
            path.write_bytes(changed)
            try:
                found, _ = pickles._unique(pickles._load(path, nested=False), 2 * len(changed))
            except (ValueError, MemoryError):
                continue
            assert all(isinstance(tensor, torch.Tensor) for tensor in found.values())
            assert sum(tensor.numel() for tensor in found.values()) <= 20


@pytest.mark.parametrize("legacy", [False, True])
def test_tensors_equal_those_of_torch(legacy: bool, tmp_path: Path) -> None:
    whole = torch.randn(6, 5)
    tensors = {
        "parameter": torch.nn.Parameter(torch.randn(3, 4)),
        "transposed": torch.randn(3, 4).t(),
        "part": whole[2:4],
        "whole": whole,
        "half": torch.randn(7).half(),
        "bfloat": torch.randn(7).bfloat16(),
        "number": torch.tensor(3.0),
        "empty": torch.empty(0, 3),
        "ids": torch.arange(3),
    }
    torch.save(tensors, tmp_path / BIN, _use_new_zipfile_serialization=not legacy)
    found = read_pickle(tmp_path / BIN)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_a_large_model_needs_a_large_file(tmp_path: Path) -> None:
    """No memory is taken for a config that the weights do not justify."""
    marian.write_checkpoint(tmp_path)
    path = tmp_path / "config.json"
    large = {
        f"{side}_{name}": 16_384 if name == "ffn_dim" else 2
        for side in SIDES
        for name in ("ffn_dim", "layers")
    }
    path.write_text(json.dumps(json.loads(path.read_text()) | large | {"d_model": 2048}))
    with pytest.raises(UserError, match="bytes where config.json asks for"):
        read_checkpoint(str(tmp_path))


def test_names_of_folders_and_languages_are_text_in_the_card() -> None:
    origin = '<img src=x onerror="alert(1)">`|[a](javascript:b)'
    config = ModelConfig(10, 10)
    info = model_info(origin, {}, (">>fra<<",))
    notes = ["<script> is 3, which Headlight does not do."]
    text = readme(import_card(info, "marian", "MarianMT", "", config, notes))
    for hostile in ("<img", "<script", "](javascript", "`"):
        assert hostile not in text
    assert "&#62;&#62;fra" in text
    assert json.dumps(ModelCard(text).data.to_dict())
