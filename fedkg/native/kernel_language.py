"""The language of compiled functions: its types and intrinsics beyond Python's.

- Parameters and results have the kinds below or ``int``, ``bool``. A variable has the kind of its
  first value. Numbers widen (bool, int, Float, Double); only `to_float` narrows. Literals and
  module constants adapt to the other operand. An int must stay within 64 bits.
- Statements: ``for`` over ``range`` (a step that is not a literal must be > 0; the variable cannot
  be assigned, and has no value after the loop), ``while``, ``if``, ``break``, ``continue``,
  ``return`` and assignments. A variable needs a value on every path to its use.
- Expressions: ``+ - * / // % & |``, comparisons, ``and or`` of bools, ``not``, ``in`` a tuple,
  ``a if b else c``, and calls of other compiled functions. ``//`` and ``%`` require numbers >= 0
  and a divisor > 0. ``abs``, ``round``, ``math.sqrt floor ceil log`` take and return Floats and
  Doubles; ``min``, ``max`` take two numbers that are not NaN, and do not distinguish the zeros.
- ``x[i]`` requires i >= 0 and is not checked; ``x[k:]`` is the address of x plus k. Divisions
  follow IEEE 754; sums are not reordered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

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
        raise TypeError("only compiled functions can do that")


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A function that only compiled code can call."""

    kind: str

    def __call__(self, value: Any) -> Any:
        """Raise TypeError, because Python code cannot call it."""
        raise TypeError("only compiled functions can do that")


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
