"""Every single violation of a pack by a table: which bound row, on which table row.

A bound row that compares one column with a number, or with another column, is one vectorised
comparison of columns; all others go through the interpreter. Both say the same
(`tests/fedkg/evaluation/test_violations.py`). Letters: B table rows, R rows of a bank, V
violations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.evaluation.table_readings import Readings, table_values
from fedkg.evaluation.table_time_steps import table_timing
from fedkg.pack import Bank, Compare, Known, Pack, Param, Slot, is_temporal
from fedkg.tables import Table

CHUNK = 500_000
"""Bank rows x table rows that the interpreter is given at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Violations:
    """V violations: `rule`, `bound` (position among all bound rows, banks one after the other) and
    `row` (from 0), int64 [V], sorted.
    """

    rule: NDArray[np.int64]
    bound: NDArray[np.int64]
    row: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.rule.size)

    def to_json(self, pack: Pack, table: Table, *, most: int = 1000) -> list[dict[str, Any]]:
        """The first `most` violations as plain data: rule, its severity, entity or subject, table
        row (from 1). `Any`: JSON.
        """
        entities = (
            np.concatenate([bank.entity for bank in pack.banks])
            if pack.banks
            else np.empty(0, dtype=np.int64)
        )
        rules, names = pack.manifest.rules, pack.manifest.entities
        subjects = table.texts(table.subject) if table.subject else None
        return [
            {"rule": rules[rule].name, "severity": rules[rule].severity}
            | {
                "entity": names[int(entities[bound])] or (subjects and subjects[row]) or None,
                "row": row + 1,
                "where": table.where(row),
            }
            for rule, bound, row in zip(
                self.rule[:most].tolist(),
                self.bound[:most].tolist(),
                self.row[:most].tolist(),
                strict=True,
            )
        ]


def violations(pack: Pack, table: Table) -> Violations:
    """Where the table violates the pack. Raises TableError as `evaluate` does."""
    readings = table_values(pack.manifest.contract, table)
    columns = np.ascontiguousarray(readings.base.T)
    found: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    first = 0
    for bank in pack.banks:
        if bank.reads_other_rows:
            rows, bound = np.nonzero(evaluate_bank(bank, readings.values).violated)
        elif is_temporal(bank.skeleton):
            timing = table_timing(pack.manifest.contract, table, "error")[0]
            rows, bound = np.nonzero(evaluate_bank(bank, readings.values, timing).violated)
        else:
            bound, rows = (
                _simple(bank, columns) if _is_simple(bank, readings) else _general(bank, readings)
            )
        found.append((bank.rule.astype(np.int64)[bound], bound + first, rows))
        first += bank.rows
    if not found:
        nothing = np.empty(0, dtype=np.int64)
        return Violations(nothing, nothing, nothing)
    rule, bound, row = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((row, bound, rule))
    return Violations(rule[order], bound[order], row[order])


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolatingRow:
    """One violation with its value.

    Attributes:
        rule: the name of the rule. entity: what the bound row is about, or "".
        row: the table row, from 0. line: its line in the file, None if not known.
        value: the number or text in the only column that the bound row reads; None if it reads
            several columns, or if the cell is empty.
    """

    rule: str
    entity: str
    row: int
    line: int | None
    value: float | str | None


def violating_rows(pack: Pack, table: Table) -> list[ViolatingRow]:
    """Return each violation of a pack by a table with its value. Raises TableError as `evaluate`
    does.
    """
    found = violations(pack, table)
    names, rules, columns = (
        pack.manifest.entities,
        pack.manifest.rules,
        pack.manifest.contract.columns,
    )
    bound = [(bank, i) for bank in pack.banks for i in range(bank.rows)]
    rows: list[ViolatingRow] = []
    for rule, at, row in zip(
        found.rule.tolist(), found.bound.tolist(), found.row.tolist(), strict=True
    ):
        bank, i = bound[at]
        read = set(bank.slots[i].tolist())
        value: float | str | None = None
        if len(read) == 1:
            column = columns[read.pop()]
            if column.type == "category":
                value = table.texts(column.source)[row] or None
            else:
                number = float(table.numbers(column.source)[row])
                value = None if np.isnan(number) else number
        rows.append(
            ViolatingRow(
                rule=rules[rule].name,
                entity=names[int(bank.entity[i])],
                row=row,
                line=int(table.lines[row]) if table.lines.size else None,
                value=value,
            )
        )
    return rows


def _is_simple(bank: Bank, readings: Readings) -> bool:
    """Whether all rows are plain comparisons of columns with numbers or columns, on the table as it
    is.
    """
    if bank.keys.shape[1] and bool((bank.keys >= 0).any()):
        return False
    if any(readings.contract.views[int(view)].kind != "base" for view in np.unique(bank.views)):
        return False
    match bank.skeleton:
        case Known():
            return True
        case Compare(op="le" | "lt", left=Slot() | Param(), right=Slot() | Param(), tolerance=None):
            return bool(np.isfinite(bank.params).all())
    return False


def _simple(
    bank: Bank, columns: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bound rows and table rows; an unknown value is NaN, for which every comparison is false."""
    skeleton = bank.skeleton
    found = []
    with np.errstate(invalid="ignore"):
        for i in range(bank.rows):
            if isinstance(skeleton, Known):
                broken = ~np.isfinite(columns[bank.slots[i, skeleton.slot]])
            else:
                assert isinstance(skeleton, Compare)
                left, right = (
                    _side(side, bank, i, columns) for side in (skeleton.left, skeleton.right)
                )
                broken = np.asarray(left > right if skeleton.op == "le" else left >= right)
            found.append(np.flatnonzero(broken))
    sizes = [rows.size for rows in found]
    return np.repeat(np.arange(bank.rows), sizes), np.concatenate(
        [np.empty(0, dtype=np.int64), *found]
    )


def _side(
    term: object, bank: Bank, row: int, columns: NDArray[np.float64]
) -> NDArray[np.float64] | np.float64:
    if isinstance(term, Param):
        return np.float64(bank.params[row, term.index])
    assert isinstance(term, Slot)
    return np.asarray(columns[bank.slots[row, term.index]])


def _general(bank: Bank, readings: Readings) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    step = max(1, CHUNK // max(1, bank.rows))
    plain = not bool(bank.views.any())  # view 0 is the table as it is
    bounds, rows = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for start in range(0, readings.base.shape[0], step):
        at = np.arange(start, min(start + step, readings.base.shape[0]))
        values = readings.base[None, start : at[-1] + 1] if plain else readings.part(at)
        row, bound = np.nonzero(evaluate_bank(bank, values).violated)
        bounds.append(bound)
        rows.append(at[row])
    return np.concatenate(bounds), np.concatenate(rows)
