"""Changes of the data contract (time steps, column contents) that change rules with equal text."""

from __future__ import annotations

from collections.abc import Iterable

from fedkg.pack import Column, DataContract
from fedkg.pack.walk import everywhere
from fedkg_compiler.analysis.bound_row_table import RowTable
from fedkg_compiler.analysis.window_subsumption import windows


class Changes:
    """The differences of two contracts that matter, and the rules that they matter to."""

    def __init__(self, old: DataContract, new: DataContract) -> None:
        self.end = f"timeline ends {old.end} -> {new.end}" if old.end != new.end else ""
        self.step = (
            f"timeline step {_seconds(old.step)} -> {_seconds(new.step)}"
            if old.step != new.step
            else ""
        )
        pairs = (("trace column", old.trace, new.trace), ("time column", old.time, new.time))
        self.order = tuple(
            f"{what} {_named(before)} -> {_named(after)}"
            for what, before, after in pairs
            if before != after
        )
        before, after = (
            {_column_key(column): column for column in contract.columns} for contract in (old, new)
        )
        self.columns = {
            key: _column(before[key], after[key])
            for key in before
            if key in after and _column(before[key], after[key])
        }

    def concerning(
        self, table: RowTable, old: Iterable[int], new: Iterable[int]
    ) -> tuple[str, ...]:
        """What changed the meaning of a rule, given its rows in both packs."""
        contract = table.pack.manifest.contract
        rows = {"old": list(old), "new": list(new)}
        both = [*rows["old"], *rows["new"]]
        read = {name: self._columns(table, of) for name, of in rows.items()}
        found: dict[str, None] = {
            self.columns[key]: None
            for key in self.columns
            if key in read["old"] and key in read["new"]
        }
        parts = [
            part for row in self._models(table, both) for _, part in everywhere(table.skeleton(row))
        ]
        seen = {
            view
            for row in both
            for number in table.reads(row)
            for view, _, _ in table.variables.items[number].readings
        }
        views = [contract.views[view] for view in seen if contract.views[view].kind == "previous"]
        windowed = any(part.step_params() for part in parts)
        if self.end and any(self._reaches_on(table, row) for row in both):
            found[self.end] = None
        if self.step and (windowed or any(view.steps for view in views)):
            found[self.step] = None
        if views or any(part.over_time for part in parts):
            found.update(dict.fromkeys(self.order))
        return tuple(found)

    def _models(self, table: RowTable, rows: Iterable[int]) -> list[int]:
        """One row of each bank."""
        return list({int(table.bank[row]): row for row in rows}.values())

    def _columns(self, table: RowTable, rows: Iterable[int]) -> set[tuple[str, ...]]:
        columns = table.pack.manifest.contract.columns
        numbers = {number for row in rows for number in table.reads(row)}
        return {
            _column_key(columns[column])
            for number in numbers
            for _, column, _ in table.variables.items[number].readings
        }

    def _reaches_on(self, table: RowTable, row: int) -> bool:
        """Whether a row has a window with an end, beyond the step itself: one that the end of a
        trace can cut.
        """
        bank = int(table.bank[row])
        return any(
            (table.readers[bank][window.table].params[:, window.part.high] > 0).any()
            for window in windows(table.skeleton(row))
        )


def _column_key(column: Column) -> tuple[str, ...]:
    return column.source, column.role, column.label, column.category


def _column(old: Column, new: Column) -> str:
    """What changed of a column: "" where nothing did."""
    if old.type != new.type:
        return f"column `{new.source}` {old.type} -> {new.type}"
    return (
        f"column `{new.source}` in {old.unit or 'no unit'} -> {new.unit or 'no unit'}"
        if old.unit != new.unit
        else ""
    )


def _named(name: str | None) -> str:
    return f"`{name}`" if name else "none"


def _seconds(step: float | None) -> str:
    return "none" if step is None else f"{step:g} s"
