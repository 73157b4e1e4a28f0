"""Rules that bound single columns, as plain arrays with one entry per bound and variable, and what
intervals alone decide: bounds against each other and against declared spans, for any number of
rows, and values that keep them.

This goes from comparisons to columns and is exact. `formulas.intervals` goes the other way, to
the range of a term over columns.

Letters: R rows of a bank, N bound rows of all banks, E ends: one for each lower or upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Compare, Temporal
from fedkg.pack.walk import ROWS, indices, is_temporal, subformulas
from fedkg_compiler.analysis.bound_row_table import Keys, RowTable
from fedkg_compiler.analysis.verdict import Reading, Witness
from fedkg_compiler.formulas.affine import affine_by_shape
from fedkg_compiler.formulas.formula_algebra import comparisons

Float = NDArray[np.float64]
Int = NDArray[np.int64]
CLOSE = 1e-9
"""Bounds nearer to each other than this, measured by their size, count as equal: units are
converted in floating point."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ends:
    """Bounds of single variables, all of one side.

    A lower bound is kept as the upper bound of the negative: ``sign * x <= value``.

    Attributes:
        row: int64 [E], the number of the row that states each bound.
        variable: int64 [E], the number of the variable that is bounded.
        sign: int64 [E], +1 for an upper bound, -1 for a lower bound.
        value: float64 [E], the upper bound of ``sign * x``.
        strict: bool [E], whether the value itself is excluded.
    """

    row: Int
    variable: Int
    sign: Int
    value: Float
    strict: NDArray[np.bool_]

    @classmethod
    def of(cls, parts: Sequence[Ends]) -> Ends:
        """Several as one."""
        none = np.zeros(0)
        return cls(
            row=np.concatenate([none, *(part.row for part in parts)]).astype(np.int64),
            variable=np.concatenate([none, *(part.variable for part in parts)]).astype(np.int64),
            sign=np.concatenate([none, *(part.sign for part in parts)]).astype(np.int64),
            value=np.concatenate([none, *(part.value for part in parts)]),
            strict=np.concatenate([none, *(part.strict for part in parts)]).astype(np.bool_),
        )

    def take(self, which: NDArray[np.bool_] | Int) -> Ends:
        """Some of the ends."""
        return Ends(
            row=self.row[which],
            variable=self.variable[which],
            sign=self.sign[which],
            value=self.value[which],
            strict=self.strict[which],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """What rules ask of single columns.

    Attributes:
        ends: all bounds on single variables.
        plain: bool [N], the rows that state nothing but such bounds.
        dead: bool [N], the rows with a parameter that is not a finite number.
        linear: bool [N], the rows that are conjunctions of linear comparisons, those of `plain`
            included.
    """

    ends: Ends
    plain: NDArray[np.bool_]
    dead: NDArray[np.bool_]
    linear: NDArray[np.bool_]

    def of(self, row: int) -> list[int]:
        """The positions of a row's ends."""
        return np.flatnonzero(self.ends.row == row).tolist()


def find_bounds(table: RowTable) -> Bounds:
    """Return the bounds on single columns at the top level of rules."""
    found: list[Ends] = []
    plain, dead, linear = (np.zeros(table.count, dtype=np.bool_) for _ in range(3))
    for number, bank in enumerate(table.banks):
        here = slice(int(table.starts[number]), int(table.starts[number + 1]))
        readers = table.readers[number][ROWS]
        dead[here] = ~np.isfinite(readers.params[:, sorted(_numbers(table, number))]).all(axis=1)
        parts = comparisons(bank.skeleton)
        ends = None if parts is None or bank.members else ends_of(parts, table, number)
        if ends is None:
            continue
        sides, single, straight = ends
        for window in (part for part in subformulas(bank.skeleton) if isinstance(part, Temporal)):
            single &= readers.params[:, window.low] == 0
            straight &= single
        found.extend(side.take(single[side.row - here.start] & ~dead[side.row]) for side in sides)
        plain[here], linear[here] = single & ~dead[here], straight & ~dead[here]
    return Bounds(ends=Ends.of(found), plain=plain, dead=dead, linear=linear)


def _numbers(table: RowTable, bank: int) -> frozenset[int]:
    return indices(table.banks[bank].skeleton)[1].get(ROWS, frozenset())


def ends_of(
    parts: tuple[Compare, ...], table: RowTable, number: int
) -> tuple[list[Ends], NDArray[np.bool_], NDArray[np.bool_]] | None:
    """The ends of a bank's rows, in which rows they say everything, and which rows are linear.

    None where the skeleton is not linear.
    """
    rows, readers = table.banks[number].rows, table.readers[number][ROWS]
    single, straight = np.ones(rows, dtype=np.bool_), np.ones(rows, dtype=np.bool_)
    found: list[Ends] = []
    for part in parts:
        form = linear_form(part, readers.params, rows)
        if form is None:
            return None
        coefficients, constant, tolerance = form
        good = np.isfinite(constant) & np.isfinite(tolerance)
        for values in coefficients.values():
            good &= np.isfinite(values)
        straight &= good
        if len(coefficients) != 1:
            single[:] = False
            continue
        [(slot, factor)] = coefficients.items()
        single &= good & (factor != 0)
        found.extend(_sides(part.op, factor, constant, tolerance, slot, table, number))
    return found, single, straight


def linear_form(
    part: Compare, params: Float, rows: int
) -> tuple[dict[int, Float], Float, Float] | None:
    """Of a comparison: the factors of left - right by slot, its constant, and the tolerance,
    float64 [R] each; None if it is not linear.
    """
    numbers = list(params.T)
    left, right = (
        affine_by_shape(part.left, numbers, rows),
        affine_by_shape(part.right, numbers, rows),
    )
    tolerance = None if part.tolerance is None else affine_by_shape(part.tolerance, numbers, rows)
    if (
        left is None
        or right is None
        or (part.tolerance is not None and (tolerance is None or tolerance.coefficients))
    ):
        return None
    slots = sorted({*left.coefficients, *right.coefficients})
    zero = np.zeros(rows)
    factors = {
        slot: left.coefficients.get(slot, zero) - right.coefficients.get(slot, zero)
        for slot in slots
    }
    constant = left.constant - right.constant
    return factors, constant, zero if tolerance is None else tolerance.constant


def _sides(
    op: str,
    factor: Float,
    constant: Float,
    tolerance: Float,
    slot: int,
    table: RowTable,
    number: int,
) -> list[Ends]:
    """The bounds of ``factor * x + constant <op> 0 +/- tolerance``."""
    readers, start = table.readers[number][ROWS], int(table.starts[number])
    rows = np.arange(factor.shape[0], dtype=np.int64)
    found = []
    for direction in (1.0, -1.0) if op == "eq" else (1.0,):
        with np.errstate(all="ignore"):
            value = (tolerance - direction * constant) / np.abs(factor)
        sign = np.where(direction * factor > 0, 1, -1).astype(np.int64)
        found.append(
            Ends(
                row=start + rows,
                variable=readers.variables[:, slot],
                sign=sign,
                value=value - sign * readers.shifts[:, slot],
                strict=np.full(rows.shape, op == "lt"),
            )
        )
    return found


def slack(one: Float, other: Float) -> Float:
    """How far apart two bounds may lie and still count as equal: float64, in their unit."""
    return CLOSE * np.maximum(1e-300, np.maximum(np.abs(one), np.abs(other)))


INFINITE = float("inf")


def point_of(table: RowTable, bounds: Bounds, rows: Sequence[int]) -> Witness | None:
    """A value inside the spans that keeps all of these rows, which bound single columns.

    None where there is none, or where one step is not enough: with windows.
    """
    if any(is_temporal(table.skeleton(row)) for row in rows):
        return None
    limits: dict[int, list[tuple[float, bool, int]]] = {}
    ends = bounds.ends
    for row in rows:
        for i in bounds.of(row):
            limits.setdefault(int(ends.variable[i]), []).append(
                (float(ends.value[i]), bool(ends.strict[i]), int(ends.sign[i]))
            )
    readings: list[Reading] = []
    for number, asked in limits.items():
        entry = table.variables.items[number]
        low, high = entry.span
        tops = [(value, strict) for value, strict, sign in asked if sign > 0] + [(high, False)]
        floors = [(-value, strict) for value, strict, sign in asked if sign < 0] + [(low, False)]
        value = between(floors, tops)
        if value is None:
            return None
        readings += [
            Reading(0, view, column, value + shift) for view, column, shift in entry.readings
        ]
    readings += [
        Reading(0, 0, column, float(code))
        for row in rows
        for column, code in table.keysets[int(table.keyset[row])]
    ]
    return Witness(tuple(sorted(set(readings))))


def between(
    floors: Iterable[tuple[float, bool]], tops: Iterable[tuple[float, bool]]
) -> float | None:
    """A plain number above all floors and below all tops (each with whether it is excluded), or
    None.
    """
    low, open_low = max(floors, key=lambda end: (end[0], end[1]))
    high, open_high = min(tops, key=lambda end: (end[0], not end[1]))
    if low > high or (low == high and (open_low or open_high)):
        return None
    if low == -INFINITE and high == INFINITE:
        return 0.0
    if low == -INFINITE or high == INFINITE:
        end, way = (high, -1.0) if low == -INFINITE else (low, 1.0)
        return end + way * max(1.0, abs(end) / 10)
    middle = (low + high) / 2
    for digits in range(13):
        near = round(middle, digits)
        if low < near < high:
            return near
    return middle


Bool = NDArray[np.bool_]


class Boxes:
    """Bounds of single columns, with the declared spans.

    Attributes:
        alone: bool [N], the rows that no value inside the spans satisfies.
        never_fails: bool [N], the rows that no value inside the spans violates.
    """

    def __init__(self, table: RowTable, bounds: Bounds) -> None:
        self.table, self.bounds = table, bounds
        spans = table.variables.spans()
        self.spans = spans if spans.size else np.zeros((1, 2))
        self.signatures = sorted({_columns(keys) for keys in table.keysets})
        number = {signature: i for i, signature in enumerate(self.signatures)}
        self.signature = np.array(
            [number[_columns(keys)] for keys in table.keysets] or [0], dtype=np.int64
        )
        self._projected: dict[tuple[int, ...], Int] = {}
        ends = bounds.ends
        away = self._outer_values(ends, outward=False)
        self.outside = _flag(
            table.count, ends.row, ends.value < away - slack(ends.value, away)
        ) | _flag(table.count, ends.row, ends.strict & (ends.value <= away))
        self.torn: list[tuple[int, int]] = self._torn()
        self.alone = self.outside.copy()
        self.alone[[row for row, _ in self.torn]] = True
        far = self._outer_values(ends, outward=True)
        slackless = _flag(table.count, ends.row, ~(ends.value > far + slack(ends.value, far)))
        self.never_fails = bounds.plain & ~slackless

    def conflicts(self) -> Iterator[tuple[int, int]]:
        """Pairs of rows (numbers) that contradict each other although each alone can be
        satisfied.
        """
        ends = self.bounds.ends.take(~self.alone[self.bounds.ends.row])
        seen: set[tuple[int, int]] = set()
        for s in range(len(self.signatures)):
            for t in range(len(self.signatures)):
                upper = ends.take((ends.sign > 0) & (self._signature(ends) == s))
                lower = ends.take((ends.sign < 0) & (self._signature(ends) == t))
                if not upper.row.size or not lower.row.size:
                    continue
                common = tuple(
                    column for column in self.signatures[s] if column in self.signatures[t]
                )
                for one, other in _clashes(
                    upper, lower, self._groups(upper, common), self._groups(lower, common)
                ):
                    pair = (min(one, other), max(one, other))
                    if pair not in seen:
                        seen.add(pair)
                        yield pair

    def implied(self, allowed: Bool, targets: Bool) -> dict[int, frozenset[int]]:
        """Rows that say nothing which rows of other rules do not say: by number, the rows that
        imply each.

        Args:
            allowed: bool [N], the rows that may imply others.
            targets: bool [N], the rows that may be implied.
        """
        ends = self.bounds.ends
        rules = self.table.rule
        goals = ends.take(targets[ends.row] & self.bounds.plain[ends.row])
        givers = ends.take(allowed[ends.row])
        giver = np.full(goals.row.shape, -1, dtype=np.int64)
        for s in range(len(self.signatures)):
            here = np.flatnonzero(self._signature(goals) == s)
            for t, columns in enumerate(self.signatures):
                if not here.size or not set(columns) <= set(self.signatures[s]):
                    continue
                best = _Best(givers.take(self._signature(givers) == t), self, columns, rules)
                open_ = here[giver[here] < 0]
                giver[open_] = best.implying(goals.take(open_), self, columns, rules)
        found: dict[int, frozenset[int]] = {}
        kept = np.flatnonzero(~_flag(self.table.count, goals.row, giver < 0)[goals.row])
        order = kept[np.argsort(goals.row[kept], kind="stable")]
        cuts = np.flatnonzero(np.diff(goals.row[order])) + 1
        for part in np.split(order, cuts) if order.size else ():
            found[int(goals.row[part[0]])] = frozenset(giver[part].tolist())
        return found

    def group_codes(self, ends: Ends, columns: tuple[int, ...]) -> Int:
        """A number for each end: equal where variable, side and the keys in these columns are
        equal.
        """
        return self._groups(ends, columns) * 2 + (ends.sign > 0)

    def _signature(self, ends: Ends) -> Int:
        found: Int = self.signature[self.table.keyset[ends.row]]
        return found

    def _groups(self, ends: Ends, columns: tuple[int, ...]) -> Int:
        if columns not in self._projected:
            ids: dict[Keys, int] = {}
            self._projected[columns] = np.array(
                [
                    ids.setdefault(tuple(pair for pair in keys if pair[0] in columns), len(ids))
                    for keys in self.table.keysets
                ]
                or [0],
                dtype=np.int64,
            )
        found: Int = (
            ends.variable * (len(self.table.keysets) + 1)
            + self._projected[columns][self.table.keyset[ends.row]]
        )
        return found

    def _outer_values(self, ends: Ends, *, outward: bool) -> Float:
        """The least (`outward`: the greatest) that ``sign * x`` can be inside the span: float64
        [E].
        """
        low, high = self.spans[ends.variable].T if ends.row.size else (np.zeros(0), np.zeros(0))
        return np.where((ends.sign > 0) == outward, high * ends.sign, low * ends.sign)

    def _torn(self) -> list[tuple[int, int]]:
        """Rows that contradict themselves."""
        ends = self.bounds.ends
        upper, lower = ends.take(ends.sign > 0), ends.take(ends.sign < 0)
        width = len(self.spans)
        pairs = _clashes(
            upper, lower, upper.row * width + upper.variable, lower.row * width + lower.variable
        )
        return [(row, row) for row in sorted({one for one, _ in pairs})]


class _Best:
    """The tightest end of each group, and the tightest of another rule than that one's."""

    def __init__(self, ends: Ends, boxes: Boxes, columns: tuple[int, ...], rules: Int) -> None:
        self.ends = ends
        groups = boxes.group_codes(ends, columns)
        order = np.lexsort((rules[ends.row], ~ends.strict, ends.value, groups))
        self.codes, first = np.unique(groups[order], return_index=True)
        self.first = order[first]
        sizes = np.diff(np.append(first, order.size))
        top = np.repeat(rules[ends.row[self.first]], sizes)
        others = np.flatnonzero(rules[ends.row[order]] != top)
        self.second = np.full(self.codes.shape, -1, dtype=np.int64)
        where, at = np.unique(
            np.repeat(np.arange(self.codes.size), sizes)[others], return_index=True
        )
        self.second[where] = order[others[at]]

    def implying(self, goals: Ends, boxes: Boxes, columns: tuple[int, ...], rules: Int) -> Int:
        """For each goal, a row with an end that implies it, or -1."""
        if not self.codes.size:
            return np.full(goals.row.shape, -1, dtype=np.int64)
        groups = boxes.group_codes(goals, columns)
        at = np.minimum(np.searchsorted(self.codes, groups), self.codes.size - 1)
        first, second = self.first[at], self.second[at]
        chosen = np.where(rules[self.ends.row[first]] == rules[goals.row], second, first)
        value, strict = self.ends.value[chosen], self.ends.strict[chosen]
        gap = slack(value, goals.value)
        tighter = (value < goals.value - gap) | (
            (value <= goals.value + gap) & (strict | ~goals.strict)
        )
        return np.where(
            (self.codes[at] == groups) & (chosen >= 0) & tighter, self.ends.row[chosen], -1
        )


def _columns(keys: Keys) -> tuple[int, ...]:
    return tuple(column for column, _ in keys)


def _flag(count: int, rows: Int, which: Bool) -> Bool:
    """Whether any end of a row is among those: bool [N]."""
    found = np.zeros(count, dtype=np.bool_)
    found[rows[which]] = True
    return found


def _tightest(ends: Ends, groups: Int) -> tuple[Int, Int]:
    """The distinct groups, and the position of the tightest end in each."""
    order = np.lexsort((~ends.strict, ends.value, groups))
    codes, first = np.unique(groups[order], return_index=True)
    return codes, order[first]


def _clashes(upper: Ends, lower: Ends, over: Int, under: Int) -> list[tuple[int, int]]:
    """Pairs of rows with ends that exclude each other, within shared groups: tightest end per
    side.
    """
    codes, top = _tightest(upper, over)
    others, bottom = _tightest(lower, under)
    shared, at, where = np.intersect1d(codes, others, assume_unique=True, return_indices=True)
    top, bottom = top[at], bottom[where]
    bad = _excludes(upper.value[top], upper.strict[top], lower.value[bottom], lower.strict[bottom])
    if not bad.any():
        return []
    shared, top, bottom = shared[bad], top[bad], bottom[bad]
    found: list[tuple[int, int]] = []
    for ends, groups, rivals, tight in ((upper, over, lower, bottom), (lower, under, upper, top)):
        inside = np.flatnonzero(np.isin(groups, shared))
        rival = tight[np.searchsorted(shared, groups[inside])]
        hit = _excludes(
            ends.value[inside], ends.strict[inside], rivals.value[rival], rivals.strict[rival]
        )
        found += zip(ends.row[inside[hit]].tolist(), rivals.row[rival[hit]].tolist(), strict=True)
    return found


def _excludes(one: Float, one_strict: Bool, other: Float, other_strict: Bool) -> Bool:
    """Whether ``x <= one`` and ``-x <= other`` exclude each other."""
    total = one + other
    return (total < -slack(one, other)) | ((total <= 0) & (one_strict | other_strict))
