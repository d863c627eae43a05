"""The sums of a product in vector registers, written in LLVM's own instructions.

LLVM also finds vectors in loops of Python. But then it adds up the numbers of each register on its own, and
a product takes a seventh to a third longer.

Axis letters: R rows, O and I the outputs and inputs of a matrix.
"""

from __future__ import annotations

from typing import Any, cast

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils

from model.decoding.kernels.jit import instructions

# 32 vector registers of 512 bits; `set_up_numba` of compilation.py has said what numba may use.
IS_WIDE = "+avx512f" in (cast(Any, numba.config).CPU_FEATURES or "")
LANES = 16 if IS_WIDE else 8  # numbers of a vector; shorter registers take several
BYTE = ir.IntType(8)
VECTOR = ir.VectorType(ir.FloatType(), LANES)


def sums(rows: int, outputs: int) -> Any:
    """A function that writes `rows` times `outputs` sums, at most LANES, of products over I into `out`.

    It is called as `tile(x, r, weight, o, out)`: the rows of x [R, I] from r on, the outputs of weight [O, I]
    from o on. The last I % LANES inputs are left out. The arrays are contiguous, and the number of sums is a
    power of 2.
    """

    @instructions
    def tile(typing: Any, x: Any, r: Any, weight: Any, o: Any, out: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def array(place: int) -> Any:
                return context.make_array(signature.args[place])(context, builder, arguments[place])

            def width(array: Any) -> Any:
                return builder.extract_value(array.shape, 1)

            def row(array: Any, start: Any, number: int) -> Any:
                at = builder.add(start, start.type(number))
                return builder.gep(array.data, [builder.mul(at, width(array))])

            _, r, _, o, _ = arguments
            x, weight, out = map(array, (0, 2, 4))
            read = [row(x, r, number) for number in range(rows)]
            weights = [row(weight, o, number) for number in range(outputs)]
            inputs = width(weight)
            zero = ir.Constant(VECTOR, [0.0] * LANES)
            totals = [[cgutils.alloca_once_value(builder, zero) for _ in weights] for _ in read]
            end, step = builder.and_(inputs, inputs.type(-LANES)), inputs.type(LANES)
            with cgutils.for_range_slice(builder, inputs.type(0), end, step, inputs.type) as (i, _):
                factors = [_load(builder, each, i) for each in weights]
                for each, of_row in zip(read, totals, strict=True):
                    numbers = _load(builder, each, i)
                    for total, factor in zip(of_row, factors, strict=True):
                        product = builder.fmul(numbers, factor, flags=("contract",))
                        builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
            found = _added_up(builder, [builder.load(each) for of_row in totals for each in of_row])
            for number in range(rows):
                part = _shuffled(builder, found, found, range(number * outputs, (number + 1) * outputs))
                place = builder.gep(row(out, r, number), [o])
                builder.store(part, builder.bitcast(place, part.type.as_pointer())).align = 4
            return context.get_dummy_value()

        return types.void(x, types.int64, weight, types.int64, out), generate

    return tile


def _load(builder: Any, row: Any, at: Any) -> Any:
    """LANES numbers of a row as floats."""
    kind = row.type.pointee
    place = builder.bitcast(builder.gep(row, [at]), ir.VectorType(kind, LANES).as_pointer())
    loaded = builder.load(place)
    loaded.align = 1 if kind == BYTE else 4
    return builder.sitofp(loaded, VECTOR) if kind == BYTE else loaded


def _added_up(builder: Any, vectors: list[Any]) -> Any:
    """One vector with the sum of each vector in its order; their number is a power of 2, at most LANES.

    Each turn adds neighbours, and puts what is left of two vectors into one.
    """
    count = len(vectors)
    while vectors[0].type.count > count or len(vectors) > 1:
        length = vectors[0].type.count
        ones, others = (vectors[0::2], vectors[1::2]) if len(vectors) > 1 else (vectors, vectors)
        most = 2 * length if len(vectors) > 1 else length
        vectors = [
            builder.fadd(*(_shuffled(builder, one, other, range(first, most, 2)) for first in (0, 1)))
            for one, other in zip(ones, others, strict=True)
        ]
    return vectors[0]


def _shuffled(builder: Any, one: Any, other: Any, places: range) -> Any:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
    return builder.shuffle_vector(one, other, mask)
