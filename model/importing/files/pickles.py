"""Reads the tensors of a pytorch_model.bin in a process of its own, whose memory and time are limited.

PyTorch's reader of weights (`weights_only=True`) calls nothing that a file names, but a few bytes can make it
take all memory or work for hours. The process writes the tensors into a safetensors file, which is mapped
here.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

MAX_TENSORS = 10_000
# Memory: at most three times the size of the file, and SPARE_BYTES more. Processor time: SECONDS, and one
# second more for each BYTES_PER_SECOND. Wall time: WAIT times as long, because the processor may be busy.
SPARE_BYTES = 128 << 20
SECONDS, BYTES_PER_SECOND, WAIT = 1, 50 << 20, 10
WRITTEN, REASON, VALUES = "model.safetensors", "reason", "values"
# Under which names a checkpoint of a training has its model, and what precedes the names of its weights.
SECTIONS = {
    "model": "",
    "model_state": "",
    "model_state_dict": "",
    "state_dict": "",
    "generator": "generator.",
}
MAX_PLAIN_VALUES = 1_000_000  # plain values; a value that occurs twice counts twice
# A copy of this process has imported PyTorch already, but only Linux copies one safely.
START: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


class Stored(NamedTuple):
    """What a file of weights holds."""

    tensors: dict[str, Tensor]  # by name
    values: Mapping[str, object]  # the plain values beside them: settings and words


def read_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors by name; the operating system reads their numbers when they are used.

    Raises ValueError for everything but a dictionary of tensors whose numbers are in the file.
    """
    return _read(path, nested=False).tensors


def read_nested(path: Path) -> Stored:
    """The tensors of the model in a checkpoint of a training, and the plain values beside them.

    Raises ValueError if it holds objects of other classes, or no model.
    """
    return _read(path, nested=True)


def _read(path: Path, nested: bool) -> Stored:
    # Windows keeps the file, because it is mapped.
    with tempfile.TemporaryDirectory(prefix="headlight-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        process = START.Process(target=_convert, args=(path, folder, nested), daemon=True)
        process.start()
        process.join(WAIT * _seconds(path))
        process.kill()
        process.join()
        if (folder / REASON).exists():
            raise ValueError((folder / REASON).read_text("utf-8"))
        if process.exitcode != 0:
            raise ValueError("it takes more memory or time than weights of its size")
        with safe_open(folder / WRITTEN, framework="pt") as stored:
            names: dict[str, str] = json.loads(stored.metadata()["names"])
            tensors = {name: stored.get_tensor(name) for name in set(names.values())}
            found = {name: tensors[same] for name, same in names.items()}
            values = folder / VALUES
            return Stored(found, json.loads(values.read_text("utf-8")) if values.exists() else {})


def _seconds(path: Path) -> int:
    return SECONDS + path.stat().st_size // BYTES_PER_SECOND


def _convert(path: Path, folder: Path, nested: bool) -> None:
    """Write the tensors of a pickle, or the reason why they cannot be read, into the folder."""
    try:
        _limit(path)
        torch.set_num_threads(1)  # the other threads were not copied
        values = _load(path, nested)
        if nested:
            values, others = _model_of(values)
            (folder / VALUES).write_text(json.dumps(others), "utf-8")
        tensors, names = _unique(values, 2 * path.stat().st_size)
        save_file(tensors, folder / WRITTEN, {"names": json.dumps(names)})
    except ValueError as error:
        (folder / REASON).write_text(str(error), "utf-8")
    except BaseException:  # PyTorch raises what it likes, with pages of advice
        os._exit(1)


def _limit(path: Path) -> None:
    """Let the operating system end this process when it takes too much; Windows has no such limits."""
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (_seconds(path), _seconds(path)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if (held := Path("/proc/self/statm")).exists():
        pages = int(held.read_text("ascii").split()[0])
        most = pages * resource.getpagesize() + SPARE_BYTES + 3 * path.stat().st_size
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _model_of(values: Any) -> tuple[Any, Any]:
    """The weights in a checkpoint and its other plain values, without the optimizer's state."""
    if not isinstance(values, dict):
        return values, {}
    weights: dict[str, Tensor] = {}
    for section, before in SECTIONS.items():
        found = values.get(section)
        if isinstance(found, dict) and all(isinstance(each, Tensor) for each in found.values()):
            weights |= {f"{before}{name}": tensor for name, tensor in found.items()}
    if not weights:  # the weights themselves
        return values, {}
    others = {
        name: value for name, value in values.items() if name not in SECTIONS and "optim" not in str(name)
    }
    return weights, _plain(others, [MAX_PLAIN_VALUES])


def _plain(value: Any, left: list[int]) -> Any:
    """Numbers, texts, lists and dictionaries; a namespace as a dictionary; nothing for all others."""
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("it holds too many values beside its weights")
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, dict):
        return {str(name): _plain(each, left) for name, each in value.items() if type(name) in (str, int)}
    if isinstance(value, list | tuple):
        return [_plain(each, left) for each in value]
    return value if type(value) in (str, int, float, bool) else None


def _load(path: Path, nested: bool) -> Any:
    try:
        is_archive = zipfile.is_zipfile(path)
        if not (is_archive and _is_compressed(path)):
            # A namespace is a dictionary of settings: it is filled and never called.
            with torch.serialization.safe_globals([argparse.Namespace] if nested else []):
                return torch.load(path, map_location="cpu", weights_only=True, mmap=is_archive)
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError("it is broken or holds more than weights") from error
    raise ValueError("the archive is compressed, which PyTorch never does")


def _is_compressed(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist())


def _unique(values: Any, max_bytes: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor of a state dictionary once, under its first name, and this first name for every name.

    Raises ValueError for anything else, and if the tensors are larger than their file allows.
    """
    if not isinstance(values, dict) or not 0 < len(values) <= MAX_TENSORS:
        raise ValueError("it is not a dictionary of weights")
    firsts: dict[tuple[Any, ...], str] = {}
    names: dict[str, str] = {}
    for name, value in values.items():
        if type(name) is not str or not isinstance(value, Tensor) or value.layout != torch.strided:
            raise ValueError("it holds more than weights")
        if value.device.type != "cpu" or value.is_quantized:
            raise ValueError("it lacks numbers")
        view = (value.data_ptr(), value.dtype, value.shape, value.stride())
        names[name] = firsts.setdefault(view, name)
        max_bytes -= value.nbytes if names[name] == name else 0
    if max_bytes < 0:
        raise ValueError("a tensor has fewer numbers than its shape says")
    return {name: values[name].detach().contiguous().clone() for name in firsts.values()}, names
