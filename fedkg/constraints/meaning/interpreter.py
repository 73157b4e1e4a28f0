"""The meaning of every formula in its most obvious form: NumPy, float64, source units.

All other engines are held to this one. `Timing` and `grids` lay table rows out as steps of traces,
so that windows can slide over them; `TableMembers` are members that are read from other table rows,
one for each table row that their keys select.

Letters: V views, B table rows (or steps of traces laid out as a grid), C columns of the contract, R
rows of a bank, M members of a member table or rows of a bank, s slots, p parameters of its
skeleton.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import TableError
from fedkg.pack.bank import Bank, MemberTable
from fedkg.pack.formulas import Implies, Initially, everywhere, is_temporal
from fedkg.pack.numeric.members import member_offsets
from fedkg.pack.numeric.padded_trace_rows import Grid
from fedkg.pack.numeric.three_valued_logic import (
    Bool,
    Float,
    Verdict,
    atom,
    either,
    finite,
    opposite,
)

MOST = 10_000_000
"""A trace of few rows is not laid out to more steps than this; one of many rows to four times as
many as it has rows."""

CELLS = 1_000_000
"""Traces are laid out together as long as they fill no more steps than this."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timing:
    """The position of each table row in time.

    Attributes:
        trace: int64 [B], which trace a row belongs to; negative for a row that belongs to none (all
            its temporal verdicts are unknown).
        step: int64 [B], the row's step within its trace; any whole number, rows in any order.
        gaps: steps between two rows of a trace without a row are missing, and so unknown; without
            `gaps` the numbers only order the rows.
        end: what a window beyond the trace meets: unknown steps (``strict``), or nothing
            (``clip``).
    """

    trace: NDArray[np.int64]
    step: NDArray[np.int64]
    gaps: bool = True
    end: Literal["strict", "clip"] = "strict"

    @staticmethod
    def rows(count: int, end: Literal["strict", "clip"] = "strict") -> Timing:
        """The rows of a table, in their order, as one trace without gaps."""
        return Timing(
            trace=np.zeros(count, dtype=np.int64),
            step=np.arange(count, dtype=np.int64),
            gaps=False,
            end=end,
        )

    def take(self, rows: NDArray[np.int64]) -> Timing:
        """The timing of some rows alone."""
        return Timing(trace=self.trace[rows], step=self.step[rows], gaps=self.gaps, end=self.end)


def grids(
    timing: Timing, rows: NDArray[np.int64], values: NDArray[np.float64], reach: int
) -> Iterator[Grid]:
    """The traces of some table rows, laid out; rows of no trace are left out.

    Rows that share a step and agree in all `values` [B, C] are one; where they differ nobody knows
    which is right: the step is unknown.

    Args:
        reach: how many steps a formula looks ahead or back at most; longer gaps are shortened to
            what makes no difference.

    Raises:
        TableError: when the steps between the rows of a trace, most of them missing, are too many
            to be laid out.
    """
    rows = rows[timing.trace[rows] >= 0]
    if not rows.size:
        return
    order = np.lexsort((rows, timing.step[rows], timing.trace[rows]))
    rows = rows[order]
    trace, step = timing.trace[rows], timing.step[rows]
    new = np.concatenate([[True], trace[1:] != trace[:-1]])  # the first row of its trace
    ahead = np.where(new, 0, np.concatenate([[0], np.diff(step)]))  # steps since the row before
    if not timing.gaps:
        ahead = np.minimum(ahead, 1)
    run = np.cumsum(np.minimum(ahead, 2 * reach + 3))
    number = np.cumsum(new) - 1
    place = run - run[new][number]
    source = np.where(_disputed(rows, new | (ahead > 0), values), -1, rows)
    last = np.concatenate([np.flatnonzero(new)[1:] - 1, [rows.size - 1]])
    longest = int(np.argmax(place[last]))
    steps, held = int(place[last][longest]) + 1, int((number == longest).sum())
    if steps > max(MOST, 4 * held):
        raise TableError(
            f"a trace of {held:,} rows spans {steps:,} steps, and a rule looks {reach:,} steps far",
            expected=f"{MOST:,} steps at most, or four times the rows",
            help="write a longer step in the timeline, or shorter windows in the rules; "
            "or name a trace column, which separates the series at its gaps",
        )
    yield from _laid_out(timing, rows, source, number, place, lengths=place[last] + 1)


