"""Arithmetic and comparisons with units: what may be added, multiplied and compared, the
conversions that it needs, and the formula of one comparison.

Terms keep the order in which they are written; a conversion is one multiplication (or division,
where that is the exact form) and, for units with an offset, one addition. Values in the same unit
need none.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import (
    CategoryIs,
    Compare,
    Negate,
    Power,
    Product,
    Quotient,
    Slot,
    Sum,
    Term,
    everywhere,
)
from fedkg.pack.contract import TRUTHS
from fedkg.units.text import MAX_EXPONENT, UnitProblem, parse_unit
from fedkg.units.unit import (
    ENERGY,
    NUMBER,
    POWER,
    PRESSURE,
    TEMPERATURE,
    Unit,
    as_revolutions,
    conversion,
    over,
    power,
    same_dimension,
    times,
)
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.frontends.fkg.binding.scope import Fixed, Moving, Scope, Value
from fedkg_compiler.ir import Book, RowBuilder

_ANGLES = {"deg", "degree", "degrees", "°"}


def in_unit(value: Value, unit: Unit | None, scope: Scope) -> Value:
    """The value in a unit of the same dimension; a bare value takes the unit as it is."""
    if unit is None:
        return value
    if value.unit is None:
        if isinstance(value, Moving):
            if not value.bare:
                _complain_of_no_unit(value, unit, scope)
            scope.book.tell_unit(value.bare, unit, value.span, scope.problems)
            return replace(value, unit=unit, bare=())
        if unit.derived and np.any(value.values != 0):
            scope.problems.warning(
                "FKG238",
                value.span,
                f"this number has no unit; fedkg reads it in `{unit.text}`, the calculated unit "
                f"of the other side",
                "write the unit after the number (9 kW, 11000 min.N.m), or state it in the graph "
                "or the sheet",
            )
        return replace(value, unit=unit)
    change = conversion(value.unit, unit)
    if change.identity:
        return replace(value, unit=unit)
    if isinstance(value, Fixed):
        return replace(value, values=change.apply(value.values), unit=unit)
    term = value.term
    if change.factor != 1 or change.turns:
        term = _scaled(term, change.factor, change.turns, change.scale, scope)
    if change.shift:
        term = join_sum(term, scope.rows.param(np.array(float(change.shift))))
    return replace(value, term=term, unit=unit, plain=False)


def _complain_of_no_unit(value: Moving, unit: Unit, scope: Scope) -> None:
    """Report a number from columns without units next to a value with a unit."""
    root = scope.rows.root
    tables = {table.rows.number: table.rows for table in root.members} | {root.number: root}
    read = [
        tables[table].slots[part.index]
        for table, part in everywhere(value.term, scope.rows.number)
        if isinstance(part, Slot)
    ]
    columns = [
        scope.book.columns[column]
        for column in dict.fromkeys(column for slot in read for column in slot.columns.tolist())
    ]
    names = [column.name for column in columns if column.unit is None]
    source = " and ".join(f"`{name}`" for name in names) if 0 < len(names) < 4 else "columns"
    beside = f"something in `{unit.text}`" if unit.text else "a number without a dimension"
    have = "has" if len(names) == 1 else "have"
    message = (
        f"this is calculated from {source}, which {have} no declared unit, and cannot be combined"
        f" with {beside}"
    )
    if unit.text or not names:
        advice = "write the unit of each: signal torque in N.m"
    else:
        advice = f"write: {', '.join(f'signal {name} in dimensionless' for name in names[:3])}"
    scope.problems.error("FKG238", value.span, message, advice)


def _scaled(term: Term, factor: Fraction, turns: int, scale: float, scope: Scope) -> Term:
    if not turns and factor.numerator == 1:
        return Quotient(
            numerator=term, denominator=scope.rows.param(np.array(float(factor.denominator)))
        )
    return join_product(term, scope.rows.param(np.array(scale)))


def term_of(value: Value, scope: Scope) -> Term | None:
    """The value as a term of the skeleton; None, with a problem, where a number is not finite."""
    if isinstance(value, Moving):
        return value.term
    wrong = np.flatnonzero(~np.isfinite(value.values))
    if wrong.size:
        row = int(wrong[0])
        said = "undefined" if np.isnan(value.values[row]) else "infinite"
        scope.problems.error(
            "FKG228", value.span, f"the result is {said}{scope.where(row)}", value_advice(scope)
        )
        return None
    return scope.rows.param(value.values)


def mismatch(a: Value, b: Value, verb: str, scope: Scope) -> None:
    """Say that two values measure different things, at the second."""
    one, two = a.unit, b.unit
    if one is None or two is None:
        return
    for value, other in ((a, two), (b, one)):
        if isinstance(value, Moving) and value.unit_place is not None:
            message = (
                f"{_describe_unit(two)} cannot be {verb} {_describe_unit(one)}, the unit that"
                " another comparison implies"
                if value is a
                else ""
            )
            scope.problems.error(
                "FKG216",
                b.span,
                message
                or f"{_describe_unit(two)}, the unit that another comparison implies,"
                f" cannot be {verb} {_describe_unit(one)}",
                "declare the unit of the column",
                (
                    Related(
                        span=value.unit_place,
                        message=(
                            f"taken to be in {_describe_unit(value.unit)} here"
                            if value.unit and value.unit != other
                            else ""
                        ),
                    ),
                ),
            )
            return
    advice = ""
    if {"norm volume"} & {name for name, _ in (*one.dimension, *two.dimension)}:
        advice = (
            "a norm cubic metre is an amount of gas, and its volume depends on temperature and"
            " pressure: convert it in the data"
        )
    elif {one.text, two.text} & _ANGLES and "temperature" in {
        name for name, _ in (*one.dimension, *two.dimension)
    }:
        advice = "this unit is an angle: write degC, degF or K for a temperature"
    elif not one.dimension or not two.dimension:
        advice = (
            "only plain numbers (also in % or ppm) go with plain numbers: correct the unit here, "
            "or in the declaration"
        )
    else:
        advice = "correct the unit here, or in the declaration"
    scope.problems.error(
        "FKG213",
        b.span,
        f"{_describe_unit(two)} cannot be {verb} {_describe_unit(one)}",
        advice,
        (Related(span=a.span, message=f"this is in {_describe_unit(one)}"),),
    )


def _describe_unit(unit: Unit) -> str:
    return f"`{unit.text}`" if unit.text else "a plain number"


def add(a: Value, b: Value, op: Literal["+", "-"], span: Span, scope: Scope) -> Value | None:
    """``a + b`` or ``a - b``."""
    if a.unit is not None and b.unit is not None and not same_dimension(a.unit, b.unit):
        mismatch(a, b, "added to" if op == "+" else "subtracted from", scope)
        return None
    result = _sum_unit(a, b, op, scope)
    if result is None:
        return None
    a, b, unit = result
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        return Fixed(
            values=a.values + b.values if op == "+" else a.values - b.values, unit=unit, span=span
        )
    left, right = term_of(a, scope), term_of(b, scope)
    if left is None or right is None:
        return None
    bare = (
        tuple(columns for side in (a, b) if isinstance(side, Moving) for columns in side.bare)
        if unit is None
        else ()
    )
    plain = all(isinstance(side, Moving) and side.plain for side in (a, b))
    return Moving(
        term=join_sum(left, right if op == "+" else Negate(arg=right)),
        unit=unit,
        span=span,
        plain=plain,
        bare=bare,
    )


def _sum_unit(
    a: Value, b: Value, op: Literal["+", "-"], scope: Scope
) -> tuple[Value, Value, Unit | None] | None:
    """Both sides in the units in which they are added, and the unit of the result."""
    if a.unit is None or b.unit is None:
        unit = a.unit or b.unit
        if unit is None:
            return a, b, None
        if unit.affine and op == "+":
            step = unit.step()
            return (
                (a, in_unit(b, step, scope), unit)
                if b.unit is None
                else (in_unit(a, step, scope), b, unit)
            )
        a, b = in_unit(a, unit, scope), in_unit(b, unit, scope)
        if (
            _has_points(unit) and not unit.affine
        ):  # `?limit + 5 K`: nothing says that ?limit is not meant in degC
            return a, b, unit.step()
    one, two = a.unit, b.unit
    if one is None or two is None:
        return a, b, None
    if one.affine and two.affine:
        if op == "+":
            scope.problems.error(
                "FKG215",
                b.span,
                f"two values in {one.text} cannot be added, because the zero of this scale is "
                f"arbitrary",
                f"add a difference, in {one.step_text}, or convert the signals",
            )
            return None
        return a, in_unit(b, one, scope), one.step()
    if one.affine:
        return (a, in_unit(b, one.step(), scope), one) if _is_step(b, one, scope) else None
    if two.affine:
        if op == "-":
            return a, in_unit(b, one, scope), one.step()
        return (in_unit(a, two.step(), scope), b, two) if _is_step(a, two, scope) else None
    result = one.step() if op == "-" and _has_points(one) else one
    return a, in_unit(b, one, scope), result


def _has_points(unit: Unit) -> bool:
    """Return whether a related unit has another zero, so that differences and points differ."""
    return unit.dimension in (TEMPERATURE, PRESSURE)


def _is_step(value: Value, point: Unit, scope: Scope) -> bool:
    """Whether a value can be read as a difference; a signal in K beside one in degC may as well be
    a temperature.
    """
    if isinstance(value, Fixed) or (value.unit is not None and value.unit.difference):
        return True
    unit = value.unit.text if value.unit else ""
    scope.problems.error(
        "FKG215",
        value.span,
        f"a signal in {unit} beside one in {point.text} may be a difference or a point on the "
        f"scale; fedkg cannot tell which",
        f"declare both in {unit}, or write the difference of two signals in parentheses",
    )
    return False


def multiply(a: Value, b: Value, span: Span, scope: Scope) -> Value | None:
    """``a * b``."""
    if not (_no_point(a, "multiplied", scope) and _no_point(b, "multiplied", scope)):
        return None
    a, b = _revolutions(a, b, scope), _revolutions(b, a, scope)
    unit = _product_unit(a, b)
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        return _share(Fixed(values=a.values * b.values, unit=unit, span=span), a, b, scope)
    left, right = term_of(a, scope), term_of(b, scope)
    if left is None or right is None:
        return None
    return _share(
        Moving(
            term=join_product(left, right),
            unit=unit,
            span=span,
            bare=_bare_times(a, b) or _bare_times(b, a),
        ),
        a,
        b,
        scope,
    )


def divide(a: Value, b: Value, span: Span, scope: Scope) -> Value | None:
    """``a / b``."""
    if not (_no_point(a, "divided", scope) and _no_point(b, "divided by", scope)):
        return None
    if isinstance(b, Fixed) and np.any(b.values == 0):
        row = int(np.flatnonzero(b.values == 0)[0])
        scope.problems.error(
            "FKG228", b.span, f"this divides by 0{scope.where(row)}", value_advice(scope)
        )
        return None
    _per_count(a, b, scope)
    unit = _product_unit(a, b, below=True)
    if isinstance(a, Fixed) and isinstance(b, Fixed):
        return _share(Fixed(values=a.values / b.values, unit=unit, span=span), a, b, scope)
    left, right = term_of(a, scope), term_of(b, scope)
    if left is None or right is None:
        return None
    return _share(
        Moving(
            term=Quotient(numerator=left, denominator=right),
            unit=unit,
            span=span,
            bare=_bare_times(a, b),
        ),
        a,
        b,
        scope,
    )


def _bare_times(value: Value, factor: Value) -> tuple[NDArray[np.int64], ...]:
    """The columns that still take a unit after a bare number was multiplied onto them."""
    return (
        value.bare
        if isinstance(value, Moving) and isinstance(factor, Fixed) and factor.unit is None
        else ()
    )


def _share(value: Value, a: Value, b: Value, scope: Scope) -> Value:
    """bar over mbar is a plain number, not one in `bar/mbar`; a bare number times a per cent stays
    in per cent.
    """
    plain = (
        a.unit is not None
        and value.unit is not None
        and b.unit is not None
        and not value.unit.dimension
    )
    return in_unit(value, NUMBER, scope) if plain else value


def _per_count(a: Value, b: Value, scope: Scope) -> None:
    """Ask back where a power over a rate in 1/min may be a torque, which counts revolutions."""
    if a.unit is not None and b.unit is not None and b.unit.count and a.unit.dimension == POWER:
        scope.problems.warning(
            "FKG218",
            b.span,
            f"`{a.unit.text}` over `{b.unit.text}` is the energy of each count; a torque would be"
            " smaller by 2 pi",
            "declare the speed in rpm where the quotient is a torque, in pcs/min where it counts"
            " pieces",
        )


def _product_unit(a: Value, b: Value, *, below: bool = False) -> Unit | None:
    """A bare number times something is in its unit; two bare ones stay bare."""
    if b.unit is None:
        return a.unit
    if a.unit is None:
        return over(Unit(text=""), b.unit) if below else b.unit
    return over(a.unit, b.unit) if below else times(a.unit, b.unit)


def _no_point(value: Value, verb: str, scope: Scope) -> bool:
    if value.unit is None or not value.unit.affine:
        return True
    scope.problems.error(
        "FKG215",
        value.span,
        f"a value in {value.unit.text} cannot be {verb}: {zero_of(value.unit)}",
        difference_advice(value.unit),
    )
    return False


def value_advice(scope: Scope) -> str:
    """What to do about a number that has no result: in the rule, the sheet or the graph."""
    if scope.where(0):
        return "correct the value, or leave it out of the sheet or graph if it is not known"
    return "correct the number"


def zero_of(unit: Unit) -> str:
    """The reason why values on a scale with an offset zero cannot be multiplied."""
    step = parse_unit(unit.step_text)
    zero = unit.zero if isinstance(step, UnitProblem) else unit.zero / step.factor
    return (
        f"0 {unit.text} is {float(zero):.7g} {unit.step_text}, so twice 20 {unit.text} is not 40"
        f" {unit.text}"
    )


def difference_advice(unit: Unit) -> str:
    """What to do instead of arithmetic with values on such a scale."""
    return (
        f"use a difference, such as `inlet - 0 {unit.text}`, or convert the column in the data and"
        f" declare the signal in {unit.step_text}"
    )


def _revolutions(value: Value, other: Value, scope: Scope) -> Value:
    """A rate in 1/min times a torque counts revolutions: that is what plants mean."""
    if (
        value.unit is None
        or other.unit is None
        or not value.unit.count
        or not other.unit.moment
        or other.unit.dimension != ENERGY
    ):
        return value
    scope.problems.info_per_file(
        f"revolutions {value.unit.text}",
        "FKG218",
        value.span,
        f"`{value.unit.text}` beside a torque is read as revolutions, so that the product is a"
        " power with the factor 2 pi",
        "declare the speed in rpm to say so",
    )
    return replace(value, unit=as_revolutions(value.unit))


def negate(a: Value, span: Span, scope: Scope) -> Value | None:
    """``-a``; a temperature of -5 degC is a point on the scale like any other."""
    if isinstance(a, Fixed):
        return replace(a, values=-a.values, span=span)
    if not _no_point(a, "negated", scope):
        return None
    return Moving(term=Negate(arg=a.term), unit=a.unit, span=span, plain=a.plain, bare=a.bare)


def raise_to(a: Value, exponent: float, span: Span, scope: Scope) -> Value | None:
    """``a ^ exponent``."""
    if not _no_point(a, "raised to a power", scope):
        return None
    if a.unit is not None and abs(exponent) > MAX_EXPONENT:
        scope.problems.error(
            "FKG236",
            span,
            f"the exponent {exponent:g} is too large: fedkg reads exponents up to {MAX_EXPONENT:g}",
            "use a smaller exponent, or compute the power in a column of the data",
        )
        return None
    unit = None if a.unit is None else power(a.unit, Fraction(repr(exponent)).limit_denominator(64))
    if isinstance(a, Fixed):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return _share(
                Fixed(values=np.power(a.values, exponent), unit=unit, span=span), a, a, scope
            )
    return _share(
        Moving(term=Power(base=a.term, exponent=exponent), unit=unit, span=span), a, a, scope
    )


def join_sum(left: Term, right: Term) -> Term:
    """``left + right``, flat where `left` is a sum: evaluated in the same order."""
    return Sum(args=(*left.args, right)) if isinstance(left, Sum) else Sum(args=(left, right))


def join_product(left: Term, right: Term) -> Term:
    """``left * right``, flat where `left` is a product: evaluated in the same order."""
    return (
        Product(args=(*left.args, right))
        if isinstance(left, Product)
        else Product(args=(left, right))
    )


Operator = Literal["le", "lt", "eq", "ne"]
_OPERATORS: dict[str, tuple[Operator, bool]] = {
    "<=": ("le", False),
    "<": ("lt", False),
    ">=": ("le", True),
    ">": ("lt", True),
    "==": ("eq", False),
    "!=": ("ne", False),
}
"""The pack's comparison, and whether the sides change places."""
HOLDS: dict[str, Callable[[Any, Any], NDArray[np.bool_]]] = {
    "<=": np.less_equal,
    "<": np.less,
    ">=": np.greater_equal,
    ">": np.greater,
    "==": np.equal,
    "!=": np.not_equal,
}
"""Of numbers that are known. `Any`: numbers, or arrays of them."""
MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "==": "==", "!=": "!="}
"""The operator when the sides change places."""


