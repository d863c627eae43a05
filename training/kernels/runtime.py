"""How kernels are compiled, kept and run, and what they share.

A kernel works on blocks of rows, which the threads of torch's own pool take one after the other. A second
pool would wait for processors on which torch's idle threads still spin: numba's own threads take 1.4 ms
after a matrix product for what takes these 0.2. Sums over rows are kept by block, so the result does not
depend on which thread took which block. Activations have 16 bits (bfloat16, which numba does not know, so
its bits are shifted by hand) or 32; everything is computed in float32.
"""

from __future__ import annotations

import ctypes
import inspect
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from torch import Tensor

from model.decoding.kernels.compilation import cache_directory

BLOCK = 64  # rows
WORDS = 24  # places for a kernel's arguments: the next block, the number of blocks, then its own
LANES = 16  # numbers that are computed at once; processors with narrower registers take several
SIGNATURE = types.void(types.CPointer(types.int64))
OPTIONS: dict[str, Any] = {
    # Sums may be reordered, which lets them run in vector registers; NaN and infinity keep their meaning.
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "error_model": "numpy",
}
ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float32(0.5)
LOG2_E = np.float32(1 / math.log(2))
# 2^f for f in [-0.5, 0.5], the Taylor series of exp(f ln 2); its relative error is below 2e-7.
C1, C2, C3, C4, C5, C6 = (np.float32(math.log(2) ** n / math.factorial(n)) for n in range(1, 7))
LOWEST = np.float32(-126)  # exponent of the smallest normal number
ONE_BIT, U15, U16, U23 = np.uint32(1), np.uint32(15), np.uint32(16), np.uint32(23)
LOW16, TO_NEAREST = np.uint32(0xFFFF), np.uint32(0x7FFF)
MIX1, MIX2 = np.uint32(0x21F0AAAD), np.uint32(0xD35A2D97)  # of a 32-bit hash by C. Wellons and TheIronBorn


