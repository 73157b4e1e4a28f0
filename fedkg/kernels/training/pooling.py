"""Activation and pooling of a convolution's output, and their backward pass, in vectors of squares
of a row.

The rectifier is applied after max pooling: the maximum of rectified numbers is the rectified
maximum, and it has a derivative if that is positive. Hence `floor`, the lower bound of the outputs:
0, or -1 for tanh, which has no effect. If a row is not a multiple of a vector, the last vector
overlaps the previous one; both write the same values.

Letters: r and c height and width after pooling, p its side, N squares of a vector.
"""

from __future__ import annotations

from fedkg.kernels.loop_language import Float, Floats, LLVMFunction, loop, to_float
from fedkg.kernels.training.llvm_primitives import greater

VECTORS = 8, 4, 1
"""N: the first of these that fits a row."""


def _index_vector(places: list[int]) -> str:
    return f"<{len(places)} x i32> <{', '.join(f'i32 {place}' for place in places)}>"


def _row(name: str, parts: dict[str, int], last: str) -> str:
    """A function that processes a row of `columns` squares with `name` for 8, 4 or 1 squares; parts
    advance by this much per square.
    """
    given = ", ".join(f"ptr %{part}" for part in parts)
    text = [
        f"define internal void @{name}({given}, i64 %columns, {last}) nounwind noinline {{",
        "entry:",
        "  br label %from8",
    ]
    for lanes, other in zip(
        VECTORS, (*(f"from{lanes}" for lanes in VECTORS[1:]), "done"), strict=True
    ):
        text += [
            f"from{lanes}:",
            f"  %fits{lanes} = icmp sge i64 %columns, {lanes}",
            f"  br i1 %fits{lanes}, label %some{lanes}, label %{other}",
            f"some{lanes}:",
            f"  %column{lanes} = phi i64 [ 0, %from{lanes} ], [ %next{lanes}, %some{lanes} ]",
            f"  %last{lanes} = sub i64 %columns, {lanes}",
            f"  %over{lanes} = icmp sgt i64 %column{lanes}, %last{lanes}",
            f"  %at{lanes} = select i1 %over{lanes}, i64 %last{lanes}, i64 %column{lanes}",
        ]
        for part, by in parts.items():
            text.append(f"  %far_{part}{lanes} = mul i64 %at{lanes}, {by}")
            text.append(f"  %{part}{lanes} = getelementptr i8, ptr %{part}, i64 %far_{part}{lanes}")
        text += [
            (
                "  call void "
                f"@{name}_{lanes}({', '.join(f'ptr %{part}{lanes}' for part in parts)}, {last})"
            ),
            f"  %next{lanes} = add i64 %at{lanes}, {lanes}",
            f"  %again{lanes} = icmp slt i64 %next{lanes}, %columns",
            f"  br i1 %again{lanes}, label %some{lanes}, label %done",
        ]
    return "\n".join([*text, "done:", "  ret void", "}"])


def _most(side: int, lanes: int, kind: str, size: int) -> list[str]:
    """The maximum of each square as `%most` (the first of equal ones, the last NaN), and whether it
    is the 2nd, 3rd, 4th number.
    """
    vector, both = f"<{lanes} x {kind}>", f"<{2 * lanes} x {kind}>"
    if side == 1:
        return [f"  %most = load {vector}, ptr %top, align {size}"]
    text = []
    for row, names in (("top", "ab"), ("low", "cd")):
        text.append(f"  %{row}s = load {both}, ptr %{row}, align {size}")
        for first, name in enumerate(names):
            text.append(
                f"  %{name} = shufflevector {both} %{row}s, {both} undef, "
                f"{_index_vector(list(range(first, 2 * lanes, 2)))}"
            )
    for name, before, most in (
        ("b", "%a", "%most_b"),
        ("c", "%most_b", "%most_c"),
        ("d", "%most_c", "%most"),
    ):
        text += [
            f"  %more_{name} = fcmp ogt {vector} %{name}, {before}",
            f"  %none_{name} = fcmp uno {vector} %{name}, %{name}",
            f"  %is_{name} = or <{lanes} x i1> %more_{name}, %none_{name}",
            f"  {most} = select <{lanes} x i1> %is_{name}, {vector} %{name}, {vector} {before}",
        ]
    return text


def _pooled(side: int) -> LLVMFunction:
    name = f"pooled{side}"

    def squares(lanes: int, kind: str, size: int) -> str:
        vector = f"<{lanes} x {kind}>"
        return "\n".join([
            (f"define internal void @{name}_{lanes}(ptr %out, ptr %top, ptr %low, {kind} "
            "%floor) alwaysinline {"),
            *_most(side, lanes, kind, size),
            f"  %one = insertelement {vector} undef, {kind} %floor, i32 0",
            (f"  %floors = shufflevector {vector} %one, {vector} undef, "
            f"{_index_vector([0] * lanes)}"),
            f"  %less = fcmp ole {vector} %most, %floors",
            f"  %v = select <{lanes} x i1> %less, {vector} %floors, {vector} %most",
            f"  store {vector} %v, ptr %out, align {size}",
            "  ret void",
            "}",
        ])  # fmt: skip

    def text(single: bool) -> str:
        kind, size = ("float", 4) if single else ("double", 8)
        return _row(name, {"out": size, "top": side * size, "low": side * size}, f"{kind} %floor")

    def needs(single: bool) -> tuple[str, ...]:
        return tuple(
            squares(lanes, *(("float", 4) if single else ("double", 8))) for lanes in VECTORS
        )

    return LLVMFunction(name, ("Floats", "Floats", "Floats", "int", "Float"), "None", text, needs)


