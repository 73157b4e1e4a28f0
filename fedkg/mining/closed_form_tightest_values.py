"""Levels of a parameter: the value at which a monotone formula changes, for all traces at once,
without a search.

A formula is minima and maxima over its comparisons. Let q be the parameter, with its sign chosen so
that the formula gets easier as q falls. A comparison ``m0 + k q >= 0`` with the parameter is true
for q up to its level ``m0 / |k|``; every other one is true for every q or for none. So the formula
is true exactly for q up to the minima and maxima of these levels, with very large and very small
numbers for "every" and "none": one evaluation gives the tightest value. The closed forms of An,
Johnson and Ma 2024 (table 1) are special cases.

Letters: N traces, T steps, k steps of a range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedkg.constraints.engine.evaluation import compare_margin, evaluate
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.mining.first_step_robustness import Atom, Leaf
from fedkg.pack.formulas import (
    And,
    Compare,
    Formula,
    Param,
    everywhere,
    sides,
    used_params,
    used_slots,
)
from fedkg.pack.parameter_mining_tasks import Inference
from fedkg.pack.term_linearity import linear_in_param, reads_param

ALWAYS = 1e300
"""The level of a comparison that is true for every value; its negative for one that is never
true."""


class NoLevel(Exception):
    """The parameter has no readable level: it is in a window, in a product with data, or among
    members.
    """


def robustness_of(reading: Reading, steps: int) -> Leaf:
    """The robustness of comparisons, moved off zero if strict, from channels [1, N * T]."""

    def leaf(atom: Atom, positive: bool, first: int, last: int) -> Tensor:
        part = _slice_steps(reading, steps, first, last)
        return _by_trace(evaluate(atom, part, positive=positive), last - first + 1)

    return leaf


def levels_of(formula: Formula, reading: Reading, target: int, steps: int) -> Leaf:
    """The levels of comparisons.

    Args:
        reading: channels [1, N * T] without unknown values; the value of the target does not
            matter.
        target: the parameter (q is the parameter itself, or its negative if the formula gets easier
            as it rises).

    Raises:
        NoLevel: see there.
    """
    holding = comparisons_with_parameter(formula, target)

    def leaf(atom: Atom, positive: bool, first: int, last: int) -> Tensor:
        part = _slice_steps(reading, steps, first, last)
        if isinstance(atom, Compare) and id(atom) in holding:
            level = _by_trace(_level(atom, target, part), last - first + 1)
            return level if positive else -level
        return (
            2 * _by_trace(evaluate(atom, part, positive=positive) >= 0, last - first + 1).double()
            - 1
        ) * ALWAYS

    return leaf


def comparisons_with_parameter(formula: Formula, target: int) -> frozenset[int]:
    """Identities of the comparisons with a parameter. Raises NoLevel if there are none, or if it
    also occurs elsewhere.
    """
    holding = frozenset(id(atom) for atom in _comparisons(formula) if target in used_params(atom))
    if not holding or target in _outside_comparisons(formula):
        raise NoLevel
    return holding


def interval_ends(
    formula: Formula, inference: Inference, places: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Pairs of parameters that are the two ends of one interval, ``low <= x and x <= high`` in one
    conjunction, by position.
    """
    of_param = {inference.parameters[place].param: place for place in places}
    used: set[int] = set()
    for _, part in everywhere(formula):
        if not isinstance(part, And):
            continue
        bounds = [
            (arg.left, arg.right)
            for arg in part.args
            if isinstance(arg, Compare) and not arg.tolerance
        ]
        lower = [(a.index, b) for a, b in bounds if isinstance(a, Param) and a.index in of_param]
        upper = [(b.index, a) for a, b in bounds if isinstance(b, Param) and b.index in of_param]
        for low, term in lower:
            for high, other in upper:
                pair = (of_param[low], of_param[high])
                if term == other and used.isdisjoint(pair) and _opposite(inference, *pair):
                    used.update(pair)
                    yield pair


