"""Reads the tensors of a pytorch_model.bin as data: nothing that the file names is looked up or called.

PyTorch's own reader allocates what a pickle asks for, and it may find another directory of the zip archive
than the one that was checked. Here the few instructions of a dictionary of tensors are carried out on plain
values, and the numbers stay in the file until they are used.
"""

from __future__ import annotations

import io
import math
import mmap
import pickletools
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

MAX_PICKLE_BYTES = 4 << 20  # names and shapes; OPUS-MT's have 0.1 MB
MAX_INSTRUCTIONS = 200_000  # a tensor takes about 30
MAX_DIRECTORY_BYTES = 1 << 20  # of a zip archive; an entry takes about 70
LOCAL_HEADER_BYTES = 30
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # the first value of a file that is not a zip archive
TYPES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"}
MARK = object()


class Name(NamedTuple):
    """A class or function of Python that the file names."""

    module: str
    name: str


class Storage(NamedTuple):
    """Numbers in the file."""

    key: str
    dtype: torch.dtype
    length: int


class View(NamedTuple):
    """A tensor: where its numbers are in a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors by name; the operating system reads their numbers when they are used.

    Raises ValueError for everything but a dictionary of tensors whose numbers are in the file.
    """
    with path.open("rb") as stream:
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    try:
        views, starts = _read_archive(path, data) if zipfile.is_zipfile(path) else _read_legacy(data)
        return {name: _tensor(data, starts, view) for name, view in views.items()}
    except (zipfile.BadZipFile, NotImplementedError, OverflowError, struct.error) as error:
        raise ValueError("it is broken") from error


class _Stream(io.FileIO):
    """A file of which zipfile cannot read a directory that is too long."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise ValueError("the directory of the archive is too long")
        return super().read(size)


def _read_archive(path: Path, data: mmap.mmap) -> tuple[dict[str, View], dict[str, int]]:
    """The tensors of a zip archive, and the place of each storage in the file."""
    with _Stream(path) as stream, zipfile.ZipFile(stream) as archive:
        entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
    starts: dict[str, int] = {}
    sizes: dict[str, int] = {}
    end = 0
    for entry in entries:
        header = data[entry.header_offset : entry.header_offset + LOCAL_HEADER_BYTES]
        if entry.header_offset < end or header[:4] != b"PK\3\4":
            raise ValueError("entries of the archive overlap")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise ValueError("the archive is compressed, which PyTorch never does")
        name = entry.filename.partition("/")[2]  # the folder has any name
        lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        start = entry.header_offset + LOCAL_HEADER_BYTES + lengths
        end = start + entry.file_size
        if end > len(data) or name in starts:
            raise ValueError("the archive is cut short")
        starts[name], sizes[name] = start, entry.file_size
    if sizes.get("data.pkl", MAX_PICKLE_BYTES + 1) > MAX_PICKLE_BYTES:
        raise ValueError("the archive has no list of tensors, or one that is too long")
    begin = starts["data.pkl"]
    views = _tensors(_run(io.BytesIO(data[begin : begin + sizes["data.pkl"]])))
    for view in views.values():
        if sizes.get(f"data/{view.storage.key}") != view.storage.length * view.storage.dtype.itemsize:
            raise ValueError("the archive lacks numbers")
    return views, {name.removeprefix("data/"): start for name, start in starts.items()}


def _read_legacy(data: mmap.mmap) -> tuple[dict[str, View], dict[str, int]]:
    """The tensors of a file of 2020, which is not a zip archive, and the place of each storage in it."""
    stream = io.BytesIO(data[:MAX_PICKLE_BYTES])
    if _run(stream) != LEGACY_MAGIC:
        raise ValueError("it was not written by PyTorch")
    _run(stream)  # the version
    _run(stream)  # the sizes of types
    views = _tensors(_run(stream))
    keys = _run(stream)
    storages = {view.storage.key: view.storage for view in views.values()}
    if not isinstance(keys, list) or set(map(str, keys)) - storages.keys():
        raise ValueError("it has numbers that belong to no tensor")
    starts, place = {}, stream.tell()
    for key in map(str, keys):
        count = int.from_bytes(data[place : place + 8], "little")
        starts[key], storage = place + 8, storages[key]
        place += 8 + count * storage.dtype.itemsize
        if count != storage.length or place > len(data):
            raise ValueError("it is cut short")
    return views, starts


def _tensor(data: mmap.mmap, starts: Mapping[str, int], view: View) -> Tensor:
    """The tensor of a view. A few bytes can describe a tensor of any size, so it must lie in its storage."""
    storage, offset, shape, strides = view
    numbers = (*shape, *strides, offset)
    if len(shape) != len(strides) or any(type(each) is not int or each < 0 for each in numbers):
        raise ValueError("a tensor has a shape that cannot be")
    count = math.prod(shape)
    last = offset + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    if storage.key not in starts or count > storage.length or (count and last >= storage.length):
        raise ValueError("a tensor has fewer numbers than its shape says")
    if count == 0:
        return torch.empty(shape, dtype=storage.dtype)
    whole = torch.frombuffer(data, dtype=storage.dtype, count=storage.length, offset=starts[storage.key])
    return whole.as_strided(shape, strides, offset)


def _tensors(value: Any) -> dict[str, View]:
    """The tensors of a state dictionary. Raises ValueError for anything else."""
    if not isinstance(value, dict) or not value:
        raise ValueError("it is not a dictionary of weights")
    for name, view in value.items():
        if not isinstance(name, str) or not isinstance(view, View):
            raise ValueError("it holds more than weights")  # noqa: TRY004
    return value


# The instructions of a pickle


def _run(stream: io.BytesIO) -> Any:
    """The value of one pickle: numbers, texts, lists, dictionaries and views of tensors."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    argument: Any  # its kind depends on the instruction
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        name = opcode.name
        if count > MAX_INSTRUCTIONS:
            raise ValueError("the list of tensors is too long")
        if name == "STOP":
            return _pop(stack)
        if name in LITERALS:
            stack.append(argument)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1] if stack else None
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(_known(memo, argument))
        elif name == "GLOBAL":
            stack.append(Name(*argument.split(" ", 1)))
        elif name in ACTIONS:
            ACTIONS[name](stack)
        elif name != "PROTO":
            raise ValueError(f"it holds more than weights ({name})")
    raise ValueError("it is cut short")