def _openmp() -> ctypes.CDLL:
    """The library that starts torch's threads. Raises ImportError where it does not have GNU's interface."""
    for library in (Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*"):
        with suppress(OSError):
            found = ctypes.CDLL(str(library))
            if hasattr(found, "GOMP_parallel"):
                return found
    raise ImportError("torch's threads cannot be used here")


OPENMP = _openmp()


CACHE = cache_directory(sorted(Path(__file__).parent.glob("*.py")))
if CACHE is not None:
    numba.config.CACHE_DIR = str(CACHE)


def kernel(function: Callable[..., None]) -> Any:
    """Compile for `run`: a function of one pointer, to the words of its arguments."""
    options = OPTIONS | {"nopython": True, "cache": CACHE is not None}
    return numba.cfunc(SIGNATURE, **options)(inspect.unwrap(function))


def inner(function: Callable[..., Any]) -> Any:
    """Compile for the use of kernels."""
    return numba.njit(inspect.unwrap(function), **OPTIONS)


def run(task: Any, blocks: int, *arguments: Tensor | float | None) -> None:
    """Run a kernel on all blocks. It finds its arguments from word 2 on, tensors as addresses, None as 0."""
    words = [0, blocks, *map(_word, arguments)]
    memory = (ctypes.c_int64 * WORDS)(*words)
    OPENMP.GOMP_parallel(task.ctypes, memory, min(torch.get_num_threads(), blocks), 0)


def _word(argument: Tensor | float | None) -> int:
    if isinstance(argument, Tensor):
        return argument.data_ptr()
    return int(np.float32(argument).view(np.uint32)) if isinstance(argument, float) else int(argument or 0)


@intrinsic
def take(typing: Any, words: Any) -> Any:
    """The next block, or one that is too large when all are taken."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one = context.get_constant(types.int64, 1)
        return builder.atomic_rmw("add", arguments[0], one, "monotonic")

    return types.int64(types.CPointer(types.int64)), generate


@intrinsic
def pointer(typing: Any, address: Any, dtype: Any) -> Any:
    """An address as a pointer to numbers of this type."""
    target = types.CPointer(dtype.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(target))

    return target(address, dtype), generate


def _bitcast(source: Any, target: Any) -> Any:
    @intrinsic
    def bitcast(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), generate

    return bitcast


to_float = _bitcast(types.uint32, types.float32)
to_bits = _bitcast(types.float32, types.uint32)


@intrinsic
def place(typing: Any, array: Any, offset: Any) -> Any:
    """A pointer to an element of an array without gaps."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.gep(data, [arguments[1]])

    return types.CPointer(array.dtype)(array, types.int64), generate


@intrinsic
def combine_lanes(typing: Any, factors: Any, step: Any, rows: Any, stride: Any, count: Any, out: Any) -> Any:
    """Write the sum of factors[r * step] * rows[r * stride : r * stride + LANES] over `count` rows r.

    The sum stays in a register, which LLVM does not find out for a loop over arrays: 65 GFLOP/s instead
    of 10 to 29 for the matrices of a short sentence.
    """
    pointer32 = types.CPointer(types.float32)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        factors, step, rows, stride, count, out = arguments
        vector = ir.VectorType(ir.FloatType(), LANES)
        first, undefined = ir.Constant(ir.IntType(32), 0), ir.Constant(vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES))
        with cgutils.for_range(builder, count) as loop:
            factor = builder.load(builder.gep(factors, [builder.mul(loop.index, step)]))
            factor = builder.insert_element(undefined, factor, first)
            factor = builder.shuffle_vector(factor, undefined, everywhere)
            source = builder.gep(rows, [builder.mul(loop.index, stride)])
            row = builder.load(builder.bitcast(source, vector.as_pointer()), align=4)
            product = builder.fmul(factor, row, flags=["contract", "reassoc"])
            added = builder.fadd(builder.load(total), product, flags=["contract", "reassoc"])
            builder.store(added, total)
        builder.store(builder.load(total), builder.bitcast(out, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    sized = types.int64
    return types.void(pointer32, sized, pointer32, sized, sized, pointer32), generate


@inner
def floats(address, count):
    """The float32 array at an address."""
    return carray(pointer(address, np.float32), count)


@inner
def halves(address, count):
    """The array of 16-bit numbers at an address."""
    return carray(pointer(address, np.uint16), count)


@inner
def load(address, start, narrow, row):
    """Read a row of float32 from an array's place `start`."""
    if narrow:
        source = halves(address + 2 * start, len(row))
        for j in range(len(row)):
            row[j] = to_float(np.uint32(source[j]) << U16)
    else:
        source32 = floats(address + 4 * start, len(row))
        for j in range(len(row)):
            row[j] = source32[j]


@inner
def store(address, start, narrow, row):
    """Write a row of float32; bfloat16 is rounded to the nearest, ties to even."""
    if narrow:
        target = halves(address + 2 * start, len(row))
        for j in range(len(row)):
            bits = to_bits(row[j])
            target[j] = np.uint16(np.uint32(bits + TO_NEAREST + ((bits >> U16) & ONE_BIT)) >> U16)
    else:
        target32 = floats(address + 4 * start, len(row))
        for j in range(len(row)):
            target32[j] = row[j]


@inner
def exp(x):
    """e^x; at least 2^-126. math.exp would not run in vector registers."""
    scaled = max(x * LOG2_E, LOWEST)
    n = np.floor(scaled + HALF)
    f = scaled - n
    power = ONE + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))
    return power * to_float(np.uint32(np.int32(n) + np.int32(127)) << U23)


@inner
def drop(row, index, seed, dropped):
    """Dropout in place: one hash of seed and place decides two elements."""
    if dropped == 0:
        return
    half, limit = len(row) // 2, np.uint32(dropped)
    low, high = row[:half], row[half:]
    scale = np.float32(65536) / np.float32(65536 - dropped)
    first, second = np.uint32(np.uint32(index * half) ^ np.uint32(seed)), np.uint32(seed >> 32)
    for j in range(half):
        x = np.uint32(first + np.uint32(j))
        x = np.uint32(np.uint32(x ^ np.uint32(x >> U16)) * MIX1)
        x = np.uint32(x + second)
        x = np.uint32(np.uint32(x ^ np.uint32(x >> U15)) * MIX2)
        x = np.uint32(x ^ np.uint32(x >> U15))
        low[j] *= scale if np.uint32(x & LOW16) >= limit else ZERO
        high[j] *= scale if np.uint32(x >> U16) >= limit else ZERO
