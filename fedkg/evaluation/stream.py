"""Rules on rows that arrive one after the other, with the verdicts of `evaluate` on all rows.

A frame of recent rows slides over the stream. It is as long as the rules look back and ahead, so
memory does not grow with the stream. A verdict is counted once no later row can change it: rules
that look ahead wait for the rows of their horizon, and rules over time wait for a later step,
because a second, different row of a step makes the step unknown.

Letters: B rows of the frame, R rows of a bank, N rules, P parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.errors import LimitError, TableError
from fedkg.evaluation.category_codes import list_some
from fedkg.evaluation.evaluate import (
    describe_rules_over_time,
    find_columns_read,
    find_missing_columns,
    find_raised_outputs,
    split_bank,
)
from fedkg.evaluation.result import Cases, rate, without_constants
from fedkg.evaluation.table_readings import Readings, table_values
from fedkg.evaluation.table_time_steps import table_timing
from fedkg.pack import Bank, Formula, Pack, is_temporal
from fedkg.pack.formulas import ROWS, everywhere, reach
from fedkg.tables import Cells, Table, is_unknown

MOST_ROWS = 1_000_000
"""Rows that a frame may hold; only many machines or traces with long windows need as many."""

Kind = Literal["satisfied", "violated", "unknown"]
KINDS: tuple[Kind, ...] = ("satisfied", "violated", "unknown")

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVerdict:
    """The verdict of one bound row of a rule on one row of the stream.

    Attributes:
        rule: name of the rule.
        entity: what the bound row is about; "" for nothing.
        row: the row of the stream, from 1.
        time: text of its time column; "" without one.
        verdict: the verdict.
        robustness: distance to violation in `unit`, negative if violated; NaN if unknown.
        unit: unit of the robustness.
    """

    rule: str
    entity: str
    row: int
    time: str
    verdict: Kind
    robustness: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """Bound rows that read the same key columns and look equally far.

    Attributes:
        keys: the key columns.
        back: steps that they look back.
        ahead: steps that they look ahead.
        over_time: whether they look at other steps at all.
    """

    bank: Bank
    keys: tuple[int, ...]
    back: int
    ahead: int
    over_time: bool


class RuleStream:
    """Counts of verdicts on a stream of rows.

    Args:
        pack: compiled rules.
        missing: as in `evaluate`, for columns that the stream lacks.

    Attributes:
        rows: number of rows so far.
        counts: int64 [3, N], satisfied, violated and unknown evaluations of each rule so far.
        not_monitored: why a rule, or some of its bound rows, cannot be decided on a stream, by
            the name of the rule.
    """

    def __init__(self, pack: Pack, *, missing: Literal["error", "skip"] = "error") -> None:
        self.pack, self._missing = pack, missing
        self.rows = 0
        self.counts = np.zeros((len(KINDS), len(pack.manifest.rules)), dtype=np.int64)
        self.not_monitored: dict[str, str] = {}
        contract = pack.manifest.contract
        self._steps = frozenset(
            i for i, view in enumerate(contract.views) if view.steps and contract.time is not None
        )
        self._headers = tuple(
            dict.fromkeys(
                header
                for header in (
                    contract.time,
                    contract.trace,
                    *(group for view in contract.views for group in view.groups),
                    *(column.source for column in contract.columns),
                )
                if header is not None
            )
        )
        self._parts: list[_Part] | None = None
        self._frame: Table | None = None
        self._number = np.zeros(0, dtype=np.int64)
        self._counted = np.zeros((0, 0), dtype=np.bool_)
        self._first: dict[str, float] = {}

    @property
    def waiting(self) -> int:
        """Number of rows with a verdict that later rows may change."""
        return int((~self._counted).any(axis=1).sum())

    @property
    def held(self) -> int:
        """Number of rows in memory."""
        return len(self._number)

    def add(self, table: Table, report: Collection[Kind] = ()) -> list[RowVerdict]:
        """Add the next rows, and count the verdicts that they decide.

        Args:
            table: the rows, in the units of the pack's contract.
            report: the kinds of verdicts to return.

        Raises:
            TableError: a column is missing or has text instead of numbers, or a row is earlier
                than the row before it in its trace.
            LimitError: the rules need more rows in memory than `MOST_ROWS`.
        """
        contract = self.pack.manifest.contract
        table = table.with_headers((one.source, one.alternatives) for one in contract.columns)
        if self._frame is None:  # names all missing columns before any row is evaluated
            empty, needs = _take(table, np.zeros(0, dtype=np.int64)), find_columns_read(self.pack)
            table_values(contract, empty, needs=needs, missing=self._missing)
        new = _select(table, self._headers)
        frame = new if self._frame is None else _join(self._frame, new)
        number = np.concatenate([self._number, self.rows + 1 + np.arange(new.rows)])
        return self._advance(frame, number, new.rows, report, final=False)

    def finish(self, report: Collection[Kind] = ()) -> list[RowVerdict]:
        """Count the verdicts that wait for later rows, as those of a table that ends here.

        Args:
            report: the kinds of verdicts to return.
        """
        if self._frame is None:
            return []
        return self._advance(self._frame, self._number, 0, report, final=True)

    def _advance(
        self, frame: Table, number: Ints, added: int, report: Collection[Kind], *, final: bool
    ) -> list[RowVerdict]:
        pack, contract = self.pack, self.pack.manifest.contract
        needed = describe_rules_over_time(pack, self._steps)
        has_times = contract.time is not None and contract.time in frame
        timing, first = Timing.rows(frame.rows), dict(self._first)
        if self._steps or needed:
            timing, _ = table_timing(contract, frame, self._missing, needed=needed, began=first)
            if has_times:
                self._require_order(frame, timing, added)
        readings = table_values(
            contract,
            frame,
            needs=find_columns_read(pack),
            missing=self._missing,
            timing=timing if self._steps and has_times else None,
        )
        if self._parts is None:
            self._parts = list(self._split(readings))
        counted = np.concatenate(
            [
                self._counted.reshape(len(self._number), len(self._parts)),
                np.zeros((added, len(self._parts)), dtype=np.bool_),
            ]
        )
        kept = np.zeros(frame.rows, dtype=np.bool_)
        found: list[RowVerdict] = []
        counts = self.counts.copy()
        for place, part in enumerate(self._parts):
            decided = np.ones(frame.rows, dtype=np.bool_)
            if part.over_time:
                group = _group_rows(part, readings, timing)
                position, newest = _find_positions(group, timing)
                late = part.ahead + has_times
                if not final:
                    decided = (group < 0) | (position + late <= newest)
                kept |= _find_recent(group, position, newest, late + part.back)
            mine = decided & ~counted[:, place]
            found += self._count(part, readings, timing, mine, number, counts, report)
            counted[:, place] |= decided
        for view in contract.views:
            if view.kind == "previous":
                kept |= self._find_previous(view.groups, view.steps, frame, timing)
        kept |= ~counted.all(axis=1)
        for before in readings.before:
            if before is not None:
                sources = before[kept]
                kept[sources[sources >= 0]] = True
        if int(kept.sum()) > MOST_ROWS:
            raise LimitError(
                f"{frame.name}: the rules need {int(kept.sum()):,} rows of the stream in memory",
                expected=f"at most {MOST_ROWS:,}",
                help="monitor fewer machines or traces, or rules with shorter windows",
            )
        self.rows += added
        self.counts, self._first = counts, first
        rows = np.flatnonzero(kept)
        self._frame = _take(frame, rows)
        self._number, self._counted = number[rows], counted[rows]
        return sorted(found, key=lambda one: one.row)

    def _count(
        self,
        part: _Part,
        readings: Readings,
        timing: Timing,
        mine: Bools,
        number: Ints,
        counts: Ints,
        report: Collection[Kind],
    ) -> list[RowVerdict]:
        """Count the verdicts on the rows `mine`, and give those of the wanted kinds."""
        if not mine.any():
            return []
        chosen = np.flatnonzero(mine)
        if part.over_time:
            pieces = split_bank(part.bank, readings, timing)
        else:
            pieces = (
                (bank, chosen[at])
                for bank, at in split_bank(
                    part.bank, replace(readings, base=readings.base[chosen]), timing
                )
            )
        found: list[RowVerdict] = []
        rules, entities = self.pack.manifest.rules, self.pack.manifest.entities
        for bank, at in pieces:
            values = evaluate_bank(bank, readings.part(at), timing.take(at))
            robustness = without_constants(values.robustness)
            for place, kind in enumerate(KINDS):
                verdicts = getattr(values, kind) & mine[at][:, None]
                np.add.at(counts[place], bank.rule, verdicts.sum(axis=0, dtype=np.int64))
                if kind not in report:
                    continue
                for row, bound in np.argwhere(verdicts).tolist():
                    found.append(
                        RowVerdict(
                            rule=rules[int(bank.rule[bound])].name,
                            entity=entities[int(bank.entity[bound])],
                            row=int(number[at[row]]),
                            time="" if readings.times is None else readings.times[at[row]],
                            verdict=kind,
                            robustness=float(robustness[row, bound]),
                            unit=self.pack.manifest.units[int(bank.unit[bound])],
                        )
                    )
        return found

    def _require_order(self, frame: Table, timing: Timing, added: int) -> None:
        """Raise TableError if a new row is earlier than the row before it in its trace."""
        rows = np.flatnonzero(timing.trace >= 0)
        rows = rows[np.argsort(timing.trace[rows], kind="stable")]
        one, other = rows[1:], rows[:-1]
        back = (timing.trace[one] == timing.trace[other]) & (timing.step[one] < timing.step[other])
        back &= one >= frame.rows - added
        if back.any():
            at = int(np.argmax(back))
            texts, row = frame.texts(self.pack.manifest.contract.time or ""), int(one[at])
            where = f"line {frame.lines[row]}" if frame.lines.size else frame.where(row)
            raise TableError(
                f"{frame.name}: {where} is earlier than a row before it",
                expected=f"rows in order of time, not before {texts[other[at]]}",
                received=texts[one[at]],
                help="sort the rows by time"
                if self.pack.manifest.contract.trace
                else "sort the rows by time; if the table has several series, name the column "
                "that tells them apart in the timeline of the rules: `trace column`",
            )

    def _find_previous(
        self, groups: Sequence[str], steps: bool, frame: Table, timing: Timing
    ) -> Bools:
        """The rows that a view of the row before may read for rows to come."""
        contract = self.pack.manifest.contract
        on_timeline = steps and contract.time is not None and contract.time in frame
        own = timing if on_timeline else Timing.rows(frame.rows)
        group = np.where(own.trace < 0, -1, 0)
        for header in dict.fromkeys((*groups, contract.trace)):
            if header is None or header not in frame:
                continue
            texts = frame.texts(header)
            codes = {text: code for code, text in enumerate(dict.fromkeys(texts))}
            code = np.array(
                [-1 if is_unknown(text) else codes[text] for text in texts], dtype=np.int64
            )
            group = np.where((group < 0) | (code < 0), -1, group * (len(codes) + 1) + code)
        position, newest = _find_positions(group, own)
        return _find_recent(group, position, newest, 1 + on_timeline)

    def _split(self, readings: Readings) -> Iterator[_Part]:
        """The parts of the pack; the bound rows that a stream cannot decide are left out."""
        left_out: dict[str, dict[int, int]] = {}
        bound: Counter[int] = Counter()
        lacking: list[set[int]] = [set() for _ in self.pack.manifest.rules]
        shapes = _find_joint_cases(self.pack, readings)
        for bank in self.pack.banks:
            bound.update(bank.rule.tolist())
            unbounded = np.array(
                [_is_unbounded(bank.skeleton, row) for row in bank.params.tolist()], dtype=np.bool_
            )
            reasons = (
                ("compares predictions for changed inputs", find_raised_outputs(bank, readings)),
                ("reads a column that is missing", find_missing_columns(bank, readings, lacking)),
                ("compares all rows of a table", np.full(bank.rows, bank.reads_other_rows)),
                ("looks over the whole trace (a window without an end, or its first step)",
                 unbounded),
                ("joins several bound rows of a shape to one case",
                 np.isin(bank.rule, sorted(shapes))),
            )  # fmt: skip
            out = np.zeros(bank.rows, dtype=np.bool_)
            for reason, rows in reasons:
                for rule in bank.rule[rows & ~out].tolist():
                    found = left_out.setdefault(reason, {})
                    found[rule] = found.get(rule, 0) + 1
                out |= rows
            yield from _parts_of(bank.take(np.flatnonzero(~out)))
        for reason, rules in left_out.items():
            for rule, many in rules.items():
                some = f" ({many:,} of {bound[rule]:,} bound rows)" if many < bound[rule] else ""
                name = self.pack.manifest.rules[rule].name
                headers = [readings.contract.columns[i].source for i in sorted(lacking[rule])]
                named = f": {list_some(headers)}" if "missing" in reason else ""
                before = f"{self.not_monitored[name]}; " if name in self.not_monitored else ""
                self.not_monitored[name] = f"{before}{reason}{named}{some}"

    def to_json(self) -> dict[str, Any]:
        """The counts and the frame as plain data, for `restore`. `Any`: JSON."""
        frame = self._frame
        return {
            "rows": self.rows,
            "counts": self.counts.tolist(),
            "first": self._first,
            "number": self._number.tolist(),
            "counted": self._counted.astype(int).tolist(),
            "parts": 0 if self._parts is None else len(self._parts),
            "lines": [] if frame is None else frame.lines.tolist(),
            "cells": {}
            if frame is None
            else {
                header: {
                    "texts": None if cells.texts is None else list(cells.texts),
                    "values": None
                    if cells.values is None
                    else [None if np.isnan(one) else one for one in cells.values.tolist()],
                }
                for header, cells in zip(frame.headers, frame.cells, strict=True)
            },
        }

    def restore(self, document: Mapping[str, Any], like: Table) -> None:
        """Continue from what `to_json` wrote.

        Args:
            document: the data. `Any`: JSON.
            like: a table of the same stream, without rows.

        Raises:
            ValueError, KeyError, TypeError: the data have another form, or are about other rules.
        """
        counts = np.array(document["counts"], dtype=np.int64)
        if counts.shape != self.counts.shape:
            raise ValueError("other rules")
        number = np.array(document["number"], dtype=np.int64)
        cells = tuple(
            Cells(
                texts=None if one["texts"] is None else tuple(map(str, one["texts"])),
                values=None
                if one["values"] is None
                else np.array([np.nan if x is None else x for x in one["values"]], dtype=float),
            )
            for one in document["cells"].values()
        )
        if any(len(one.texts or one.values or ()) != len(number) for one in cells if len(number)):
            raise ValueError("columns of different lengths")
        self.rows, self.counts, self._number = int(document["rows"]), counts, number
        self._first = {str(name): float(time) for name, time in document["first"].items()}
        self._counted = np.array(document["counted"], dtype=np.bool_).reshape(
            len(number), int(document["parts"])
        )
        if document["cells"]:
            self._frame = replace(
                like,
                headers=tuple(document["cells"]),
                cells=cells,
                rows=len(number),
                lines=np.array(document["lines"], dtype=np.int64),
            )

    def rule_counts(self) -> dict[str, dict[str, Any]]:
        """By rule the counts so far, and the violation rate. `Any`: numbers, None for no rate."""
        return {
            rule.name: dict(zip(KINDS, counts, strict=True)) | {"rate": rate(counts[0], counts[1])}
            for rule, counts in zip(self.pack.manifest.rules, self.counts.T.tolist(), strict=True)
        }


def _is_unbounded(skeleton: Formula, params: Sequence[float]) -> bool:
    """Whether a formula looks over its whole trace, or has windows over members."""
    for table, part in everywhere(skeleton):
        if part.over_time:
            ends = [params[place] for place in part.step_params()] if table == ROWS else []
            if not ends or min(ends) < 0:
                return True
    return False


def _find_joint_cases(pack: Pack, readings: Readings) -> set[int]:
    """The rules of shapes with several bound rows in one case."""
    cases = Cases(pack, readings)
    several = {rule for rule, groups in cases.sizes.items() if max(groups.values(), default=0) > 1}
    return several | cases.whole


def _parts_of(bank: Bank) -> Iterator[_Part]:
    """The rows of a bank by key columns and reach."""
    if not bank.rows:
        return
    over_time = is_temporal(bank.skeleton)
    if not over_time:
        yield _Part(bank=bank, keys=(), back=0, ahead=0, over_time=False)
        return
    found: dict[tuple[tuple[int, ...], int, int], list[int]] = {}
    for row, (keys, params) in enumerate(
        zip(bank.keys.tolist(), bank.params.tolist(), strict=True)
    ):
        far = reach(bank.skeleton, params)
        columns = tuple(sorted(key for key in keys if key >= 0))
        found.setdefault((columns, int(far.back), int(far.ahead)), []).append(row)
    for (columns, back, ahead), rows in found.items():
        yield _Part(
            bank=bank.take(np.array(rows)), keys=columns, back=back, ahead=ahead, over_time=True
        )


def _group_rows(part: _Part, readings: Readings, timing: Timing) -> Ints:
    """int64 [B]: the series that a row belongs to for a part; -1 for a row of none."""
    keys = readings.base[:, list(part.keys)]
    known = (timing.trace >= 0) & (keys >= 0).all(axis=1)
    group = np.full(len(known), -1, dtype=np.int64)
    rows = np.flatnonzero(known)
    if rows.size:
        series = np.column_stack([timing.trace[rows].astype(np.float64), keys[rows]])
        group[rows] = np.unique(series, axis=0, return_inverse=True)[1].ravel()
    return group


def _find_positions(group: Ints, timing: Timing) -> tuple[Ints, Ints]:
    """The step of each row in its series, and the newest step of the series, int64 [B] each.

    Without gaps in the timing, steps are counted.
    """
    position = timing.step.copy()
    if not timing.gaps:
        order = np.lexsort((timing.step, group))
        same = np.concatenate([[False], group[order][1:] == group[order][:-1]])
        later = np.concatenate([[0], np.diff(timing.step[order])]) != 0
        count = np.cumsum(~same | later)
        starts = np.maximum.accumulate(np.where(same, 0, count))
        position[order] = count - starts
    newest = np.full(int(group.max(initial=-1)) + 2, np.iinfo(np.int64).min)
    np.maximum.at(newest, group, position)  # the last entry is that of rows of no series
    return position, newest[group]


def _find_recent(group: Ints, position: Ints, newest: Ints, steps: int) -> Bools:
    """The rows of the last steps of each series, and of the step before them.

    That step tells that the series did not begin with the others.

    Args:
        steps: steps before the newest one.
    """
    known = group >= 0
    recent = known & (position >= newest - steps)
    earlier = np.flatnonzero(known & ~recent)
    last = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, group[earlier], position[earlier])
    recent[earlier] = position[earlier] == last[group[earlier]]
    return recent


def _select(table: Table, headers: Sequence[str]) -> Table:
    """The table with some of its columns."""
    found = [header for header in headers if header in table]
    return replace(
        table,
        headers=tuple(found),
        cells=tuple(table.cells[table.position(header)] for header in found),
        header_parts=(),
    )


def _take(table: Table, rows: Ints) -> Table:
    """Some rows of a table."""
    cells = tuple(
        Cells(
            texts=None if one.texts is None else tuple(one.texts[row] for row in rows.tolist()),
            values=None if one.values is None else one.values[rows],
        )
        for one in table.cells
    )
    lines = table.lines[rows] if table.lines.size else table.lines
    return replace(table, cells=cells, rows=len(rows), lines=lines)


def _join(first: Table, second: Table) -> Table:
    """The rows of two tables with the same columns; the second one says how cells are read."""
    cells = []
    for header, one, other in zip(second.headers, first.cells, second.cells, strict=True):
        if one.values is not None and other.values is not None:
            values = np.concatenate([one.values, other.values])
            texts = None
            if one.texts is not None and other.texts is not None:
                texts = (*one.texts, *other.texts)
            cells.append(Cells(texts=texts, values=values))
        else:
            cells.append(Cells(texts=(*first.texts(header), *second.texts(header))))
    lines = np.concatenate([first.lines, second.lines])
    return replace(second, cells=tuple(cells), rows=first.rows + second.rows, lines=lines)
