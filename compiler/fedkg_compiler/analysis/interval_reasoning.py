"""What intervals alone decide: bounds on single columns against each other and against declared
spans, for any number of rows.

Letters: N bound rows, E ends (bounds of single variables, see `bounds`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedkg_compiler.analysis.bound_row_table import Keys, RowTable
from fedkg_compiler.analysis.bounds import Bounds, Ends, Float, Int, slack

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