def _unpooled(side: int) -> LLVMFunction:
    name = f"unpooled{side}"

    def squares(lanes: int, kind: str, size: int) -> str:
        vector, both, zero = f"<{lanes} x {kind}>", f"<{2 * lanes} x {kind}>", "zeroinitializer"
        ones = ", ".join([f"{kind} 1.0"] * lanes)
        lines = [
            (
                f"define internal void @{name}_{lanes}(ptr %to, ptr %under, ptr %top, ptr %low, "
                "ptr %by, i64 %tanh) alwaysinline {"
            ),
            *_most(side, lanes, kind, size),
            f"  %slope = load {vector}, ptr %by, align {size}",
            f"  %on = fcmp ugt {vector} %most, {zero}",
            f"  %straight = select <{lanes} x i1> %on, {vector} %slope, {vector} {zero}",
            f"  %square = fmul {vector} %most, %most",
            f"  %rest = fsub {vector} <{ones}>, %square",
            f"  %bent = fmul {vector} %slope, %rest",
            "  %bends = icmp sgt i64 %tanh, 0",
            f"  %left = select i1 %bends, {vector} %bent, {vector} %straight",
        ]
        if side == 1:
            return "\n".join(
                [*lines, f"  store {vector} %left, ptr %to, align {size}", "  ret void", "}"]
            )
        for place, before in (
            ("d", "left"),
            ("c", "left_d"),
            ("b", "left_c"),
        ):  # the derivative that later positions have not taken
            test = f"select <{lanes} x i1> %is_{place}, {vector}"
            lines.append(f"  %to_{place} = {test} %{before}, {vector} {zero}")
            lines.append(f"  %left_{place} = {test} {zero}, {vector} %{before}")
        places = _index_vector([place // 2 + lanes * (place % 2) for place in range(2 * lanes)])
        for row, even, odd in (("to", "left_b", "to_b"), ("under", "to_c", "to_d")):
            lines.append(f"  %{row}s = shufflevector {vector} %{even}, {vector} %{odd}, {places}")
            lines.append(f"  store {both} %{row}s, ptr %{row}, align {size}")
        return "\n".join([*lines, "  ret void", "}"])

    def text(single: bool) -> str:
        size = 4 if single else 8
        return _row(
            name,
            dict.fromkeys(("to", "under", "top", "low"), side * size) | {"by": size},
            "i64 %tanh",
        )

    def needs(single: bool) -> tuple[str, ...]:
        return tuple(
            squares(lanes, *(("float", 4) if single else ("double", 8))) for lanes in VECTORS
        )

    return LLVMFunction(
        name, ("Floats", "Floats", "Floats", "Floats", "Floats", "int", "int"), "None", text, needs
    )


pooled1, pooled2 = _pooled(1), _pooled(2)
"""``(out, top, low, columns, floor)``: pool a row of squares of 1 and 4 numbers, in rows from `top`
and `low`.
"""

unpooled1, unpooled2 = _unpooled(1), _unpooled(2)
"""``(to, under, top, low, by, columns, tanh)``: derivatives by all numbers before the activation,
from those by the pooled values.
"""


@loop
def pool(
    out: Floats,
    out_row: int,
    made: Floats,
    width: int,
    rows: int,
    columns: int,
    side: int,
    mean: int,
    floor: Float,
) -> None:
    """Pool one channel to [r, c], from an output with rows of `width`; rows of `out` have a
    distance of `out_row`.
    """
    for row in range(rows):
        to, top = out[row * out_row :], made[row * side * width :]
        if side == 1:
            pooled1(to, top, top, columns, floor)
        elif side == 2 and mean == 0:
            pooled2(to, top, top[width:], columns, floor)
        else:
            for column in range(columns):
                square = top[column * side :]
                if mean > 0:
                    to[column] = _mean(square, side, width, floor) * (1.0 / to_float(side * side))
                else:
                    to[column] = greater(square[_largest(square, side, width)], floor)


@loop
def unpool(
    slopes: Floats,
    made: Floats,
    width: int,
    by: Floats,
    by_row: int,
    rows: int,
    columns: int,
    side: int,
    mean: int,
    tanh: int,
) -> None:
    """The derivatives by one channel's output, rows of `width`, initially 0, from those by its
    pooled values, [r, c].
    """
    share = 1.0 / to_float(side * side)
    for row in range(rows):
        to, top, slope = (
            slopes[row * side * width :],
            made[row * side * width :],
            by[row * by_row :],
        )
        if side == 1:
            unpooled1(to, to, top, top, slope, columns, tanh)
        elif side == 2 and mean == 0:
            unpooled2(to, to[width:], top, top[width:], slope, columns, tanh)
        else:
            for column in range(columns):
                since = column * side
                if mean > 0:
                    for down in range(side):
                        for across in range(side):
                            i = since + down * width + across
                            to[i] = _before(top[i], slope[column] * share, tanh)
                else:
                    i = since + _largest(top[since:], side, width)
                    to[i] = _before(top[i], slope[column], tanh)


@loop
def _mean(square: Floats, side: int, width: int, floor: Float) -> Float:
    total = to_float(0)
    for row in range(side):
        for column in range(side):
            total += greater(square[row * width + column], floor)
    return total


@loop
def _largest(square: Floats, side: int, width: int) -> int:
    """The position of the first of the largest values; of the last NaN, if there is one."""
    found = 0
    for row in range(side):
        for column in range(side):
            v = square[row * width + column]
            if v > square[found] or v != v:
                found = row * width + column
    return found


@loop
def _before(value: Float, slope: Float, tanh: int) -> Float:
    """The derivative before an activation with this value."""
    if tanh > 0:
        return slope * (1.0 - value * value)
    return to_float(0) if value <= 0.0 else slope