def compare(
    operator: str, left: Term, right: Term, tolerance: Term | None, rows: RowBuilder
) -> Compare:
    """``left operator right``; its scale is 1 until the pass `set_scales`."""
    op, swapped = _OPERATORS[operator]
    if swapped:
        left, right = right, left
    return Compare(
        op=op, left=left, right=right, tolerance=tolerance, scale=rows.param(np.array(1.0)).index
    )


def truth_compared(
    operator: str, term: Term, limits: NDArray[np.float64], rows: RowBuilder, book: Book
) -> CategoryIs | None:
    """``term operator limit`` as a question of yes or no, where the term is a column of truth
    values; None where it asks for a number.

    ``valve >= 0.5`` asks whether it is true. As a comparison it would have a margin of half a unit,
    which cuts off that of what it guards.
    """
    if not isinstance(term, Slot) or any(
        book.columns[column].type != "boolean" for column in rows.slots[term.index].columns.tolist()
    ):
        return None
    wanted = truth_wanted(operator, limits)
    return None if wanted is None else is_truth(term, wanted, rows)


def truth_wanted(operator: str, limits: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Which of true (1) and false (0) alone keeps ``truth operator limit``, bool [R]; None where
    for some row both do, or neither.
    """
    of_false, of_true = (HOLDS[operator](value, limits) for value in (0.0, 1.0))
    return of_true if of_true.size and bool((of_true != of_false).all()) else None


def is_truth(slot: Slot, wanted: NDArray[np.bool_], rows: RowBuilder) -> CategoryIs:
    """Whether the column of truth values in a slot is what each row wants, bool [R]."""
    texts = tuple(TRUTHS[int(one)] for one in wanted)
    return CategoryIs(slot=slot.index, param=rows.codes(rows.slots[slot.index].columns, texts))
