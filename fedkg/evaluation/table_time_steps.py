"""The time of a table: its time and trace columns as the steps of temporal rules, steps of a trace
that no row has, and verdicts that stay open because the table begins or ends before they are
decided.

Letters: B table rows, R rows of a bank, N rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import BankValues, Timing, evaluate_bank
from fedkg.constraints.meaning.trace_robustness import Reach, reach
from fedkg.errors import TableError
from fedkg.pack import Bank, DataContract, is_temporal
from fedkg.pack.bank import reads
from fedkg.pack.formula_text import duration_text
from fedkg.tables import Table, in_utc, is_unknown
from fedkg.units.header import header_unit
from fedkg.units.unit import Dimension

TIME: Dimension = (("time", Fraction(1)),)

MOST_STEPS = 1e15
"""A trace spans no more steps than are counted exactly."""

OFF_GRID = 0.01
"""A row farther than this share of a step from the nearest step is reported, and still assigned to
it."""


def table_timing(
    contract: DataContract,
    table: Table,
    missing: Literal["error", "skip"] = "error",
    *,
    needed: str = "rules over time need",
    began: dict[str, float] | None = None,
) -> tuple[Timing, tuple[str, ...]]:
    """The position of each row in time, and the notes about it.

    With a time column and a step, a row's step is its time since the first row of its trace in
    steps, rounded. With a time column alone it orders the rows, and with none the rows are steps in
    their order. A row without a readable time or trace belongs to no trace.

    Args:
        missing: what to do about a time or trace column that the table lacks. With ``skip``, rows
            without a time column are steps in their order, and without a trace column no row
            belongs to a trace.
        needed: who needs the time column, for the error; "" when nobody does.
        began: for a table that continues another one, the time in seconds at which each trace
            began, by its name ("" without a trace column); new traces are added. None: the table
            has the first row of each trace.

    Raises:
        TableError: the time column, or the column that tells traces apart, is missing; or the times
            span too many steps.
    """
    notes: list[str] = []
    trace = _traces(contract, table, missing, notes)
    if needed and contract.time is not None and contract.time not in table:
        if missing == "error":
            raise table.missing(contract.time, needed=needed)
        notes.append(
            f"without the time column `{contract.time}`, rules over time take the rows as "
            f"steps, in their order"
        )
    seconds = _seconds(contract, table, notes)
    rows = np.arange(table.rows, dtype=np.int64)
    if seconds is None:
        return Timing(trace=trace, step=rows, gaps=False, end=contract.end), tuple(notes)
    trace = np.where(np.isnan(seconds), -1, trace)
    if contract.step is None:
        known = np.nan_to_num(seconds)
        return Timing(
            trace=trace,
            step=np.unique(known, return_inverse=True)[1].ravel(),
            gaps=False,
            end=contract.end,
        ), tuple(notes)
    origins = _first_times(seconds, trace)
    if began is not None:
        names = [""] * table.rows if contract.trace is None else table.texts(contract.trace)
        for row in _first_rows(trace):
            name = names[row]
            origins[trace[row]] = began.setdefault(name, float(origins[trace[row]]))
    exact = _since_first(seconds, trace, origins) / contract.step
    if np.abs(exact).max(initial=0.0) > MOST_STEPS:
        raise TableError(
            f"{table.name}: the times in `{contract.time}` span {np.abs(exact).max():.3g} steps of "
            f"{duration_text(contract.step)}",
            expected=f"at most {MOST_STEPS:.0e} steps",
            help="write a longer step in the rules' timeline, or correct wrong times",
        )
    step = np.round(exact)
    off = np.flatnonzero(np.abs(exact - step) > OFF_GRID)
    if off.size:
        first = f"{table.where(int(off[0]))}, `{table.texts(contract.time or '')[off[0]]}`"
        notes.append(
            f"{_rows(off.size)} {'lie' if off.size > 1 else 'lies'} off the grid of "
            f"{duration_text(contract.step)} steps (first: {first}): "
            "taken for the nearest step"
        )
    return Timing(trace=trace, step=step.astype(np.int64), end=contract.end), tuple(notes)


def whole_traces(at: NDArray[np.int64], timing: Timing, most: int) -> Iterator[NDArray[np.int64]]:
    """The table rows in parts of up to `most`, or of one trace where that has more.

    In their order within each part.
    """
    trace = timing.trace[at]
    numbers, sizes = np.unique(trace, return_counts=True)
    part = np.cumsum(sizes) // max(1, most)
    for wanted in np.unique(part).tolist():
        yield at[np.isin(trace, numbers[part == wanted])]


def steps_before(
    timing: Timing, group: NDArray[np.int64], base: NDArray[np.float64]
) -> NDArray[np.int64]:
    """int64 [B]: for each row the row of its trace and group that is one step earlier; -1 where
    there is none, or several that differ.

    Args:
        group: int64 [B], which rows belong together; negative for a row that belongs to none.
        base: float64 [B, C], the table's values.
    """
    before = np.full(group.shape, -1, dtype=np.int64)
    rows = np.flatnonzero((timing.trace >= 0) & (group >= 0))
    if not rows.size:
        return before
    rows = rows[np.lexsort((rows, timing.step[rows], timing.trace[rows], group[rows]))]
    one, other = rows[1:], rows[:-1]
    same_trace = (group[one] == group[other]) & (timing.trace[one] == timing.trace[other])
    same_step = same_trace & (timing.step[one] == timing.step[other])
    again = np.flatnonzero(same_step)
    values, others = base[one[again]], base[other[again]]
    differs = ~((values == others) | (np.isnan(values) & np.isnan(others))).all(axis=1)
    place = np.concatenate([[0], np.cumsum(~same_step)])  # step within trace and group
    first = np.flatnonzero(np.concatenate([[True], ~same_step]))
    disputed = np.zeros(first.size, dtype=np.bool_)
    disputed[place[1:][again[differs]]] = True
    here, there = rows[first[1:]], rows[first[:-1]]
    follows = same_trace[first[1:] - 1] & ~disputed[:-1]
    if timing.gaps:
        follows &= timing.step[here] == timing.step[there] + 1
    found = np.concatenate([[-1], np.where(follows, there, -1)])
    before[rows] = found[place]
    return before


def doubled(
    bank: Bank,
    timing: Timing,
    base: NDArray[np.float64],
    seen: dict[tuple[int, ...], tuple[int, int, int] | None],
    *,
    steps: frozenset[int] = frozenset(),
) -> None:
    """Add to `seen`, for each set of key columns, how many steps have several rows that differ, and
    the first two such rows; None: none.

    Banks that look at no step but a row's own are left out.

    Args:
        base: float64 [B, C], the table's values.
        steps: the views that look one step back on the timeline.
    """
    if not is_temporal(bank.skeleton) and not any(
        bool(np.isin(views, list(steps)).any()) for _, views, _ in reads(bank) if steps
    ):
        return
    for keys in {tuple(sorted(key for key in row if key >= 0)) for row in bank.keys.tolist()}:
        if keys not in seen:
            seen[keys] = _doubled(list(keys), timing, base)


def _doubled(
    keys: list[int], timing: Timing, base: NDArray[np.float64]
) -> tuple[int, int, int] | None:
    rows = np.flatnonzero((timing.trace >= 0) & ~np.isnan(base[:, keys]).any(axis=1))
    if not rows.size:
        return None
    place = np.column_stack([timing.trace[rows], timing.step[rows], base[rows][:, keys]])
    order = np.lexsort((rows, *place.T[::-1]))
    rows, place = rows[order], place[order]
    same = (place[1:] == place[:-1]).all(axis=1)
    one, other = base[rows[1:]], base[rows[:-1]]
    differs = same & ~((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1)
    at = np.flatnonzero(differs)
    if not at.size:
        return None
    groups = np.concatenate([[0], np.cumsum(~same)])
    return int(np.unique(groups[at]).size), int(rows[at[0]]), int(rows[at[0] + 1])


def doubled_notes(
    seen: dict[tuple[int, ...], tuple[int, int, int] | None], contract: DataContract, table: Table
) -> tuple[str, ...]:
    """One sentence for each set of key columns under which steps have several rows that differ."""
    notes = []
    for keys, found in seen.items():
        if found is not None:
            count, first, second = found
            several = (
                f"{count:,} step{'s' * (count > 1)} of the timeline "
                f"{'have' if count > 1 else 'has'} several rows that differ"
            )
            owner = (
                " for one " + " and ".join(f"`{contract.columns[key].source}`" for key in keys)
                if keys
                else ""
            )
            places = f"{table.where(first)} and {table.where(second)}"
            advice = "" if contract.trace else "; `trace column` says what tells traces apart"
            notes.append(
                f"{several}{owner} (first: {places}): unknown there for rules over time{advice}"
            )
    return tuple(notes)


def _traces(
    contract: DataContract, table: Table, missing: Literal["error", "skip"], notes: list[str]
) -> NDArray[np.int64]:
    if contract.trace is None:
        return np.zeros(table.rows, dtype=np.int64)
    if contract.trace not in table:
        error = table.missing(contract.trace, needed="separates the traces for rules over time")
        if missing == "error":
            raise error
        notes.append(
            f"column `{contract.trace}`, which separates traces, is missing: rules over "
            f"time are unknown"
        )
        return np.full(table.rows, -1, dtype=np.int64)
    texts = table.texts(contract.trace)
    numbers: dict[str, int] = {}
    trace = np.array(
        [-1 if is_unknown(text) else numbers.setdefault(text, len(numbers)) for text in texts],
        dtype=np.int64,
    )
    lost = int((trace < 0).sum())
    if lost:
        notes.append(
            f"{_rows(lost)} without a value in `{contract.trace}`: unknown for rules over time"
        )
    return trace


def _seconds(contract: DataContract, table: Table, notes: list[str]) -> NDArray[np.float64] | None:
    """float64 [B], seconds since an origin, NaN for unreadable times.

    None without a time column.
    """
    if contract.time is None or contract.time not in table:
        return None
    texts = table.texts(contract.time)
    moments, said = table.times(contract.time)
    notes += [said] if said else []
    if texts and not any(moments):
        numbers = _numbers(contract.time, table, notes)
        if numbers is not None:
            return numbers
    moments, _ = in_utc(moments, texts, f"{table.name}: column `{contract.time}`")
    seconds = np.array(
        [np.nan if moment is None else _stamp(moment) for moment in moments], dtype=np.float64
    )
    lost = np.flatnonzero(np.isnan(seconds))
    if lost.size:
        first = f"`{texts[lost[0]]}`" if texts[lost[0]].strip() else "an empty cell"
        notes.append(
            f"{lost.size:,} time{'s' * (lost.size > 1)} in `{contract.time}` cannot be "
            f"read (first: {first}, "
            f"{table.where(int(lost[0]))}): unknown for rules over time"
        )
    return seconds


def _stamp(moment: datetime) -> float:
    return (moment - datetime(1970, 1, 1)).total_seconds()


def _numbers(header: str, table: Table, notes: list[str]) -> NDArray[np.float64] | None:
    """Times that are numbers, in the unit that the header names, else in seconds."""
    try:
        numbers = table.numbers(header)
    except TableError:
        return None
    unit = header_unit(header)
    if unit is not None and unit.dimension == TIME:
        return numbers * float(unit.factor)
    notes.append(f"the times in `{header}` are numbers: taken as seconds")
    return numbers


def _first_times(seconds: NDArray[np.float64], trace: NDArray[np.int64]) -> NDArray[np.float64]:
    """The first time of each trace, by its number."""
    first = np.full(int(trace.max(initial=-1)) + 1, np.inf)
    known = trace >= 0
    np.minimum.at(first, trace[known], seconds[known])
    return first


def _first_rows(trace: NDArray[np.int64]) -> list[int]:
    """A row of each trace."""
    rows = np.flatnonzero(trace >= 0)
    found: list[int] = rows[np.unique(trace[rows], return_index=True)[1]].tolist()
    return found


def _since_first(
    seconds: NDArray[np.float64], trace: NDArray[np.int64], first: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Seconds since the beginning of each row's trace; 0 for rows of none."""
    known = trace >= 0
    out = np.zeros(seconds.shape)
    out[known] = seconds[known] - first[trace[known]]
    return out


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count > 1)}"


