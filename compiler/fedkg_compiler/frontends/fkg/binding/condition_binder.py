"""From a written condition to a formula over slots and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from fedkg.pack import And, Formula, Implies, Not, Or, Term
from fedkg.units.text import parse_unit
from fedkg.units.unit import PRESSURE, Unit, same_dimension
from fedkg_compiler.diagnostics.record import Related
from fedkg_compiler.frontends.fkg.binding.aggregates import over_members
from fedkg_compiler.frontends.fkg.binding.arithmetic import (
    MIRRORED,
    compare,
    in_unit,
    mismatch,
    term_of,
    truth_compared,
)
from fedkg_compiler.frontends.fkg.binding.category_conditions import (
    is_class,
    membership,
    past_class,
)
from fedkg_compiler.frontends.fkg.binding.expression_binder import bind
from fedkg_compiler.frontends.fkg.binding.monotone import monotone
from fedkg_compiler.frontends.fkg.binding.scope import Fixed, Moving, Scope, Value
from fedkg_compiler.frontends.fkg.binding.temporal import (
    at_edge,
    becomes,
    begins,
    lasting,
    may_repeat,
    only_after,
    temporal,
    until,
)
from fedkg_compiler.frontends.fkg.syntax.tree import (
    AllOf,
    AnyOf,
    AtEdge,
    Becomes,
    Begins,
    Comparison,
    Condition,
    Equivalence,
    Follows,
    IfThen,
    IsClass,
    Lasting,
    Membership,
    Monotone,
    Negation,
    OnlyAfter,
    OverMembers,
    Past,
    Temporal,
    Until,
)

ABSOLUTE = frozenset({"bara", "bar(a)", "bar_a", "psia", "atm"})
"""Pressures that nobody writes for a gauge's."""
RISING, FALLING = frozenset({"<", "<=", "=="}), frozenset({">", ">=", "=="})
"""Operators of a chain that goes one way."""


def condition(node: Condition, scope: Scope) -> Formula | None:
    """The formula of a condition; None where something in it is wrong, which has been said."""
    match node:
        case Comparison():
            return comparison(node, scope)
        case IsClass(subject=Past() as subject) | Membership(subject=Past() as subject):
            return past_class(node, subject, scope)
        case IsClass():
            return is_class(node, scope)
        case Membership():
            return membership(node, scope)
        case OverMembers():
            return over_members(node, scope)
        case Monotone():
            return monotone(node, scope)
        case Negation():
            arg = condition(node.arg, replace(scope, permits=not scope.permits))
            return None if arg is None else Not(arg=arg)
        case AllOf() | AnyOf():
            args = [condition(arg, scope) for arg in node.args]
            known = tuple(arg for arg in args if arg is not None)
            if len(known) < len(args):
                return None
            return And(args=known) if isinstance(node, AllOf) else Or(args=known)
        case IfThen():
            antecedent = condition(node.antecedent, replace(scope, permits=not scope.permits))
            consequent = condition(node.consequent, scope)
            return (
                None
                if antecedent is None or consequent is None
                else Implies(antecedent=antecedent, consequent=consequent)
            )
        case Temporal():
            return temporal(node, scope)
        case Until():
            return until(node, scope)
        case Lasting():
            return lasting(node, scope)
        case Becomes():
            arg = condition(node.arg, scope)
            return None if arg is None else becomes(arg, node.span, scope)
        case Begins():
            arg = condition(node.arg, scope)
            return None if arg is None else begins(arg, node.span, scope)
        case AtEdge():
            return at_edge(node, scope)
        case Equivalence():
            return _equivalence(node, scope)
        case OnlyAfter():
            return only_after(node, scope)
        case Follows():
            return None  # its template could not be written out, which has been said
        case _:
            assert_never(node)


