"""The bound rows of a pack, and what intervals alone decide about them.

`RowTable` has all bound rows of a pack in one numbering, with the variables they read and the table
rows they are about. `find_bounds` finds the rules that bound single columns, as plain arrays with
one entry per bound and variable. `Boxes` decides bounds against each other and against declared
spans, for any number of rows, and finds values that keep them.

This goes from comparisons to columns and is exact. `formula_algebra.interval` goes the other way,
to the range of a term over columns.

Letters: R rows of a bank, N bound rows of all banks, E ends: one for each lower or upper bound,
s slots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank, Compare, DataContract, Formula, Pack, Temporal
from fedkg.pack.formulas import ROWS, everywhere, indices, is_temporal, subformulas
from fedkg_compiler.analysis.verdict import Reading, RowRef, Witness
from fedkg_compiler.formulas.formula_algebra import affine_by_shape, at_any_step, comparisons


class Variable(NamedTuple):
    """One unknown.

    Attributes:
        name: the name in messages: ``torque``, ``previous torque``.
        type: the type of the values.
        span: the smallest and largest declared value; infinite if none is declared.
        unit: the unit of the values.
        codes: the number of texts that a category knows; other texts have the code -1.
        readings: (view, column, shift) of each reading of the variable: the value read there is
            that of the variable plus the shift.
    """

    name: str
    type: Literal["real", "boolean", "category", "score"]
    span: tuple[float, float]
    unit: str
    codes: int
    readings: tuple[tuple[int, int, float], ...]


UNBOUNDED = (-math.inf, math.inf)


class Variables:
    """The variables of a contract, numbered as they are met.

    A column read in two views, or two columns read from one header, are one variable where their
    values cannot differ: rules, shapes and queries meet in it. Raised inputs are the base value
    plus the view's delta; previous rows and predictions in other views are separate variables.
    """

    def __init__(self, contract: DataContract) -> None:
        self.contract = contract
        self._columns, self._views = contract.columns, contract.views
        self.items: list[Variable] = []
        self._by_key: dict[object, int] = {}
        self._by_place: dict[tuple[int, int], tuple[int, float]] = {}

    def number(
        self, views: NDArray[np.int32], columns: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The variables behind readings, and by how much each reading is shifted from it.

        Both in the shape of the arguments.
        """
        if not views.size:
            return np.zeros(views.shape, dtype=np.int64), np.zeros(views.shape)
        code = (
            views.astype(np.int64).ravel() * len(self.contract.columns)
            + columns.astype(np.int64).ravel()
        )
        distinct, where = np.unique(code, return_inverse=True)
        width = len(self.contract.columns)
        places = [self.place(*divmod(each, width)) for each in distinct.tolist()]
        ids = np.array([variable for variable, _ in places], dtype=np.int64)[where]
        shifts = np.array([shift for _, shift in places])[where]
        return ids.reshape(views.shape), shifts.reshape(views.shape)

    def place(self, view: int, column: int) -> tuple[int, float]:
        """The variable behind one reading, and the shift."""
        found = self._by_place.get((view, column))
        if found is None:
            found = self._by_place[view, column] = self._new(view, column)
        return found

    def _new(self, view: int, column: int) -> tuple[int, float]:
        entry, reading = self._columns[column], self._views[view]
        shift = 0.0
        when: tuple[object, ...] | None = None
        if reading.kind == "base":
            pass
        elif reading.kind == "previous":
            when = ("previous", reading.groups)
        elif reading.kind == "raised" and entry.role == "output":
            when = ("raised", view)
        elif reading.kind == "raised" and reading.column == column:
            shift = reading.delta
        kind = entry.type
        number = kind in ("real", "boolean")
        same: object = (entry.source, entry.unit, entry.role) if number else column
        span = (0.0, 1.0) if kind == "boolean" else entry.span or UNBOUNDED
        known = self._by_key.get((same, when))
        if known is None:
            self._by_key[same, when] = known = len(self.items)
            name = entry.name if when is None else self._name(view, column)
            readings = ((view, column, shift),)
            self.items.append(
                Variable(name, kind, span, entry.unit, len(entry.vocabulary), readings)
            )
            return known, shift
        old = self.items[known]
        narrower = (max(old.span[0], span[0]), min(old.span[1], span[1]))
        self.items[known] = old._replace(
            span=narrower, readings=(*old.readings, (view, column, shift))
        )
        return known, shift

    def _name(self, view: int, column: int) -> str:
        if self.contract.views[view].kind == "previous":
            return f"previous {self.contract.columns[column].name}"
        raised = self.contract.views[view].column
        other = "" if raised is None else self.contract.columns[raised].name
        return f"{self.contract.columns[column].name} with higher {other}"

    def spans(self) -> NDArray[np.float64]:
        """Declared spans of all variables so far: float64 [variables, 2]."""
        return np.array([variable.span for variable in self.items], dtype=np.float64).reshape(-1, 2)