def _opposite(inference: Inference, low: int, high: int) -> bool:
    """Whether the formula gets easier as the interval widens."""
    ends = inference.parameters[low].direction, inference.parameters[high].direction
    return ends == ("down", "up")


def _slice_steps(reading: Reading, steps: int, first: int, last: int) -> Reading:
    """The reading at some steps only; each parameter belongs to its trace."""

    def cut(values: Tensor) -> Tensor:
        return (
            values
            if values.shape[-1] == 1
            else values.reshape(1, -1, steps)[..., first : last + 1].reshape(1, -1)
        )

    if first == 0 and last == steps - 1:
        return reading
    return replace(
        reading,
        slots={slot: cut(values) for slot, values in reading.slots.items()},
        params=[cut(p) for p in reading.params],
    )


def _by_trace(values: Tensor, count: int) -> Tensor:
    """Values [1, N * k] as [N, k]; a constant as [1, 1]."""
    return values.reshape(1, 1) if values.numel() == 1 and count != 1 else values.reshape(-1, count)


def _outside_comparisons(formula: Formula) -> frozenset[int]:
    """Parameters that a formula reads outside its comparisons: bounds of windows, counts, codes of
    categories.
    """
    found: set[int] = set()
    for _, part in everywhere(formula):
        for name in ("low", "high", "count", "param"):
            place = getattr(part, name, None)
            if isinstance(place, int):
                found.add(place)
    return frozenset(found)


def _level(atom: Compare, target: int, reading: Reading) -> Tensor:
    """The level of a comparison with the target."""
    base, slope = _line(atom, target, reading)
    return base / slope.abs()


def margin_slope(atom: Compare, target: int, params: Sequence[float]) -> float:
    """The derivative of a comparison's margin by a parameter, at these values of the others. Raises
    NoLevel if it is not linear.
    """
    anywhere = [torch.full((1, 1), number, dtype=torch.float64) for number in params]
    return _slope(atom, target, Reading(slots={}, params=anywhere), used_slots(atom)).item()


def compared_with(formula: Formula, reading: Reading, param: int) -> Tensor | None:
    """The other side of the one comparison with a parameter, [1, B]; None if there is none, or
    several.
    """
    atoms = [atom for atom in _comparisons(formula) if param in used_params(atom)]
    if len(atoms) != 1 or atoms[0].op in ("eq", "ne"):
        return None
    try:
        base, slope = _line(atoms[0], param, reading)
    except NoLevel:
        return None
    return -base / slope


def _comparisons(formula: Formula) -> list[Compare]:
    return [part for _, part in everywhere(formula) if isinstance(part, Compare)]


def _line(atom: Compare, param: int, reading: Reading) -> tuple[Tensor, Tensor]:
    """The margin ``base + slope * parameter``, [1, B] and [1, 1]. Raises NoLevel if it is not one
    line for all data.
    """
    slope = _slope(atom, param, reading, reading.slots)
    return _margin_at(atom, param, 0.0, reading), slope


def _slope(atom: Compare, param: int, reading: Reading, slots: Iterable[int]) -> Tensor:
    """The slope of the margin, [1, 1]. Raises NoLevel if it is not one line for all data."""
    containing = [side for side in sides(atom) if reads_param(side, param)]
    if atom.op in ("eq", "ne") or len(containing) != 1 or not linear_in_param(containing[0], param):
        raise NoLevel
    anywhere = replace(
        reading, slots={slot: torch.zeros_like(reading.params[0][:1, :1]) for slot in slots}
    )
    slope = _margin_at(atom, param, 1.0, anywhere) - _margin_at(atom, param, 0.0, anywhere)
    slope = slope.flatten()[:1].reshape(1, 1)
    if not bool(slope != 0):
        raise NoLevel
    return slope


def _margin_at(atom: Compare, param: int, value: float, reading: Reading) -> Tensor:
    params = [*reading.params]
    params[param] = torch.full((1, 1), value, dtype=torch.float64, device=params[param].device)
    return compare_margin(atom, True, replace(reading, params=params, careful=False))
