"""The words of functions that are compiled, beside Python's own; and what else such a function may contain.

- Parameters and results have the kinds below or ``int``, ``bool``; a variable has that of what it is first given. Numbers widen (bool, int,
  Float, Double), nothing narrows but by `to_float`. Literals and module constants take the kind that they meet. An int stays within 64
  bits.
- ``for`` over ``range`` (a step that is no literal is > 0; the variable is not assigned, and has no value afterwards), ``while``, ``if``,
  ``break``, ``continue``, ``return``, assignments, ``+ - * / // % & |``, comparisons, ``and or`` of bools, ``not``, ``in`` a tuple,
  ``a if b else c``, calls of other such functions. What is read has a value on every way there. ``//`` and ``%`` are of numbers >= 0, and
  by others than 0. ``abs``, ``round``, ``math.sqrt floor ceil log`` of Floats and Doubles, whose results are such, too; ``min``, ``max``
  of two, none a NaN, zeros of either sign being the same.
- ``x[i]`` with i >= 0, not checked; ``x[k:]`` is where x begins later. Divisions as IEEE 754 has them; sums are not reordered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Float = Any
"""A number of the precision that the library is compiled for."""

Double = Any
"""A number in float64."""

Floats = Any
"""Where numbers of that precision stand."""

Doubles = Any
"""Where numbers in float64 stand."""

Ints = Any
"""Where int64 stand."""

Bools = Any
"""Where bool stand, a byte each."""


@dataclass(frozen=True, slots=True)
class LLVMFunction:
    """A function in LLVM's own words, for what the language has not; compiled code alone knows it.

    Attributes:
        name: by which it is defined. kinds: of its parameters. result: its kind, or ``None``.
        text: the definition (``internal``), by whether the library's precision is float32. needs: the declarations that it uses, likewise.
    """

    name: str
    kinds: tuple[str, ...]
    result: str
    text: Callable[[bool], str]
    needs: Callable[[bool], tuple[str, ...]]

    def __call__(self, *values: Any) -> Any:
        """Raises TypeError: it means nothing outside."""
        raise TypeError("only compiled functions can do that")


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A function that compiled code alone knows."""

    kind: str

    def __call__(self, value: Any) -> Any:
        """Raises TypeError: it means nothing outside."""
        raise TypeError("only compiled functions can do that")


to_float = Intrinsic("Float")
"""A number in the precision of the library."""

floats_at, doubles_at, ints_at, bools_at = (
    Intrinsic("Floats"),
    Intrinsic("Doubles"),
    Intrinsic("Ints"),
    Intrinsic("Bools"),
)
"""What stands at an address."""

address_of = Intrinsic("address")
"""Where something stands, as a number."""


def loop(function: F) -> F:
    """Marks a function that is compiled with whatever calls it."""
    function.__dict__["is_loop"] = True
    return function
