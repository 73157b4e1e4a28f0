"""Whether formulas hold of many values at once, where values may be missing: no more than that, and no margins.

The interpreter of packs says the same, and how far each verdict is from another. It belongs to the runtime, which the compiler does not
import (an import contract holds that); a test holds the two together. It would not do either: it gathers [steps, rows] of one table by
bank, where here each row stands at places with variables of their own, and it has no left - right of a comparison, which steps go by.

Letters: P points, M rows of a bank or members of a table, s slots, p parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import (
    And,
    AtLeast,
    Call,
    CategoryIs,
    Choose,
    ClassIn,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Negate,
    Not,
    Or,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Temporal,
    Term,
    Until,
)

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Truth = tuple[Bool, Bool]
"""Where a formula holds, and where it fails: bool [P, M] each, never both; neither where it is unknown."""

FUNCTIONS: dict[str, Callable[[Float], Float]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scope:
    """What formulas are evaluated on.

    Attributes:
        slots: float64 [s, P, M]. params: float64 [p, M]. members: by number, each member table's scope and its owners' offsets [M + 1].
    """

    slots: Float
    params: Float
    members: Mapping[int, tuple[Scope, NDArray[np.int64]]]

    @property
    def shape(self) -> tuple[int, int]:
        """(P, M)."""
        return self.slots.shape[1], self.params.shape[1]


def truth(formula: Formula, at: Scope) -> Truth:
    """Where a formula without time holds, and where it fails."""
    with np.errstate(all="ignore"):
        return _truth(formula, at)


def margin(atom: Compare, at: Scope) -> Float:
    """By how much a comparison is met: float64 [P, M], negative where it is missed, NaN where it is unknown."""
    with np.errstate(all="ignore"):
        left, right = _number(atom.left, at), _number(atom.right, at)
        tolerance = 0.0 if atom.tolerance is None else _number(atom.tolerance, at)
        match atom.op:
            case "le" | "lt":
                found = right - left + tolerance
            case "eq":
                found = tolerance - np.abs(left - right)
            case "ne":
                found = np.abs(left - right) - tolerance
            case _:
                assert_never(atom.op)
        return np.broadcast_to(_finite(found), at.shape)


def gap(atom: Compare, at: Scope) -> tuple[Float, Float, Float]:
    """left - right of a comparison, its tolerance, and the larger of the sizes of both sides: float64 [P, M] each, NaN where unknown."""
    with np.errstate(all="ignore"):
        left, right = _number(atom.left, at), _number(atom.right, at)
        tolerance = np.zeros(()) if atom.tolerance is None else _number(atom.tolerance, at)
        parts = left - right, tolerance, np.maximum(np.abs(left), np.abs(right))
        apart, room, size = (np.broadcast_to(_finite(part), at.shape) for part in parts)
        return apart, room, size


def _truth(formula: Formula, at: Scope) -> Truth:
    match formula:
        case Compare():
            room = margin(formula, at)
            return (room > 0, room <= 0) if formula.op in ("lt", "ne") else (room >= 0, room < 0)
        case ClassIn():
            return _class_in(formula, at)
        case CategoryIs():
            value, wanted = at.slots[formula.slot], at.params[formula.param]
            return value == wanted, (value != wanted) & ~np.isnan(value)
        case Known():
            known = ~np.isnan(at.slots[formula.slot])
            return known, ~known
        case Not():
            holds, fails = _truth(formula.arg, at)
            return fails, holds
        case And() | Or():
            parts = [_truth(arg, at) for arg in formula.args]
            all_, any_ = (0, 1) if isinstance(formula, And) else (1, 0)
            every, some = (
                np.logical_and.reduce([part[all_] for part in parts]),
                np.logical_or.reduce([part[any_] for part in parts]),
            )
            return (every, some) if isinstance(formula, And) else (some, every)
        case Implies():
            (holds, fails), (then, not_then) = (
                _truth(formula.antecedent, at),
                _truth(formula.consequent, at),
            )
            return fails | then, holds & not_then
        case AtLeast():
            inside, offsets = at.members[formula.members]
            held, failed = (
                _totals(part.astype(np.float64), offsets) for part in _truth(formula.arg, inside)
            )
            sizes = np.diff(offsets)
            wanted = sizes if formula.count is None else at.params[formula.count]
            return held >= wanted, sizes - failed < wanted
        case Temporal() | Until() | Initially():
            raise AssertionError("windows have no truth at a point")
        case _:
            assert_never(formula)


def _class_in(formula: ClassIn, at: Scope) -> Truth:
    """The best score is inside, or outside: where both are as good, neither is said."""
    scores = at.slots[[*formula.inside, *formula.outside]]
    known = ~np.isnan(scores).any(axis=0) if scores.size else np.ones(at.shape, dtype=np.bool_)
    inside, outside = (
        at.slots[list(part)].max(axis=0) if part else np.full(at.shape, -np.inf)
        for part in (formula.inside, formula.outside)
    )
    return known & (inside > outside), known & (inside < outside)


def _number(term: Term, at: Scope) -> Float:
    """A term's value: float64, [P, M] or broadcast to it, NaN where it is unknown."""
    match term:
        case Slot():
            return np.asarray(at.slots[term.index])
        case Param():
            return np.asarray(at.params[term.index])
        case Sum():
            total = _number(term.args[0], at)
            for arg in term.args[1:]:
                total = total + _number(arg, at)
            return total
        case Product():
            product = _number(term.args[0], at)
            for arg in term.args[1:]:
                product = product * _number(arg, at)
            return _finite(product)
        case Negate():
            return -_number(term.arg, at)
        case Quotient():
            return _finite(_number(term.numerator, at) / _number(term.denominator, at))
        case Power():
            base = _number(term.base, at)
            return np.where(
                np.isnan(base),
                np.nan,
                _finite(np.asarray(np.power(base, term.exponent), dtype=np.float64)),
            )
        case Call():
            args = [_number(arg, at) for arg in term.args]
            if term.function in ("min", "max"):
                pick = np.minimum if term.function == "min" else np.maximum
                best = args[0]
                for other in args[1:]:
                    best = np.asarray(pick(best, other), dtype=np.float64)
                return best
            return _finite(FUNCTIONS[term.function](args[0]))
        case Reduce():
            inside, offsets = at.members[term.members]
            return _reduced(term, np.broadcast_to(_number(term.arg, inside), inside.shape), offsets)
        case Choose():
            holds, fails = _truth(term.condition, at)
            return np.where(
                holds, _number(term.then, at), np.where(fails, _number(term.otherwise, at), np.nan)
            )
        case Coalesce():
            found = _number(term.args[0], at)
            for arg in term.args[1:]:
                found = np.where(np.isnan(found), _number(arg, at), found)
            return found
        case _:
            assert_never(term)


