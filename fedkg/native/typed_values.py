"""Values of compiled code in LLVM's words, and what can be made of two of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fedkg.errors import FedkgError

NUMBERS = ("bool", "int", "Float", "Double")
"""Kinds of numbers, each wider than those before."""

ELEMENTS = {"Floats": "Float", "Doubles": "Double", "Ints": "int", "Bools": "bool"}
"""What stands where a kind of address points to."""

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
}  # a NaN differs from everything


class NotCompiled(FedkgError):
    """A function that is to be compiled contains something else than `language` has."""


@dataclass(frozen=True, slots=True)
class Value:
    """A kind and LLVM's word for the value; `known` for literals and constants, which take any kind."""

    kind: str
    text: str
    known: int | float | None = None


def known(number: float) -> Value:
    """A literal or constant."""
    if isinstance(number, float):
        return Value("Float", "", number)
    return Value("bool" if isinstance(number, bool) else "int", str(int(number)), int(number))


def literal(number: float, kind: str, single: bool) -> str:
    """LLVM's word for a known number."""
    if kind in ("Float", "Double"):
        exact = (
            struct.unpack("f", struct.pack("f", number))[0]
            if single and kind == "Float"
            else float(number)
        )
        return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
    return str(int(number))


def wider(*values: Value) -> str:
    """The kind that values have in common. Raises NotCompiled where there is none."""
    for value in values:
        if value.kind not in NUMBERS:
            raise NotCompiled(f"{value.kind} where a number should be")
    return max((value.kind for value in values), key=NUMBERS.index)