def _equivalence(node: Equivalence, scope: Scope) -> Formula | None:
    """``a iff b`` as two implications, ``a xor b`` as one without the other, or the reverse.

    Each side is bound as what is required and as what permits, because missing limits mean
    different things there.
    """
    other = replace(scope, permits=not scope.permits)
    bound = []
    for part, at in (
        (node.left, scope),
        (node.left, other),
        (node.right, scope),
        (node.right, other),
    ):
        formula = condition(part, at)
        if formula is None:
            return None
        bound.append(formula)
    if not may_repeat(And(args=tuple(bound)), node.span, scope):
        return None
    left, left_permits, right, right_permits = bound
    if node.word == "iff":
        return And(
            args=(
                Implies(antecedent=left_permits, consequent=right),
                Implies(antecedent=right_permits, consequent=left),
            )
        )
    return Or(
        args=(And(args=(left, Not(arg=right_permits))), And(args=(Not(arg=left_permits), right)))
    )


def comparison(node: Comparison, scope: Scope) -> Formula | None:
    """``a <= b < c +/- t``: one comparison for each neighbouring pair, all in one unit."""
    bound = _bind_sides(node, scope)
    if bound is None:
        return None
    values, unit, tolerance = bound
    if unit is None:
        scope.book.compare_bare(
            [columns for value in values if isinstance(value, Moving) for columns in value.bare],
            node.span,
        )
    _ask_about_gauges(values, unit, scope)
    sides = [in_unit(value, unit, scope) for value in values]
    if tolerance is None:
        _never(node, sides, scope)
        if len(sides) == 2:
            asked = _truth(sides[0], node.operators[0].text, sides[1], scope)
            if asked is not None:
                return asked
    scope.compared.append(unit.step().text if unit else "")
    terms = [term_of(side, scope) for side in sides]
    formulas = []
    for i, operator in enumerate(node.operators):
        left, right = terms[i], terms[i + 1]
        if left is None or right is None:
            return None
        formulas.append(compare(operator.text, left, right, tolerance, scope.rows))
    return formulas[0] if len(formulas) == 1 else And(args=tuple(formulas))


def _bind_sides(
    node: Comparison, scope: Scope
) -> tuple[list[Value], Unit | None, Term | None] | None:
    """The compared values, the unit of the comparison, and the tolerance in it; None if something
    is wrong, which has been reported.
    """
    values = [bind(operand, scope) for operand in node.operands]
    tolerance = None if node.tolerance is None else bind(node.tolerance, scope)
    known = _as_differences([value for value in values if value is not None])
    if len(known) < len(values) or (node.tolerance is not None and tolerance is None):
        return None
    unit = comparison_unit(known) or (tolerance.unit if tolerance is not None else None)
    has_units = any(value.unit is not None for value in known)
    if unit is not None and has_units and not _comparable(known, unit, scope):
        return None
    if tolerance is None:
        return known, unit, None
    slack = _tolerance(tolerance, unit, scope)
    return None if slack is None else (known, unit, slack)


def _truth(left: Value, operator: str, right: Value, scope: Scope) -> Formula | None:
    """What a comparison of a column of truth values with a number asks of it; None of any other
    comparison.
    """
    if isinstance(left, Fixed):
        left, operator, right = right, MIRRORED[operator], left
    if not isinstance(left, Moving) or not isinstance(right, Fixed):
        return None
    return truth_compared(operator, left.term, right.values, scope.rows, scope.book)


def _never(node: Comparison, sides: Sequence[Value], scope: Scope) -> None:
    """Report a chain with contradicting ends in every row: ``310 <= t <= 300``."""
    for i, first in enumerate(sides):
        if not isinstance(first, Fixed) or not first.values.size:
            continue
        rising = falling = True
        strict = False
        for j, last in enumerate(sides[i + 1 :], i + 1):
            operator = node.operators[j - 1].text
            rising, falling = rising and operator in RISING, falling and operator in FALLING
            strict = strict or operator in ("<", ">")
            if not (rising or falling):
                break
            if j == i + 1 or not isinstance(last, Fixed):
                continue
            low, high = (first.values, last.values) if rising else (last.values, first.values)
            if (low > high).all() or (strict and (low >= high).all()):
                row, unit = (
                    scope.where(0),
                    f" {first.unit.text}" if first.unit and first.unit.text else "",
                )
                scope.problems.error(
                    "FKG244",
                    node.span,
                    f"no value is above {low[0]:g}{unit} and below {high[0]:g}{unit}{row}",
                    "exchange the two limits; to allow values on either side, join two "
                    "comparisons by `or`",
                )
                return


