"""LLVM functions beyond the language of `loop_language`: tiles of matrix products, exponentials,
counted random numbers.

A library's product of small matrices takes mostly its call overhead, and a compiled loop over rows
of 16 numbers is not vectorised. Here the vectors are explicit: a tile of rows times 64 bytes of
columns stays in registers during the loop over the depth; masked loads and stores handle remaining
columns.

Letters: R rows, V columns, D depth of a product.
"""

from __future__ import annotations

import math

from fedkg.kernels.loop_language import LLVMFunction, literal

VECTOR = 64
"""Bytes of a tile's row."""


def _number(single: bool) -> tuple[str, str, int]:
    """A number's type, its name in intrinsics, and the numbers of a tile's row."""
    return ("float", "f32", VECTOR // 4) if single else ("double", "f64", VECTOR // 8)


def _nothing(single: bool) -> tuple[str, ...]:
    return ()


def _fma(single: bool) -> tuple[str, ...]:
    kind, short, _ = _number(single)
    return (f"declare {kind} @llvm.fma.{short}({kind}, {kind}, {kind})",)


def _of_tiles(single: bool) -> tuple[str, ...]:
    kind, short, lanes = _number(single)
    vector, mask = f"<{lanes} x {kind}>", f"<{lanes} x i1>"
    return (
        f"declare {vector} @llvm.fma.v{lanes}{short}({vector}, {vector}, {vector})",
        f"declare {vector} @llvm.masked.load.v{lanes}{short}.p0(ptr, i32, {mask}, {vector})",
        f"declare void @llvm.masked.store.v{lanes}{short}.p0({vector}, ptr, i32, {mask})",
    )


def _tile(rows: int, whole: bool, gathered: bool = False) -> LLVMFunction:
    """``out = begin + left right`` for this number of rows and 64 bytes of columns, or only their
    first `columns`.

    With `gathered`, an array of distances of the rows of `right` replaces their common distance.
    """
    name = f"tile_{rows}{'' if whole else '_masked'}{'_gathered' if gathered else ''}"

    def text(single: bool) -> str:
        kind, short, lanes = _number(single)
        put = f"@llvm.masked.store.v{lanes}{short}.p0"
        size, vector, rest = VECTOR // lanes, f"<{lanes} x {kind}>", ", ".join(["i32 0"] * lanes)
        lines = [
            (
                f"define internal void @{name}(ptr %out, i64 %out_row, ptr %begin, i64 "
                "%begin_row, ptr %left, i64 %left_row, i64 %left_step,"
            ),
            (
                f"    ptr %right, {'ptr %distances' if gathered else 'i64 %right_row'}, i64 "
                "%depth, i64 %columns) nounwind noinline {"
            ),
            "entry:",
            f"  %count = insertelement <{lanes} x i64> undef, i64 %columns, i32 0",
            (
                f"  %counts = shufflevector <{lanes} x i64> %count, <{lanes} x i64> undef, "
                f"<{lanes} x i32> <{rest}>"
            ),
            (
                f"  %mask = icmp slt <{lanes} x i64> "
                f"<{', '.join(f'i64 {lane}' for lane in range(lanes))}>, %counts"
            ),
        ]

        def load(to: str, place: str) -> str:
            if whole:
                return f"  {to} = load {vector}, ptr {place}, align {size}"
            masked = f"i32 {size}, <{lanes} x i1> %mask, {vector} zeroinitializer"
            read = f"@llvm.masked.load.v{lanes}{short}.p0(ptr {place}, {masked})"
            return f"  {to} = call {vector} {read}"

        for row in range(rows):
            lines += [
                f"  %at{row} = mul i64 %begin_row, {row}",
                f"  %since{row} = getelementptr {kind}, ptr %begin, i64 %at{row}",
                load(f"%first{row}", f"%since{row}"),
                f"  %by{row} = mul i64 %left_row, {row}",
                f"  %left{row} = getelementptr {kind}, ptr %left, i64 %by{row}",
            ]
        lines += [
            "  %some = icmp sgt i64 %depth, 0",
            "  br i1 %some, label %loop, label %done",
            "loop:",
            "  %k = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *(
                f"  %sum{row} = phi {vector} [ %first{row}, %entry ], [ %more{row}, %loop ]"
                for row in range(rows)
            ),
            *(
                [
                    "  %next_to = getelementptr i64, ptr %distances, i64 %k",
                    "  %down = load i64, ptr %next_to",
                ]
                if gathered
                else ["  %down = mul i64 %k, %right_row"]
            ),
            f"  %from = getelementptr {kind}, ptr %right, i64 %down",
            load("%values", "%from"),
            "  %across = mul i64 %k, %left_step",
        ]
        for row in range(rows):
            lines += [
                f"  %place{row} = getelementptr {kind}, ptr %left{row}, i64 %across",
                f"  %factor{row} = load {kind}, ptr %place{row}",
                f"  %one{row} = insertelement {vector} undef, {kind} %factor{row}, i32 0",
                (
                    f"  %all{row} = shufflevector {vector} %one{row}, {vector} undef, <{lanes} x "
                    f"i32> <{rest}>"
                ),
                (
                    f"  %more{row} = call {vector} @llvm.fma.v{lanes}{short}({vector} %all{row}, "
                    f"{vector} %values, {vector} %sum{row})"
                ),
            ]
        lines += [
            "  %next = add i64 %k, 1",
            "  %again = icmp slt i64 %next, %depth",
            "  br i1 %again, label %loop, label %done",
            "done:",
        ]
        lines += [
            f"  %end{row} = phi {vector} [ %first{row}, %entry ], [ %more{row}, %loop ]"
            for row in range(rows)
        ]
        for row in range(rows):
            lines += [
                f"  %to{row} = mul i64 %out_row, {row}",
                f"  %into{row} = getelementptr {kind}, ptr %out, i64 %to{row}",
                f"  store {vector} %end{row}, ptr %into{row}, align {size}"
                if whole
                else (
                    f"  call void {put}({vector} %end{row}, ptr %into{row}, i32 {size}, <{lanes} "
                    "x i1> %mask)"
                ),
            ]
        return "\n".join([*lines, "  ret void", "}"])

    floats, step, rows_of = "Floats", "int", "Ints" if gathered else "int"
    return LLVMFunction(
        name,
        (floats, step, floats, step, floats, step, step, floats, rows_of, step, step),
        "None",
        text,
        _of_tiles,
    )


