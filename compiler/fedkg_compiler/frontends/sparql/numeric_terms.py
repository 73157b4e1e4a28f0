"""Numeric expressions over observed values, as terms: bare numbers in the units that the rules
use for the columns.

Letter: N rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Negate, Quotient, Sum, Term
from fedkg.units.unit import Unit, conversion, same_dimension, same_scale
from fedkg_compiler.frontends.fkg.binding.scope import describe_unit, join_product, join_sum
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tree import Place
from fedkg_compiler.ir import RowBuilder

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Number:
    """A numeric value: a term, or with `values` [N] one that is known when rules are compiled.

    Attributes:
        at: the place of the expression.
        term: the term, if the number depends on the table; else None.
        values: float64 [N], the number in each of the N rows, if it is known when rules are
            compiled; else None.
        unit: the unit, None for a bare number.
        columns: int64 [N], the columns of a plain value without a unit; else None.
        stated: whether it is a bare number that the query or the graph states, or an aggregate of
            such numbers.
        written: whether the query itself states it.
        others: further units of the members of an aggregate, as texts.
    """

    at: Place
    term: Term | None = None
    values: Float | None = None
    unit: Unit | None = None
    columns: NDArray[np.int64] | None = None
    stated: bool = False
    written: bool = False
    others: tuple[str, ...] = ()

    def as_term(self, rows: RowBuilder) -> Term:
        """The term, a parameter where the value is fixed."""
        if self.term is not None:
            return self.term
        assert self.values is not None
        return rows.param(self.values)


def mixed(bare: tuple[float, Mapping[Unit, str]], name: str = "") -> tuple[str, str]:
    """The problem of a bare number next to columns in several units, and its correction; "" if
    there is none. Each unit has the name of one of its columns.

    `name`: the name of the number, if it is one of several numbers of the graph.
    """
    number, units = bare
    scales: dict[Unit, str] = {}
    for unit, column in units.items():
        if not any(
            same_dimension(unit, other) and conversion(unit, other).one(number) == number
            for other in scales
        ):
            scales[unit] = column
    if len(scales) < 2:
        return "", ""
    if name:
        meant = [f"in {unit.text} beside `{column}`" for unit, column in scales.items()]
        said = f"`{name}` has no unit, and is read {', '.join(meant[:-1])} and {meant[-1]}"
    else:
        meant = [f"{number:g} {unit.text} of `{column}`" for unit, column in scales.items()]
        said = f"`{number:g}` has no unit, and means {', '.join(meant[:-1])} and {meant[-1]}"
    return (said, (f"declare its unit: `signal NAME(?x) is PROPERTY in {next(iter(scales)).text}`"))


def in_rule_unit(term: Term, stored: Unit | None, wanted: Unit | None, rows: RowBuilder) -> Term:
    """A reading in the unit that the rules use for it."""
    if stored is None or wanted is None:
        return term
    change = conversion(stored, wanted)
    if change.identity:
        return term
    if change.factor != 1 or change.turns:
        if not change.turns and change.factor.numerator == 1:
            term = Quotient(
                numerator=term, denominator=rows.param(np.array(float(change.factor.denominator)))
            )
        else:
            term = join_product(term, rows.param(np.array(change.scale)))
    return join_sum(term, rows.param(np.array(float(change.shift)))) if change.shift else term


def in_one_unit(a: Number, b: Number, what: str, rows: RowBuilder) -> tuple[Number, Number]:
    """Both in the unit of the first that has one; a bare number is in it already.

    Raises:
        SparqlProblem: they measure different things.
    """
    if a.unit is None or b.unit is None or same_scale(a.unit, b.unit):
        return a, b
    if not same_dimension(a.unit, b.unit):
        raise SparqlProblem(
            "FKG347",
            b.at,
            f"{describe_unit(b.unit)} cannot be {what} {describe_unit(a.unit)}",
            "compare values of one kind",
        )
    if a.values is not None and b.values is None:
        return converted(a, b.unit, rows), b
    return a, converted(b, a.unit, rows)


def converted(value: Number, unit: Unit, rows: RowBuilder) -> Number:
    """A value in another unit of its kind."""
    assert value.unit is not None
    if value.values is not None:
        return replace(value, values=conversion(value.unit, unit).apply(value.values), unit=unit)
    assert value.term is not None
    return replace(
        value, term=in_rule_unit(value.term, value.unit, unit, rows), unit=unit, columns=None
    )


def arithmetic(op: str, a: Number, b: Number, at: Place, rows: RowBuilder) -> Number:
    """``a op b`` for ``+ - * /``; sums keep their unit, products and quotients are bare numbers."""
    if op in "+-":
        a, b = in_one_unit(a, b, "added to" if op == "+" else "subtracted from", rows)
        unit = a.unit or b.unit
    else:
        unit = a.unit if b.unit is None else None
    if a.values is not None and b.values is not None:
        with np.errstate(all="ignore"):
            return Number(at=at, values=_fixed(op, a.values, b.values), unit=unit)
    left, right = a.as_term(rows), b.as_term(rows)
    match op:
        case "+":
            return Number(at=at, term=join_sum(left, right), unit=unit)
        case "-":
            return Number(at=at, term=join_sum(left, Negate(arg=right)), unit=unit)
        case "*":
            return Number(at=at, term=join_product(left, right), unit=unit)
        case _:
            return Number(at=at, term=Quotient(numerator=left, denominator=right), unit=unit)


def _fixed(op: str, a: Float, b: Float) -> Float:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case _:
            return np.asarray(a / b)


def sum_terms(terms: list[Term]) -> Term:
    """The sum of terms."""
    return terms[0] if len(terms) == 1 else Sum(args=tuple(terms))


def unknown_term(rows: RowBuilder) -> Term:
    """A term that never has a value."""
    zero = rows.param(np.array(0.0))
    return Quotient(numerator=zero, denominator=zero)
