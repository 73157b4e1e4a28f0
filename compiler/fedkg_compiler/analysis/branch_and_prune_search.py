"""Whether a value keeps rows, found by branch and prune, by solving equations, or on traces.

Boxes where some row certainly fails are dropped, the others tried and cut in two. What the solver
cannot say exactly, intervals enclose as narrowly as one likes (Moore, Kearfott and Cloud,
"Introduction to Interval Analysis", 2009, chapter 5; Benhamou and Granvilliers, "Continuous and
interval constraints", 2006): exponentials, roots, sines, products. A "yes" is a point that
satisfies all rows according to `truth`; a "no" means that no box is left.

Where an equation without tolerance must hold, almost no value that is tried meets it. Steps of
Gauss and Newton on the comparisons that are violated, each the shortest by linearisation (measured
by the boxes' sides), converge to a value that satisfies them up to rounding, which counts as
satisfied (as everywhere here: see `bounds.CLOSE`). Then each equation is solved for a separate
variable, in an order in which later ones leave earlier ones alone, until left and right are the
same number: the interpreter, which knows no rounding, confirms that value.

Rows over several steps are first put to complete traces (`trace_witnesses`).

Letters: P boxes or points, N variables of the place, M rows of a bank on the board, m = P M,
E comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedkg.pack import And, Call, Compare, Formula, Implies, Not, Or, Power
from fedkg.pack.formulas import ROWS, everywhere, is_temporal
from fedkg.pack.numeric.three_valued_logic import Bool, Float
from fedkg_compiler.analysis.box_contraction import Narrowed, Sides, certain, contract
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.formula_evaluation import gap, truth
from fedkg_compiler.analysis.local_search import RowLayout
from fedkg_compiler.analysis.single_column_bounds import CLOSE, Bounds, Int, Keys, RowTable
from fedkg_compiler.analysis.verdict import Condition, Reading, Witness
from fedkg_compiler.formulas.formula_algebra import looks_for_gaps, without_time

if TYPE_CHECKING:
    from fedkg_compiler.analysis.trace_witnesses import WholeTraces

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


BOXES, CELLS, TRIED = 512, 40_000, 64
"""Boxes examined together, rows times boxes per query, and boxes that are sampled for points."""
NARROW = 1e-9
"""Sides that are a smaller share of their span are not cut."""
SOLVED, STARTS = 8, 3
"""Equation solves per query, and boxes per solve that start from their middle."""
ROUNDS, WORTH = 3, 0.9
"""So often boxes are made smaller before they are cut, as long as a side of some box becomes this
share of itself."""
COST = 15
"""Steps of the budget for each row that is looked at in a box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What a search found: the point that keeps all, or the rows that were enough for a "no"."""

    answer: Literal["yes", "no", "unknown"]
    rows: tuple[int, ...] = ()
    witness: Witness | None = None


class WitnessSearch:
    """Questions about the rows of one place, inside the spans, or (`width`) a share of their width
    beyond.
    """

    def __init__(
        self, table: RowTable, bounds: Bounds, budget: Budget, keys: Keys, *, width: float = 0.0
    ) -> None:
        self.table, self.bounds, self.budget, self.keys, self.width = (
            table,
            bounds,
            budget,
            keys,
            width,
        )

    def ask(self, rows: Sequence[int], conditions: Sequence[Condition] = ()) -> Searched:
        """Whether some value, or some trace, keeps these rows and meets the conditions.

        Few rows that none keeps are looked for first.
        """
        if self._is_timed(rows, conditions) and self._traces().go_together(rows, conditions):
            return Searched(answer="yes")
        asked = {condition.row for condition in conditions}
        for some in self._closed(rows, asked):
            found = self._ask(some, conditions, CELLS // 8)
            if found.answer == "no":
                return found
        return self._ask(rows, conditions, CELLS)

    def find_witness(
        self, rows: Sequence[int], conditions: Sequence[Condition] = ()
    ) -> Witness | None:
        """A value that keeps these rows and meets the conditions, or a trace if a row has windows;
        None if none is found.
        """
        if self._is_timed(rows, conditions):
            return self._traces().keeping(rows, conditions)
        return self.ask(rows, conditions).witness

    def stands_alone(self, row: int, others: Sequence[int]) -> bool:
        """Whether a trace violates a row and none of the others."""
        return self._traces().stands_alone(row, others)

    def _is_timed(self, rows: Sequence[int], conditions: Sequence[Condition]) -> bool:
        return any(self.table.is_timed(row) for row in (*rows, *(one.row for one in conditions)))

    def _traces(self) -> WholeTraces:
        from fedkg_compiler.analysis.trace_witnesses import WholeTraces  # imports z3

        return WholeTraces(self.table, self.budget, self.keys, width=self.width)

    def _closed(self, rows: Sequence[int], asked: set[int]) -> Iterator[list[int]]:
        """Of each row that the solver is not told exactly, the rows that read nothing else than it
        and what is asked about.
        """
        reads = self.table.all_reads([*dict.fromkeys([*rows, *asked])])
        known: set[tuple[int, ...]] = {tuple(rows)}
        for row in dict.fromkeys([*asked, *rows]):
            if not _is_bent(self.table.skeleton(row)):
                continue
            within = reads[row].union(*(reads[one] for one in asked))
            some = [one for one in rows if reads[one] <= within]
            if tuple(some) not in known:
                known.add(tuple(some))
                yield some

    def _ask(self, rows: Sequence[int], conditions: Sequence[Condition], cells: int) -> Searched:
        here = [*dict.fromkeys([*rows, *(condition.row for condition in conditions)])]
        skeletons = {int(self.table.bank[row]): self.table.skeleton(row) for row in here}
        still = {bank: without_time(skeleton) for bank, skeleton in skeletons.items()}
        place = _Place(
            RowLayout(self.table, self.bounds, [(self.keys, here)], still), rows, conditions
        )
        low, high = place.board.span[:, None].copy()
        more = self.width * np.where(
            place.board.whole | np.isinf(high - low), 0.0, np.minimum(high - low, 1e300)
        )
        low, high = low - more, high + more
        low[:, place.board.fixed] = high[:, place.board.fixed] = place.board.fixed_to
        stack, stuck, solved = [(low, high)], False, 0
        while stack:
            low, high = stack.pop()
            if low.shape[0] > BOXES:
                stack.append((low[:-BOXES], high[:-BOXES]))
                low, high = low[-BOXES:], high[-BOXES:]
            cost = low.shape[0] * max(1, len(here))
            if cost > cells or self.budget.spent:
                return Searched(answer="unknown")
            cells -= cost
            self.budget.spend(COST * cost)
            low, high = place.narrowed(low, high)
            alive, open_ = place.look(low, high)
            if not alive.any():
                continue
            low, high, open_ = low[alive], high[alive], open_[alive]
            point = place.kept(low[:TRIED], high[:TRIED])
            if point is not None:
                return Searched(answer="yes", witness=self._witness(place.board, point))
            if solved < SOLVED and (near := place.solved(low, high)) is not None:
                return Searched(
                    answer="yes", witness=self._witness(place.board, near[0]) if near[1] else None
                )
            solved += 1
            low, high, narrow = _cut(low, high, open_, place.board)
            stuck |= narrow
            stack += [(low, high)] if low.size else []
        return Searched(answer="unknown") if stuck else Searched(answer="no", rows=tuple(rows))

    def _witness(self, board: RowLayout, point: Float) -> Witness:
        found = {(0, column): float(code) for column, code in self.keys}
        for number, value in zip(board.variable.tolist(), point.tolist(), strict=True):
            found |= {
                (view, column): value + shift
                for view, column, shift in self.table.variables.items[number].readings
            }
        return Witness(
            tuple(
                sorted(Reading(0, view, column, value) for (view, column), value in found.items())
            )
        )


class _Place:
    """Rows and conditions on a board."""

    def __init__(
        self, board: RowLayout, rows: Sequence[int], conditions: Sequence[Condition]
    ) -> None:
        self.board, self.conditions = board, conditions
        self.at = {row: i for i, row in enumerate(board.row.tolist())}
        self.rows = np.array([self.at[row] for row in rows], dtype=np.int64)
        self.parts: list[tuple[int, Int, Formula, bool]] = []
        for bank, here in board.banks.items():
            asked = np.flatnonzero(np.isin(here, self.rows))
            timed = board.table.is_timed(int(board.row[here[0]]))
            for some in (asked[i : i + 1] for i in range(asked.size)) if timed else (asked,):
                formula = (
                    board.table.at_any_step(int(board.row[here[some[0]]])) if some.size else None
                )
                if formula is not None and _encloses(formula):
                    self.parts.append((bank, some, formula, True))
        for one in conditions:
            if _encloses(one.formula):
                bank = int(board.table.bank[one.row])
                self.parts.append(
                    (
                        bank,
                        np.flatnonzero(board.banks[bank] == self.at[one.row]),
                        one.formula,
                        one.holds,
                    )
                )
        whole = sum(rows.size for _, rows, _, _ in self.parts) == len(rows) + len(conditions)
        parts = [
            Part(bank, at, formula, holds)
            for bank, rows_, formula, holds in self.parts
            for at in rows_.tolist()
        ]
        self.newton = Newton(board, parts if whole else ())

    def look(self, low: Float, high: Float) -> tuple[Bool, Bool]:
        """Which boxes may have a value that keeps all: bool [P].

        And the variables on which that hangs: bool [P, N].
        """
        alive, open_ = np.ones(low.shape[0], dtype=np.bool_), np.zeros(low.shape, dtype=np.bool_)
        for bank, rows, formula, holds in self.parts:
            with np.errstate(all="ignore"):
                verdicts = certain(formula, self._sides(bank, ROWS, rows, low, high)[0])
            shape = low.shape[0], rows.size
            sure: Bool = verdicts[0 if holds else 1].reshape(shape)
            never: Bool = verdicts[1 if holds else 0].reshape(shape)
            alive &= ~never.any(axis=1)
            for i, columns in enumerate(self._columns(bank, rows)):
                open_[:, columns] |= np.logical_not(sure[:, i : i + 1])
        return alive, open_ | np.logical_not(open_.any(axis=1, keepdims=True))

    def narrowed(self, low: Float, high: Float) -> tuple[Float, Float]:
        """The boxes in which a value may lie that keeps all, each made as small as the rows and
        conditions make it.
        """
        for _ in range(ROUNDS):
            if not low.shape[0]:
                break
            smaller, bigger, dead = low.copy(), high.copy(), np.zeros(low.shape[0], dtype=np.bool_)
            for bank, rows, formula, holds in self.parts:
                boxes = Narrowed.of(self._sides(bank, ROWS, rows, low, high)[0])
                contract(formula, holds, boxes)
                dead |= boxes.dead.reshape(-1, rows.size).any(axis=1)
                self._fold(bank, ROWS, rows, boxes, smaller, bigger)
            whole = self.board.whole
            smaller[:, whole], bigger[:, whole] = (
                np.ceil(smaller[:, whole] - CLOSE),
                np.floor(bigger[:, whole] + CLOSE),
            )
            with np.errstate(invalid="ignore"):  # -inf + inf: an open side is never too small
                slack = CLOSE * np.maximum(np.abs(smaller), np.abs(bigger))
                dead |= (smaller > bigger + slack).any(axis=1)
            before, crossed = (high - low)[~dead], smaller > bigger
            low, high = (
                np.where(crossed, end, mine)[~dead]
                for end, mine in ((bigger, smaller), (smaller, bigger))
            )
            if not low.size or not (np.nan_to_num(high - low, nan=np.inf) < WORTH * before).any():
                break
        return low, high

    def _fold(
        self, bank: int, table: int, rows: Int, boxes: Narrowed, low: Float, high: Float
    ) -> None:
        """Cut [P, N] by what was left of the boxes of a bank's rows, or of these members."""
        reads = self.board.reads[bank][table]
        at = np.arange(low.shape[0])[:, None]
        for slot in reads.used:
            columns, shifts = reads.columns[rows, slot], reads.shifts[rows, slot]
            bottom, top = (
                side[:, slot].reshape(-1, rows.size) - shifts
                for side in (boxes.sides.low, boxes.sides.high)
            )
            np.maximum.at(
                low,
                (at, columns[None]),
                np.where(shifts != 0, bottom - CLOSE * np.abs(shifts), bottom),
            )
            np.minimum.at(
                high, (at, columns[None]), np.where(shifts != 0, top + CLOSE * np.abs(shifts), top)
            )
        for child, (inside, _) in boxes.inside.items():
            entry = self.board.reads[bank][child]
            members = _members_of(entry.offsets, rows)
            self._fold(bank, child, members, inside, low, high)

    def kept(self, low: Float, high: Float) -> Float | None:
        """A point of these boxes that keeps all: float64 [N].

        None where none of those that are tried does.
        """
        bottom, top = _with_ends(low, high)
        points = np.concatenate([(bottom + top) / 2, bottom, top])
        points[:, self.board.whole] = np.round(points[:, self.board.whole])
        good = self._keep_all(points)
        return points[int(good.argmax())] if good.any() else None

    def solved(self, low: Float, high: Float) -> tuple[Float, bool] | None:
        """A point near the middle of one of these boxes at which the equations hold too, and
        whether `truth` says that it keeps all.
        """
        if not self.newton.useful:
            return None
        bottom, top = _with_ends(low[-STARTS:], high[-STARTS:])
        for middle in (bottom + top) / 2:
            middle[self.board.whole] = np.round(middle[self.board.whole])
            near = self.newton.near(middle)
            if near is not None:
                return near[0], bool(self._keep_all(near[0][None])[0])
        return None

    def _keep_all(self, points: Float) -> Bool:
        """Which points keep all rows and conditions: bool [P]."""
        good: Bool = np.asarray(self.board.verdicts(points)[0][:, self.rows].all(axis=1))
        for one in self.conditions:
            bank = int(self.board.table.bank[one.row])
            formula = without_time(one.formula)
            if formula is None:
                return np.zeros_like(good)
            verdict = truth(formula, self.board.scope(bank, points))[0 if one.holds else 1]
            np.logical_and(
                good,
                verdict[:, int(np.flatnonzero(self.board.banks[bank] == self.at[one.row])[0])],
                out=good,
            )
        return good

    def _columns(self, bank: int, rows: Int) -> Iterator[list[int]]:
        """The variables that each row reads, its members included."""
        for row in self.board.row[self.board.banks[bank][rows]].tolist():
            yield np.searchsorted(self.board.variable, sorted(self.board.table.reads(row))).tolist()

    def _sides(
        self, bank: int, table: int, rows: Int, low: Float, high: Float
    ) -> tuple[Sides, Int]:
        """What the rows of a bank, or these members, read in each box, box by box."""
        tables = self.board.reads[bank]
        reads, boxes = tables[table], low.shape[0]
        columns, shifts = reads.columns[rows], reads.shifts[rows]
        width = columns.shape[1]
        bottom, top = (
            (side[:, columns] + shifts).reshape(boxes * rows.size, width) for side in (low, high)
        )
        inside: dict[int, tuple[Sides, Int]] = {}
        for child, entry in tables.items():
            if child != ROWS and entry.parent == table:
                members = _members_of(entry.offsets, rows)
                sizes = np.tile(np.diff(entry.offsets)[rows], boxes)
                inside[child] = (
                    self._sides(bank, child, members, low, high)[0],
                    np.concatenate([[0], np.cumsum(sizes)]),
                )
        return Sides(
            low=bottom, high=top, params=np.tile(reads.params[rows], (boxes, 1)), inside=inside
        ), rows


