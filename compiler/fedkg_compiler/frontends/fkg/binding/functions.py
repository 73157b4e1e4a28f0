"""The functions of the language: how many arguments each takes, and what it does to units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Call, Term
from fedkg.units.text import parse_unit
from fedkg.units.unit import NUMBER, Unit, power, same_dimension
from fedkg_compiler.frontends.fkg.binding.scope import (
    Fixed,
    Moving,
    Scope,
    Value,
    as_held,
    difference_advice,
    in_unit,
    mismatch,
    proportional,
    term_of,
    value_advice,
    zero_of,
)
from fedkg_compiler.frontends.fkg.syntax.tree import Apply

Array = NDArray[np.float64]

FUNCTIONS: dict[str, tuple[Callable[..., Term], int, Callable[..., Array]]] = {
    "min": (partial(Call, function="min"), 2, np.minimum),
    "max": (partial(Call, function="max"), 2, np.maximum),
    "abs": (partial(Call, function="abs"), 1, np.abs),
    "sqrt": (partial(Call, function="sqrt"), 1, np.sqrt),
    "exp": (partial(Call, function="exp"), 1, np.exp),
    "log": (partial(Call, function="log"), 1, np.log),
    "sin": (partial(Call, function="sin"), 1, np.sin),
    "cos": (partial(Call, function="cos"), 1, np.cos),
    "tan": (partial(Call, function="tan"), 1, np.tan),
    "tanh": (partial(Call, function="tanh"), 1, np.tanh),
    "floor": (partial(Call, function="floor"), 1, np.floor),
    "ceil": (partial(Call, function="ceil"), 1, np.ceil),
    "round": (partial(Call, function="round"), 1, np.round),
}
"""Name to the class of the pack's node, the least number of arguments (2: or more), and what the
function does to numbers known at compile time.
"""

_ANGLES = ("sin", "cos", "tan")
_SAME_KIND = ("min", "max", "abs", "floor", "ceil", "round")
_PLAIN = ("exp", "log", "tanh")
_DOMAINS = {"sqrt": "root of a negative number", "log": "logarithm of a negative number"}


def call(node: Apply, args: Sequence[Value], scope: Scope) -> Value | None:
    """``function(args)``, or None where arguments are too many or too few, or their units do not
    fit.
    """
    function = node.name.text
    node_of, least, compute = FUNCTIONS[function]
    if len(args) < least or (least == 1 and len(args) > 1):
        wanted = "two or more arguments" if least == 2 else "one argument"
        scope.problems.error(
            "FKG205",
            node.span,
            f"`{function}` takes {wanted}, and has {len(args) or 'none'}",
            f"write {function}({'a, b' if least == 2 else 'a'})",
        )
        return None
    fitted = _fit(function, args, scope)
    if fitted is None:
        return None
    values, unit, held = fitted
    if all(isinstance(value, Fixed) for value in values):
        arrays = [value.values for value in values if isinstance(value, Fixed)]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            result = arrays[0] if least == 2 else compute(arrays[0])
            for array in arrays[1:]:
                result = compute(result, array)
        undefined = np.flatnonzero(np.isnan(result) & ~np.isnan(arrays[0]))
        if function in _DOMAINS and undefined.size:
            row = int(undefined[0])
            scope.problems.error(
                "FKG228",
                node.span,
                f"this is the {_DOMAINS[function]}, which is undefined{scope.where(row)}",
                value_advice(scope),
            )
            return None
        return Fixed(values=result, unit=unit, span=node.span)
    terms = [term_of(value, scope) for value in values]
    known = tuple(term for term in terms if term is not None)
    if len(known) < len(terms):
        return None
    bare = tuple(columns for value in values if isinstance(value, Moving) for columns in value.bare)
    return Moving(
        term=node_of(args=known),
        unit=unit,
        span=node.span,
        bare=bare if function in _SAME_KIND else (),
        held=held,
    )


def _fit(
    function: str, args: Sequence[Value], scope: Scope
) -> tuple[list[Value], Unit | None, Unit | None] | None:
    """The arguments in the units that the function wants, the unit of its result, and the unit that
    the result is held in.
    """
    first = args[0]
    if function in ("min", "max"):
        return in_one_unit(args, scope)
    if function in _ANGLES:
        radian = parse_unit("rad")
        if first.unit is None or not isinstance(radian, Unit) or _is_number(first.unit):
            return [_as_number(first, scope)], NUMBER, None
        if not same_dimension(first.unit, radian):
            advice = "give it an angle, in rad or deg; a speed times a duration is one: speed * 2 s"
            _refused(function, first, "an angle", advice, scope)
            return None
        return [in_unit(first, radian, scope)], NUMBER, None
    if function in _PLAIN:
        if first.unit is not None and not _is_number(first.unit):
            _refused(
                function, first, "a plain number", "divide by a quantity of the same kind", scope
            )
            return None
        return [_as_number(first, scope)], NUMBER, None
    if first.unit is not None and first.unit.affine and function not in ("floor", "ceil", "round"):
        message = (
            f"`{function}` of a value in {first.unit.text} has no meaning: {zero_of(first.unit)}"
        )
        scope.problems.error("FKG215", first.span, message, difference_advice(first.unit))
        return None
    if function == "sqrt":
        unit = None if first.unit is None else power(first.unit, Fraction(1, 2))
        return [first], unit, None
    if function == "abs":
        first = proportional(first, scope)
        return [as_held(first)], first.unit, first.held if isinstance(first, Moving) else None
    return [first], first.unit, None


def in_one_unit(
    args: Sequence[Value], scope: Scope
) -> tuple[list[Value], Unit | None, Unit | None] | None:
    """The values in the unit of the first term, so that fixed numbers are converted, then the unit
    of the first value that has one, which bare numbers are in, and that of the first term; None if
    their units do not fit, which is reported.
    """
    first = next((arg for arg in args if arg.unit is not None), None)
    if first is None or first.unit is None:
        return list(args), None, None
    for arg in args:
        if arg.unit is not None and not same_dimension(arg.unit, first.unit):
            mismatch(first, arg, "combined with", scope)
            return None
    data = next((arg for arg in args if isinstance(arg, Moving) and arg.unit is not None), first)
    held = as_held(data).unit
    args = [in_unit(arg, first.unit, scope) if arg.unit is None else arg for arg in args]
    return [in_unit(arg, held, scope) for arg in args], first.unit, held


def _is_number(unit: Unit) -> bool:
    return not unit.dimension


def _as_number(value: Value, scope: Scope) -> Value:
    """A per cent as a share; a bare number as it is."""
    return value if value.unit is None else replace(in_unit(value, NUMBER, scope))


def _refused(function: str, value: Value, wanted: str, advice: str, scope: Scope) -> None:
    unit = value.unit.text if value.unit else ""
    scope.problems.error(
        "FKG236", value.span, f"`{function}` takes {wanted}; this is in `{unit}`", advice
    )