MOST_COMPARISONS = 300
"""Comparisons in a rule that is looked at: the analysis of larger ones takes minutes."""

Keys = tuple[tuple[int, int], ...]
"""What selects table rows: (column, code) pairs, sorted; () selects all."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Readers:
    """The readings of the rows of a bank, or of the members of a set: variables and shifts [R, s],
    numbers [R, p].
    """

    variables: NDArray[np.int64]
    shifts: NDArray[np.float64]
    params: NDArray[np.float64]
    used: tuple[int, ...]


class RowTable:
    """Bound rows, numbered through all banks.

    Attributes:
        starts: int64, the number of the first row of each bank, and N at the end.
        rule: int64 [N], the position of each row's rule in the pack.
        entity: int64 [N], the position of each row's entity in the pack.
        bank: int64 [N], the position of each row's bank.
        keysets: the distinct selections of table rows.
        keyset: int64 [N], the position of each row's selection in `keysets`.
        readers: for each bank, what its rows and the members of its tables read, by number of the
            member table (-1: the rows).
    """

    def __init__(
        self, pack: Pack, banks: Sequence[Bank] | None = None, variables: Variables | None = None
    ) -> None:
        self.pack = pack
        self.banks = tuple(pack.banks if banks is None else banks)
        self.variables = Variables(pack.manifest.contract) if variables is None else variables
        counts = [bank.rows for bank in self.banks]
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.rule = _joined([bank.rule for bank in self.banks])
        self.entity = _joined([bank.entity for bank in self.banks])
        self.bank = np.repeat(np.arange(len(counts)), counts).astype(np.int64)
        self.keysets: list[Keys] = []
        self._known: dict[Keys, int] = {}
        self.keyset = _joined([self._keys(bank) for bank in self.banks])
        self.readers = [self._readers(bank) for bank in self.banks]
        self._timed = [is_temporal(bank.skeleton) for bank in self.banks]
        self._repeated: dict[int, dict[int, int]] = {}

    @property
    def count(self) -> int:
        """N."""
        return int(self.rule.shape[0])

    def too_large(self) -> NDArray[np.bool_]:
        """Which rows have more than `MOST_COMPARISONS` comparisons: bool [N]."""
        large = [
            sum(isinstance(node, Compare) for _, node in everywhere(bank.skeleton))
            > MOST_COMPARISONS
            for bank in self.banks
        ]
        return np.array(large, dtype=np.bool_)[self.bank]

    def ref(self, row: int) -> RowRef:
        """Bank and row of a row's number."""
        bank = int(self.bank[row])
        return RowRef(bank, int(row - self.starts[bank]))

    def skeleton(self, row: int) -> Formula:
        """What a row's bank says."""
        return self.banks[int(self.bank[row])].skeleton

    def param(self, row: int, index: int) -> float:
        """One of a row's numbers."""
        bank = int(self.bank[row])
        return float(self.banks[bank].params[int(row - self.starts[bank]), index])

    def at_any_step(self, row: int) -> Formula:
        """The formula that a row requires at each step: without an outermost `always` from now
        on.
        """
        return (
            self.skeleton(row)
            if not self.is_timed(row)
            else at_any_step(self.skeleton(row), lambda window: self.param(row, window.low) == 0)
        )

    def is_hard(self, row: int) -> bool:
        """Whether a row's rule is hard."""
        return self.pack.manifest.rules[int(self.rule[row])].hard

    def entity_name(self, row: int) -> str:
        """What a row is about: its entity, else the texts of its keys."""
        name = self.pack.manifest.entities[int(self.entity[row])]
        return name or self.keys_name(self.keysets[int(self.keyset[row])])

    def keys_name(self, keys: Keys) -> str:
        """``M07``, ``M07, H``."""
        columns = self.pack.manifest.contract.columns
        return ", ".join(
            columns[column].vocabulary[code]
            if code < len(columns[column].vocabulary)
            else str(code)
            for column, code in keys
        )

    def is_timed(self, row: int) -> bool:
        """Whether a row has windows."""
        return self._timed[int(self.bank[row])]

    def reads(self, row: int) -> set[int]:
        """The variables that a row reads, its members included."""
        return self._reads[row]

    def all_reads(self, rows: Sequence[int]) -> dict[int, set[int]]:
        """The variables that rows read, by row."""
        reads = self._reads
        return {row: reads[row] for row in rows}

    @cached_property
    def order(self) -> list[int]:
        """The position of each row in the order of the rules."""
        found: list[int] = np.argsort(np.argsort(self.rule, kind="stable")).tolist()
        return found

    @cached_property
    def _reads(self) -> list[set[int]]:
        found: list[set[int]] = []
        for number, bank in enumerate(self.banks):
            lines: list[set[int]] = [set() for _ in range(bank.rows)]
            for table, readers in self.readers[number].items():
                variables = readers.variables[:, list(readers.used)].tolist()
                for i, line in enumerate(lines):
                    if table == ROWS:
                        line.update(variables[i])
                    else:
                        line.update(*variables[self.members(number, table, i)])
            found += lines
        return found

    def duplicate_rows(self, bank: int) -> dict[int, int]:
        """Rows of a bank that say to the letter what an earlier rule says of the same table rows:
        by number, the row that says it.
        """
        if bank not in self._repeated:
            self._repeated[bank] = (
                {}
                if self.banks[bank].members or not self.banks[bank].rows
                else self._repetitions(bank)
            )
        return self._repeated[bank]

    def _repetitions(self, bank: int) -> dict[int, int]:
        readers, start = self.readers[bank][ROWS], int(self.starts[bank])
        used, numbers = (
            list(readers.used),
            sorted(indices(self.banks[bank].skeleton)[1].get(ROWS, ())),
        )
        here = slice(start, start + self.banks[bank].rows)
        said = [readers.shifts[:, used], readers.params[:, numbers]]
        letters = [
            self.keyset[here, None],
            readers.variables[:, used],
            *(np.ascontiguousarray(part).view(np.int64) for part in said),
        ]
        _, group = np.unique(np.concatenate(letters, axis=1), axis=0, return_inverse=True)
        order = np.lexsort((self.rule[here], group.ravel()))
        first = order[np.searchsorted(group.ravel()[order], group.ravel())]
        others = np.flatnonzero(self.rule[here] != self.rule[here][first])
        return dict(zip((start + others).tolist(), (start + first[others]).tolist(), strict=True))

    def member_sizes(self, bank: int, table: int, row: int) -> tuple[int, ...]:
        """How many members each owner has that belongs to a row of the bank."""
        entry = self.banks[bank].members[table]
        owners = slice(row, row + 1) if entry.parent < 0 else self.members(bank, entry.parent, row)
        return tuple(np.diff(entry.offsets[owners.start : owners.stop + 1]).tolist())

    def members(self, bank: int, table: int, row: int) -> slice:
        """Which rows of a member table belong to a row of the bank."""
        entry = self.banks[bank].members[table]
        owners = slice(row, row + 1) if entry.parent < 0 else self.members(bank, entry.parent, row)
        return slice(int(entry.offsets[owners.start]), int(entry.offsets[owners.stop]))

    def _keys(self, bank: Bank) -> NDArray[np.int64]:
        if not bank.keys.shape[1] or not bank.rows:
            return np.full(bank.rows, self._keyset(()), dtype=np.int64)
        pairs = np.concatenate([bank.keys, bank.codes], axis=1)
        first, where = _distinct(pairs)
        width = bank.keys.shape[1]
        ids = []
        for line in pairs[first].tolist():
            pairs_of = zip(line[:width], line[width:], strict=True)
            keys = tuple(sorted([pair for pair in pairs_of if pair[0] >= 0]))
            ids.append(self._keyset(keys))
        return np.array(ids, dtype=np.int64)[where]

    def _keyset(self, keys: Keys) -> int:
        if keys not in self._known:
            self._known[keys] = len(self.keysets)
            self.keysets.append(keys)
        return self._known[keys]

    def _readers(self, bank: Bank) -> dict[int, Readers]:
        slots, params = indices(bank.skeleton)
        found: dict[int, Readers] = {}
        for table in sorted({*slots, *params}):
            source = bank if table == ROWS else bank.members[table]
            variables, shifts = self.variables.number(source.views, source.slots)
            used = tuple(sorted(slots.get(table, ())))
            found[table] = Readers(
                variables=variables, shifts=shifts, params=source.params, used=used
            )
        return found


def _distinct(lines: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of the distinct lines, sorted, and which of them each line is.

    `np.unique` along an axis, which compares lines as bytes, takes ten times as long.
    """
    first = where = np.zeros(len(lines), dtype=np.int64)
    for column in lines.T:
        _, codes = np.unique(column, return_inverse=True)
        _, first, where = np.unique(
            where * (codes.max() + 1) + codes, return_index=True, return_inverse=True
        )
    return first, where


def _joined(arrays: Sequence[NDArray[np.generic]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays]).astype(np.int64)


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
