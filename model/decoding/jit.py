"""How the kernels are compiled, and where the result is kept."""

from __future__ import annotations

import hashlib
import inspect
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., object])

SOURCES = ("jit.py", "kernels.py", "kernel_search.py", "packed.py")  # all that decides the compiled code
OPTIONS = {
    # Sums may be reordered, which lets them run in vector registers; NaN and infinity keep their meaning.
    "fastmath": {"reassoc", "contract", "arcp"},
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,  # no kernel takes memory; without the counting of references they compile in half the time
}


def cache_directory() -> Path | None:
    """Where compiled code is kept: a folder for this state of the sources, None when nothing is writable.

    numba alone would not notice a change in another file than that of the function it is asked for.
    """
    here = Path(__file__).parent
    sources = b"".join((here / name).read_bytes() for name in SOURCES)
    name = "kernels-" + hashlib.sha256(sources).hexdigest()[:16]
    for parent in (os.environ.get("NUMBA_CACHE_DIR"), here / "__pycache__", Path("~/.cache/headlight")):
        with suppress(OSError, RuntimeError):  # not writable, no home
            directory = Path(parent or "").expanduser() / name
            if parent and not directory.is_symlink():
                directory.mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=directory).close()
                return directory
    return None


CACHE = cache_directory()
if CACHE is not None:
    numba.config.CACHE_DIR = str(CACHE)


def compiled(function: Function) -> Function:
    """Compile for the use of other compiled functions."""
    source = inspect.unwrap(function)  # the tests wrap every function in a check of its types
    result: Function = numba.njit(source, no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)
    return result


def inlined(function: Function) -> Function:
    """Copy into the functions that call it."""
    result: Function = numba.njit(inspect.unwrap(function), inline="always", **OPTIONS)
    return result


def entry(function: Function) -> Function:
    """Compile for calls from Python, at the first call or in an earlier process."""
    keep = CACHE is not None
    result: Function = numba.njit(inspect.unwrap(function), no_cfunc_wrapper=True, cache=keep, **OPTIONS)
    return result