def _with_ends(low: Float, high: Float) -> tuple[Float, Float]:
    """Boxes with both ends: of width 1 where one is missing."""
    bottom = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 1, 0.0))
    return bottom, np.where(np.isfinite(high), high, bottom + 1)


def _members_of(offsets: Int, rows: Int) -> Int:
    """The members of these owners, one owner after the other."""
    ends = zip(offsets[:-1][rows].tolist(), offsets[1:][rows].tolist(), strict=True)
    return np.concatenate([np.arange(0), *(np.arange(*each) for each in ends)])


def _cut(low: Float, high: Float, open_: Bool, board: RowLayout) -> tuple[Float, Float, bool]:
    """Each box in two, across its widest side among the open ones.

    And whether any box was too narrow for that: such boxes are gone.
    """
    span = board.reach[1] - board.reach[0]
    width = high - low
    wide = open_ & np.where(board.whole, width > 0, width > NARROW * np.maximum(span, 1e-300))
    share = np.where(wide, width / np.maximum(span, 1e-300), -1.0)
    kept = wide.any(axis=1)
    if not kept.any():  # also if the rows read no column
        return low[kept], high[kept], True
    low, high, side = low[kept], high[kept], share[kept].argmax(axis=1)
    at, whole = np.arange(low.shape[0]), board.whole[side]
    bottom, top = low[at, side], high[at, side]
    with np.errstate(invalid="ignore"):
        middle = np.where(
            np.isfinite(bottom) & np.isfinite(top), bottom + (top - bottom) / 2, _far(bottom, top)
        )
    left, right = high.copy(), low.copy()
    left[at, side] = np.where(whole, np.floor(middle), middle)
    right[at, side] = np.where(whole, np.floor(middle) + 1, middle)
    return np.concatenate([low, right]), np.concatenate([left, high]), not kept.all()


def _far(bottom: Float, top: Float) -> Float:
    """Where a side without an end is cut: at 0, then ever farther out."""
    up, down = np.maximum(2 * bottom, 1.0), np.minimum(2 * top, -1.0)
    return np.where(bottom >= 0, up, np.where(top <= 0, down, 0.0))


def _encloses(formula: Formula) -> bool:
    """Whether a box in which the formula certainly fails has no value at all that keeps it, also
    where values are missing.
    """
    return not is_temporal(formula) and not looks_for_gaps(formula)


def _is_bent(formula: Formula) -> bool:
    """Whether the formula has a function that the solver is not told exactly."""
    return any(isinstance(part, Call | Power) for _, part in everywhere(formula))