def _as_differences(values: Sequence[Value]) -> list[Value]:
    """The values, with numbers that are compared with a difference read as differences.

    In ``t1 - t2 <= 10 degF``, 10 degF is 10 degR: no point on the scale can be meant.
    """
    differs = any(isinstance(one, Moving) and one.unit and one.unit.difference for one in values)
    return [
        replace(value, unit=value.unit.step())
        if differs and isinstance(value, Fixed) and value.unit is not None and value.unit.affine
        else value
        for value in values
    ]


def comparison_unit(values: Sequence[Value]) -> Unit | None:
    """The unit in which values are compared: that of the first signal standing plainly, else of the
    first number written with one.
    """
    for wanted in (
        [value for value in values if isinstance(value, Moving) and value.plain],
        [value for value in values if isinstance(value, Fixed)],
        [value for value in values if isinstance(value, Moving)],
    ):
        for value in wanted:
            if value.unit is not None:
                return value.unit
    return None


def _comparable(values: Sequence[Value], unit: Unit, scope: Scope) -> bool:
    anchor = next(value for value in values if value.unit is unit)
    fine = True
    for value in values:
        if value.unit is None:
            continue
        if not same_dimension(value.unit, unit):
            first, second = (anchor, value) if anchor.span <= value.span else (value, anchor)
            mismatch(first, second, "compared with", scope)
            fine = False
        elif (value.unit.affine and unit.difference) or (unit.affine and value.unit.difference):
            point, step = (value, anchor) if value.unit.affine else (anchor, value)
            scope.problems.error(
                "FKG215",
                point.span,
                "a difference is compared with a point on a scale: this is in"
                f" {point.unit.text if point.unit else ''}",
                (
                    f"write the difference in {point.unit.step_text}, or say that its numbers are"
                    f" in {point.unit.text}"
                    if point.unit
                    else ""
                ),
                (Related(span=step.span, message="this is a difference"),),
            )
            fine = False
    return fine


def _tolerance(value: Value, unit: Unit | None, scope: Scope) -> Term | None:
    """The tolerance in the comparison's unit: a difference, fixed, not negative."""
    if not isinstance(value, Fixed):
        message, advice = (
            "a tolerance is a number or a value of the quantifier, not a signal",
            "compare the difference: abs(a - b) <= c",
        )
        scope.problems.error("FKG227", value.span, message, advice)
        return None
    if np.any(value.values < 0):
        scope.problems.error(
            "FKG227", value.span, "a tolerance must not be negative", "write: +/- 0.5"
        )
        return None
    step = None if unit is None else unit.step()
    given = None if value.unit is None else value.unit.step()
    if given is not None and step is not None and not same_dimension(given, step):
        message = f"a tolerance in `{given.text}` does not fit a comparison in `{step.text}`"
        scope.problems.error("FKG213", value.span, message, f"write it in {step.text}")
        return None
    return term_of(in_unit(replace(value, unit=given), step, scope), scope)


def _ask_about_gauges(values: Sequence[Value], unit: Unit | None, scope: Scope) -> None:
    """Tell that bar beside barg is taken as absolute: people write it for both."""
    units = [value.unit for value in values if value.unit is not None]
    gauge = next((one for one in units if one.affine and one.dimension == PRESSURE), None)
    if gauge is None or unit is None:
        return
    for value in values:
        plain = value.unit
        if (
            plain is not None
            and not plain.affine
            and not plain.difference
            and plain.text not in ABSOLUTE
        ):
            relative = parse_unit(f"{plain.text}g")
            as_gauge = (
                f"write {plain.text}g"
                if isinstance(relative, Unit)
                else f"convert it to {gauge.text}"
            )
            absolute = {"psi": "write psia", "bar": "write bara"}.get(
                plain.text, "convert it to bara"
            )
            scope.problems.warning(
                "FKG219",
                value.span,
                f"`{plain.text}` is an absolute pressure, but `{gauge.text}` is a gauge pressure",
                f"if it is a gauge pressure, {as_gauge}; if it is absolute, {absolute}",
            )
