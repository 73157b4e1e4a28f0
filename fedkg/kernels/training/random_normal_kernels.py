"""Normal numbers of Box and Muller 1958 from counted streams (see `fedkg.models.random_streams`),
short enough for vector code.

The logarithm is ``2 artanh((m - 1) / (m + 1))`` of the mantissa m in sqrt(1/2) .. sqrt(2), by its
series; sine and cosine are those of half the angle, by their series, doubled. Series end when the
next term is below the precision.

Letters: C streams, P pairs of numbers of each, n numbers of a vector.
"""

from __future__ import annotations

import math
import struct

from fedkg._internal.box_muller_series_lengths import LOGARITHM, TURN
from fedkg.kernels.loop_language import Float, Floats, LLVMFunction, literal, loop, to_float
from fedkg.kernels.training.llvm_primitives import begun, mixed, onward
from fedkg.kernels.training.matrix_products import add

SITE = 0x6E6F697365
"""Prefix of the step number in the key of its noise; dropout uses the step number alone."""

BLOCK = 256
"""Pairs that are drawn at once, in the L1 cache."""

PI = math.pi


def _kind(single: bool) -> tuple[str, int, int, int]:
    """A number's type, its bits, those of its mantissa, and the bits of sqrt(1/2)."""
    return ("float", 32, 23, 0x3F3504F3) if single else ("double", 64, 52, 0x3FE6A09E667F3BCD)


def _nothing(single: bool) -> tuple[str, ...]:
    return ()


def _series(single: bool, of: str, to: str, coefficients: list[float]) -> list[str]:
    """Lines that set `to` to the sum of coefficients times powers of `of`, the lowest first, by
    Horner's rule.
    """
    kind = _kind(single)[0]
    last = literal(coefficients[-1], "Float", single)
    lines = []
    for power in range(len(coefficients) - 2, -1, -1):
        name = to if power == 0 else f"{to}.{power}"
        lines += [
            f"  {name}.by = fmul {kind} {of}, {last}",
            f"  {name} = fadd {kind} {literal(coefficients[power], 'Float', single)}, {name}.by",
        ]
        last = name
    return lines


def _fraction(single: bool) -> str:
    """``(k + 1) 2^-53`` of the upper 53 bits k, exact in float64: each half of k becomes the lowest
    bits of a number.
    """
    kind = _kind(single)[0]
    low, high = _bits(0.5) + 1, _bits(2.0**31)
    last = "  %v = fptrunc double %whole to float" if single else "  %v = fadd double %whole, -0.0"
    return f"""define internal {kind} @fraction(i64 %word) alwaysinline {{
  %upper = lshr i64 %word, 43
  %raised = or i64 %upper, {high}
  %far = bitcast i64 %raised to double
  %above = fsub double %far, {literal(2.0**31 + 0.5, "Double", single)}
  %moved = lshr i64 %word, 11
  %lower = and i64 %moved, {2**32 - 1}
  %added = add i64 %lower, {low}
  %near = bitcast i64 %added to double
  %whole = fadd double %above, %near
{last}
  ret {kind} %v
}}"""


def _bits(number: float) -> int:
    """The bits of a number in float64."""
    found: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return found


fraction = LLVMFunction("fraction", ("int",), "Float", _fraction, _nothing)
"""A word as a number in (0, 1], from 53 of its bits in float64, then rounded, which keeps the
relative precision near 0.
"""


def _logarithm(single: bool) -> str:
    kind, bits, mantissa, half = _kind(single)
    one = literal(1.0, "Float", single)
    lines = [
        f"define internal {kind} @logarithm({kind} %x) alwaysinline {{",
        f"  %bits = bitcast {kind} %x to i{bits}",
        f"  %since = sub i{bits} %bits, {half}",
        f"  %power = ashr i{bits} %since, {mantissa}",
        f"  %by = shl i{bits} %power, {mantissa}",
        f"  %rest = sub i{bits} %bits, %by",
        f"  %m = bitcast i{bits} %rest to {kind}",
        f"  %above = fsub {kind} %m, {one}",
        f"  %below = fadd {kind} %m, {one}",
        f"  %s = fdiv {kind} %above, %below",
        f"  %q = fmul {kind} %s, %s",
        *_series(
            single, "%q", "%sum", [2.0 / (2 * power + 1) for power in range(LOGARITHM[not single])]
        ),
        f"  %near = fmul {kind} %s, %sum",
        f"  %whole = sitofp i{bits} %power to {kind}",
        f"  %far = fmul {kind} %whole, {literal(math.log(2), 'Float', single)}",
        f"  %v = fadd {kind} %far, %near",
        f"  ret {kind} %v",
        "}",
    ]
    return "\n".join(lines)


logarithm = LLVMFunction("logarithm", ("Float",), "Float", _logarithm, _nothing)
"""log(x) of x in 2^-53 .. 1, to a few units in the last place of numbers near 1."""


def _around(name: str, odd: int) -> LLVMFunction:
    """The sine or cosine of -pi/2 .. pi/2."""

    def text(single: bool) -> str:
        kind = _kind(single)[0]
        count = TURN[not single] + 1 - odd * single
        terms = [(-1) ** power / math.factorial(2 * power + odd) for power in range(count)]
        end = (
            f"  %v = fmul {kind} %x, %sum"
            if odd
            else f"  %v = fadd {kind} %sum, {literal(-0.0, 'Float', single)}"
        )
        lines = [
            f"define internal {kind} @{name}({kind} %x) alwaysinline {{",
            f"  %q = fmul {kind} %x, %x",
        ]
        return "\n".join(
            [*lines, *_series(single, "%q", "%sum", terms), end, f"  ret {kind} %v", "}"]
        )

    return LLVMFunction(name, ("Float",), "Float", text, _nothing)


sine, cosine = _around("sine", 1), _around("cosine", 0)
"""For angles in -pi/2 .. pi/2."""


@loop
def drawn(
    first: Floats, second: Floats, key: int, place: int, pairs: int, scale: Float, n: int
) -> None:
    """Numbers from `place` on of the stream's first P and of its last P: pair i consists of its
    numbers i and P + i.
    """
    one, other = begun(key, place), begun(key, pairs + place)
    for i in range(n):
        first[i] = fraction(mixed(one))
        one = onward(one)
    for i in range(n):
        second[i] = fraction(mixed(other))
        other = onward(other)
    for i in range(n):
        first[i] = scale * math.sqrt(max(-2.0 * logarithm(first[i]), 0.0))
    for i in range(n):
        radius, x = first[i], to_float(PI) * (second[i] - 0.5)
        s, c = sine(x), cosine(x)
        second[i] = radius * 2.0 * s * c
        first[i] = radius * (1.0 - 2.0 * s * s)


@loop
def disturb(own: Floats, key: int, count: int, scale: Float, spare: Floats) -> None:
    """Add the first `count` numbers of a stream. spare: for 2 BLOCK numbers."""
    pairs = (count + 1) // 2
    second = spare[BLOCK:]
    for place in range(0, pairs, BLOCK):
        n = min(BLOCK, pairs - place)
        drawn(spare, second, key, place, pairs, scale, n)
        add(own[place:], spare, n)
        add(own[pairs + place :], second, min(n, count - pairs - place))
