"""Reads untrusted files within size limits, reads and writes lines of text, and writes files atomically."""

from __future__ import annotations

import codecs
import glob
import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import yaml
from safetensors import SafetensorError, safe_open

from model.errors import UserError, quote_untrusted

MAX_JSON_BYTES = 16 << 20  # a tokenizer of 8,000 pieces has 0.3 MB, a configuration 1 kB
MAX_TEXT_BYTES = 1 << 20
BLOCK_BYTES = 1 << 20  # of a text, decoded at a time
MAX_HEADER_BYTES = 2 << 20  # names and shapes, which precede the weights; 16 kB for the default model


def check_file(path: Path, max_bytes: int) -> None:
    """Raise UserError unless this is a regular file inside its directory of at most `max_bytes`."""
    try:
        status = path.stat()
        elsewhere = not _lies_in_its_directory(path)
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing; copy the whole model directory.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); copy it again.") from error
    if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device might never end
        raise UserError(f"{path} is not a file; copy the model directory again.")
    if elsewhere:
        raise UserError(f"{path} is a link to a file in another folder; replace it by a copy of that file.")
    if status.st_size > max_bytes:
        raise UserError(f"{path} has {status.st_size:,} bytes; at most {max_bytes:,} are read.")


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The content of a file. Raises UserError as `check_file` does."""
    check_file(path, max_bytes)
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); copy it again.") from error


def begins_with(path: Path, *starts: bytes) -> bool:
    """Whether a file of any size begins with one of these. Raises UserError as `read_bytes` does."""
    check_file(path, sys.maxsize)
    try:
        with path.open("rb") as stream:
            return stream.read(max(map(len, starts))).startswith(starts)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); copy it again.") from error


def read_text(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """The text of a file without a byte order mark.

    Raises UserError as `check_file` does, and if the file is not UTF-8.
    """
    try:
        return read_bytes(path, max_bytes).removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8; copy it again.") from error


def open_tensors(path: Path, max_bytes: int) -> safe_open:
    """A safetensors file. Raises UserError as `check_file` does, and if the file is broken."""
    check_file(path, max_bytes)
    try:
        with path.open("rb") as stream:
            header_bytes = int.from_bytes(stream.read(8), "little")
        if header_bytes > MAX_HEADER_BYTES:
            raise UserError(f"{path} is truncated or broken (its header is too long); copy it again.")
        # Not mapped into memory: a program that rewrites the file would end this one.
        return safe_open(path, framework="pt", backend="pread")
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} is truncated or broken ({quote_untrusted(str(error))}); copy it again."
        ) from error


def read_json(path: Path, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """The value of a JSON file. Raises UserError if it is broken or ambiguous.

    Repeated names, NaN and Infinity are refused, because other JSON readers interpret them differently
    from ours.
    """
    text = read_text(path, max_bytes)
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError as error:
        raise UserError(f"{path} is nested too deeply; copy it again.") from error
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON ({error}); copy it again.") from error


def read_yaml(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> dict[str, object]:
    """The settings in a YAML file, as data. Raises UserError if it is broken or no mapping of names."""
    return parse_yaml(read_text(path, max_bytes), path)


def parse_yaml(text: str, path: Path) -> dict[str, object]:
    """As `read_yaml`; `path` is named in the message."""
    try:
        # An alias, which a few bytes can repeat without end, is in no file of settings.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, yaml.CSafeLoader)):
            raise yaml.YAMLError("it has an alias")
        value = yaml.load(text, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not YAML that Headlight reads; copy it again.") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} is not a list of settings with their names; copy it again.")
    return {str(name): each for name, each in value.items()}


def _lies_in_its_directory(path: Path) -> bool:
    """Whether the file is no link out of its folder, whose content would be published with the model.

    eole links to a folder inside. The hub's cache is an exception: snapshots/COMMIT/config.json is a link to
    a file in blobs/.
    """
    directory = path.parent.resolve()
    target = path.resolve().parent
    cached = directory.parent.name == "snapshots" and target == directory.parents[1] / "blobs"
    return target.is_relative_to(directory) or cached


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"the name {quote_untrusted(name)} is repeated")
        values[name] = value
    return values


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a valid number")


def read_lines(path: Path, errors: str = "strict") -> Iterator[str]:
    """The lines of a text file that the user names, as `decode_lines` does; read one at a time.

    Raises UserError if the file cannot be opened, too.
    """
    return chain.from_iterable(_blocks_of_file(path, errors))


def _blocks_of_file(path: Path, errors: str) -> Iterator[list[str]]:
    try:
        with path.open("rb") as stream:
            yield from _blocks(stream, path, errors)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}; check the path.") from error
    except OSError as error:  # a folder, or no permission
        raise UserError(f"{path} cannot be read ({error.strerror}); give a text file.") from error


def decode_lines(stream: BinaryIO, name: object, errors: str = "strict") -> Iterator[str]:
    """The lines of UTF-8 text without their ends; `name` is what messages call it.

    A line feed alone ends a line, and a carriage return before it is dropped. U+2028, form feeds and other
    separators belong to the line. A byte order mark at the start is dropped. `errors` says what happens to
    bytes that are not UTF-8, as in `bytes.decode`. Raises UserError for NUL bytes and UTF-16, and with
    "strict" for what is not UTF-8.
    """
    return chain.from_iterable(_blocks(stream, name, errors))


def _blocks(stream: BinaryIO, name: object, errors: str) -> Iterator[list[str]]:
    """Some lines at a time: checks and decoding take 0.1 microseconds a line, and line by line 0.5."""
    before = 0  # lines
    while block := stream.read(BLOCK_BYTES) + stream.readline():  # ends with a whole line
        if before == 0:
            if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise UserError(f"{name} is UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8).")
            block = block.removeprefix(codecs.BOM_UTF8)
        if (place := block.find(b"\0")) >= 0:
            number = before + block[:place].count(b"\n") + 1
            raise UserError(
                f"Line {number:,} of {name} has a NUL byte; remove it (tr -d '\\000'), or convert the "
                "text to UTF-8 if it is UTF-16."
            )
        try:
            text = block.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise UserError(f"{name} is not UTF-8; convert it first.") from error
        lines = text.replace("\r\n", "\n").split("\n")
        if not lines[-1]:  # what follows the last line feed
            del lines[-1]
        before += len(lines)
        yield lines


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of UTF-8 text atomically, each ended by a line feed."""
    write_text(path, "".join(f"{line}\n" for line in lines))


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically, with line feeds as they are."""
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file in the same folder, which is made, then rename it to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(temporary)
        temporary.chmod(0o644)  # safetensors makes files that only the owner can read
        with temporary.open("r+b") as stream:  # Windows flushes no file that is only read
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _remove_leftovers(path: Path) -> None:
    """Delete temporary files of `path` whose process does not run any more."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        process = part.name.removeprefix(f".{path.name}.").removesuffix(".part")
        if process.isdecimal() and not _is_running(int(process)):
            part.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if sys.platform == "win32":  # there the call would end the process
        return True
    try:
        os.kill(process, 0)  # signal 0 only checks that the process exists
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # the process of another user
        return True
    return True


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")