five, four, three, two, one = (_tile(rows, whole=True) for rows in (5, 4, 3, 2, 1))
five_masked, four_masked, three_masked, two_masked, one_masked = (
    _tile(rows, whole=False) for rows in (5, 4, 3, 2, 1)
)
five_gathered, four_gathered, three_gathered, two_gathered, one_gathered = (
    _tile(rows, whole=True, gathered=True) for rows in (5, 4, 3, 2, 1)
)
(
    five_masked_gathered,
    four_masked_gathered,
    three_masked_gathered,
    two_masked_gathered,
    one_masked_gathered,
) = (_tile(rows, whole=False, gathered=True) for rows in (5, 4, 3, 2, 1))


def _lanes(single: bool) -> str:
    return f"define internal i64 @lanes() alwaysinline {{\n  ret i64 {_number(single)[2]}\n}}"


lanes = LLVMFunction("lanes", (), "int", _lanes, _nothing)
"""Numbers of a tile's row."""


def _fused(single: bool) -> str:
    kind, short, _ = _number(single)
    call = f"call {kind} @llvm.fma.{short}({kind} %a, {kind} %b, {kind} %c)"
    head = f"define internal {kind} @fused({kind} %a, {kind} %b, {kind} %c) alwaysinline"
    return f"{head} {{\n  %v = {call}\n  ret {kind} %v\n}}"


fused = LLVMFunction("fused", ("Float", "Float", "Float"), "Float", _fused, _fma)
"""``fused(a, b, c)`` is ``a b + c``, rounded once."""


def _greater(single: bool) -> str:
    kind, short, _ = _number(single)
    call = f"call {kind} @llvm.maximum.{short}({kind} %a, {kind} %b)"
    head = f"define internal {kind} @greater({kind} %a, {kind} %b) alwaysinline"
    return f"{head} {{\n  %v = {call}\n  ret {kind} %v\n}}"


def _maximum(single: bool) -> tuple[str, ...]:
    kind, short, _ = _number(single)
    return (f"declare {kind} @llvm.maximum.{short}({kind}, {kind})",)


greater = LLVMFunction("greater", ("Float", "Float"), "Float", _greater, _maximum)
"""The larger of two numbers, NaN if one is NaN."""


