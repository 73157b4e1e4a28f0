"""From a table to the value matrix that formulas are evaluated on.

Letters: V views, B table rows, C columns of the contract.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import nearest_header
from fedkg.constraints.meaning.trace_grids import Timing
from fedkg.errors import TableError
from fedkg.evaluation.category_codes import codes, foreign_classes, list_some, one_hot, truths
from fedkg.evaluation.table_timing import steps_before, table_timing
from fedkg.pack import Column, DataContract, View
from fedkg.tables import Table, is_unknown

Needs = Mapping[int, tuple[str, ...]]
"""Which rules read a column: rule names by position in the contract."""

_NUMBERED = re.compile(r"column \d+")
"""The header of a column in a table without headers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Readings:
    """A table as the contract's columns and views see it.

    Attributes:
        contract: the contract that defines these columns and views.
        base: float64 [B, C]: numbers in the table's unit, categories as codes (-2: a text that the
            vocabulary lacks), Booleans as 0 and 1, scores as 1 for the class in the cell and 0 for
            the others; NaN where unknown.
        before: for each view int64 [B], the row before each row in its group (-1: none), or None
            for views that do not look back.
        times: the texts of the time column, or None.
        missing: positions of the contract's columns that the table lacks (or that nobody needs);
            NaN throughout.
        notes: sentences about columns that a person should know.
    """

    contract: DataContract
    base: NDArray[np.float64]
    before: tuple[NDArray[np.int64] | None, ...]
    times: list[str] | None
    missing: frozenset[int]
    notes: tuple[str, ...]

    @property
    def values(self) -> NDArray[np.float64]:
        """All rows in all views: float64 [V, B, C]."""
        return self.part(np.arange(self.base.shape[0]))

    def part(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Some rows in all views: float64 [V, len(rows), C].

        In a raised view outputs are unknown: only a model can say what it would predict.
        """
        out = np.empty(
            (len(self.contract.views), rows.shape[0], self.base.shape[1]), dtype=np.float64
        )
        outputs = [i for i, column in enumerate(self.contract.columns) if column.role == "output"]
        for v, (view, before) in enumerate(zip(self.contract.views, self.before, strict=True)):
            if before is not None:
                source = before[rows]
                out[v] = self.base[source]
                out[v, source < 0] = np.nan
                continue
            out[v] = self.base[rows]
            if view.kind == "raised":
                out[v][:, outputs] = np.nan
                if view.column is not None:
                    out[v, :, view.column] += view.delta
        return out


def table_values(
    contract: DataContract,
    table: Table,
    *,
    needs: Needs | None = None,
    missing: Literal["error", "skip"] = "error",
    timing: Timing | None = None,
) -> Readings:
    """The table's rows as the contract's columns and views see them.

    Args:
        contract: what the rules read.
        table: the rows.
        needs: the columns that are read, with the rules that do; all of them when None.
        missing: what to do about an input column that the table lacks. A missing output is never an
            error: then only the checks of data are possible.
        timing: the position of each row in time; None: as `table_timing` reads it.

    Raises:
        TableError: when an input column is missing (names file, header, rules and the nearest
            header), holds text instead of numbers, or occurs twice with different contents.
    """
    wanted = dict.fromkeys(range(len(contract.columns)), ()) if needs is None else dict(needs)
    absent = {i for i in wanted if contract.columns[i].source not in table}
    lacking = [i for i in sorted(absent) if contract.columns[i].role == "input"]
    groups = _groups(contract)
    if missing == "error":
        _refuse_missing(
            contract, table, lacking, wanted, [group for group in groups if group not in table]
        )
    base = np.full(
        (table.rows, len(contract.columns)), np.nan, order="F"
    )  # columns are read one by one
    notes: list[str] = []
    read: dict[tuple[str, str], NDArray[np.float64]] = {}
    for i in sorted(set(wanted) - absent):
        column = contract.columns[i]
        _refuse_twofold(table, column.source)
        key = (column.source, column.type)
        if column.type in ("real", "boolean") and key in read:
            base[:, i] = read[key]
            continue
        base[:, i], said = _column(contract, column, table, wanted[i])
        read[key] = base[:, i]
        notes += said
    times, said = _times(contract, table)
    if timing is None and (
        any(view.steps for view in contract.views)
        and contract.time is not None
        and contract.time in table
    ):
        timing, timing_notes = table_timing(contract, table, missing)
        said += timing_notes
    return Readings(
        contract=contract,
        base=base,
        before=tuple(_before(view, contract, table, timing, base) for view in contract.views),
        times=times,
        missing=frozenset(absent | (set(range(len(contract.columns))) - set(wanted))),
        notes=tuple(dict.fromkeys(notes + said)),
    )


def rules_text(rules: Sequence[str]) -> str:
    """``rule `a` needs`` or ``rules `a`, `b` and 3 more need``."""
    return f"rule `{rules[0]}` needs" if len(rules) == 1 else f"rules {list_some(rules)} need"


def _refuse_missing(
    contract: DataContract,
    table: Table,
    lacking: Sequence[int],
    needs: Needs,
    groups: Sequence[str],
) -> None:
    rules: dict[str, dict[str, None]] = {group: {} for group in groups}
    for i in lacking:
        rules.setdefault(contract.columns[i].source, {}).update(dict.fromkeys(needs[i]))
    if not rules:
        return
    if len(rules) == 1:
        [(header, names)] = rules.items()
        others = next((c.alternatives for c in contract.columns if c.source == header), ())
        raise table.missing(
            header,
            needed=rules_text(list(names)) if names else "the rules need",
            alternatives=others,
        )
    close = {header: nearest_header(header, table.headers) for header in rules}
    parts = [
        f"`{header}`" + (f" (did you mean `{close[header]}`?)" if close[header] else "")
        for header in list(rules)[:10]
    ]
    everyone = list(dict.fromkeys(name for names in rules.values() for name in names))
    raise TableError(
        f"{table.name}: {len(rules)} columns are missing"
        + (f", which {rules_text(everyone)}" if everyone else ""),
        expected=", ".join(parts) + (f" and {len(rules) - 10} more" if len(rules) > 10 else ""),
        received="columns " + list_some(table.headers, 12),
        help="fedkg found no headers; write a first row with one header for each column"
        if all(_NUMBERED.fullmatch(header) for header in table.headers)
        else "",
    )


def _refuse_twofold(table: Table, header: str) -> None:
    """A header that occurs twice is unambiguous if both columns have the same contents."""
    if header not in table.found.duplicates:
        return
    first, second = (
        table.texts(header),
        table.texts(f"{header} (2)") if f"{header} (2)" in table else None,
    )
    if second is not None and first != second:
        raise TableError(
            f"{table.name}: column `{header}` occurs more than once, with different contents",
            help="give each column a unique header",
        )


def _column(
    contract: DataContract, column: Column, table: Table, rules: Sequence[str]
) -> tuple[NDArray[np.float64], list[str]]:
    """One column's values and the notes about them."""
    header = column.source
    if column.type == "category":
        return codes(table.texts(header), column.vocabulary, header)
    if column.type == "score":
        classes = tuple(
            other.category
            for other in contract.columns
            if other.type == "score" and other.label == column.label
        )
        return one_hot(table.texts(header), column.category, classes), foreign_classes(
            table, header, classes
        )
    try:
        values = table.truths(header) if column.type == "boolean" else table.numbers(header)
    except TableError as error:
        needed = f", which {rules_text(rules)}" if rules else ""
        raise TableError(
            error.message + needed,
            expected=error.expected,
            received=error.received,
            help=error.help,
        ) from error
    if column.type == "boolean":
        values, said = truths(values, header)
        if said:
            return values, said
    known = values[~np.isnan(values)]
    if not known.size:
        return values, ([f"column `{header}` has no known value in any row"] if table.rows else [])
    if column.span is not None:
        low, high = column.span
        outside = float(np.mean((known < low) | (known > high)))
        if outside > 0.5:
            unit = f" {column.unit}" if column.unit else ""
            return values, [
                (
                    f"{outside:.0%} of column `{header}` lies outside its span {low:g} .. "
                    f"{high:g}{unit}: is the unit right?"
                )
            ]
    return values, []


def _groups(contract: DataContract) -> list[str]:
    """Headers that tell groups apart in views that look back."""
    looks_back = [view for view in contract.views if view.kind == "previous"]
    headers = [group for view in looks_back for group in view.groups] + (
        [contract.trace] if looks_back and contract.trace else []
    )
    return list(dict.fromkeys(headers))


def _before(
    view: View,
    contract: DataContract,
    table: Table,
    timing: Timing | None,
    base: NDArray[np.float64],
) -> NDArray[np.int64] | None:
    """For each row the row before it in its group, and in its trace; -1 for the first ones and
    where the group is unknown.

    Views that count steps follow `timing`, where the table has times.
    """
    if view.kind != "previous":
        return None
    rows = np.arange(table.rows, dtype=np.int64)
    headers = list(
        dict.fromkeys(
            header for header in (*view.groups, contract.trace) if header and header in table
        )
    )
    if any(group not in table for group in view.groups):
        return np.full(table.rows, -1, dtype=np.int64)
    on_timeline = timing if view.steps else None
    if not headers and on_timeline is None:
        return rows - 1
    group = np.zeros(table.rows, dtype=np.int64)
    known = np.ones(table.rows, dtype=np.bool_)
    for header in headers:
        texts = table.texts(header)
        numbers = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        group = group * (len(numbers) + 1) + np.array(
            [numbers[text] for text in texts], dtype=np.int64
        )
        known &= np.array([not is_unknown(text) for text in texts], dtype=np.bool_)
    if on_timeline is not None:
        return steps_before(on_timeline, np.where(known, group, -1), base)
    order = np.argsort(group, kind="stable")
    before = np.full(table.rows, -1, dtype=np.int64)
    same = group[order[1:]] == group[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    before[~known] = -1
    return before


def _times(contract: DataContract, table: Table) -> tuple[list[str] | None, list[str]]:
    if contract.time is None:
        return None, []
    if contract.time not in table:
        close = nearest_header(contract.time, table.headers)
        return None, [
            f"time column `{contract.time}` is missing"
            + (f"; did you mean `{close}`?" if close else "")
        ]
    texts = table.texts(contract.time)
    if contract.trace is None and any(
        view.kind == "previous" and not view.groups and not view.steps for view in contract.views
    ):
        try:
            read, said = table.times(contract.time)
        except TableError:
            # an ambiguous date is not fatal: the times only tell whether rows follow each other
            return texts, []
        moments = [moment for moment in read if moment is not None]
        back = sum(1 for earlier, later in pairwise(moments) if later < earlier)
        if back:
            stepped = (
                f"the times in `{contract.time}` step back {back} "
                f"time{'s' * (back > 1)}: `previous` means the row before"
            )
            return texts, [*([said] if said else []), stepped]
    return texts, []
