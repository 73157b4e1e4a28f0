"""What the loops of models need beside the language of `fedkg.native`: tiles of matrix products, exponentials, counted random numbers.

A library's product of small matrices is mostly its call, and a compiled loop over rows of 16 numbers is not vectorised. Here the vectors
are spelt out: a tile of rows times 64 bytes of columns stays in registers while the depth runs by; what is left of columns is read and
written under a mask.

Letters: R rows, V columns, D depth of a product.
"""

from __future__ import annotations

import math

from fedkg.native.language import LLVMFunction
from fedkg.native.typed_values import literal

VECTOR = 64
"""Bytes of a row that a tile holds."""


def _number(single: bool) -> tuple[str, str, int]:
    """A number's type, its name in those of intrinsics, and how many a tile holds of a row."""
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


def _tile(rows: int, whole: bool, told: bool = False) -> LLVMFunction:
    """``out = begin + left right`` for so many rows and 64 bytes of columns, or only the first `columns` of these.

    Where the distances of the rows of `right` are `told`, they stand at an address that takes the place of their common distance.
    """
    name = f"tile_{rows}{'' if whole else '_of'}{'_told' if told else ''}"

    def text(single: bool) -> str:
        kind, short, lanes = _number(single)
        put = f"@llvm.masked.store.v{lanes}{short}.p0"
        size, vector, rest = VECTOR // lanes, f"<{lanes} x {kind}>", ", ".join(["i32 0"] * lanes)
        lines = [
            f"define internal void @{name}(ptr %out, i64 %out_row, ptr %begin, i64 %begin_row, ptr %left, i64 %left_row, i64 %left_step,",
            f"    ptr %right, {'ptr %distances' if told else 'i64 %right_row'}, i64 %depth, i64 %columns) nounwind noinline {{",
            "entry:",
            f"  %count = insertelement <{lanes} x i64> undef, i64 %columns, i32 0",
            f"  %counts = shufflevector <{lanes} x i64> %count, <{lanes} x i64> undef, <{lanes} x i32> <{rest}>",
            f"  %mask = icmp slt <{lanes} x i64> <{', '.join(f'i64 {lane}' for lane in range(lanes))}>, %counts",
        ]

        def load(to: str, place: str) -> str:
            if whole:
                return f"  {to} = load {vector}, ptr {place}, align {size}"
            read = f"@llvm.masked.load.v{lanes}{short}.p0(ptr {place}, i32 {size}, <{lanes} x i1> %mask, {vector} zeroinitializer)"
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
                if told
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
                f"  %all{row} = shufflevector {vector} %one{row}, {vector} undef, <{lanes} x i32> <{rest}>",
                f"  %more{row} = call {vector} @llvm.fma.v{lanes}{short}({vector} %all{row}, {vector} %values, {vector} %sum{row})",
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
                else f"  call void {put}({vector} %end{row}, ptr %into{row}, i32 {size}, <{lanes} x i1> %mask)",
            ]
        return "\n".join([*lines, "  ret void", "}"])

    floats, step, rows_of = "Floats", "int", "Ints" if told else "int"
    return LLVMFunction(
        name,
        (floats, step, floats, step, floats, step, step, floats, rows_of, step, step),
        "None",
        text,
        _of_tiles,
    )


five, four, three, two, one = (_tile(rows, whole=True) for rows in (5, 4, 3, 2, 1))
five_of, four_of, three_of, two_of, one_of = (_tile(rows, whole=False) for rows in (5, 4, 3, 2, 1))
five_told, four_told, three_told, two_told, one_told = (
    _tile(rows, whole=True, told=True) for rows in (5, 4, 3, 2, 1)
)
five_of_told, four_of_told, three_of_told, two_of_told, one_of_told = (
    _tile(rows, whole=False, told=True) for rows in (5, 4, 3, 2, 1)
)


def _lanes(single: bool) -> str:
    return f"define internal i64 @lanes() alwaysinline {{\n  ret i64 {_number(single)[2]}\n}}"


lanes = LLVMFunction("lanes", (), "int", _lanes, _nothing)
"""How many numbers a tile holds of a row."""


