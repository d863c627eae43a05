"""Runs the commands of a package: writes UTF-8, one sentence for each error, and ends quietly with a pipe."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
import tyro

from model.errors import UserError
from model.translator import Translator

# Begins with a hyphen, but is neither -h, nor a number, nor written as options are, such as --beam=4.
TEXT = re.compile(r"-(?!h$|-$)(?!\d*\.?\d+$)(?!-[a-z][\w.-]*(=|$)).+", re.DOTALL)


def run(commands: Mapping[str, Callable[..., Any]], prog: str, config: Sequence[Any] = ()) -> None:
    """Run the command that the arguments name. A UserError is printed and gives exit status 1."""
    _write_utf8()
    try:
        tyro.extras.subcommand_cli_from_dict(
            dict(commands), prog=prog, args=protect_text(sys.argv[1:]), config=tuple(config)
        )
        sys.stdout.flush()
    except UserError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Stopped.")
    except BrokenPipeError:  # who reads the output has enough of it
        # Python flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        name = "" if error.filename is None else f" {error.filename}"
        sys.exit(f"A file{name} could not be read or written ({error.strerror or error}); check its folder.")


def on_gpu(translator: Translator) -> Translator:
    """The translator, its model moved to a GPU if torch finds one: many sentences are faster there."""
    if torch.cuda.is_available():
        translator.checkpoint.model.to("cuda")
    return translator


def protect_text(arguments: Sequence[str]) -> list[str]:
    """The arguments with a space before those that are text such as "-Ja.", which are no options then."""
    return [f" {each}" if TEXT.fullmatch(each) else each for each in arguments]


def _write_utf8() -> None:
    """Write UTF-8, whatever the system says: a pipe of Windows has an encoding without most letters."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            cast(Any, stream).reconfigure(encoding="utf-8", errors="replace")
