"""What nodes need to write themselves: names for what they read, and how tightly operators bind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fedkg.pack.formulas import Formula, Term

OPEN, SUM, PRODUCT, SIGN, POWER, ATOM = range(6)
"""How tightly the printed operators bind, loosest first."""
TIMES = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
SHORT = 172_800
"""Durations below this many seconds are not written in days."""


class Writer(Protocol):
    """Names what a node reads, and writes its parts."""

    def slot(self, index: int, letter: str = "x") -> str:
        """The text for a slot; `letter` begins its placeholder if it has no name."""

    def param(self, index: int) -> str:
        """The text for a parameter."""

    def category(self, slot: int, param: int) -> str:
        """The text for the category in a slot, with the code from a parameter."""

    def window(self, low: int, high: int) -> str:
        """``within 2 h``, from the parameters of its ends; "" for a window that begins now and has
        no end.
        """

    def duration(self, steps: int) -> str:
        """``2 h`` or ``24 steps``, from the parameter that counts the steps."""

    def over(self, table: int) -> str:
        """``over 3 members``."""

    def inside(self, table: int) -> Writer:
        """The names within a member table."""

    def term(self, term: Term, around: int = OPEN) -> str:
        """A part, in parentheses if its operator binds looser than `around`."""

    def formula(self, formula: Formula, *, outer: bool = False) -> str:
        """A part, in parentheses if it needs them and is not `outer`."""


def number_text(value: float) -> str:
    """A number as short as it can be read back exactly: ``9000``, ``0.10471975511965977``."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def duration_text(seconds: float) -> str:
    """A time in the largest unit in which it is a whole number: ``2 h``, ``90 min``, ``0.5 s``."""
    unit, size = next(
        (
            (unit, size)
            for unit, size in TIMES
            if seconds % size == 0 and (unit != "d" or seconds >= SHORT)
        ),
        ("s", 1),
    )
    return f"{number_text(seconds / size)} {unit}"
