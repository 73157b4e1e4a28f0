"""Numbers made of several steps: ``mean of flow over last 1 h``, ``starts of (pump is on) since
(shift becomes A)``.

Six of the nine words are written with one node of the pack, a sum, mean, minimum or maximum over a
window: a condition is counted as a sum of 1 where it holds and 0 where it does not.

Letter: R bank rows of the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from fedkg._internal.name_matching import did_you_mean
from fedkg.pack import Choose, Formula, Term
from fedkg.pack.formulas import Lag, WindowReduce
from fedkg.units.text import parse_unit
from fedkg.units.unit import NUMBER, Unit
from fedkg_compiler.frontends.fkg.binding.aggregates import ELSEWHERE
from fedkg_compiler.frontends.fkg.binding.durations_in_steps import reads_open_number, window_steps
from fedkg_compiler.frontends.fkg.binding.scope import (
    Fixed,
    Moving,
    Scope,
    Value,
    add,
    difference_advice,
    divide,
    in_time,
    proportional,
    zero_of,
)
from fedkg_compiler.frontends.fkg.binding.temporal import becomes
from fedkg_compiler.frontends.fkg.syntax.tree import Condition, Expression, OverTime

Op = Literal["sum", "mean", "min", "max"]
OF_VALUES: dict[str, Op | None] = {
    "sum": "sum",
    "mean": "mean",
    "min": "min",
    "max": "max",
    "rate": None,
}
"""The words before `of` and a value. A rate is a difference of two values."""

OF_CONDITIONS: dict[str, Op] = {"count": "sum", "share": "mean", "duration": "sum", "starts": "sum"}
"""The words before `of` and a condition, and what each makes of its indicator."""

UNITS_OF_TIME = (("h", 3600.0), ("min", 60.0), ("s", 1.0))


def over_time(node: OverTime, scope: Scope) -> Value | None:
    """The value of a number over time; report and return None if it has none."""
    word = node.function.text
    is_value = isinstance(node.body, Expression)
    if word not in (OF_VALUES if is_value else OF_CONDITIONS):
        _complain_of_word(node, is_value, scope)
        return None
    if reads_open_number(node, "a number over time", scope):
        return None
    if isinstance(node.body, Expression):
        return _of_value(node, node.body, scope)
    return _of_condition(node, node.body, scope)


def _complain_of_word(node: OverTime, is_value: bool, scope: Scope) -> None:
    word = node.function.text
    known, other = (OF_VALUES, OF_CONDITIONS) if is_value else (OF_CONDITIONS, OF_VALUES)
    if word in other:
        message = f"`{word}` takes a {'condition' if is_value else 'value'} over time"
        advice = (
            f"write a condition in parentheses: {word} of (x > 5) over last 1 h"
            if is_value
            else "for a condition, use `share of`, `count of`, `duration of` or `starts of`"
        )
    else:
        message = f"`{word}` is not a function over time"
        words = ", ".join(known)
        advice = (
            f"did you mean `{ELSEWHERE[word]}`?"
            if ELSEWHERE.get(word) in known
            else did_you_mean(word, known, f"write one of {words}")
        )
    scope.problems.error("FKG202", node.function.span, message, advice)


def _of_value(node: OverTime, body: Expression, scope: Scope) -> Value | None:
    value = scope.bind_value(body, scope)
    if value is None:
        return None
    if isinstance(value, Fixed):
        scope.problems.error(
            "FKG262",
            body.span,
            f"this value does not change over time, so `{node.function.text}` has no effect",
            "write the value alone",
        )
        return None
    op = OF_VALUES[node.function.text]
    if op is None:
        return _rate(node, value, scope)
    window = _window(node, scope)
    if window is None:
        return None
    if op == "sum" and value.unit is not None and value.unit.affine:
        message = f"values in {value.unit.text} cannot be added: {zero_of(value.unit)}"
        advice = f"take their mean; or {difference_advice(value.unit)}"
        scope.problems.error("FKG215", body.span, message, advice)
        return None
    summed = proportional(value, scope) if op == "sum" else value
    assert isinstance(summed, Moving)
    plain = value.plain and op != "sum"
    return replace(summed, term=window(op, summed.term), span=node.span, plain=plain)


def _rate(node: OverTime, value: Moving, scope: Scope) -> Value | None:
    """The difference between the two ends of the window, divided by its duration."""
    if node.lasting is None or node.direction != "last":
        message = "a rate compares the value with the one a duration ago"
        advice = f"write: {node.function.text} of x over last 10 min"
        scope.problems.error("FKG202", node.function.span, message, advice)
        return None
    steps = window_steps(node.lasting, node.span, scope)
    duration = scope.bind_value(node.lasting, scope)
    if steps is None or not isinstance(duration, Fixed):
        return None
    if duration.unit is None:  # a number of steps
        length = _step_length(node, scope)
        if length is None:
            return None
        duration = replace(duration, values=steps * length[0], unit=length[1])
    lag = Lag(steps=scope.rows.param(steps).index, arg=value.term)
    change = add(value, replace(value, term=lag), "-", node.span, scope)
    return None if change is None else divide(change, duration, node.span, scope)


def _of_condition(node: OverTime, body: Condition, scope: Scope) -> Value | None:
    """The sum or mean of a number where the condition holds and 0 where it does not."""
    formula, window, word = _condition(body, scope), _window(node, scope), node.function.text
    amount, unit = 1.0, NUMBER
    if word == "duration":
        length = _step_length(node, scope)
        if length is None:
            return None
        amount, unit = length
    if formula is None or window is None:
        return None
    if word == "starts":
        formula = becomes(formula, node.span, scope)
        if formula is None:
            return None
    indicator = Choose(
        condition=formula,
        then=scope.rows.param(np.array(amount)),
        otherwise=scope.rows.param(np.array(0.0)),
    )
    return Moving(term=window(OF_CONDITIONS[word], indicator), unit=unit, span=node.span)


def _window(node: OverTime, scope: Scope) -> Callable[[Op, Term], WindowReduce] | None:
    """What makes a number of a term's values in the window; None where the window is wrong."""
    if node.event is not None:
        in_time(node.span, scope)
        event = _condition(node.event, scope)
        return None if event is None else _since(event)
    assert node.lasting is not None, "it has a duration or an event"
    steps = window_steps(node.lasting, node.span, scope)
    if steps is None:
        return None
    count, ahead = scope.rows.param(steps).index, node.direction == "next"
    return lambda op, term: WindowReduce(op=op, count=count, ahead=ahead, arg=term)


def _since(event: Formula) -> Callable[[Op, Term], WindowReduce]:
    return lambda op, term: WindowReduce(op=op, arg=term, since=event)


def _condition(node: Condition, scope: Scope) -> Formula | None:
    """The formula of a condition inside a value; its margins are not those of the rule."""
    return scope.bind_condition(node, replace(scope, compared=[]))


def _step_length(node: OverTime, scope: Scope) -> tuple[float, Unit] | None:
    """How long a step is, in the largest unit in which that is a whole number.

    Reports and returns None if the timeline does not say it.
    """
    timing = scope.names.timing
    if timing.step is None:
        if not timing.step_broken and scope.problems.fresh("no step", node.span):
            scope.problems.error(
                "FKG250",
                node.span,
                "the length of a step is unknown",
                "write the time from one row to the next: timeline step 5 min",
            )
        return None
    for text, seconds in UNITS_OF_TIME:
        unit = parse_unit(text)
        if isinstance(unit, Unit) and (timing.step / seconds).is_integer():
            return timing.step / seconds, unit
    second = parse_unit("s")
    return (timing.step, second) if isinstance(second, Unit) else None
