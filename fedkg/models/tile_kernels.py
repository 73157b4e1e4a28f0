"""What compiled loops over small layers need that neither Numba nor a library call has: products of small matrices, and the sigmoid.

A library's product of matrices this small is mostly its call, and a compiled loop over rows of 16 numbers is not vectorised. Here the
vectors are spelt out: a tile of rows times 64 bytes of columns stays in registers while the depth runs by.

Letters: R rows, V columns, D depth of a product; L numbers in a vector.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic as _intrinsic
from numba.extending import overload as _overload
from numpy.typing import NDArray

from fedkg.kernels import inner

Array = NDArray[Any]
"""float32 or float64."""

cgutils: Any = _cgutils  # what is handed to a compiler has no types that mypy could follow
intrinsic: Any = _intrinsic
overload: Any = _overload

VECTOR = 64
"""Bytes of a row that a tile holds."""


def _fused(context: Any, a: Any, b: Any, c: Any) -> Any:
    return a(a, a, a), lambda target, builder, signature, args: builder.fma(*args)


fused: Any = intrinsic(_fused)
"""``fused(a, b, c)`` is ``a b + c``, rounded once."""


def _shifted(context: Any, shifted: Any) -> Any:
    bits, mantissa = (64, 52) if shifted == types.float64 else (32, 23)

    def code(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = builder.bitcast(args[0], ir.IntType(bits))
        return builder.bitcast(builder.shl(whole, ir.Constant(ir.IntType(bits), mantissa)), args[0].type)

    return shifted(shifted), code


_power: Any = intrinsic(_shifted)
"""2^n, from a number whose lowest bits are n plus the bias of its exponent."""


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))`` to a few units in the last place of 1, for kernels; NaN stays NaN.

    exp(z) is ``2^n exp(r)`` with n the whole number nearest z / ln 2 and r the rest, whose exponential is its Taylor sum.
    """
    raise NotImplementedError("for kernels only")


def _sigmoid(x: Any) -> Any:
    real: Any = np.float64 if x == types.float64 else np.float32
    mantissa, bias, end = (52, 1023, 700) if real is np.float64 else (23, 127, 87)
    # Adding this rounds to a whole number, which then stands in the lowest bits together with the bias of the exponent.
    shift, end, one, per = real(1.5 * 2.0**mantissa + bias), real(end), real(1), real(1 / math.log(2))
    # ln 2 in two parts: n times the first is exact.
    parts = ("0x1.62e42fefa0000p-1", "0x1.cf79abc9e3b3ap-40") if real is np.float64 else ("0x1.62e4p-1", "0x1.7f7d1cf79abcap-20")
    high, low = (real(float.fromhex(part)) for part in parts)
    half, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13 = (real(1 / math.factorial(power)) for power in range(2, 14))

    def short(x: Any) -> Any:
        z = end if -x > end else (-end if -x < -end else -x)
        t = fused(z, per, shift)
        n = t - shift
        r = fused(n, -low, fused(n, -high, z))
        p = fused(fused(fused(fused(fused(c7, r, c6), r, c5), r, c4), r, c3), r, half)
        return one / fused(fused(fused(p, r, one), r, one), _power(t), one)

    def long(x: Any) -> Any:
        z = end if -x > end else (-end if -x < -end else -x)
        t = fused(z, per, shift)
        n = t - shift
        r = fused(n, -low, fused(n, -high, z))
        p = fused(fused(fused(fused(fused(fused(c13, r, c12), r, c11), r, c10), r, c9), r, c8), r, c7)
        p = fused(fused(fused(fused(fused(p, r, c6), r, c5), r, c4), r, c3), r, half)
        return one / fused(fused(fused(p, r, one), r, one), _power(t), one)

    return long if real is np.float64 else short


overload(sigmoid)(_sigmoid)


def _tile(rows: int, wide: bool) -> Any:
    """A tile of `rows` rows and 64 bytes, or one number, of columns."""

    def tile(context: Any, out: Any, begin: Any, left: Any, right: Any, depth: Any) -> Any:
        def code(target: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = target.get_value_type(out.dtype)
            size, word, byte = target.get_abi_sizeof(number), ir.IntType(64), ir.IntType(8).as_pointer()
            lanes = VECTOR // size
            vector = ir.VectorType(number, lanes) if wide else number
            name = f"llvm.fma.{f'v{lanes}' if wide else ''}f{8 * size}"
            fma = builder.module.declare_intrinsic(name, (), ir.FunctionType(vector, [vector] * 3))

            arrays = [target.make_array(kind)(target, builder, value) for kind, value in zip(signature.args[:4], args[:4], strict=True)]
            strides = [cgutils.unpack_tuple(builder, array.strides) for array in arrays]

            def row(place: int, at: Any) -> Any:
                return builder.gep(builder.bitcast(arrays[place].data, byte), [builder.mul(strides[place][0], at)])

            def load(place: Any, kind: Any) -> Any:
                value = builder.load(builder.bitcast(place, kind.as_pointer()))
                value.align = size
                return value

            def spread(value: Any) -> Any:
                if not wide:
                    return value
                nothing = ir.Constant(vector, ir.Undefined)
                first = builder.insert_element(nothing, value, ir.IntType(32)(0))
                return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))

            sums = [cgutils.alloca_once_value(builder, load(row(1, word(place)), vector)) for place in range(rows)]
            lefts = [row(2, word(place)) for place in range(rows)]
            with cgutils.for_range(builder, args[4]) as loop:
                columns = load(row(3, loop.index), vector)
                for total, begins in zip(sums, lefts, strict=True):
                    factor = load(builder.gep(begins, [builder.mul(loop.index, strides[2][1])]), number)
                    builder.store(builder.call(fma, [spread(factor), columns, builder.load(total)]), total)
            for place, total in enumerate(sums):
                written = builder.store(builder.load(total), builder.bitcast(row(0, word(place)), vector.as_pointer()))
                written.align = size
            return target.get_dummy_value()

        return types.void(out, begin, left, right, depth), code

    return intrinsic(tile)


_five, _two, _one, _rest = _tile(5, wide=True), _tile(2, wide=True), _tile(1, wide=True), _tile(1, wide=False)


@inner
def multiply(out: Array, begin: Array, left: Array, right: Array) -> None:
    """``out = begin + left right``: [R, V], [R, V], [R, D], [D, V], in place if wished.

    Rows have any distance; their numbers are neighbours (but in `left`). Give all as slices ``[:, a:b]`` or transposes, so that there is
    one kind of array to compile for.
    """
    rows, columns, depth, lanes = out.shape[0], out.shape[1], left.shape[1], VECTOR // out.itemsize
    column = 0
    while column < columns:
        wide = column + lanes <= columns
        row = 0
        while row < rows:
            high = min(5, rows - row) if wide else 1
            to, since, by, down = out[row:, column:], begin[row:, column:], left[row:, 0:], right[0:, column:]
            if high == 5:
                _five(to, since, by, down, depth)
            elif high > 1:
                _two(to, since, by, down, depth)
                high = 2
            elif wide:
                _one(to, since, by, down, depth)
            else:
                _rest(to, since, by, down, depth)
            row += high
        column += lanes if wide else 1