def _laid_out(
    timing: Timing,
    rows: NDArray[np.int64],
    source: NDArray[np.int64],
    number: NDArray[np.int64],
    place: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> Iterator[Grid]:
    """Traces of similar length together.

    `number` and `place` give the trace and position of each row.
    """
    size = np.ceil(np.log2(lengths)).astype(np.int64)
    for wanted in np.unique(size).tolist():
        traces = np.flatnonzero(size == wanted)
        together = max(1, CELLS // int(lengths[traces].max()))
        for start in range(0, traces.size, together):
            some = traces[start : start + together]
            width = int(lengths[some].max())
            where = np.full(lengths.size, -1, dtype=np.int64)
            where[some] = np.arange(some.size)
            mine = where[number] >= 0
            cells = where[number[mine]] * width + place[mine]
            at = np.full(some.size * width, -1, dtype=np.int64)
            at[cells] = source[mine]
            inside = np.arange(width) < lengths[some][:, None]
            yield Grid(at.reshape(some.size, width), inside, timing.end, rows[mine], cells)


def _disputed(
    rows: NDArray[np.int64], fresh: NDArray[np.bool_], values: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """bool [n]: rows in order of time at a step with several differing rows.

    `fresh` marks the first row of each step.
    """
    out = np.zeros(rows.size, dtype=np.bool_)
    again = np.flatnonzero(~fresh)
    if not again.size:
        return out
    group = np.cumsum(fresh) - 1
    first = np.flatnonzero(fresh)[group[again]]
    one, other = values[rows[again]], values[rows[first]]
    differs = ~((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1)
    bad = np.zeros(int(group[-1]) + 1, dtype=np.bool_)
    bad[group[again[differs]]] = True
    return np.asarray(bad[group])


Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TableMembers:
    """A member table of E members, and the table rows that they are read from.

    Attributes:
        table: the members.
        rows: int64 [D, E], the table row of each member, and before it those of the members around
            it, from the bank row inwards.
    """

    table: MemberTable
    rows: Index


def find_matching_rows(
    keys: NDArray[np.int32], codes: NDArray[np.int32], table: NDArray[np.float64]
) -> list[Index]:
    """The positions of the table rows that each row of `keys` and `codes` [M, k] selects.

    `table`: float64 [B, C].
    """
    pairs, which = np.unique(np.concatenate([keys, codes], axis=1), axis=0, return_inverse=True)
    found: list[Index] = []
    for pair in pairs:
        matching = np.ones(table.shape[0], dtype=np.bool_)
        for key, code in zip(*np.split(pair, 2), strict=True):
            if key >= 0:
                matching &= table[:, key] == code
        found.append(np.flatnonzero(matching))
    return [found[i] for i in which.ravel().tolist()]


def repeat_members(bank: Bank, table: NDArray[np.float64]) -> tuple[TableMembers, ...]:
    """The member tables of a bank with each member repeated for its rows of `table` [B, C]."""
    found: list[TableMembers] = []
    sources: list[Index] = []
    for members in bank.members:
        if members.parent < 0:
            owners, around = np.arange(bank.rows), np.zeros((0, bank.rows), dtype=np.int64)
        else:
            owners, around = sources[members.parent], found[members.parent].rows
        part, source = members.take(owners)
        owner = np.repeat(np.arange(owners.size), np.diff(part.offsets))
        rows = around[:, owner]
        if part.table_rows is not None and part.table_rows.own:
            selected = find_matching_rows(part.table_rows.keys, part.table_rows.codes, table)
            repeated = np.repeat(np.arange(part.count), [own.size for own in selected])
            own_rows = np.concatenate([np.zeros(0, dtype=np.int64), *selected])
            part = replace(
                part.take_members(repeated), offsets=member_offsets(owner[repeated], owners.size)
            )
            rows, source = np.vstack([rows[:, repeated], own_rows]), source[repeated]
        found.append(TableMembers(part, rows))
        sources.append(source)
    return tuple(found)


def group_equal_keys(bank: Bank) -> list[Index]:
    """The positions of the bank rows that select the same table rows."""
    selected = np.concatenate([bank.keys, bank.codes], axis=1)
    which = np.unique(selected, axis=0, return_inverse=True)[1].ravel()
    return [np.flatnonzero(which == i) for i in range(int(which.max(initial=-1)) + 1)]


def reads_own_row(bank: Bank) -> bool:
    """Whether anything is read in the table row for which a verdict is asked."""
    return bool(bank.slots.shape[1]) or any(
        bool(table.slots.shape[1])
        if table.table_rows is None
        else bool((table.table_rows.depths == 0).any())
        for table in bank.members
    )


def gather_values(
    values: NDArray[np.float64], at: Index, members: TableMembers
) -> NDArray[np.float64]:
    """What members read of `values` [V, B, C] for the table rows `at` [P]: [s, P, E]."""
    table = members.table
    depths: Sequence[int] = (
        [0] * table.slots.shape[1] if table.table_rows is None else table.table_rows.depths.tolist()
    )
    shape = (at.size, table.count)
    read = [
        np.broadcast_to(
            values[view, members.rows[depth - 1] if depth else at[:, None], column], shape
        )
        for depth, view, column in zip(depths, table.views.T, table.slots.T, strict=True)
    ]
    return np.stack(read) if read else np.zeros((0, *shape))


BUDGET = 4_000_000
"""Numbers gathered at once: bank rows are taken in chunks so that B x rows x s stays below it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BankValues:
    """The verdicts of a bank's rows on a table.

    Attributes:
        robustness: float64 [B, R], in the unit of each bank row: how far it is from being violated
            or, if negative, from being satisfied. NaN where unknown or not applicable; infinite
            where no number decides. A strict comparison of equal numbers has robustness 0 and is
            violated.
        satisfied: bool [B, R]. Where a bank row is applicable, exactly one of `satisfied`,
            `violated` and `unknown` is true; elsewhere none is.
        violated: bool [B, R].
        unknown: bool [B, R].
        applicable: bool [B, R], whether the table row has the categories that the bank row's keys
            select. For an `Initially` formula, it must also be the first step of its trace, or the
            first of the selected rows in the trace.
        fired: bool [B, R], applicable and, if the formula is an implication, with a satisfied
            antecedent.
    """

    robustness: Float
    satisfied: Bool
    violated: Bool
    unknown: Bool
    applicable: Bool
    fired: Bool


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """The numbers on which the formulas of a bank or of a member table are evaluated: a `Scope`.

    Attributes:
        values: float64 [V, table rows, C], the whole table in each view.
        at: int64 [B], the table row of each place; -1 if it has none, so that every atom is unknown
            there.
        slots: float64 [s, B, M], the value of each slot.
        params: float64 [p, M], the parameters of each member.
        tables: the bank's member tables.
        others: for a bank that reads other table rows, its members on them; else empty.
        grid: the traces, with the B places as steps; None for formulas that are not temporal.
    """

    values: Float
    at: NDArray[np.int64]
    slots: Float
    params: Float
    tables: tuple[MemberTable, ...]
    grid: Grid | None
    others: tuple[TableMembers, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """(B, M)."""
        return self.at.shape[0], self.params.shape[1]

    @property
    def steps(self) -> Grid:
        """The grid. Only nodes over time ask for it, and formulas with such nodes are evaluated on
        one.
        """
        assert self.grid is not None, "a temporal formula is evaluated on a grid of steps"
        return self.grid

    def members(self, table: int) -> _Scope:
        """The scope of a member table."""
        found = self.tables[table]
        return replace(
            self,
            slots=finite(gather_values(self.values, self.at, self.others[table]))
            if self.others
            else _gather(self.values, self.at, found.views, found.slots),
            params=finite(found.params.T),
        )

    def offsets(self, table: int) -> NDArray[np.int64]:
        """The owner of each member in a member table."""
        return self.tables[table].offsets

    def atom(self, margin: Float, *, strict: bool) -> Verdict:
        """An atom's verdict from its margin; unknown if the table has no row."""
        if self.grid is not None and margin.ndim > 1:  # numbers alone, [M], are known at all steps
            margin = np.where((self.at < 0)[:, None], np.nan, margin)
        return atom(margin, strict=strict, shape=self.shape)

    def best(self, lead: Float, *, strict: bool) -> Verdict:
        """As `atom`: a tie is decided."""
        return self.atom(lead, strict=strict)


def evaluate_bank(bank: Bank, values: Float, timing: Timing | None = None) -> BankValues:
    """The verdict of every bank row on every table row.

    Args:
        bank: R constraints of one shape.
        values: float64 [V, B, C] in source units; categories as codes, Booleans as 0 and 1, NaN (or
            infinite) where unknown. For a bank that reads other table rows, the whole table.
        timing: the position of each table row in time, for temporal formulas; None: the rows are
            the steps of one trace, in their order, and windows end ``strict``. The steps of a bank
            row with keys are the table rows that have them, in each trace.
    """
    if is_temporal(bank.skeleton):
        return _over_time(bank, values, timing or Timing.rows(values.shape[1]))
    if bank.reads_other_rows:
        return _across_rows(bank, values)
    at = np.arange(values.shape[1])
    parts = [_rows(part, values, at) for part in _chunks(bank, values.shape[1])]
    if len(parts) == 1:
        return parts[0]
    return BankValues(
        **{
            f.name: np.concatenate([getattr(part, f.name) for part in parts], axis=1)
            for f in fields(BankValues)
        }
    )


def _across_rows(bank: Bank, values: Float) -> BankValues:
    """The verdicts of a bank with members in other table rows: `values` is the whole table."""
    shape = (values.shape[1], bank.rows)
    out = _no_verdicts(shape)
    for mine in group_equal_keys(bank):
        part = bank.take(mine)
        (places,) = find_matching_rows(part.keys[:1], part.codes[:1], values[0])
        members = repeat_members(part, values[0])
        tables = tuple(one.table for one in members)
        part = replace(part, members=tables)
        once = places[:1] if not reads_own_row(part) else places
        read = sum(table.slots.size + table.count for table in tables)
        step = max(1, BUDGET // max(1, part.slots.size, read))
        for start in range(0, once.size, step):
            at = once[start : start + step]
            applicable = np.ones((at.size, part.rows), dtype=np.bool_)
            found = _bank_values(part, values, at, applicable, None, members)
            rows = at if once.size == places.size else places
            for field in fields(BankValues):
                getattr(out, field.name)[np.ix_(rows, mine)] = getattr(found, field.name)
    return out


def _no_verdicts(shape: tuple[int, int]) -> BankValues:
    """The verdicts [B, R] of bank rows that are applicable nowhere."""
    no = {
        f.name: np.zeros(shape, dtype=np.bool_)
        for f in fields(BankValues)
        if f.name != "robustness"
    }
    return BankValues(robustness=np.full(shape, np.nan), **no)


def _chunks(bank: Bank, places: int) -> list[Bank]:
    """The bank in parts small enough to be evaluated at once; one part at least."""
    read = bank.slots.shape[1] * bank.rows + sum(table.slots.size for table in bank.members)
    step = max(1, BUDGET * max(1, bank.rows) // max(1, places * max(bank.rows, read)))
    if step >= bank.rows:
        return [bank]
    return [
        bank.take(np.arange(start, min(start + step, bank.rows)))
        for start in range(0, bank.rows, step)
    ]


def _rows(bank: Bank, values: Float, at: NDArray[np.int64]) -> BankValues:
    applicable = np.ones((at.shape[0], bank.rows), dtype=np.bool_)
    for column, code in zip(bank.keys.T, bank.codes.T, strict=True):
        applicable &= (column < 0) | (values[0][:, column] == code)
    return _bank_values(bank, values, at, applicable, None)


def _bank_values(
    bank: Bank,
    values: Float,
    at: NDArray[np.int64],
    applicable: Bool,
    grid: Grid | None,
    others: tuple[TableMembers, ...] = (),
) -> BankValues:
    """The bank's verdicts at B places, where `applicable` [B, R]."""
    slots, params = _gather(values, at, bank.views, bank.slots), finite(bank.params.T)
    scope = _Scope(values, at, slots, params, bank.members, grid, others)
    with np.errstate(all="ignore"):
        skeleton = bank.skeleton
        fired = applicable
        if isinstance(skeleton, Implies):
            antecedent = skeleton.antecedent.verdict(scope)
            fired = applicable & antecedent.holds
            verdict = either((opposite(antecedent), skeleton.consequent.verdict(scope)))
        else:
            verdict = skeleton.verdict(scope)
    satisfied, violated = applicable & verdict.holds, applicable & verdict.fails
    robustness = np.where(satisfied, verdict.low, np.where(violated, verdict.high, np.nan)) + 0.0
    return BankValues(
        robustness=robustness,
        satisfied=satisfied,
        violated=violated,
        unknown=applicable & ~verdict.holds & ~verdict.fails,
        applicable=applicable,
        fired=fired,
    )


def _over_time(bank: Bank, values: Float, timing: Timing) -> BankValues:
    """The verdicts of a temporal formula: rows with the same keys look at the same steps."""
    shape = (values.shape[1], bank.rows)
    out = _no_verdicts(shape)
    first_only = isinstance(bank.skeleton, Initially)
    pairs, which = np.unique(
        np.concatenate([bank.keys, bank.codes], axis=1), axis=0, return_inverse=True
    )
    width = bank.keys.shape[1]
    for i, pair in enumerate(pairs):
        mine = np.flatnonzero(which.ravel() == i)
        matching = np.ones(values.shape[1], dtype=np.bool_)
        for key, code in zip(pair[:width], pair[width:], strict=True):
            if key >= 0:
                matching &= values[0][:, key] == code
        about = np.flatnonzero(matching)
        if not first_only:
            for flags in (out.applicable, out.unknown):
                flags[np.ix_(about, mine)] = True
        part = bank.take(mine)
        for grid in grids(timing, about, values[0], _window_reach(part)):
            kept = (
                grid.cells % grid.at.shape[1] == 0
                if first_only
                else np.ones(grid.cells.size, dtype=np.bool_)
            )
            done = 0
            for chunk in _chunks(part, grid.at.size):
                columns = mine[done : done + chunk.rows]
                done += chunk.rows
                found = _bank_values(
                    chunk,
                    values,
                    grid.at.ravel(),
                    np.ones((grid.at.size, chunk.rows), dtype=np.bool_),
                    grid,
                )
                for field in fields(BankValues):
                    getattr(out, field.name)[np.ix_(grid.rows[kept], columns)] = getattr(
                        found, field.name
                    )[grid.cells[kept]]
    return out


def _window_reach(bank: Bank) -> int:
    """How many steps the formula looks ahead and back at most, windows without an end counted to
    their beginning.
    """
    total = 0.0
    for table, part in everywhere(bank.skeleton):
        params = bank.params if table < 0 else bank.members[table].params
        steps = list(part.step_params())
        if steps and params.shape[0]:
            total += params[:, steps].max()
    return int(min(total, 2**40))


def _gather(
    values: Float, at: NDArray[np.int64], views: NDArray[np.int32], slots: NDArray[np.int32]
) -> Float:
    """The values of rows or members at each place: [s, B, M], NaN where not finite or without a
    table row.
    """
    if not values.shape[1]:
        return np.full((slots.shape[1], at.shape[0], slots.shape[0]), np.nan)
    read = values[views.T[:, None, :], at[:, None], slots.T[:, None, :]]
    return finite(np.where((at < 0)[:, None], np.nan, read))
