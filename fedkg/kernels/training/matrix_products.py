"""Products of small matrices from tiles, and elementwise activations of gates and layers.

Letters: R rows, V columns, D depth of a product, n numbers of a vector.
"""

from __future__ import annotations

from fedkg.kernels.loop_language import Float, Floats, Ints, loop, to_float
from fedkg.kernels.training.llvm_primitives import (
    exponential,
    five,
    five_gathered,
    five_masked,
    five_masked_gathered,
    four,
    four_gathered,
    four_masked,
    four_masked_gathered,
    greater,
    lanes,
    one,
    one_gathered,
    one_masked,
    one_masked_gathered,
    three,
    three_gathered,
    three_masked,
    three_masked_gathered,
    two,
    two_gathered,
    two_masked,
    two_masked_gathered,
)

DEEP = 320
"""Rows of the right matrix per pass: at the width of a tile they fit the L1 cache."""


@loop
def multiply(
    out: Floats,
    out_row: int,
    begin: Floats,
    begin_row: int,
    left: Floats,
    left_row: int,
    left_step: int,
    right: Floats,
    right_row: int,
    rows: int,
    columns: int,
    depth: int,
) -> None:
    """``out = begin + left right``: [R, V], [R, V], [R, D], [D, V], possibly in place, with row
    distances and the step of `left`.
    """
    _part(
        out,
        out_row,
        begin,
        begin_row,
        left,
        left_row,
        left_step,
        right,
        right_row,
        rows,
        columns,
        min(depth, DEEP),
    )
    for at in range(DEEP, depth, DEEP):
        more, down = left[at * left_step :], right[at * right_row :]
        _part(
            out,
            out_row,
            out,
            out_row,
            more,
            left_row,
            left_step,
            down,
            right_row,
            rows,
            columns,
            min(depth - at, DEEP),
        )


@loop
def _part(
    out: Floats,
    out_row: int,
    begin: Floats,
    begin_row: int,
    left: Floats,
    left_row: int,
    left_step: int,
    right: Floats,
    right_row: int,
    rows: int,
    columns: int,
    depth: int,
) -> None:
    column, wide = 0, lanes()
    while column < columns:
        there = columns - column
        row = 0
        while row < rows:
            to, since = out[row * out_row + column :], begin[row * begin_row + column :]
            by, down, high = left[row * left_row :], right[column:], _high(rows - row)
            if there >= wide:
                if high == 5:
                    five(
                        to,
                        out_row,
                        since,
                        begin_row,
                        by,
                        left_row,
                        left_step,
                        down,
                        right_row,
                        depth,
                        there,
                    )
                elif high == 4:
                    four(
                        to,
                        out_row,
                        since,
                        begin_row,
                        by,
                        left_row,
                        left_step,
                        down,
                        right_row,
                        depth,
                        there,
                    )
                elif high == 3:
                    three(
                        to,
                        out_row,
                        since,
                        begin_row,
                        by,
                        left_row,
                        left_step,
                        down,
                        right_row,
                        depth,
                        there,
                    )
                elif high == 2:
                    two(
                        to,
                        out_row,
                        since,
                        begin_row,
                        by,
                        left_row,
                        left_step,
                        down,
                        right_row,
                        depth,
                        there,
                    )
                else:
                    one(
                        to,
                        out_row,
                        since,
                        begin_row,
                        by,
                        left_row,
                        left_step,
                        down,
                        right_row,
                        depth,
                        there,
                    )
            elif high == 5:
                five_masked(
                    to,
                    out_row,
                    since,
                    begin_row,
                    by,
                    left_row,
                    left_step,
                    down,
                    right_row,
                    depth,
                    there,
                )
            elif high == 4:
                four_masked(
                    to,
                    out_row,
                    since,
                    begin_row,
                    by,
                    left_row,
                    left_step,
                    down,
                    right_row,
                    depth,
                    there,
                )
            elif high == 3:
                three_masked(
                    to,
                    out_row,
                    since,
                    begin_row,
                    by,
                    left_row,
                    left_step,
                    down,
                    right_row,
                    depth,
                    there,
                )
            elif high == 2:
                two_masked(
                    to,
                    out_row,
                    since,
                    begin_row,
                    by,
                    left_row,
                    left_step,
                    down,
                    right_row,
                    depth,
                    there,
                )
            else:
                one_masked(
                    to,
                    out_row,
                    since,
                    begin_row,
                    by,
                    left_row,
                    left_step,
                    down,
                    right_row,
                    depth,
                    there,
                )
            row += high
        column += wide


@loop
def _high(rows: int) -> int:
    """Rows of the next tile, so that no tile at the end is too flat to hide the latency of its
    sums.
    """
    if rows == 6:
        return 3
    return 4 if rows in (7, 8, 11, 12) else min(rows, 5)


@loop
def shifted(
    out: Floats,
    out_row: int,
    begin: Floats,
    begin_row: int,
    left: Floats,
    left_row: int,
    right: Floats,
    distances: Ints,
    rows: int,
    columns: int,
    depth: int,
) -> None:
    """``out = begin + left right``, with row d of `right` at ``distances[d]``; `begin`, 64 bytes a
    row, repeats.
    """
    _shifted(
        out,
        out_row,
        begin,
        begin_row,
        0,
        left,
        left_row,
        right,
        distances,
        rows,
        columns,
        min(depth, DEEP),
    )
    for at in range(DEEP, depth, DEEP):
        more, far = left[at:], distances[at:]
        _shifted(
            out,
            out_row,
            out,
            out_row,
            1,
            more,
            left_row,
            right,
            far,
            rows,
            columns,
            min(depth - at, DEEP),
        )