def _reduced(term: Reduce, members: Float, offsets: NDArray[np.int64]) -> Float:
    """One number for each owner."""
    known = ~np.isnan(members)
    count = _totals(known.astype(np.float64), offsets)
    if term.op == "count":
        return count
    whole = np.diff(offsets) if not term.skip else count
    if term.op in ("sum", "mean"):
        total = _added(np.where(known, members, 0.0), offsets)
        result = total if term.op == "sum" else total / count
    else:
        worst = np.inf if term.op == "min" else -np.inf
        pick = np.minimum if term.op == "min" else np.maximum
        filled = np.concatenate(
            [np.where(known, members, worst), np.full((members.shape[0], 1), worst)], axis=1
        )
        result = (
            np.where(np.diff(offsets) > 0, pick.reduceat(filled, offsets[:-1], axis=1), np.nan)
            if offsets.size > 1
            else count
        )
    return _finite(np.where(count == whole, result, np.nan))


def _totals(members: Float, offsets: NDArray[np.int64]) -> Float:
    """The sum over each owner's members: float64 [P, owners]."""
    running = np.concatenate([np.zeros((members.shape[0], 1)), np.cumsum(members, axis=1)], axis=1)
    found: Float = running[:, offsets[1:]] - running[:, offsets[:-1]]
    return found


def _added(members: Float, offsets: NDArray[np.int64]) -> Float:
    """The sum over each owner's members, added up in their order as the interpreter does: float64 [P, owners]."""
    points, owners = members.shape[0], offsets.size - 1
    owner = np.repeat(np.arange(owners), np.diff(offsets))
    place = (np.arange(points)[:, None] * owners + owner).ravel()
    found: Float = (
        np.bincount(place, weights=members.ravel(), minlength=points * owners)
        .astype(np.float64)
        .reshape(points, owners)
    )
    return found


def _finite(values: Float) -> Float:
    return np.where(np.isfinite(values), values, np.nan)
