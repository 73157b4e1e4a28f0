"""On which scale a term is a point: ``mean of temp`` is one in degC, ``t1 - t2`` is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from fedkg.pack.bank import Bank
from fedkg.pack.contract import Column
from fedkg.pack.formulas import (
    ROWS,
    Call,
    Choose,
    Coalesce,
    Lag,
    Negate,
    Param,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Term,
    WindowReduce,
)
from fedkg.units import UnitProblem, parse_unit
from fedkg.units.unit import PRESSURE, TEMPERATURE
from fedkg.units.unit_table import AFFINE

_UNITS = tuple(dict.fromkeys([*AFFINE, *(step for _, _, _, step in AFFINE.values())]))
"""Units between which conversions shift values: those with an offset zero, and their steps."""


class _Line(NamedTuple):
    """The values of a term as a line over base units (K, Pa), constant with `factor` 0; `unit` is
    that of a column it reads.
    """

    factor: float
    shift: float
    unit: str = ""

    def times(self, number: float) -> _Line:
        return _Line(self.factor * number, self.shift * number, self.unit)

    def name(self) -> str:
        """The unit whose values lie on this line; "" for none."""
        for unit in (self.unit, *_UNITS):
            line = _unit_line(unit)
            if (
                line
                and math.isclose(line.factor, self.factor)
                and math.isclose(line.shift, self.shift, abs_tol=1e-6)
            ):
                return unit
        return ""


def scale_unit(
    columns: Sequence[Column], bank: Bank, row: int, term: Term, table: int = ROWS
) -> str:
    """The unit of a term whose zero is not that of what it measures, such as degC or barg; "" for
    all other terms.

    Limits of such a term are in this unit, margins in the unit of differences.

    Args:
        columns: those of the contract.
        bank: the bank with the term.
        row: the row of the bank or, in a member table, the member.
        term: a term over slots and parameters of `table`.
        table: the member table, or `ROWS`.
    """
    line = _line(columns, bank, row, term, table)
    if line is None:
        return ""
    unit = parse_unit(name := line.name())
    return "" if isinstance(unit, UnitProblem) or not unit.affine else name


@cache
def _unit_line(text: str) -> _Line | None:
    unit = parse_unit(text)
    if isinstance(unit, UnitProblem) or unit.dimension not in (TEMPERATURE, PRESSURE):
        return None
    return _Line(1 / float(unit.factor), -float(unit.zero / unit.factor), text)


def _line(columns: Sequence[Column], bank: Bank, row: int, term: Term, table: int) -> _Line | None:
    """The line of a term; None for differences and where it has none."""
    readers = bank if table == ROWS else bank.members[table]

    def line(part: Term) -> _Line | None:
        return _line(columns, bank, row, part, table)

    match term:
        case Slot():
            return _unit_line(columns[int(readers.slots[row, term.index])].unit)
        case Param():
            return _Line(0.0, float(readers.params[row, term.index]))
        case Negate():
            arg = line(term.arg)
            return arg and arg.times(-1)
        case Product():
            return _product([line(arg) for arg in term.args])
        case Quotient():
            above, below = line(term.numerator), line(term.denominator)
            if above is None or below is None or below.factor or not below.shift:
                return None
            return above.times(1 / below.shift)
        case Sum():
            return _sum([line(arg) for arg in term.args])
        case Call(function="min" | "max" | "floor" | "ceil" | "round", args=args):
            return _first_varying([line(arg) for arg in args])
        case Coalesce(args=args):
            return _first_varying([line(arg) for arg in args])
        case Choose():
            return _first_varying([line(term.then), line(term.otherwise)])
        case Lag() | WindowReduce(op="mean" | "min" | "max"):
            return line(term.arg)
        case Reduce(op="mean" | "min" | "max"):
            first, end = bank.members[term.members].offsets[row : row + 2].tolist()
            return _line(columns, bank, first, term.arg, term.members) if first < end else None
        case _:
            return None


def _first_varying(lines: Sequence[_Line | None]) -> _Line | None:
    """The line of values in one unit; those without a line cannot tell it."""
    return next((line for line in lines if line and line.factor), None)


def _product(lines: Sequence[_Line | None]) -> _Line | None:
    known = [line for line in lines if line]
    varying = [line for line in known if line.factor]
    if len(known) < len(lines) or len(varying) > 1:
        return None
    number = math.prod(line.shift for line in known if not line.factor)
    return varying[0].times(number) if varying else _Line(0.0, number)


def _sum(lines: Sequence[_Line | None]) -> _Line | None:
    """The line of a sum; parts without a line are differences and stay on it."""
    varying = [line for line in lines if line and line.factor]
    numbers = [line.shift for line in lines if line and not line.factor]
    if not varying:
        return _Line(0.0, sum(numbers)) if len(numbers) == len(lines) else None
    total = _Line(
        sum(line.factor for line in varying), sum(line.shift for line in varying), varying[0].unit
    )
    if abs(total.factor) < 1e-9 * abs(varying[0].factor):
        return None
    for number in numbers:
        shifted = total._replace(shift=total.shift + number)
        # a number either converts to another unit or is a difference, as in `temp - 5 K`
        if shifted.name() or not total.name():
            total = shifted
    return total
