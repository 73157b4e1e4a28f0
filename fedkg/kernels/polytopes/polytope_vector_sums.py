"""Sums of products for many points at once in Numba kernels, with totals in registers.

Numba's own loops check for each product whether input and output overlap, and pass the total
through memory. Arrays are contiguous, float64, with S points in their last dimension, S a multiple
of `LANES`. Products are rounded and subtracted in order, so results are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from fedkg.kernels.kernel_compilation import check_index, instruction

LANES = 32
"""Points with their total in registers: eight registers of four numbers, or four of eight."""

VECTOR = ir.VectorType(ir.DoubleType(), LANES)
INDEX = ir.IntType(64)


@instruction
def subtract_products(
    _typing: Any,
    total: Any,
    left: Any,
    at_left: Any,
    right: Any,
    at_right: Any,
    first: Any,
    last: Any,
) -> Any:
    """``total`` [S] minus the products of the rows of `left` and `right`, [..., S] each, at the
    positions first .. last - 1.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:5], args[:5], strict=True)
        ]

        def product(p: Any, lane: Any) -> Any:
            rows = (_row(context, builder, arrays[i], arrays[i + 1], p, lane) for i in (1, 3))
            return builder.fmul(*rows)

        return _subtracted(context, builder, arrays[0], args[5:], product)

    return types.none(total, left, at_left, right, at_right, types.int64, types.int64), generate


@instruction
def subtract_weighted(
    _typing: Any, total: Any, by: Any, part: Any, at: Any, first: Any, last: Any
) -> Any:
    """``total`` [S] minus the rows of `part` [..., S] at the positions first .. last - 1, each
    times its number in `by`.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:4], args[:4], strict=True)
        ]

        def product(p: Any, lane: Any) -> Any:
            check_index(context, builder, p, arrays[1].nitems)
            weight = builder.load(builder.gep(arrays[1].data, [p]))
            one = builder.insert_element(
                ir.Constant(VECTOR, ir.Undefined), weight, ir.Constant(ir.IntType(32), 0)
            )
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            spread = builder.shuffle_vector(one, one, everywhere)
            return builder.fmul(spread, _row(context, builder, arrays[2], arrays[3], p, lane))

        return _subtracted(context, builder, arrays[0], args[4:], product)

    return types.none(total, by, part, at, types.int64, types.int64), generate


def _subtracted(
    context: Any,
    builder: Any,
    total: Any,
    span: tuple[Any, Any],
    product: Callable[[Any, Any], Any],
) -> Any:
    """For each `LANES` of the total: load it, subtract ``product(p, lane)`` for each p of the span,
    and store it.
    """
    size, step = builder.extract_value(total.shape, 0), ir.Constant(INDEX, LANES)
    first, last = span
    kept = cgutils.alloca_once(builder, VECTOR)
    with cgutils.for_range_slice(builder, ir.Constant(INDEX, 0), size, step) as (lane, _):
        check_index(context, builder, builder.add(lane, INDEX(LANES - 1)), size)
        place = builder.bitcast(builder.gep(total.data, [lane]), VECTOR.as_pointer())
        builder.store(builder.load(place, align=8), kept)
        with cgutils.for_range_slice(builder, first, last, ir.Constant(INDEX, 1)) as (p, _):
            builder.store(builder.fsub(builder.load(kept), product(p, lane)), kept)
        builder.store(builder.load(kept), place, align=8)
    return context.get_dummy_value()


def _row(context: Any, builder: Any, part: Any, places: Any, p: Any, lane: Any) -> Any:
    """`LANES` numbers of the row of `part` [..., S] at the p-th position, from a lane on."""
    check_index(context, builder, p, places.nitems)
    row = builder.zext(builder.load(builder.gep(places.data, [p])), INDEX)
    start = builder.add(builder.mul(row, builder.extract_value(part.shape, 1)), lane)
    check_index(context, builder, start, part.nitems)
    check_index(context, builder, builder.add(start, INDEX(LANES - 1)), part.nitems)
    return builder.load(
        builder.bitcast(builder.gep(part.data, [start]), VECTOR.as_pointer()), align=8
    )