@dataclass(frozen=True, slots=True)
class Gap:
    """How many steps are missing, in how many places, and the table row before the first of
    them.
    """

    steps: int
    places: int
    row: int


@dataclass(slots=True, eq=False)
class Gaps:
    """By set of key columns, filled bank by bank: the steps missing between two rows of a trace.

    None: none.

    Attributes:
        steps: the views that look one step back on the timeline.
    """

    steps: frozenset[int] = frozenset()
    found: dict[tuple[int, ...], Gap | None] = field(default_factory=dict)

    def add(self, bank: Bank, timing: Timing, base: NDArray[np.float64]) -> None:
        """Look between the rows that a bank is about, unless it looks at no step but a row's own.

        `base` float64 [B, C]: the table.
        """
        looks_back = (bool(np.isin(views, list(self.steps)).any()) for _, views, _ in reads(bank))
        if not timing.gaps or not (is_temporal(bank.skeleton) or any(looks_back)):
            return
        for keys in {tuple(sorted(key for key in row if key >= 0)) for row in bank.keys.tolist()}:
            if keys not in self.found:
                self.found[keys] = _gap(list(keys), timing, base)

    def notes(self, contract: DataContract, table: Table) -> tuple[str, ...]:
        """``the table has no row for 2 steps, first after 00:05: windows that need them are
        unknown``, for each set of key columns.
        """
        out = []
        for keys, gap in self.found.items():
            if gap is None or contract.time is None:
                continue
            steps = f"{gap.steps:,} step{'s' * (gap.steps > 1)}" + (
                f" in {gap.places:,} places" if gap.places > 1 else ""
            )
            scope = (
                " of one " + " and ".join(f"`{contract.columns[key].source}`" for key in keys)
                if keys
                else ""
            )
            after = f"{table.texts(contract.time)[gap.row]} in {table.where(gap.row)}"
            out.append(
                f"the table has no row for {steps}{scope}, first after {after}: windows "
                f"that need them are unknown"
            )
        return tuple(out)


