"""The weights file of a checkpoint of another program: safetensors, or a pickle read without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from model.errors import UserError, quote_untrusted
from model.files import check_file, open_tensors, read_bytes, read_json
from model.importing.files.pickles import read_pickle
from model.storage.checkpoint import MAX_WEIGHTS_BYTES

SAFETENSORS, BIN = "model.safetensors", "pytorch_model.bin"
INDEX = ".index.json"  # after these names: a list of several files, each with a part of the weights
SHARDS = ("model-*.safetensors", "pytorch_model-*.bin")  # their names
# What a folder without weights holds instead, and what to do with it.
INSTEAD = {
    "adapter_config.json": "holds an adapter alone, such as one of LoRA; merge it into its base model "
    "(merge_and_unload of peft), save the result and import that",
    "tf_model.h5": "holds weights of TensorFlow; convert it with transformers 4 (from_tf=True)",
    "flax_model.msgpack": "holds weights of Flax; convert it with transformers 4 (from_flax=True)",
    "*.gguf": "holds weights in the form of llama.cpp; import the checkpoint from which they were converted",
    "*.onnx": "holds a model in the form of ONNX; import the checkpoint from which it was converted",
    "*.npz": "holds a model of Marian; give the path of that file",
    "model.bin": "holds a model of CTranslate2; import the checkpoint from which it was converted",
    "checkpoint-*": "holds checkpoints of a training in folders; import one of these, such as {found}",
}
LFS, LFS_BYTES = b"version https://git-lfs", 1024  # the beginning and the most bytes of a file not fetched
MAX_TENSORS = 10_000
# Weights that a checkpoint may hold a second time, since they are tied.
TIED = {
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
    "shared.weight",  # the next three are T5's names
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
}


class Weights:
    """Tensors by name, each checked when it is taken. Every method raises UserError."""

    def __init__(self, tensors: Mapping[str, Tensor], path: Path, n_bytes: int) -> None:
        self.path = path
        self.n_bytes = n_bytes  # of all files
        self._tensors = tensors
        self._taken: set[str] = set()

    def take(self, name: str, shape: tuple[int, ...], default: float | None = None) -> Tensor:
        """The weight; `default` fills a missing one."""
        tensor = self.take_any(name)
        if tensor is None and default is not None:
            return torch.full(shape, default)
        if tensor is None:
            raise UserError(f"{self.path} lacks the weight {name}; copy the whole checkpoint.")
        if tuple(tensor.shape) != shape:
            raise UserError(
                f"{name} in {self.path} has shape {tuple(tensor.shape)} but config.json says {shape}; copy "
                "both from the same checkpoint."
            )
        return tensor

    def take_any(self, name: str) -> Tensor | None:
        """A weight of any shape, if there is one of this name."""
        self._taken.add(name)
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        if not tensor.is_floating_point():
            raise UserError(
                f"{name} in {self.path} is {quote_untrusted(str(tensor.dtype))}; only weights as floating-"
                "point numbers can be imported."
            )
        return tensor

    def has(self, name: str) -> bool:
        return name in self._tensors

    def take_first(self, names: Sequence[str], shape: tuple[int, ...]) -> Tensor:
        name = next((name for name in names if name in self._tensors), names[0])
        return self.take(name, shape)

    def take_rows(self, names: Sequence[str], shape: tuple[int, ...]) -> Tensor:
        """Weights of equal shapes under one another, of this shape together."""
        part = (shape[0] // len(names), *shape[1:])
        return torch.cat([self.take(name, part) for name in names])

    def check_all_used(self, family: str) -> None:
        """Raise UserError if a weight was not taken, since its part of the network would be missing."""
        if left := sorted(self._tensors.keys() - self._taken - TIED):
            raise UserError(
                f"{self.path} has the weight {quote_untrusted(left[0])}, which is not part of a model of "
                f"{family} that can be imported."
            )


def read_weights(directory: Path) -> Weights:
    """Read model.safetensors, or else pytorch_model.bin, or their parts. Raises UserError."""
    for name in (SAFETENSORS, SAFETENSORS + INDEX, BIN, BIN + INDEX):
        path = directory / name
        if path.exists():
            return _read_files(_parts(path) if name.endswith(INDEX) else [path], path)
    for pattern, problem in INSTEAD.items():
        if found := sorted(directory.glob(pattern)):
            raise UserError(f"{directory} {problem.format(found=found[-1].name)}.")
    raise UserError(f"{directory} has neither {SAFETENSORS} nor {BIN}; copy the whole checkpoint.")


def _parts(index: Path) -> list[Path]:
    """The files that an index names, which lie beside it. Raises UserError for any other."""
    match read_json(index):
        case {"weight_map": dict(places)} if 0 < len(places) <= MAX_TENSORS:
            names = sorted(set(map(str, places.values())))
        case _:
            raise UserError(f"{index} is not a list of weights and their files; copy it again.")
    for name in names:
        if Path(name).name != name or not any(fnmatchcase(name, pattern) for pattern in SHARDS):
            raise UserError(f"{index} names the file {quote_untrusted(name)}, which is no part of it.")
    return [index.with_name(name) for name in names]


def _read_files(files: Sequence[Path], path: Path) -> Weights:
    """The weights of all files; `path` is what messages name."""
    tensors: dict[str, Tensor] = {}
    n_bytes = 0
    for file in files:
        check_file(file, MAX_WEIGHTS_BYTES - n_bytes)
        size = file.stat().st_size
        if size < LFS_BYTES and read_bytes(file, LFS_BYTES).startswith(LFS):
            raise UserError(f"{file} only names its content, which is not here; run git lfs pull.")
        n_bytes += size
        tensors |= _read_safetensors(file) if file.suffix == ".safetensors" else _read_bin(file)
        if len(tensors) > MAX_TENSORS:
            raise UserError(
                f"{path} has over {MAX_TENSORS:,} weights, which no model here has; copy it again."
            )
    return Weights(tensors, path, n_bytes)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with open_tensors(path, MAX_WEIGHTS_BYTES) as stored:
            names = stored.keys()
            if len(names) > MAX_TENSORS:
                raise ValueError(f"{len(names):,} weights")
            return {name: stored.get_tensor(name) for name in names}
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{path} is cut short or broken ({quote_untrusted(str(error))}); copy it again."
        ) from error


def _read_bin(path: Path) -> dict[str, Tensor]:
    try:
        return read_pickle(path)
    except (ValueError, OSError) as error:
        raise UserError(
            f"{path} cannot be read ({quote_untrusted(str(error))}), and nothing of it was run; copy it "
            f"again or ask for {SAFETENSORS}."
        ) from error
