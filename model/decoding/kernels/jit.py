"""How the kernels are compiled, and the numbers that they share.

Only the other kernels import it, and late: importing numba takes a second, and compiling takes some more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., object])

OPTIONS = {
    # Sums may be reordered, which lets them run in vector registers; NaN and infinity keep their meaning.
    "fastmath": {"reassoc", "contract", "arcp"},
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,  # kernels allocate nothing; without reference counting they compile in half the time
    "no_cfunc_wrapper": True,
}


def kernel(function: Function, **options: Any) -> Function:
    """Compile a function at its first call. The tests wrap every function in a check of its types."""
    njit: Any = numba.njit
    return cast(Function, njit(inspect.unwrap(function), **OPTIONS, **options))


def compiled(function: Function) -> Function:
    """Called by other compiled functions."""
    return kernel(function, no_cpython_wrapper=True)


def entry(function: Function) -> Function:
    """Called from Python; cached on disk if `model.decoding.kernels.compilation` has found a folder."""
    return kernel(function, cache=bool(cast(Any, numba.config).CACHE_DIR))


def instructions(function: Callable[..., Any]) -> Any:
    """A function that writes instructions for LLVM itself."""
    return intrinsic(inspect.unwrap(function))


START = cast(int, np.int64(0))  # numba compiles a function once more for the constant 0
ZERO, ONE, LOWEST = np.float32(0), np.float32(1), np.float32(-np.inf)
