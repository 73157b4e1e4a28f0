"""Typed values of compiled code in LLVM syntax, and their common types."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fedkg.errors import FedkgError

NUMBERS = ("bool", "int", "Float", "Double")
"""Kinds of numbers, each wider than the previous one."""

ELEMENTS = {"Floats": "Float", "Doubles": "Double", "Ints": "int", "Bools": "bool"}
"""Element kind of each kind of address."""

ARITHMETIC = {
    "Add": ("add nsw", "fadd"),
    "Sub": ("sub nsw", "fsub"),
    "Mult": ("mul nsw", "fmul"),
    "Div": (None, "fdiv"),
}
OF_INTS = {"FloorDiv": "sdiv", "Mod": "srem", "BitAnd": "and", "BitOr": "or"}
ORDER = {
    "Lt": ("slt", "olt"),
    "LtE": ("sle", "ole"),
    "Gt": ("sgt", "ogt"),
    "GtE": ("sge", "oge"),
    "Eq": ("eq", "oeq"),
    "NotEq": ("ne", "une"),
}  # NaN differs from every number


class NotCompiled(FedkgError):
    """A function to be compiled is outside the `language`."""


@dataclass(frozen=True, slots=True)
class Value:
    """A kind and an LLVM operand; `known` for literals and constants, which adapt to any kind."""

    kind: str
    text: str
    known: int | float | None = None


def literal_value(number: float) -> Value:
    """A literal or constant."""
    if isinstance(number, float):
        return Value("Float", "", number)
    return Value("bool" if isinstance(number, bool) else "int", str(int(number)), int(number))


def literal(number: float, kind: str, single: bool) -> str:
    """LLVM syntax of a known number."""
    if kind in ("Float", "Double"):
        exact = (
            struct.unpack("f", struct.pack("f", number))[0]
            if single and kind == "Float"
            else float(number)
        )
        return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
    return str(int(number))


def wider(*values: Value) -> str:
    """The common kind of values. Raises NotCompiled if there is none."""
    for value in values:
        if value.kind not in NUMBERS:
            raise NotCompiled(f"{value.kind} where a number should be")
    return max((value.kind for value in values), key=NUMBERS.index)
