"""Transposition of matrices in vector blocks; single numbers would each touch a separate cache
line.

Letters: R rows, V columns, N rows and columns of a block.
"""

from __future__ import annotations

from fedkg.kernels.loop_language import Floats, LLVMFunction, loop

SIDE = 8
"""N."""


def _block(single: bool) -> str:
    """Rows i and i + d exchange the numbers at distance d, for d of 4, 2 and 1: the number at (r,
    v) moves to (v, r).
    """
    kind = "float" if single else "double"
    vector, size = f"<{SIDE} x {kind}>", 4 if single else 8
    lines = [
        "define internal void @block(ptr %out, i64 %out_row, ptr %x, i64 %x_row) alwaysinline {"
    ]
    rows = [f"%x{row}" for row in range(SIDE)]
    for row in range(SIDE):
        lines += [
            f"  %at{row} = mul i64 %x_row, {row}",
            f"  %since{row} = getelementptr {kind}, ptr %x, i64 %at{row}",
        ]
        lines += [f"  {rows[row]} = load {vector}, ptr %since{row}, align {size}"]
    apart = SIDE // 2
    while apart:
        for row in (row for row in range(SIDE) if not row & apart):
            one, other = rows[row], rows[row + apart]
            low = [
                f"i32 {place if not place & apart else SIDE + place - apart}"
                for place in range(SIDE)
            ]
            high = [
                f"i32 {place + apart if not place & apart else SIDE + place}"
                for place in range(SIDE)
            ]
            for to, places in ((row, low), (row + apart, high)):
                rows[to] = f"%turn{apart}_{to}"
                mask = f"<{SIDE} x i32> <{', '.join(places)}>"
                lines.append(
                    f"  {rows[to]} = shufflevector {vector} {one}, {vector} {other}, {mask}"
                )
        apart //= 2
    for row in range(SIDE):
        lines += [
            f"  %by{row} = mul i64 %out_row, {row}",
            f"  %to{row} = getelementptr {kind}, ptr %out, i64 %by{row}",
        ]
        lines += [f"  store {vector} {rows[row]}, ptr %to{row}, align {size}"]
    return "\n".join([*lines, "  ret void", "}"])


def _nothing(single: bool) -> tuple[str, ...]:
    return ()


block = LLVMFunction("block", ("Floats", "int", "Floats", "int"), "None", _block, _nothing)
"""``out[v, r] = x[r, v]`` for N rows and columns, with these row distances."""


@loop
def transpose(out: Floats, out_row: int, x: Floats, x_row: int, rows: int, columns: int) -> None:
    """``out[v, r] = x[r, v]``, [V, R] from [R, V], with these row distances."""
    whole, row = rows - rows % SIDE, 0
    straight = columns - columns % SIDE
    while row < rows:
        if row < whole:
            for column in range(0, straight, SIDE):
                block(out[column * out_row + row :], out_row, x[row * x_row + column :], x_row)
            for column in range(straight, columns):
                for down in range(row, row + SIDE):
                    out[column * out_row + down] = x[down * x_row + column]
            row += SIDE
        else:
            for column in range(columns):
                out[column * out_row + row] = x[row * x_row + column]
            row += 1
