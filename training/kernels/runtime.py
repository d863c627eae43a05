"""How the kernels of training are compiled, called and run in threads, and what they share.

docs/training.md explains how a step goes through them.
"""

from __future__ import annotations

import ctypes
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import carray, from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

from model.decoding.kernels.compilation import cache_directory, set_up_numba

LANES = 16  # numbers that are computed at once; processors with narrower registers take several
OPTIONS = {
    # Sums may be reordered, which lets them run in vector registers; NaN and infinity keep their meaning.
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
}
ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float32(0.5)
LOG2_E = np.float32(1 / math.log(2))
# 2^f for f in [-0.5, 0.5], the Taylor series of exp(f ln 2); its relative error is below 2e-7.
C1, C2, C3, C4, C5, C6 = (np.float32(math.log(2) ** n / math.factorial(n)) for n in range(1, 7))
LOWEST = np.float32(-126)  # exponent of the smallest normal number
U23 = np.uint32(23)


def _openmp() -> ctypes.CDLL:
    """GNU OpenMP as torch has loaded it. Raises ImportError where torch uses another library.

    Kernels run in torch's own threads: a second pool's would wait for processors on which torch's idle
    threads still spin, 1.4 ms after a matrix product instead of 0.2.
    """
    found = ctypes.CDLL(torch._C.__file__)
    if not hasattr(found, "GOMP_parallel"):
        raise ImportError("torch's threads cannot be used here")
    return found


OPENMP = _openmp()
CACHE = cache_directory(sorted(Path(__file__).parent.glob("*.py")))
set_up_numba(CACHE)


class Kernel:
    """A compiled function that gets its arguments by name and shares its blocks among torch's threads.

    All arguments are integers: numbers, flags, and the addresses of tensors. The function gets a pointer to
    one record with these fields.
    """

    def __init__(self, function: Callable[..., None], arguments: str) -> None:
        self.layout = np.dtype([(name, np.int64) for name in ("next_block", "blocks", *arguments.split())])
        signature = types.void(types.CPointer(from_dtype(self.layout)))
        options = OPTIONS | {"nopython": True, "cache": CACHE is not None}
        self.compiled = numba.cfunc(signature, **options)(inspect.unwrap(function))

    def __call__(self, **arguments: Tensor | int) -> None:
        """Run on all `blocks`. Raises TypeError unless exactly the declared arguments are given."""
        names = (self.layout.names or ())[1:]
        if set(names) != set(arguments):
            raise TypeError(f"the arguments are {names}, not {tuple(arguments)}")
        values = (arguments[name] for name in names)
        words = (each.data_ptr() if isinstance(each, Tensor) else each for each in values)
        record = np.array([(0, *words)], self.layout)
        threads = min(torch.get_num_threads(), int(arguments["blocks"]))
        OPENMP.GOMP_parallel(self.compiled.ctypes, ctypes.c_void_p(record.ctypes.data), threads, 0)


def kernel(arguments: str) -> Callable[[Callable[..., None]], Kernel]:
    """Declare the arguments of a kernel: both its calls and the fields that it reads have these names."""
    return lambda function: Kernel(function, arguments)


def inner(function: Callable[..., Any]) -> Any:
    """Compile for the use of kernels."""
    return numba.njit(inspect.unwrap(function), **OPTIONS)


@intrinsic
def take(typing: Any, record: Any) -> Any:
    """Take the next block: the number in the record's first field, which then grows by one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = builder.bitcast(arguments[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", number, context.get_constant(types.int64, 1), "monotonic")

    return types.int64(record), generate


@intrinsic
def pointer(typing: Any, address: Any, dtype: Any) -> Any:
    """An address as a pointer to numbers of this type."""
    target = types.CPointer(dtype.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(target))

    return target(address, dtype), generate


@intrinsic
def to_float(typing: Any, bits: Any) -> Any:
    """The number with these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@inner
def place(array, offset):
    """A pointer to an element of a float32 array without gaps."""
    return pointer(array.ctypes.data + 4 * offset, np.float32)


@intrinsic
def combine_lanes(typing: Any, factors: Any, step: Any, rows: Any, stride: Any, count: Any, out: Any) -> Any:
    """Write the sum of factors[r * step] * rows[r * stride : r * stride + LANES] over `count` rows r.

    The sum stays in a register, which LLVM does not find out for a loop over arrays: 65 GFLOP/s instead
    of 10 to 29 for the matrices of a short sentence.
    """
    pointer32 = types.CPointer(types.float32)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        factors, step, rows, stride, count, out = arguments
        vector, whole = ir.VectorType(ir.FloatType(), LANES), ir.IntType(32)
        none, zeros = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(whole, LANES), [0] * LANES)
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES))
        with cgutils.for_range(builder, count) as loop:
            factor = builder.load(builder.gep(factors, [builder.mul(loop.index, step)]))
            source = builder.gep(rows, [builder.mul(loop.index, stride)])
            row = builder.load(builder.bitcast(source, vector.as_pointer()), align=4)
            first = builder.insert_element(none, factor, ir.Constant(whole, 0))
            everywhere = builder.shuffle_vector(first, none, zeros)  # the factor in every lane
            product = builder.fmul(everywhere, row, flags=["contract", "reassoc"])
            added = builder.fadd(builder.load(total), product, flags=["contract", "reassoc"])
            builder.store(added, total)
        builder.store(builder.load(total), builder.bitcast(out, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    sized = types.int64
    return types.void(pointer32, sized, pointer32, sized, sized, pointer32), generate


@numba.njit(fastmath=True)
def largest(row):
    """The largest number of a row. Only without regard to NaN does LLVM compare whole vectors."""
    found = row[0]
    for number in row:
        found = max(found, number)
    return found


@inner
def integers(address, count):
    """The int64 array at an address."""
    return carray(pointer(address, np.int64), count)


@inner
def rows_at(address, first, count, stride):
    """So many float32 rows of a tensor, from a first one on; each with what lies before the next row."""
    return carray(pointer(address + 4 * first * stride, np.float32), (count, stride))


@inner
def exp(x):
    """e^x; at least 2^-126. math.exp would not run in vector registers."""
    scaled = max(x * LOG2_E, LOWEST)
    n = np.floor(scaled + HALF)
    f = scaled - n
    power = ONE + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))
    return power * to_float(np.uint32(np.int32(n) + np.int32(127)) << U23)
