"""Values that equations leave: from a value that misses what must hold, steps to one that meets it.

Where an equation without tolerance must hold, almost no value that is tried meets it. Steps of
Gauss and Newton on the comparisons that are violated, each the shortest by linearisation (measured
by the boxes' sides), converge to a value that satisfies them up to rounding, which counts as
satisfied (as everywhere here: see `bounds.CLOSE`). Then each equation is solved for a separate
variable, in an order in which later ones leave earlier ones alone, until left and right are the
same number: the interpreter, which knows no rounding, confirms that value.

Letters: N variables of the board, P points, E comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedkg.pack import And, Compare, Formula, Implies, Not, Or
from fedkg_compiler.analysis.bounds import CLOSE, Float
from fedkg_compiler.analysis.formula_evaluation import gap, truth
from fedkg_compiler.analysis.trial_point_layout import RowLayout

STEPS, TURNS, NEAR = 12, 6, 8
"""Newton steps; secant steps per equation; neighbouring floats tried beside its solution."""
INSIDE = 1e-6
"""By this share of the sizes of both sides a value goes beyond a limit that it missed."""
MOST = 60
"""Of more rows together nothing is solved."""


@dataclass(frozen=True, slots=True)
class Part:
    """A formula that must hold, or (not `holds`) fail, of one row: its bank, and its place among
    the bank's rows on the board.
    """

    bank: int
    at: int
    formula: Formula
    holds: bool


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A comparison that must be met: `equal`, else left - right at most the tolerance (`way` 1) or
    at least minus it (-1).
    """

    part: Part
    atom: Compare
    equal: bool
    way: int


