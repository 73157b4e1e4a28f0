"""Where formulas certainly hold, and where they certainly fail, whatever their slots are inside
boxes.

That they hold is to say that they fail nowhere in the box; where a term has no value (a logarithm
of less than 0) neither is so. Nobody asks here of boxes what is known: every slot has a value.

Letter: m boxes, each with the numbers of one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fedkg.pack import And, AtLeast, CategoryIs, Compare, Formula, Implies, Known, Not, Or
from fedkg.pack.numeric.intervals import Interval, Ranges
from fedkg.pack.numeric.three_valued_logic import Bool
from fedkg_compiler.analysis.bounds import CLOSE, Float, Int
from fedkg_compiler.analysis.formula_evaluation import Truth
from fedkg_compiler.formulas.intervals import interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sides:
    """Boxes as arrays: low, high float64 [m, s], params [m, p].

    Inside: those of member tables, and the owners' offsets [m + 1].
    """

    low: Float
    high: Float
    params: Float
    inside: Mapping[int, tuple[Sides, Int]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """m."""
        return int(self.params.shape[0])

    def slot(self, index: int) -> Interval:
        """The side of the box."""
        return self.low[:, index], self.high[:, index]

    def param(self, index: int) -> Interval:
        """The number itself, twice."""
        return self.params[:, index], self.params[:, index]

    def members(self, table: int) -> tuple[Sides, Int]:
        """Those of a member table, and the offsets of its owners."""
        return self.inside[table]


def certain(formula: Formula, boxes: Ranges) -> Truth:
    """Where a formula certainly holds, and where it certainly fails: bool [m] each.

    Both where it has no truth value.
    """
    no = np.zeros(boxes.count, dtype=np.bool_)
    match formula:
        case Compare():
            return _compared(formula, boxes)
        case Known():
            return ~no, no
        case CategoryIs():
            (low, high), (code, _) = boxes.slot(formula.slot), boxes.param(formula.param)
            return (low == code) & (high == code), (code < low) | (code > high)
        case Not():
            holds, fails = certain(formula.arg, boxes)
            return fails, holds
        case And() | Or():
            parts = [certain(arg, boxes) for arg in formula.args]
            every, some = (0, 1) if isinstance(formula, And) else (1, 0)
            all_, any_ = (
                np.logical_and.reduce([part[every] for part in parts]),
                np.logical_or.reduce([part[some] for part in parts]),
            )
            return (all_, any_) if isinstance(formula, And) else (any_, all_)
        case Implies():
            (holds, fails), (then, not_then) = (
                certain(formula.antecedent, boxes),
                certain(formula.consequent, boxes),
            )
            return fails | then, holds & not_then
        case AtLeast():
            members, offsets = boxes.members(formula.members)
            held, failed = (_totals(part, offsets) for part in certain(formula.arg, members))
            sizes = np.diff(offsets)
            wanted = sizes if formula.count is None else boxes.param(formula.count)[0]
            return held >= wanted, sizes - failed < wanted
        case _:
            return no, no


def _totals(which: Bool, offsets: Int) -> Int:
    """How many of each owner's members: int64 [owners]."""
    running = np.concatenate([[0], np.cumsum(which)])
    found: Int = running[offsets[1:]] - running[offsets[:-1]]
    return found


def _compared(atom: Compare, boxes: Ranges) -> Truth:
    left, right = interval(atom.left, boxes), interval(atom.right, boxes)
    tolerance = (
        (np.zeros(boxes.count), np.zeros(boxes.count))
        if atom.tolerance is None
        else interval(atom.tolerance, boxes)
    )
    with np.errstate(all="ignore"):
        least, most = right[0] - left[1], right[1] - left[0]
        hair = CLOSE * np.nan_to_num(np.maximum(np.abs(most), np.abs(least)), posinf=0.0)
        hair = hair + CLOSE * np.nan_to_num(
            np.maximum(np.abs(right[0]), np.abs(right[1])), posinf=0.0
        )
        if atom.op in ("le", "lt"):
            return least + tolerance[0] > hair, most + tolerance[1] < -hair
        apart = (least > tolerance[1] + hair) | (most < -tolerance[1] - hair)
    never = np.zeros(boxes.count, dtype=np.bool_)
    return (never, apart) if atom.op == "eq" else (apart, never)