@loop
def _shifted(
    out: Floats,
    out_row: int,
    begin: Floats,
    begin_row: int,
    begin_step: int,
    left: Floats,
    left_row: int,
    right: Floats,
    distances: Ints,
    rows: int,
    columns: int,
    depth: int,
) -> None:
    column, wide = 0, lanes()
    while column < columns:
        there = columns - column
        row = 0
        while row < rows:
            to, since = (
                out[row * out_row + column :],
                begin[row * begin_row + column * begin_step :],
            )
            by, down, high = left[row * left_row :], right[column:], _high(rows - row)
            if there >= wide:
                if high == 5:
                    five_gathered(
                        to,
                        out_row,
                        since,
                        begin_row,
                        by,
                        left_row,
                        1,
                        down,
                        distances,
                        depth,
                        there,
                    )
                elif high == 4:
                    four_gathered(
                        to,
                        out_row,
                        since,
                        begin_row,
                        by,
                        left_row,
                        1,
                        down,
                        distances,
                        depth,
                        there,
                    )
                elif high == 3:
                    three_gathered(
                        to,
                        out_row,
                        since,
                        begin_row,
                        by,
                        left_row,
                        1,
                        down,
                        distances,
                        depth,
                        there,
                    )
                elif high == 2:
                    two_gathered(
                        to,
                        out_row,
                        since,
                        begin_row,
                        by,
                        left_row,
                        1,
                        down,
                        distances,
                        depth,
                        there,
                    )
                else:
                    one_gathered(
                        to,
                        out_row,
                        since,
                        begin_row,
                        by,
                        left_row,
                        1,
                        down,
                        distances,
                        depth,
                        there,
                    )
            elif high == 5:
                five_masked_gathered(
                    to, out_row, since, begin_row, by, left_row, 1, down, distances, depth, there
                )
            elif high == 4:
                four_masked_gathered(
                    to, out_row, since, begin_row, by, left_row, 1, down, distances, depth, there
                )
            elif high == 3:
                three_masked_gathered(
                    to, out_row, since, begin_row, by, left_row, 1, down, distances, depth, there
                )
            elif high == 2:
                two_masked_gathered(
                    to, out_row, since, begin_row, by, left_row, 1, down, distances, depth, there
                )
            else:
                one_masked_gathered(
                    to, out_row, since, begin_row, by, left_row, 1, down, distances, depth, there
                )
            row += high
        column += wide


@loop
def fill(out: Floats, n: int, value: Float) -> None:
    """Set all numbers to a value."""
    for i in range(n):
        out[i] = value


@loop
def add(out: Floats, more: Floats, n: int) -> None:
    """Add `more` to `out`."""
    for i in range(n):
        out[i] += more[i]


@loop
def scaled(out: Floats, by: Float, n: int) -> None:
    """Multiply `out` by a number."""
    for i in range(n):
        out[i] = out[i] * by


@loop
def sigmoids(out: Floats, x: Floats, n: int) -> None:
    """``1 / (1 + exp(-x))``."""
    for i in range(n):
        out[i] = 1.0 / (1.0 + exponential(-x[i]))


@loop
def tanhs(out: Floats, x: Floats, n: int) -> None:
    """``tanh x = 2 / (1 + exp(-2 x)) - 1``."""
    for i in range(n):
        out[i] = 2.0 / (1.0 + exponential(-(x[i] + x[i]))) - 1.0


@loop
def rectify(out: Floats, n: int) -> None:
    """max(x, 0); NaN stays NaN."""
    for i in range(n):
        out[i] = greater(out[i], 0.0)


@loop
def affine(
    first: int,
    last: int,
    rows: int,
    inputs: int,
    outputs: int,
    out: Floats,
    weight: Floats,
    bias: Floats,
    x: Floats,
    room: Floats,
) -> None:
    """``x weight^T + bias`` of clients first .. last - 1: [C, R, O], [C, O, I], [C, O], [C, R, I].
    room: for I O numbers.
    """
    for client in range(first, last):
        own = weight[client * inputs * outputs :]
        for place in range(inputs):
            for output in range(outputs):
                room[place * outputs + output] = own[output * inputs + place]
        to, read, begin = (
            out[client * rows * outputs :],
            x[client * rows * inputs :],
            bias[client * outputs :],
        )
        multiply(to, outputs, begin, 0, read, inputs, 1, room, outputs, rows, outputs, inputs)


@loop
def outer(
    first: int,
    last: int,
    rows: int,
    outputs: int,
    inputs: int,
    sums: Floats,
    totals: Floats,
    left: Floats,
    right: Floats,
) -> None:
    """For clients first .. last - 1, the sums over r of ``left[r, o] right[r, i]`` as [C, I, O],
    and of ``left[r, o]``, [C, O].
    """
    for client in range(first, last):
        to, total = sums[client * inputs * outputs :], totals[client * outputs :]
        by, read = left[client * rows * outputs :], right[client * rows * inputs :]
        fill(to, inputs * outputs, to_float(0))
        multiply(to, outputs, to, outputs, read, 1, inputs, by, outputs, inputs, outputs, rows)
        fill(total, outputs, to_float(0))
        for row in range(rows):
            add(total, by[row * outputs :], outputs)