def _known(values: Mapping[Any, Any], key: Any) -> Any:
    if key not in values:
        raise ValueError("it is broken")
    return values[key]


def _pop(stack: list[Any]) -> Any:
    if not stack:
        raise ValueError("it is broken")
    return stack.pop()


def _pop_mark(stack: list[Any]) -> list[Any]:
    """What was put on the stack since the last mark."""
    values = []
    while (value := _pop(stack)) is not MARK:
        values.append(value)
    return values[::-1]


def _add_items(stack: list[Any], values: list[Any]) -> None:
    target = stack[-1] if stack else None
    if (
        not isinstance(target, dict)
        or len(values) % 2
        or not all(type(key) in (str, int) for key in values[::2])
    ):
        raise ValueError("it is not a dictionary of weights")
    target.update(zip(values[::2], values[1::2], strict=True))


def _append(stack: list[Any]) -> None:
    values = _pop_mark(stack)
    if not stack or not isinstance(stack[-1], list):
        raise ValueError("it is broken")
    stack[-1].extend(values)


def _set_item(stack: list[Any]) -> None:
    value, key = _pop(stack), _pop(stack)
    _add_items(stack, [key, value])


def _reduce(stack: list[Any]) -> None:
    """A call of what a state dictionary needs: an empty OrderedDict, a tensor, a parameter."""
    arguments, called = _pop(stack), _pop(stack)
    match called, arguments:
        case Name("collections", "OrderedDict"), ():
            stack.append({})
        case Name("torch._utils", "_rebuild_tensor_v2"), (
            Storage() as storage,
            offset,
            tuple(shape),
            tuple(strides),
            *_,
        ):
            stack.append(View(storage, offset, shape, strides))
        case Name("torch._utils", "_rebuild_parameter"), (View() as view, *_):
            stack.append(view)
        case Name(module, name), _:
            raise ValueError(f"it asks for {module}.{name}")
        case _:
            raise ValueError("it is broken")


def _persistent(stack: list[Any]) -> None:
    match _pop(stack):
        case ("storage", Name("torch", kind), str(key), _, int(count), *_) if kind in TYPES and count >= 0:
            stack.append(Storage(key, TYPES[kind], count))
        case _:
            raise ValueError("it has numbers of an unknown kind")


ACTIONS: dict[str, Callable[[list[Any]], object]] = {
    "EMPTY_DICT": lambda stack: stack.append({}),
    "EMPTY_LIST": lambda stack: stack.append([]),
    "EMPTY_TUPLE": lambda stack: stack.append(()),
    "MARK": lambda stack: stack.append(MARK),
    "TUPLE": lambda stack: stack.append(tuple(_pop_mark(stack))),
    "TUPLE1": lambda stack: stack.append((_pop(stack),)),
    "TUPLE2": lambda stack: stack.append((_pop(stack), _pop(stack))[::-1]),
    "TUPLE3": lambda stack: stack.append((_pop(stack), _pop(stack), _pop(stack))[::-1]),
    "APPENDS": _append,
    "SETITEM": _set_item,
    "SETITEMS": lambda stack: _add_items(stack, _pop_mark(stack)),
    "BINPERSID": _persistent,
    "REDUCE": _reduce,
    "BUILD": _pop,  # attributes of a dictionary, which say nothing about the weights
}