def _gap(keys: list[int], timing: Timing, base: NDArray[np.float64]) -> Gap | None:
    rows = np.flatnonzero(
        (timing.trace >= 0) & (base[:, keys] >= 0).all(axis=1)
    )  # texts that no rule knows have a code below 0
    if rows.size < 2:
        return None
    rows = rows[
        np.lexsort((rows, timing.step[rows], *base[rows][:, keys].T[::-1], timing.trace[rows]))
    ]
    one, other = rows[1:], rows[:-1]
    same = (timing.trace[one] == timing.trace[other]) & (
        base[one][:, keys] == base[other][:, keys]
    ).all(axis=1)
    lost = np.where(same, np.maximum(timing.step[one] - timing.step[other] - 1, 0), 0)
    at = np.flatnonzero(lost)
    return Gap(int(lost.sum()), int(at.size), int(other[at[0]])) if at.size else None


@dataclass(slots=True, eq=False)
class Ends:
    """By rule, filled bank by bank: how many evaluations would be known if windows ended with the
    table, and how far they look.
    """

    cut: dict[int, int] = field(default_factory=dict)
    back: dict[int, float] = field(default_factory=dict)
    ahead: dict[int, float] = field(default_factory=dict)

    def add(
        self, bank: Bank, values: NDArray[np.float64], timing: Timing, found: BankValues
    ) -> None:
        """Add a bank's verdicts `found` on values [V, B, C]."""
        if timing.end == "clip" or not is_temporal(bank.skeleton) or not found.unknown.any():
            return
        rows = np.flatnonzero(found.unknown.any(axis=0))
        part = bank.take(rows)
        known = ~evaluate_bank(part, values, replace(timing, end="clip")).unknown
        counts = (found.unknown[:, rows] & known).sum(axis=0)
        for row, rule, count in zip(
            range(part.rows), part.rule.tolist(), counts.tolist(), strict=True
        ):
            if count:
                far: Reach = reach(part.skeleton, part.params[row].tolist())
                self.cut[rule] = self.cut.get(rule, 0) + count
                self.back[rule] = max(self.back.get(rule, 0.0), far.back)
                self.ahead[rule] = max(self.ahead.get(rule, 0.0), far.ahead)

    def note(self, rule: int, contract: DataContract) -> str:
        """``1,234 unknown: the table ends before 2 h have passed``; "" where none is."""
        if not self.cut.get(rule):
            return ""
        what = "its trace" if contract.trace else "the table"
        ahead, back = (_long(steps, contract.step) for steps in (self.ahead[rule], self.back[rule]))
        ends = f"ends before {ahead} have passed" if ahead else ""
        begins = f"begins less than {back} before" if back else ""
        why = " or ".join(filter(None, (ends, begins))) or "ends before the rule is decided"
        return f"{self.cut[rule]:,} unknown: {what} {why}"


def _long(steps: float, step: float | None) -> str:
    """A number of steps as a time if the step is known; "" for none and for unbounded windows."""
    if steps == 0 or math.isinf(steps):
        return ""
    return duration_text(steps * step) if step else f"{int(steps)} step{'s' * (steps != 1)}"
