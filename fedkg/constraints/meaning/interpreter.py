"""The meaning of every formula in its most obvious form: NumPy, float64, source units.

All other engines are held to this one.

Letters: V views, B table rows (or steps of traces laid out as a grid), C columns of the contract, R
rows of a bank, M members of a member table or rows of a bank, s slots, p parameters of its
skeleton.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.members_in_table_rows import (
    TableMembers,
    find_matching_rows,
    gather_values,
    group_equal_keys,
    reads_own_row,
    repeat_members,
)
from fedkg.constraints.meaning.trace_grids import Timing, grids
from fedkg.pack.bank import Bank, MemberTable
from fedkg.pack.formulas import Implies, Initially, everywhere, is_temporal
from fedkg.pack.numeric.three_valued_logic import (
    Bool,
    Float,
    Verdict,
    atom,
    either,
    finite,
    opposite,
)
from fedkg.pack.numeric.trace_grid import Grid

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
        margin = np.broadcast_to(margin, self.shape)
        return atom(
            np.where((self.at < 0)[:, None], np.nan, margin) if self.grid is not None else margin,
            strict=strict,
            shape=self.shape,
        )

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
