"""Rules over a table: how often each is satisfied, violated and unknown, where it is worst, and
every single violation.

Letters: B table rows, R rows of a bank, V violations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.errors import UsageError
from fedkg.evaluation.category_codes import list_some
from fedkg.evaluation.knowledge_on_table import (
    knowledge_columns,
    label_notes,
    over_time,
    table_agreement,
)
from fedkg.evaluation.result import (
    Cases,
    EntityCounts,
    EntityTally,
    Evaluation,
    Place,
    RuleResult,
    Tally,
    Worst,
    is_telling,
    margin_scales,
)
from fedkg.evaluation.row_explanation import readings_text
from fedkg.evaluation.table_readings import (
    Meant,
    Readings,
    all_keys,
    keys_by_rule,
    keys_notes,
    rules_text,
    strangers_notes,
    table_values,
)
from fedkg.evaluation.table_time_steps import (
    Ends,
    Gaps,
    doubled,
    doubled_notes,
    table_timing,
    whole_traces,
)
from fedkg.evaluation.violating_window_row import row_at_fault
from fedkg.pack import Bank, Compare, Known, Pack, Param, Slot, is_temporal
from fedkg.pack.bank import columns_read, reads, rows_that
from fedkg.tables import Table

EVALUATIONS = 2_000_000
"""Bank rows x table rows evaluated at once."""

CELLS = 4_000_000
"""Views x table rows x columns held at once."""

SMALL = 500_000
"""Up to this number of evaluations a bank is evaluated as a whole, even if most rows do not apply.
"""


def evaluate(
    pack: Pack, table: Table, *, missing: Literal["error", "skip"] = "error"
) -> Evaluation:
    """Evaluate the rules of a pack on a table.

    An evaluation is one bound row of a rule on one table row that it applies to. All bound rows of
    a shape for one focus node are one evaluation.

    Args:
        pack: compiled rules.
        table: the rows, in the units of the pack's contract.
        missing: if the table lacks an input column that a rule reads: ``error`` raises, ``skip``
            leaves out the rule.

    Raises:
        UsageError: `pack` or `table` is something else, such as a path or a data frame.
        TableError: a column (or, for rules over time, the time column) is missing or contains text
            instead of numbers.
    """
    if not isinstance(pack, Pack):
        raise UsageError(
            "fedkg.evaluate cannot use its argument `pack`",
            expected="a Pack",
            received=type(pack).__name__,
            help='pass fedkg.compile("rules.fkg"), or fedkg.load("rules.fkgpack")',
        )
    if not isinstance(table, Table):
        raise UsageError(
            "fedkg.evaluate cannot use its argument `table`",
            expected="a Table",
            received=type(table).__name__,
            help='pass fedkg.read_table("data.csv"); save a data frame as CSV or Parquet first',
        )
    return _evaluate(pack, table, missing, None)


def _evaluate(
    pack: Pack,
    table: Table,
    missing: Literal["error", "skip"],
    broken_rows: list[tuple[Bank, NDArray[np.int64], NDArray[np.int64]]] | None,
) -> Evaluation:
    """Evaluate; append banks, with their violated rows and the table rows, to `broken_rows`."""
    contract = pack.manifest.contract
    table = table.with_headers((one.source, one.alternatives) for one in contract.columns)
    readings = table_values(contract, table, needs=find_columns_read(pack), missing=missing)
    steps = frozenset(
        i for i, view in enumerate(contract.views) if view.steps and contract.time is not None
    )
    needed = describe_rules_over_time(pack, steps)
    over_steps = bool(steps or needed)
    timing, timing_notes = (
        table_timing(contract, table, missing, needed=needed)
        if over_steps
        else (Timing.rows(table.rows), ())
    )
    knowledge = table_agreement(pack, readings, table, timing) if pack.manifest.knowledge else ()
    ends, gaps, twice = Ends(), Gaps(steps), dict[tuple[int, ...], tuple[int, int, int] | None]()
    tally, entities = Tally.empty(len(pack.manifest.rules)), EntityTally.empty(pack)
    scales = margin_scales(pack)
    cases = Cases(pack, readings, from_graph=bool(table.subject))
    bound = np.zeros(len(pack.manifest.rules), dtype=np.int64)
    modelled, answered = np.zeros_like(bound), np.zeros_like(bound)
    lacking: list[set[int]] = [set() for _ in pack.manifest.rules]
    for bank in pack.banks:
        np.add.at(bound, bank.rule, 1)
        asks_model = find_raised_outputs(bank, readings)
        np.add.at(modelled, bank.rule[asks_model], 1)
        lacks = find_missing_columns(bank, readings, lacking)
        evaluable = np.flatnonzero(~asks_model & ~lacks)
        np.add.at(answered, bank.rule[evaluable], 1)
        if over_steps:
            doubled(bank, timing, readings.base, twice, steps=steps)
            gaps.add(bank, timing, readings.base)
        for rows, at in split_bank(bank.take(evaluable), readings, timing):
            read, when = readings.part(at), timing.take(at)
            values = evaluate_bank(rows, read, when)
            tally = tally.with_bank(rows, values, at, scales)
            entities.add(rows, values)
            cases.add(rows, values, at)
            if broken_rows is not None:
                row, violated = np.nonzero(values.violated)
                broken_rows.append((rows, violated, at[row]))
            if over_steps:
                ends.add(rows, read, when, values)
    cases.settle(tally, entities)
    keys, meant = keys_by_rule(pack, readings), Meant(readings, table)
    no_rows = [
        keys_notes(keys[i], readings, meant) if i in keys else ()
        for i in range(len(pack.manifest.rules))
    ]
    broken = [entities.broken(i, pack.manifest.entities) for i in range(len(pack.manifest.rules))]
    counted = [cases.bound_to(i, rows) for i, rows in enumerate(bound.tolist())]
    worsts = [_worst(pack, readings, timing, found) for found in tally.worst]
    results = tuple(
        _result(
            pack,
            readings,
            tally,
            i,
            counts,
            lacking[i],
            broken[i],
            no_rows[i],
            ends.note(i, contract) if over_steps else "",
            worst,
        )
        for i, (worst, counts) in enumerate(
            zip(
                worsts,
                map(_Bound, bound.tolist(), modelled.tolist(), answered.tolist(), counted),
                strict=True,
            )
        )
    )
    labels = label_notes(pack, table) if pack.manifest.knowledge else ()
    general_notes = dict.fromkeys([*readings.notes, *labels, *timing_notes])
    twice_notes: tuple[str, ...] = ()
    if over_steps:
        general_notes |= dict.fromkeys(gaps.notes(contract, table))
        twice_notes = doubled_notes(twice, contract, table)
    lost = keys_notes(all_keys(keys.values()), readings, meant)
    strange = strangers_notes(
        all_keys(own for rule, own in keys.items() if rule not in cases.whole), readings, table
    )
    notes = (*general_notes, *twice_notes, *lost, *strange)
    return Evaluation(
        table=table.name,
        rows=table.rows,
        found=table.found.describe(),
        rules=results,
        knowledge=knowledge,
        notes=notes,
    )


def find_columns_read(pack: Pack) -> dict[int, tuple[str, ...]]:
    """The columns that bound rows read, as values or as keys, with the names of their rules in the
    pack's order.
    """
    rules: dict[int, set[int]] = {}
    for bank in pack.banks:
        for columns, rows in columns_read(bank):
            pairs = np.stack([columns.ravel(), np.repeat(bank.rule[rows], columns.shape[1])])
            for column, rule in np.unique(pairs, axis=1).T.tolist():
                if column >= 0:
                    rules.setdefault(column, set()).add(rule)
    names = {
        column: tuple(pack.manifest.rules[rule].name for rule in sorted(found))
        for column, found in rules.items()
    }
    if pack.manifest.knowledge:
        for column, models in knowledge_columns(pack).items():
            names[column] = (*names.get(column, ()), *models)
    return dict(sorted(names.items()))


def describe_rules_over_time(pack: Pack, steps: frozenset[int]) -> str:
    """``rule `a` needs``: who looks at other steps than a row's own, by a window or by one of the
    views `steps`; "" for nobody.
    """
    rules: set[int] = set()
    for bank in pack.banks:
        over = [
            rows if is_temporal(bank.skeleton) else rows[np.isin(views, list(steps)).any(axis=1)]
            for _, views, rows in reads(bank)
        ]
        rules.update(bank.rule[np.concatenate(over)].tolist())
    if rules:
        return rules_text([pack.manifest.rules[rule].name for rule in sorted(rules)])
    return "knowledge over time needs" if pack.manifest.knowledge and over_time(pack) else ""


def find_raised_outputs(bank: Bank, readings: Readings) -> NDArray[np.bool_]:
    """bool [R]: the row reads what a model would predict for inputs that no table row has."""
    raised = np.array([view.kind == "raised" for view in readings.contract.views], dtype=np.bool_)
    outputs = np.array(
        [column.role == "output" for column in readings.contract.columns], dtype=np.bool_
    )
    return rows_that(bank, (raised[views] & outputs[columns] for columns, views, _ in reads(bank)))


def find_missing_columns(
    bank: Bank, readings: Readings, lacking: list[set[int]]
) -> NDArray[np.bool_]:
    """bool [R]: the row reads a column that the table lacks, itself or by a member.

    Notes those columns by rule.
    """
    absent = np.zeros(len(readings.contract.columns) + 1, dtype=np.bool_)
    absent[sorted(readings.missing)] = True
    for columns, rows in columns_read(bank):
        for row, place in np.argwhere(
            absent[columns]
        ).tolist():  # a key of -1 points at the extra place, which is never absent
            lacking[int(bank.rule[rows[row]])].add(int(columns[row, place]))
    lacks = np.zeros(bank.rows, dtype=np.bool_)
    for columns, rows in columns_read(bank):
        lacks[rows[absent[columns].any(axis=1)]] = True
    return lacks


def split_bank(
    bank: Bank, readings: Readings, timing: Timing
) -> Iterator[tuple[Bank, NDArray[np.int64]]]:
    """The bank in parts, each with the table rows it is to be evaluated on.

    Rows that cannot match are left out where that pays.
    """
    table_rows = readings.base.shape[0]
    if not bank.rows or not table_rows:
        return
    if bank.reads_other_rows:
        yield bank, np.arange(table_rows)
        return
    if bank.rows * table_rows <= SMALL or not (bank.keys >= 0).any():
        yield from _chunks(bank, np.arange(table_rows), readings, timing)
        return
    wanted, which = np.unique(
        np.concatenate([bank.keys, bank.codes], axis=1), axis=0, return_inverse=True
    )
    width = bank.keys.shape[1]
    for i, row in enumerate(wanted):
        at = np.ones(table_rows, dtype=np.bool_)
        for key, code in zip(row[:width], row[width:], strict=True):
            if key >= 0:
                at &= readings.base[:, key] == code
        if at.any():
            yield from _chunks(
                bank.take(np.flatnonzero(which.ravel() == i)), np.flatnonzero(at), readings, timing
            )


def _chunks(
    bank: Bank, at: NDArray[np.int64], readings: Readings, timing: Timing
) -> Iterator[tuple[Bank, NDArray[np.int64]]]:
    """The bank on some table rows at a time: any of them, or for rules over time whole traces and
    then some bank rows at a time.
    """
    cells = len(readings.contract.views) * max(1, len(readings.contract.columns))
    if not is_temporal(bank.skeleton):
        step = max(1, min(EVALUATIONS // bank.rows, CELLS // cells))
        for start in range(0, at.shape[0], step):
            yield bank, at[start : start + step]
        return
    for rows in whole_traces(at, timing, CELLS // cells):
        step = max(1, EVALUATIONS // rows.shape[0])
        for start in range(0, bank.rows, step):
            yield bank.take(np.arange(start, min(start + step, bank.rows))), rows


class _Bound(NamedTuple):
    """How many bound rows a rule has: all, those that need a model, those that are evaluated.

    And how many things it is bound to.
    """

    every: int
    modelled: int
    evaluated: int
    things: int

    def only(self) -> str:
        """The phrase before the reason why not all are evaluated."""
        return (
            f"evaluated for only {self.evaluated:,} of its {self.every:,} bound rows"
            if self.evaluated
            else ""
        )


def _result(
    pack: Pack,
    readings: Readings,
    tally: Tally,
    rule: int,
    bound: _Bound,
    lacking: set[int],
    by_entity: tuple[EntityCounts, ...],
    no_rows: tuple[str, ...],
    cut: str,
    worst: Worst | None,
) -> RuleResult:
    record = pack.manifest.rules[rule]
    headers = list(dict.fromkeys(readings.contract.columns[i].source for i in sorted(lacking)))
    notes = []
    if bound.modelled:
        notes.append(
            f"{bound.only() or 'needs a model'}: it compares predictions for changed "
            f"inputs, which no table holds"
        )
    if headers:
        notes.append(
            f"{bound.only() or 'not evaluated'}: the table has no column {list_some(headers)}"
        )
    if (
        bound.every
        and not bound.modelled
        and not headers
        and not tally.evaluations(rule)
        and readings.base.shape[0]
    ):
        notes.append("no row of the table is about what it is bound to")
    if not bound.every:
        notes.append("bound to nothing")
    if cut:
        notes.append(cut)
    return RuleResult(
        rule=record.name,
        title=record.title,
        kind=record.kind,
        output=record.output,
        severity=record.severity,
        bound_rows=bound.every,
        bound_to=bound.things,
        satisfied=int(tally.satisfied[rule]),
        violated=int(tally.violated[rule]),
        unknown=int(tally.unknown[rule]),
        fired=int(tally.fired[rule]),
        worst=worst,
        needs_model=bound.modelled > 0,
        missing=tuple(headers),
        notes=tuple(notes),
        by_entity=by_entity,
        no_rows=no_rows,
    )


def _worst(pack: Pack, readings: Readings, timing: Timing, found: Place | None) -> Worst | None:
    if found is None:
        return None
    bank, at = found.bank, found.at
    fault = row_at_fault(bank, at, readings, timing, found.row) if found.violated else found.row
    telling = math.isfinite(found.robustness) and is_telling(pack, bank, at)
    return Worst(
        robustness=found.robustness,
        unit=pack.manifest.units[int(bank.unit[at])],
        entity=pack.manifest.entities[int(bank.entity[at])] or None,
        row=found.row + 1,
        time=readings.times[found.row] or None if readings.times is not None else None,
        read=""
        if telling or bank.reads_other_rows
        else readings_text(pack, bank, at, readings.part(np.array([fault]))[:, 0]),
        fault=None if fault == found.row else fault + 1,
    )


# Every single violation: which bound row, on which table row.
#
# A bound row that compares one column with a number, or with another column, is one vectorised
# comparison of columns; all others go through the interpreter. Both say the same
# (`tests/fedkg/evaluation/test_violations.py`).

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
    """One violation with its values.

    Attributes:
        rule: the name of the rule. entity: what the bound row is about, or "".
        row: the table row, from 0. line: its line in the file, None if not known.
        cells: the number or text in each column that the bound row reads, by header; None for an
            empty cell.
    """

    rule: str
    entity: str
    row: int
    line: int | None
    cells: Mapping[str, float | str | None]


def evaluate_with_rows(pack: Pack, table: Table) -> tuple[Evaluation, list[ViolatingRow]]:
    """Evaluate, and return each violation with its values too. Raises TableError as `evaluate`
    does.
    """
    columns = pack.manifest.contract.columns
    table = table.with_headers((one.source, one.alternatives) for one in columns)
    broken: list[tuple[Bank, NDArray[np.int64], NDArray[np.int64]]] = []
    result = _evaluate(pack, table, "error", broken)
    rows: list[ViolatingRow] = []
    for bank, violated, at in broken:
        for i, row in zip(violated.tolist(), at.tolist(), strict=True):
            cells: dict[str, float | str | None] = {}
            for slot in dict.fromkeys(bank.slots[i].tolist()):
                column = columns[slot]
                if column.type == "category":
                    cells[column.source] = table.texts(column.source)[row] or None
                else:
                    number = float(table.numbers(column.source)[row])
                    cells[column.source] = None if np.isnan(number) else number
            rows.append(
                ViolatingRow(
                    rule=pack.manifest.rules[bank.rule[i]].name,
                    entity=pack.manifest.entities[bank.entity[i]],
                    row=row,
                    line=int(table.lines[row]) if table.lines.size else None,
                    cells=cells,
                )
            )
    return result, rows


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