class Newton:
    """Solves for what must hold on a board."""

    def __init__(self, board: RowLayout, parts: Sequence[Part]) -> None:
        self.board, self.parts = board, parts
        self.useful = len(parts) <= MOST and any(
            _has_equation(part.formula, part.holds) for part in parts
        )
        low, high = board.reach
        self.size = np.where(board.whole, 0.0, high - low)
        self.size[board.fixed] = 0.0

    def near(self, point: Float) -> tuple[Float, bool] | None:
        """A value near this one [N] that meets all but for rounding, and whether its equations are
        met exactly; else None.
        """
        point = point.copy()
        for _ in range(STEPS):
            wanted = [
                one
                for part in self.parts
                for one in self._chosen(part, part.formula, part.holds, point)
            ]
            missed = self._missed(wanted, point[None])[:, 0]
            if not np.isfinite(missed).all():
                return None
            slopes = self._slopes(wanted, point) * self.size
            if not (np.abs(missed) > 0).any() or not np.isfinite(slopes).all():
                break
            step = np.linalg.lstsq(slopes, -missed, rcond=1e-10)[0] * self.size
            moved = np.clip(point + step, *self.board.span)
            if np.array_equal(moved, point):
                break
            point = moved
        if not all(self._margin(part, part.formula, part.holds, point) >= 0 for part in self.parts):
            return None
        wanted = [
            one
            for part in self.parts
            for one in self._chosen(part, part.formula, part.holds, point)
            if one.equal
        ]
        exact = self._exact(wanted, point)
        return (point, False) if exact is None else (exact, True)

    def _gap(self, one: _Wanted | Part, atom: Compare, points: Float) -> tuple[Float, Float, Float]:
        """left - right, tolerance and size of a row's comparison at points [P, N]: float64 [P]
        each.
        """
        part = one.part if isinstance(one, _Wanted) else one
        apart, tolerance, size = gap(atom, self.board.scope(part.bank, points))
        return apart[:, part.at], tolerance[:, part.at], size[:, part.at]

    def _chosen(self, part: Part, formula: Formula, holds: bool, point: Float) -> Iterator[_Wanted]:
        """The comparisons to meet so that a formula holds: of `or` those of the part that is
        nearest to it.
        """
        match formula:
            case Not():
                yield from self._chosen(part, formula.arg, not holds, point)
            case And() | Or() | Implies():
                every, parts = _parts(formula, holds)
                if not every:
                    parts = [max(parts, key=lambda one: self._margin(part, one[0], one[1], point))]
                for one, way in parts:
                    yield from self._chosen(part, one, way, point)
            case Compare():
                if formula.op in ("le", "lt"):
                    yield _Wanted(part, formula, False, 1 if holds else -1)
                elif (formula.op == "eq") == holds:
                    yield _Wanted(part, formula, True, 1)
            case _:
                return

    def _margin(self, part: Part, formula: Formula, holds: bool, point: Float) -> float:
        """How far a formula is from being missed; 0 is met, but for rounding.

        Negative is missed, or unknown.
        """
        match formula:
            case Not():
                return self._margin(part, formula.arg, not holds, point)
            case And() | Or() | Implies():
                every, parts = _parts(formula, holds)
                rooms = [self._margin(part, one, way, point) for one, way in parts]
                return min(rooms) if every else max(rooms)
            case Compare():
                apart, tolerance, size = (
                    float(one[0]) for one in self._gap(part, formula, point[None])
                )
                room = tolerance - (apart if formula.op in ("le", "lt") else abs(apart))
                room = room if (formula.op != "ne") == holds else -room
                if np.isnan(room):
                    return -np.inf
                if (
                    formula.op in ("lt", "ne")
                ) == holds:  # the limit itself is excluded: no rounding helps
                    return room if room > 0 else min(room, -CLOSE)
                return room + CLOSE * size
            case _:
                found = truth(formula, self.board.scope(part.bank, point[None]))[0 if holds else 1]
                return np.inf if bool(found[0, part.at]) else -np.inf

    def _missed(self, wanted: Sequence[_Wanted], points: Float) -> Float:
        """By how much left - right is beyond what it may be, or too near to that: float64 [E, P], 0
        where it is not.
        """
        found = np.zeros((len(wanted), points.shape[0]))
        for i, one in enumerate(wanted):
            apart, tolerance, size = self._gap(one, one.atom, points)
            if one.equal:
                found[i] = np.sign(apart) * np.maximum(np.abs(apart) - tolerance, 0.0)
            elif one.way > 0:
                found[i] = np.maximum(apart - tolerance + INSIDE * size, 0.0)
            else:
                found[i] = np.minimum(apart - tolerance - INSIDE * size, 0.0)
        return found

    def _slopes(self, wanted: Sequence[_Wanted], point: Float) -> Float:
        """How left - right changes with each variable: float64 [E, N], 0 for comparisons that are
        met with room to spare.
        """
        step = 1e-7 * np.maximum(np.abs(point), 1e-3 * self.size) + 1e-12
        step = np.where(point + step > self.board.span[1], -step, step)
        points = np.concatenate([point[None], point + np.diag(step)])
        found = np.zeros((len(wanted), point.size))
        for i, one in enumerate(wanted):
            apart, tolerance, size = self._gap(one, one.atom, points)
            if one.equal or one.way * (apart[0] - tolerance[0]) > -INSIDE * size[0]:
                found[i] = (apart[1:] - apart[0]) / step
        return found

    def _exact(self, wanted: Sequence[_Wanted], point: Float) -> Float | None:
        """The value with each equation solved for a variable that none of those solved before has.

        None where there is no such order.
        """
        slopes = np.where(self.size > 0, self._slopes(wanted, point), 0.0)
        left, order = list(range(len(wanted))), []
        while left:
            alone = (slopes[left] != 0).sum(axis=0) == 1
            own = [(i, np.flatnonzero(alone & (slopes[i] != 0))) for i in left]
            i, columns = max(own, key=lambda one: one[1].size)
            if not columns.size:
                return None
            order.append((i, int(columns[np.abs(np.abs(slopes[i, columns]) - 1).argmin()])))
            left.remove(i)
        found: Float | None = point.copy()
        for i, column in reversed(order):
            found = None if found is None else self._solved(wanted[i], column, found)
        return found

    def _solved(self, one: _Wanted, column: int, point: Float) -> Float | None:
        """The value with another number in one column, at which left is right, or as near as the
        tolerance.
        """
        low, high = self.board.span[:, column]
        for _ in range(TURNS):
            points = np.repeat(point[None], 2 + 2 * NEAR, axis=0)
            below = above = point[column]
            for k in range(NEAR):
                below, above = np.nextafter(below, -np.inf), np.nextafter(above, np.inf)
                points[2 + 2 * k, column], points[3 + 2 * k, column] = below, above
            points[1, column] += 1e-6 * self.size[column]
            apart, tolerance, _ = self._gap(one, one.atom, points)
            met = (
                (np.abs(apart) <= tolerance)
                & (points[:, column] >= low)
                & (points[:, column] <= high)
            )
            if met.any():
                return np.asarray(points[int(met.argmax())])
            slope = (apart[1] - apart[0]) / (points[1, column] - point[column])
            if not np.isfinite(slope) or slope == 0:
                return None
            point = point.copy()
            point[column] = np.clip(point[column] - apart[0] / slope, low, high)
        return None


def _parts(formula: And | Or | Implies, holds: bool) -> tuple[bool, list[tuple[Formula, bool]]]:
    """Whether all parts must be so, or one; and how."""
    if isinstance(formula, Implies):
        return not holds, [(formula.antecedent, not holds), (formula.consequent, holds)]
    return isinstance(formula, And) == holds, [(arg, holds) for arg in formula.args]


def _has_equation(formula: Formula, holds: bool) -> bool:
    match formula:
        case Not():
            return _has_equation(formula.arg, not holds)
        case And() | Or() | Implies():
            return any(_has_equation(*one) for one in _parts(formula, holds)[1])
        case Compare():
            return formula.op in ("eq", "ne") and (formula.op == "eq") == holds
        case _:
            return False
