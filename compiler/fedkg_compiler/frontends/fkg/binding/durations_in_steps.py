"""Windows: durations become whole steps of the timeline.

A window takes the samples that lie inside its closed interval: the first step is rounded up, the
last one down.

Letter: R rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Temporal
from fedkg.pack.formulas import BEYOND
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import Unit, conversion, same_dimension
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.scope import Fixed, Moving, Scope, compare, in_time
from fedkg_compiler.frontends.fkg.binding.signal_columns import names_in
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Ago,
    Expression,
    OverTime,
    Quantity,
    Variable,
    Window,
)

Array = NDArray[np.float64]

TOLERANCE = 1e-9
"""By how many steps a duration may miss a whole number of them: 0.3 s are three steps of 0.1 s."""

NO_END = -1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _End:
    """One end of a window.

    Attributes:
        span: the place of the end in the rule.
        steps: float64 [R], the exact number of steps in each of the R rows, infinite if the window
            has no end; None if the number is found in data.
        param: the index of the parameter that holds a number found in data; -1 if `steps` is given.
        unit: the unit of a duration; None for a bare number.
    """

    span: Span
    steps: Array | None = None
    param: int = -1
    unit: Unit | None = None


def steps_of(first: Array, last: Array) -> tuple[Array, Array]:
    """The whole steps inside the closed interval from `first` to `last` (exact numbers of steps,
    [R]); no end is -1.
    """
    low, high = np.ceil(first - TOLERANCE), np.floor(last + TOLERANCE)
    return np.maximum(low, 0.0) + 0.0, np.where(np.isinf(last), NO_END, high + 0.0)


def window_params(window: Window | None, scope: Scope) -> tuple[int, int] | None:
    """The row parameters with the window's first and last step; None where it is wrong, which has
    been said.

    Without a window: from now on, without an end.
    """
    if window is None:
        return scope.rows.param(np.array(0.0)).index, scope.rows.param(np.array(NO_END)).index
    zero = _End(span=window.span, steps=np.zeros(scope.rows.count))
    first = zero if window.low is None else _end(window.low, scope)
    last = _end(window.high, scope)
    if first is None or last is None:
        return None
    for found in scope.mined.values():
        found.first, found.last = (
            found.first or found.param.index == first.param,
            found.last or found.param.index == last.param,
        )
    if first.steps is None or last.steps is None:
        return _end_parameter(first, np.ceil, scope), _end_parameter(last, np.floor, scope)
    if not _fits(window, first, last, scope):
        return None
    low, high = steps_of(first.steps, last.steps)
    return scope.rows.param(low).index, scope.rows.param(high).index


def other_step(
    operator: Literal["once", "eventually"], distance: float | Array, scope: Scope
) -> Temporal:
    """Whether the trace has a step at least so far before (`once`) or after (`eventually`) this
    one: something that is true holds there, in a window that the trace ends.

    Args:
        distance: in steps, at least 1; one number or one for each row.
    """
    rows = scope.rows
    true = compare("<=", rows.param(np.array(0.0)), rows.param(np.array(BEYOND)), None, rows)
    return Temporal(
        op=operator,
        low=rows.param(np.asarray(distance)).index,
        high=rows.param(np.array(NO_END)).index,
        arg=true,
    )


def steps_back(node: Ago, scope: Scope) -> Array | None:
    """The number of steps by which ``x 10 min ago`` looks back, float64 [R]; report and return None
    if there is none.
    """
    in_time(node.span, scope)
    if reads_open_number(node, "an earlier value", scope):
        return None
    return whole_steps(node.by, scope, lag=True)


def window_steps(node: Expression, span: Span, scope: Scope) -> Array | None:
    """The number of steps in ``over last 10 min``, float64 [R], at least 1.

    Reports and returns None if there is none.
    """
    in_time(span, scope)
    steps = whole_steps(node, scope)
    if steps is None:
        return None
    empty = np.flatnonzero(steps == 0)
    if empty.size:
        message = f"no row lies in this window{scope.where(int(empty[0]))}: it has no length"
        scope.problems.error("FKG255", node.span, message, "write a duration above 0")
        return None
    return steps


def lasting_params(node: Expression, span: Span, scope: Scope) -> tuple[int, int] | None:
    """The row parameters of the window of ``c for at least 15 min``: from 0 to that many steps.

    Reports and returns None if there is none.
    """
    in_time(span, scope)
    end = _end(node, scope)
    if end is None:
        return None
    zero = scope.rows.param(np.array(0.0)).index
    if end.steps is None:
        for found in scope.mined.values():
            found.last = found.last or found.param.index == end.param
        return zero, end.param
    if not _finite(node, end.steps, scope):
        return None
    # The condition is seen at steps only: it has held for 12 min once it did for 15.
    return zero, scope.rows.param(np.ceil(end.steps - TOLERANCE) + 0.0).index


def whole_steps(node: Expression, scope: Scope, *, lag: bool = False) -> Array | None:
    """A duration in steps, whole numbers [R]; report and return None if it is not."""
    end = _end(node, scope, lag=lag)
    if end is None or end.steps is None:
        return None
    if not _finite(node, end.steps, scope):
        return None
    steps = np.round(end.steps)
    between = np.flatnonzero(~(np.abs(end.steps - steps) <= TOLERANCE))
    if between.size:
        row, step = int(between[0]), _seconds_text(scope)
        message = f"this is not a whole number of steps{scope.where(row)}: rows are {step} apart"
        scope.problems.error("FKG255", node.span, message, f"write a multiple of {step}")
        return None
    return steps + 0.0


def reads_open_number(node: Ago | OverTime, what: str, scope: Scope) -> bool:
    """Whether a variable of `find` is inside an earlier value or a number over time; reported.

    Those are computed before any number is found.
    """
    inner = next(
        (one for one in names_in(node) if isinstance(one, Variable) and one.name in scope.mined),
        None,
    )
    if inner is not None:
        scope.problems.error(
            "FKG274",
            inner.span,
            f"?{inner.name} is found in data and cannot be inside {what}",
            f"write a number here, and use the variable as the limit of {what}",
        )
    return inner is not None


def _end_parameter(end: _End, rounded: Callable[[Array], Array], scope: Scope) -> int:
    """The parameter of one end beside another that is found in data."""
    if end.steps is None:
        return end.param
    shift = -TOLERANCE if rounded is np.ceil else TOLERANCE
    return scope.rows.param(
        np.where(np.isinf(end.steps), NO_END, rounded(end.steps + shift) + 0.0)
    ).index


def _end(node: Expression, scope: Scope, *, lag: bool = False) -> _End | None:
    what = "a lag" if lag else "an end of a window"
    if isinstance(node, Quantity) and math.isinf(node.value) and node.unit is None:
        return _End(span=node.span, steps=np.full(scope.rows.count, np.inf))
    if isinstance(node, Variable) and node.name in scope.mined:
        found = scope.mined[node.name]
        found.windows.append(node.span)
        return _End(span=node.span, param=found.param.index)
    if isinstance(node, Quantity) and node.unit is not None and _no_unit(node.unit.text):
        hint = f"write a unit of time: {node.value:g} min, {node.value:g} h"
        scope.problems.error("FKG251", node.unit.span, f"`{node.unit.text}` is not a time", hint)
        return None
    value = scope.bind_value(node, scope)
    if value is None:
        return None
    if isinstance(value, Moving):
        message = (
            f"{what} must be a number, a duration or a value of the quantifier, and this differs "
            "from row to row of the table"
        )
        advice = (
            "write how long ago: 10 min ago"
            if lag
            else "write how long the window is: [0 min, 30 min]"
        )
        scope.problems.error("FKG258", node.span, message, advice)
        return None
    if not _finite(node, value.values, scope):
        return None
    negative = np.flatnonzero(value.values < 0)
    if negative.size:
        scope.problems.error(
            "FKG253",
            node.span,
            f"{what} must not be negative{scope.where(int(negative[0]))}: it is counted from the "
            f"current step",
            (
                "write it without the sign"
                if lag
                else "write it without the sign: the future operators count forwards, and `once`, "
                "`historically` and `since` count backwards"
            ),
        )
        return None
    return (
        _counted(node, value, scope, "" if lag else " in a window")
        if value.unit is None
        else _timed(node, value, value.unit, scope)
    )


def _no_unit(text: str) -> bool:
    unit = parse_unit(text)
    return isinstance(unit, UnitProblem) and not unit.doubtful and not unit.instead


def _counted(node: Expression, value: Fixed, scope: Scope, where: str) -> _End | None:
    broken = np.flatnonzero(value.values != np.round(value.values))
    if broken.size:
        number = float(value.values[int(broken[0])])
        message = (
            f"a bare number{where} counts steps, and {number:g} is not"
            f" whole{scope.where(int(broken[0]))}"
        )
        scope.problems.error(
            "FKG256", node.span, message, f"round it, or write a duration: {number:g} h"
        )
        return None
    return _End(span=node.span, steps=value.values)


def _timed(node: Expression, value: Fixed, unit: Unit, scope: Scope) -> _End | None:
    second = parse_unit("s")
    if isinstance(second, UnitProblem) or not same_dimension(unit, second):
        said = (
            f"`{unit.text}` is not a time"
            if unit.text
            else "this number has no dimension: it is neither a time nor a number of steps"
        )
        scope.problems.error(
            "FKG251", node.span, said, "write a duration, 30 min, or a bare number of steps"
        )
        return None
    timing = scope.names.timing
    if not np.any(value.values):
        return _End(span=node.span, steps=value.values, unit=unit)
    if timing.step is None:
        if not timing.step_broken and scope.problems.fresh("no step", node.span):
            much = (
                f"{float(value.values[0]):g} {unit.text}"
                if value.values.size
                else f"a time in {unit.text}"
            )
            scope.problems.error(
                "FKG250",
                node.span,
                f"the number of rows in {much} is unknown",
                "write the time from one row to the next: timeline step 5 min; bare numbers count"
                " rows",
            )
        return None
    steps = conversion(unit, second).apply(value.values) / timing.step
    return _End(span=node.span, steps=steps, unit=unit) if _finite(node, steps, scope) else None


def _finite(node: Expression, values: Array, scope: Scope) -> bool:
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        message = f"the result is not a finite number{scope.where(int(wrong[0]))}"
        scope.problems.error(
            "FKG228",
            node.span,
            message,
            "write a finite number; only the last end of a window in brackets may be `end`",
        )
    return not wrong.size


def _fits(window: Window, first: _End, last: _End, scope: Scope) -> bool:
    """Return whether the window contains steps; report problems."""
    assert first.steps is not None
    assert last.steps is not None
    bare, timed = (first, last) if first.unit is None else (last, first)
    if (
        bare.unit is None
        and timed.unit is not None
        and _counts(bare.steps)
        and _counts(timed.steps)
    ):
        unit = timed.unit.text
        message = f"one end counts steps, the other is a time in {unit}"
        scope.problems.error(
            "FKG257",
            bare.span,
            message,
            f"give this one a unit too, say {unit}, or count steps in both",
        )
        return False
    before = np.flatnonzero(last.steps < first.steps - TOLERANCE)
    if before.size:
        row = int(before[0])
        message = f"this window ends before it begins{scope.where(row)}"
        scope.problems.error(
            "FKG252", window.span, message, "write the nearer end first: [1 h, 2 h]"
        )
        return False
    low, high = np.ceil(first.steps - TOLERANCE), np.floor(last.steps + TOLERANCE)
    step = _seconds_text(scope)
    empty = np.flatnonzero(low > high)
    if empty.size:
        message = f"no row lies in this window{scope.where(int(empty[0]))}: rows are {step} apart"
        scope.problems.error(
            "FKG255",
            window.span,
            message,
            f"widen the window so that it contains a multiple of {step}",
        )
        return False
    width = last.steps - first.steps
    narrow = np.flatnonzero((width > TOLERANCE) & (width < 1 - TOLERANCE))
    if narrow.size:
        row = int(narrow[0])
        steps = f"{low[row]:g} {'step' if low[row] == 1 else 'steps'}"
        where = "the row itself" if low[row] == 0 else f"the row {steps} away"
        message = (
            f"this window is shorter than one step of {step}: {where} is all that lies in"
            f" it{scope.where(row)}"
        )
        scope.problems.warning(
            "FKG254", window.span, message, f"make it at least {step} long, or remove it"
        )
    return True


def _counts(steps: Array | None) -> bool:
    """Whether it makes a difference in what an end is counted: not for 0, and not where there is
    none.
    """
    return steps is not None and bool(np.any((steps != 0) & np.isfinite(steps)))


def _seconds_text(scope: Scope) -> str:
    """The step of the timeline for people."""
    step = scope.names.timing.step or 0.0
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if step >= size and (step / size).is_integer():
            return f"{step / size:g} {unit}"
    return f"{step:g} s"