def _exponential(single: bool) -> str:
    """exp(x) is ``2^n exp(r)`` with n the integer nearest x / ln 2 and the remainder r, with a
    Taylor sum for its exponential.
    """
    kind, short, _ = _number(single)
    bits, mantissa, bias, end, terms = (
        (32, 23, 127, 87.0, 7) if single else (64, 52, 1023, 700.0, 13)
    )
    # ln 2 in two parts: n times the first is exact.
    parts = (
        ("0x1.62e4p-1", "0x1.7f7d1cf79abcap-20")
        if single
        else ("0x1.62e42fefa0000p-1", "0x1.cf79abc9e3b3ap-40")
    )
    high, low = (literal(-float.fromhex(part), "Float", single) for part in parts)

    def constant(number: float) -> str:
        return literal(number, "Float", single)

    lines = [
        f"define internal {kind} @exponential({kind} %x) alwaysinline {{",
        f"  %over = fcmp ogt {kind} %x, {constant(end)}",
        f"  %less = select i1 %over, {kind} {constant(end)}, {kind} %x",
        f"  %under = fcmp olt {kind} %less, {constant(-end)}",
        f"  %z = select i1 %under, {kind} {constant(-end)}, {kind} %less",
        # Adding this constant rounds to an integer in the lowest bits, with the exponent's bias.
        (
            f"  %t = call {kind} @llvm.fma.{short}({kind} %z, {kind} "
            f"{constant(1 / math.log(2))}, {kind} {constant(1.5 * 2.0**mantissa + bias)})"
        ),
        f"  %n = fsub {kind} %t, {constant(1.5 * 2.0**mantissa + bias)}",
        f"  %near = call {kind} @llvm.fma.{short}({kind} %n, {kind} {high}, {kind} %z)",
        f"  %r = call {kind} @llvm.fma.{short}({kind} %n, {kind} {low}, {kind} %near)",
    ]
    last = constant(1 / math.factorial(terms))
    for power in range(terms - 1, -1, -1):
        term = constant(1 / math.factorial(power))
        lines.append(
            f"  %p{power} = call {kind} @llvm.fma.{short}({kind} {last}, {kind} %r, {kind} {term})"
        )
        last = f"%p{power}"
    lines += [
        f"  %whole = bitcast {kind} %t to i{bits}",
        f"  %raised = shl i{bits} %whole, {mantissa}",
        f"  %power = bitcast i{bits} %raised to {kind}",
        f"  %v = fmul {kind} {last}, %power",
        f"  ret {kind} %v",
        "}",
    ]
    return "\n".join(lines)


exponential = LLVMFunction("exponential", ("Float",), "Float", _exponential, _fma)
"""exp(x) to a few units in the last place; NaN stays NaN, and arguments beyond the range are
clamped.
"""


GOLDEN = 0x9E3779B97F4A7C15
"""Distance of the numbers of a stream before they are mixed, modulo 2^64."""


def _mixed(single: bool) -> str:
    return f"""define internal i64 @mixed(i64 %a) alwaysinline {{
  %b = lshr i64 %a, 30
  %c = xor i64 %a, %b
  %d = mul i64 %c, {0xBF58476D1CE4E5B9}
  %e = lshr i64 %d, 27
  %f = xor i64 %d, %e
  %h = mul i64 %f, {0x94D049BB133111EB}
  %j = lshr i64 %h, 31
  %v = xor i64 %h, %j
  ret i64 %v
}}"""


mixed = LLVMFunction("mixed", ("int",), "int", _mixed, _nothing)
"""A scrambled word, see `fedkg.models.random_streams.mix`."""


def _unmixed(single: bool) -> str:
    return f"""define internal i64 @begun(i64 %key, i64 %place) alwaysinline {{
  %i = add i64 %place, 1
  %g = mul i64 %i, {GOLDEN}
  %v = add i64 %key, %g
  ret i64 %v
}}"""


begun = LLVMFunction("begun", ("int", "int"), "int", _unmixed, _nothing)
"""Number `place` of the stream `key` before it is `mixed`."""


def _onward(single: bool) -> str:
    body = f"  %v = add i64 %word, {GOLDEN}\n  ret i64 %v\n"
    return f"define internal i64 @onward(i64 %word) alwaysinline {{\n{body}}}"


onward = LLVMFunction("onward", ("int",), "int", _onward, _nothing)
"""From a number of a stream to the next, before they are `mixed`: saves a product in loops."""


def _number_of(single: bool) -> str:
    return """define internal i64 @number(i64 %key, i64 %place) alwaysinline {
  %a = call i64 @begun(i64 %key, i64 %place)
  %v = call i64 @mixed(i64 %a)
  ret i64 %v
}"""


def _of_number(single: bool) -> tuple[str, ...]:
    return _unmixed(single), _mixed(single)


number = LLVMFunction("number", ("int", "int"), "int", _number_of, _of_number)
"""Number `place` of the stream `key` (see `fedkg.models.random_streams`), and the key of its
sub-stream."""


def _sixteen(single: bool) -> str:
    return """define internal i64 @sixteen(i64 %word, i64 %place) alwaysinline {
  %by = shl i64 %place, 4
  %moved = lshr i64 %word, %by
  %low = trunc i64 %moved to i16
  %v = sext i16 %low to i64
  ret i64 %v
}"""


sixteen = LLVMFunction("sixteen", ("int", "int"), "int", _sixteen, _nothing)
"""16 bits of a word as a signed number, the lowest of the four first."""
