"""Reads model.npz of Marian as data: its settings, and its weights under names as other programs have."""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.errors import UserError, quote_untrusted
from model.files import MAX_TEXT_BYTES, check_file, parse_yaml
from model.importing.files.pickles import Stored
from model.storage.checkpoint import MAX_WEIGHTS_BYTES

SETTINGS = "special:model.yml"
MAX_ARRAYS = 10_000
EMBEDDING = re.compile(r"(encoder|decoder)?_?Wemb")
SHARED = "Wemb"
# Its names in the form module.weight: of the layers, numbered from 0, and of what stands outside.
LAYER = re.compile(r"(encoder|decoder)_l(\d+)_(.+)")
NAMES = (
    (r"(.+)_ln_scale(?:_pre)?", r"\1_ln.weight"),
    (r"(.+)_ln_bias(?:_pre)?", r"\1_ln.bias"),
    (r"(.+)_W([qkvof])", r"\1.\2.weight"),  # f: the forget gates of an SSRU
    (r"(.+)_b([qkvof])", r"\1.\2.bias"),
    (r"rnn_W", r"rnn.w.weight"),  # the values of an SSRU
    (r"(.+)_W(\d?)", r"\1_\2.weight"),
    (r"(.+)_b(\d?)", r"\1_\2.bias"),
)


def read_npz(path: Path) -> Stored:
    """The weights by name, matrices as torch has them, and the settings. Raises UserError."""
    check_file(path, MAX_WEIGHTS_BYTES)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            # Marian compresses nothing, so the arrays are as large as the file.
            if len(entries) > MAX_ARRAYS or any(each.compress_type != zipfile.ZIP_STORED for each in entries):
                raise ValueError("it is compressed")
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path} is not a file of arrays of Marian, or broken; copy it again.") from error
    return weights_and_settings(found, path)


def weights_and_settings(arrays: dict[str, NDArray[Any]], path: Path) -> Stored:
    """What the arrays of a file of Marian say. Raises UserError."""
    settings = arrays.pop(SETTINGS, np.zeros(0, np.int8))
    if settings.dtype != np.int8 or not 0 < settings.size <= MAX_TEXT_BYTES:
        raise UserError(f"{path} has no settings of Marian ({SETTINGS}); copy it again.")
    text = settings.tobytes().rstrip(b"\0").decode("utf-8", "replace")
    return Stored(_weights(arrays, path), parse_yaml(text, path))


def _weights(arrays: dict[str, NDArray[Any]], path: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float16) or array.ndim != 2:
            raise UserError(f"{path} has the array {quote_untrusted(name)}, which is no matrix of floats.")
        tensor = torch.from_numpy(array)
        if EMBEDDING.fullmatch(name):
            weights[f"{name}.weight"] = tensor
        else:
            # Marian multiplies rows by matrices and keeps a vector as a matrix of one row.
            weights[_name(name)] = tensor[0] if len(tensor) == 1 else tensor.t()
    for name, values in list(weights.items()):
        if name.endswith(".rnn.w.weight"):  # it has neither a bias of the values nor a matrix after them
            module = name.removesuffix(".w.weight")
            weights[f"{module}.w.bias"] = values.new_zeros(len(values))
            weights[f"{module}.o.weight"] = torch.eye(len(values))
    if (shared := weights.pop(f"{SHARED}.weight", None)) is not None:
        weights |= {"encoder_Wemb.weight": shared, "decoder_Wemb.weight": shared}
    return weights


def _name(name: str) -> str:
    before = ""
    if layer := LAYER.fullmatch(name):
        before, name = f"{layer[1]}.{int(layer[2]) - 1}.", layer[3]
    for theirs, ours in NAMES:
        if match := re.fullmatch(theirs, name):
            return before + match.expand(ours).replace("_.", ".")
    return before + name
