"""The language of compiled loops: Python as Numba reads it, over addresses with declared types.

- Parameters and results have the kinds below or ``int``, ``bool``; Numba infers the types of
  variables. Arguments, results and elements are widened where they must be (bool, int, Float,
  Double); only `to_float` narrows. Literals and module constants with a decimal point have the
  precision of the library. An int with a Float makes a Double: write ``2.0 * x`` or `to_float`.
  An int must stay within 64 bits.
- A variable needs a value on every path to its use, which nothing checks.
- ``abs``, ``round``, ``math.sqrt floor ceil log`` take and return Floats and Doubles; ``min``,
  ``max`` take two numbers that are not NaN, and do not distinguish the zeros. ``in`` takes
  an int and a tuple of ints.
- ``x[i]`` requires i >= 0 and is checked only with ``FEDKG_KERNELS=check``; ``x[k:]`` is the
  address of x plus k. Divisions follow IEEE 754; sums are not reordered. Nothing raises an
  exception.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fedkg.errors import FedkgError

Float = Any
"""A number in the precision of the library."""

Double = Any
"""A float64 number."""

Floats = Any
"""Address of numbers in that precision."""

Doubles = Any
"""Address of float64 numbers."""

Ints = Any
"""Address of int64 numbers."""

Bools = Any
"""Address of bools, one byte each."""


@dataclass(frozen=True, slots=True)
class LLVMFunction:
    """A function written in LLVM, for operations outside the language; only compiled code can call
    it.

    Attributes:
        name: of its definition.
        kinds: of its parameters.
        result: its kind, or ``None``.
        text: the definition (``internal``), depending on whether the library's precision is
            float32.
        needs: the declarations that it uses, likewise.
    """

    name: str
    kinds: tuple[str, ...]
    result: str
    text: Callable[[bool], str]
    needs: Callable[[bool], tuple[str, ...]]

    def __call__(self, *values: Any) -> Any:
        """Raise TypeError, because Python code cannot call it."""
        raise TypeError(f"only compiled code can call `{self.name}`")


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A function that only compiled code can call."""

    kind: str

    def __call__(self, value: Any) -> Any:
        """Raise TypeError, because Python code cannot call it."""
        raise TypeError("only compiled code can call this function")


to_float = Intrinsic("Float")
"""A number in the precision of the library."""

floats_at, doubles_at, ints_at, bools_at = (
    Intrinsic("Floats"),
    Intrinsic("Doubles"),
    Intrinsic("Ints"),
    Intrinsic("Bools"),
)
"""The array at an address."""

address_of = Intrinsic("address")
"""The address of an array, as a number."""


def loop(function: F) -> F:
    """Mark a function to be compiled together with its callers."""
    function.__dict__["is_loop"] = True
    return function


class NotCompiled(FedkgError):
    """A function to be compiled is outside the language."""


def kinds(function: Callable[..., Any]) -> tuple[list[str], str]:
    """The kinds of a function's parameters and of its result."""
    *parameters, result = function.__annotations__.values()
    return parameters, result


def literal(number: float, kind: str, single: bool) -> str:
    """LLVM syntax of a Float or Double."""
    is_float32 = single and kind == "Float"
    exact = struct.unpack("f", struct.pack("f", number))[0] if is_float32 else float(number)
    return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
