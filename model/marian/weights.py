"""The weights file of a checkpoint of another program: safetensors, or a pickle read without running it."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from model.errors import UserError, quote_untrusted
from model.files import check_file
from model.storage.checkpoint import MAX_WEIGHTS_BYTES

SAFETENSORS, BIN = "model.safetensors", "pytorch_model.bin"
MAX_TENSORS = 10_000
# Weights that a checkpoint may hold a second time, since they are tied.
TIED = {
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
}


class Weights:
    """Tensors by name, each checked when it is taken. Every method raises UserError."""

    def __init__(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        self.path = path
        self._tensors = dict(tensors)

    def take(self, name: str, shape: tuple[int, ...], default: float | None = None) -> Tensor:
        """The weight in 32 bits, which is then forgotten here; `default` fills one that is missing."""
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
        return tensor.to(torch.float32)

    def take_any(self, name: str) -> Tensor | None:
        """A weight of any shape, if there is one of this name."""
        tensor = self._tensors.pop(name, None)
        if tensor is None:
            return None
        if tensor.is_meta:
            raise UserError(f"{name} in {self.path} has no values; copy the whole checkpoint.")
        if tensor.layout != torch.strided or not tensor.is_floating_point():
            raise UserError(
                f"{name} in {self.path} is {quote_untrusted(str(tensor.dtype))}; only weights as floating-"
                "point numbers can be imported."
            )
        return tensor

    def take_first(self, names: Sequence[str], shape: tuple[int, ...]) -> Tensor:
        """The first of these weights that is there."""
        name = next((name for name in names if name in self._tensors), names[0])
        return self.take(name, shape)

    def check_equal(self, names: Sequence[str], wanted: Tensor) -> None:
        """Raise UserError if one of these weights is there and differs."""
        for name in names:
            tensor = self.take_any(name)
            if tensor is None:
                continue
            # A few bytes in a file can describe a tensor of any size, so its shape comes first.
            if tensor.shape != wanted.shape or not torch.equal(tensor.to(torch.float32), wanted):
                raise UserError(
                    f"{name} in {self.path} differs from the embedding that config.json says it shares, "
                    "which Headlight cannot do."
                )

    def take_rows(self, names: Sequence[str], shape: tuple[int, ...]) -> Tensor:
        """Weights of equal shapes under one another, of this shape together."""
        part = (shape[0] // len(names), *shape[1:])
        return torch.cat([self.take(name, part) for name in names])

    def check_all_used(self) -> None:
        """Raise UserError if a weight is left whose part of the network would be missing."""
        if left := sorted(self._tensors.keys() - TIED):
            raise UserError(
                f"{self.path} has the weight {quote_untrusted(left[0])}, which is not part of a MarianMT "
                "model that can be imported."
            )


def read_weights(directory: Path) -> Weights:
    """Those of model.safetensors, or else of pytorch_model.bin. Raises UserError."""
    path = directory / SAFETENSORS
    if not path.exists():
        path = directory / BIN
    if not path.exists():
        raise UserError(f"{directory} has neither {SAFETENSORS} nor {BIN}; copy the whole checkpoint.")
    check_file(path, MAX_WEIGHTS_BYTES)
    tensors = _read_safetensors(path) if path.name == SAFETENSORS else _read_pickle(path)
    if not isinstance(tensors, dict) or len(tensors) > MAX_TENSORS:
        raise UserError(f"{path} is not a dictionary of weights; copy it again.")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise UserError(f"{path} has {quote_untrusted(name)}, which is not a weight; copy it again.")
    return Weights(tensors, path)


def _read_safetensors(path: Path) -> object:
    try:
        return load_file(path)
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{path} is cut short or broken ({quote_untrusted(str(error))}); copy it again."
        ) from error


def _read_pickle(path: Path) -> object:
    """Only tensors and containers are built; a pickle that asks for anything else is refused."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise UserError(f"{path} is compressed, which PyTorch never does; copy it from its origin.")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken pickle can raise anything
        raise UserError(
            f"{path} is broken, or holds more than weights, and nothing of it was run; copy it again or ask "
            f"for {SAFETENSORS}."
        ) from error
