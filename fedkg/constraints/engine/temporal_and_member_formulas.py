"""Formulas with a verdict that depends on other steps or on members, for robustness and violations.

Letters: R rows, B batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from fedkg.constraints.engine.accelerator_window_operators import At
from fedkg.constraints.engine.device_constants import constant
from fedkg.constraints.engine.evaluation_inputs import Members, Reading, Steps, reading_on
from fedkg.constraints.engine.member_reductions import ranked
from fedkg.constraints.engine.shared_window_extremes import OverExtreme, place_of
from fedkg.constraints.engine.skeleton_properties import is_temporal
from fedkg.constraints.engine.window_operators import (
    Truth,
    Windows,
    at_extreme,
    at_first,
    over_window,
    until,
)
from fedkg.pack.formulas import AtLeast, Compare, Formula, FormulaPart, Initially, Temporal, Until

Inner = Callable[[Formula, bool, Reading], Tensor]
"""How a sub-formula (or its negation) is evaluated on a reading."""


Form = Callable[[Any, bool, Reading, Truth, Inner, bool], Tensor]
"""Computes a formula's number, or that of its negation. The last argument says whether "all of" is
a minimum."""


def compound(
    formula: Formula, positive: bool, reading: Reading, truth: Truth, inner: Inner
) -> Tensor:
    """The formula's number, or that of its negation; [R, B].

    Args:
        truth: the encoding of verdicts as numbers. Where 0 is low (numbers are violations), minima
            and maxima change places.
        inner: evaluates sub-formulas in the same sense.
    """
    least = positive != truth.zero_is_low
    return FORMS[type(formula)](formula, positive, reading, truth, inner, least)


def _temporal(
    formula: Temporal, positive: bool, reading: Reading, truth: Truth, inner: Inner, least: bool
) -> Tensor:
    past, lowest = formula.looks_back, (formula.op in formula.universal) == least
    values = inner(formula.arg, positive, reading)
    windows, steps = windows_of(formula, reading), steps_of(reading)
    if not isinstance(formula, OverExtreme):
        again = _again(formula.arg, positive, reading, inner)
        return over_window(values, windows, steps, truth, past=past, lowest=lowest, again=again)
    unsure = reading.unsure.get(place_of(formula)) if reading.unsure else None
    return at_extreme(values, windows, steps, truth, past=past, lowest=lowest, unsure=unsure)


def _until(
    formula: Until, positive: bool, reading: Reading, truth: Truth, inner: Inner, least: bool
) -> Tensor:
    left, right = inner(formula.left, positive, reading), inner(formula.right, positive, reading)
    return until(
        left,
        right,
        windows_of(formula, reading),
        steps_of(reading),
        truth,
        past=formula.looks_back,
        closed=formula.closed,
        lowest=not least,
        again=[_again(side, positive, reading, inner) for side in (formula.left, formula.right)],
    )


def _initially(
    formula: Initially, positive: bool, reading: Reading, truth: Truth, inner: Inner, least: bool
) -> Tensor:
    steps, values = steps_of(reading), inner(formula.arg, positive, reading)
    return at_first(values.expand(np.broadcast_shapes(values.shape, (1, steps.places))), steps)


def _at_least(
    formula: AtLeast, positive: bool, reading: Reading, truth: Truth, inner: Inner, least: bool
) -> Tensor:
    """Enough of them: the count-th largest robustness.

    The negation and what is missing mirror it: the count-th smallest.
    """
    members = reading.members[formula.members]
    values = over_members(inner(formula.arg, positive, members.reading), members)
    wanted: Tensor | None = None
    if formula.count is not None:
        assert reading.numbers is not None, "a reading with sets has its numbers"
        wanted = constant(reading.numbers[formula.count].astype(np.int64), values.device)
    return ranked(values, wanted, members.owner, members.offsets, truth, falling=least)


FORMS: dict[type[FormulaPart], Form] = {
    AtLeast: _at_least,
    Temporal: _temporal,
    OverExtreme: _temporal,
    Until: _until,
    Initially: _initially,
}
"""The tensor form of each kind of formula over members or steps."""


def _again(part: Formula, positive: bool, reading: Reading, inner: Inner) -> At | None:
    """The values of a comparison shifted by a number of steps, evaluated there.

    None for larger formulas, which a compiler would repeat at each step.
    """
    if reading.members or not isinstance(part, Compare) or is_temporal(part):
        return None
    return lambda by: inner(part, positive, reading_on(reading, by))


def over_members(values: Tensor, members: Members) -> Tensor:
    """A value broadcast to one row for each member: [M, B] or [M, 1]."""
    return values.expand(members.owner.shape[0], values.shape[1])


def windows_of(formula: Temporal | Until, reading: Reading) -> Windows:
    """Each row's window, [R, 2]."""
    assert reading.numbers is not None, "a reading over time has its numbers"
    return reading.numbers[[formula.low, formula.high]].T


def steps_of(reading: Reading) -> Steps:
    """The reading's steps. Rows that need them are not evaluated where they are not at hand."""
    assert reading.steps is not None, "a formula over time is evaluated on traces"
    return reading.steps