def _fused(single: bool) -> str:
    kind, short, _ = _number(single)
    call = f"call {kind} @llvm.fma.{short}({kind} %a, {kind} %b, {kind} %c)"
    return f"define internal {kind} @fused({kind} %a, {kind} %b, {kind} %c) alwaysinline {{\n  %v = {call}\n  ret {kind} %v\n}}"


fused = LLVMFunction("fused", ("Float", "Float", "Float"), "Float", _fused, _fma)
"""``fused(a, b, c)`` is ``a b + c``, rounded once."""


def _greater(single: bool) -> str:
    kind, short, _ = _number(single)
    call = f"call {kind} @llvm.maximum.{short}({kind} %a, {kind} %b)"
    return f"define internal {kind} @greater({kind} %a, {kind} %b) alwaysinline {{\n  %v = {call}\n  ret {kind} %v\n}}"


def _maximum(single: bool) -> tuple[str, ...]:
    kind, short, _ = _number(single)
    return (f"declare {kind} @llvm.maximum.{short}({kind}, {kind})",)


greater = LLVMFunction("greater", ("Float", "Float"), "Float", _greater, _maximum)
"""The greater of two numbers, NaN where one is."""


def _exponential(single: bool) -> str:
    """exp(x) is ``2^n exp(r)`` with n the whole number nearest x / ln 2 and r the rest, whose exponential is its Taylor sum."""
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

    def of(number: float) -> str:
        return literal(number, "Float", single)

    lines = [
        f"define internal {kind} @exponential({kind} %x) alwaysinline {{",
        f"  %over = fcmp ogt {kind} %x, {of(end)}",
        f"  %less = select i1 %over, {kind} {of(end)}, {kind} %x",
        f"  %under = fcmp olt {kind} %less, {of(-end)}",
        f"  %z = select i1 %under, {kind} {of(-end)}, {kind} %less",
        # Adding this rounds to a whole number, which then stands in the lowest bits together with the bias of the exponent.
        f"  %t = call {kind} @llvm.fma.{short}({kind} %z, {kind} {of(1 / math.log(2))}, {kind} {of(1.5 * 2.0**mantissa + bias)})",
        f"  %n = fsub {kind} %t, {of(1.5 * 2.0**mantissa + bias)}",
        f"  %near = call {kind} @llvm.fma.{short}({kind} %n, {kind} {high}, {kind} %z)",
        f"  %r = call {kind} @llvm.fma.{short}({kind} %n, {kind} {low}, {kind} %near)",
    ]
    last = of(1 / math.factorial(terms))
    for power in range(terms - 1, -1, -1):
        term = of(1 / math.factorial(power))
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
"""exp(x) to a few units in the last place; NaN stays NaN, and what lies beyond a number's range stays at its ends."""


GOLDEN = 0x9E3779B97F4A7C15
"""What numbers of a stream are apart before they are mixed, modulo 2^64."""


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
"""A word scrambled, see `fedkg.models.noise.mix`."""


def _begun(single: bool) -> str:
    return f"""define internal i64 @begun(i64 %key, i64 %place) alwaysinline {{
  %i = add i64 %place, 1
  %g = mul i64 %i, {GOLDEN}
  %v = add i64 %key, %g
  ret i64 %v
}}"""


begun = LLVMFunction("begun", ("int", "int"), "int", _begun, _nothing)
"""Number `place` of the stream `key` before it is `mixed`."""


def _onward(single: bool) -> str:
    return f"define internal i64 @onward(i64 %word) alwaysinline {{\n  %v = add i64 %word, {GOLDEN}\n  ret i64 %v\n}}"


onward = LLVMFunction("onward", ("int",), "int", _onward, _nothing)
"""From a number of a stream to the next, before they are `mixed`: in a loop that saves a product for each."""


def _number_of(single: bool) -> str:
    return """define internal i64 @number(i64 %key, i64 %place) alwaysinline {
  %a = call i64 @begun(i64 %key, i64 %place)
  %v = call i64 @mixed(i64 %a)
  ret i64 %v
}"""


def _of_number(single: bool) -> tuple[str, ...]:
    return _begun(single), _mixed(single)


number = LLVMFunction("number", ("int", "int"), "int", _number_of, _of_number)
"""Number `place` of the stream `key` (see `fedkg.models.noise`), which is also the key of its sub-stream of that name."""


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
