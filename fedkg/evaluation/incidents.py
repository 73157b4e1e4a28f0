"""Incidents: where tables violate rules, from an overview to single rows, as data for reports.

An event is a run of consecutive violating rows of one bound row: of its applicable rows in the
order of time, without a satisfied or unknown row and without a gap in time between them. A panel
holds the trends of what a bound row reads, reduced to the extremes of each horizontal bucket.

Letters: n applicable rows of a bound row, in the order of time; B table rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.errors import TableError
from fedkg.evaluation.evaluate import (
    describe_rules_over_time,
    find_columns_read,
    find_missing_columns,
    find_raised_outputs,
    split_bank,
)
from fedkg.evaluation.result import Evaluation, RuleResult, is_telling, margin_scales, rate
from fedkg.evaluation.row_explanation import (
    BoundConstraint,
    number,
    readings_text,
    short_name,
    unit_suffix,
)
from fedkg.evaluation.table_readings import table_values
from fedkg.evaluation.table_time_steps import table_timing
from fedkg.evaluation.violating_window_row import row_at_fault
from fedkg.pack import (
    And,
    Bank,
    Column,
    Compare,
    Formula,
    Implies,
    Initially,
    Negate,
    Not,
    Or,
    Pack,
    Param,
    Product,
    Slot,
    Sum,
    Temporal,
    Term,
    everywhere,
)
from fedkg.pack.bank import reads
from fedkg.pack.formulas import formula_children
from fedkg.pack.term_scale import scale_unit
from fedkg.tables import Table

MAX_DETAILED = 40
"""Number of rules with events and trends; the overview lists all rules."""
MAX_EVENTS = 10
"""Number of events listed for a rule."""
MAX_PANELS = 2
"""Number of sites of which a rule shows trends: those with its worst events."""
MAX_QUANTITIES = 5
"""Number of trends in a panel, compared quantities first."""
MAX_ROWS = 7
"""Number of rows listed around the worst row of an event."""
MAX_SITES = 8
"""Number of sites listed for a rule, most violations first."""
BUCKETS = 300
"""Horizontal buckets of a trend: a chart is 600 pixels wide, and a bucket has two points."""
GAP_FACTOR = 5.0
"""A pause longer than this number of usual steps between two rows ends an event: nobody knows what
happened in between. Loggers that skip a few samples do not end it."""
ZOOM_MARGIN, ZOOM_ROWS = 2.0, 60
"""The enlarged trend shows this number of durations of the event on both sides, and at least this
number of rows."""

Json = dict[str, Any]
"""A JSON object. `Any`: JSON."""
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Role = Literal["required", "alternative", "condition", "signal"]
"""What a limit means: it must hold; it is one of several ways to satisfy the rule; the rule applies
only while it holds; there is no limit."""


@dataclass(frozen=True, slots=True, eq=False)
class _BoundRow:
    """One bound row on the table rows to which it applies: [n] arrays, in the order of time."""

    bank: int
    at: int
    rows: NDArray[np.int64]
    robustness: Floats
    violated: Bools
    fired: Bools
    scale: float = 1.0
    """Brings the margin to the common unit of the rule."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Event:
    """Consecutive violating rows: positions `first` to `last` of a bound row, and the worst."""

    table: int
    rule: int
    bound: _BoundRow
    first: int
    last: int
    worst: int

    @property
    def margin(self) -> float:
        return float(self.bound.robustness[self.worst])

    @property
    def rows(self) -> int:
        return self.last - self.first + 1

    def rank(self) -> tuple[bool, float, int, int]:
        """Smaller is worse: the lower margin, events without a number after those with one, then
        the longer event.
        """
        finite = math.isfinite(self.margin)
        compared = self.margin * self.bound.scale if finite else 0.0
        return not finite, compared, -self.rows, self.table


@dataclass(slots=True)
class _RuleEvents:
    """The events of one rule over all tables: their number, and the worst."""

    count: int = 0
    rows: int = 0
    worst: list[_Event] = field(default_factory=list)

    def add(self, events: Iterable[_Event]) -> None:
        for event in events:
            self.count += 1
            self.rows += event.rows
            self.worst.append(event)
            if len(self.worst) > 4 * MAX_EVENTS:
                self.cut()
        self.cut()

    def cut(self) -> None:
        self.worst = sorted(self.worst, key=_Event.rank)[:MAX_EVENTS]


class _TableRows:
    """A table as bound rows read it, with the order and the times of its rows."""

    def __init__(self, pack: Pack, table: Table, is_ordered: bool) -> None:
        contract = pack.manifest.contract
        self.pack = pack
        self.is_ordered = is_ordered and not table.subject  # subjects of a graph have no order
        self.table = table.with_headers(
            (column.source, column.alternatives) for column in contract.columns
        )
        self.readings = table_values(
            contract, self.table, needs=find_columns_read(pack), missing="skip"
        )
        steps = frozenset(i for i, view in enumerate(contract.views) if view.steps)
        needed = describe_rules_over_time(pack, steps)
        rows = Timing.rows(table.rows)
        try:
            timed = table_timing(contract, self.table, "skip", needed=needed)[0]
        except TableError:  # ambiguous dates: the rows keep their order
            timed = rows
        self.timing = timed if steps or needed else rows
        """As `evaluate` uses it."""
        self.order = timed
        """The order of events and trends."""
        self.seconds = self._seconds()

    def _seconds(self) -> Floats | None:
        """The time of each row in seconds, NaN without one; None if the table has no times."""
        time = self.pack.manifest.contract.time
        self.has_clock = False
        if time is None or time not in self.table:
            return None
        try:
            if self.table.is_numeric(time):  # seconds from any start
                return self.table.numbers(time)
            self.has_clock = True
            moments, _ = self.table.times(time)
        except TableError:
            return None
        seconds = [
            math.nan
            if moment is None
            else (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
            for moment in moments
        ]
        found = np.array(seconds, dtype=np.float64)
        return found if np.isfinite(found).any() else None

    def evaluable(self, bank: Bank) -> NDArray[np.int64]:
        """The rows of a bank that the table can answer."""
        lacking: list[set[int]] = [set() for _ in self.pack.manifest.rules]
        lacks = find_missing_columns(bank, self.readings, lacking)
        return np.flatnonzero(~lacks & ~find_raised_outputs(bank, self.readings))

    def bound_rows(self, rules: NDArray[np.bool_]) -> Iterator[tuple[int, _BoundRow]]:
        """The bound rows of these rules that the table violates, with their rule."""
        scales = margin_scales(self.pack)
        for place, bank in enumerate(self.pack.banks):
            wanted = self.evaluable(bank)
            wanted = wanted[rules[bank.rule[wanted]]]
            # weights do not matter for verdicts, so they carry the positions through `split_bank`
            some = replace(bank, weight=np.arange(bank.rows, dtype=np.float64)).take(wanted)
            pieces: dict[int, list[tuple[NDArray[Any], ...]]] = {}
            for part, at in split_bank(some, self.readings, self.timing):
                values = evaluate_bank(part, self.readings.part(at), self.timing.take(at))
                for column, row in enumerate(part.weight.astype(np.int64).tolist()):
                    own = values.applicable[:, column]
                    pieces.setdefault(row, []).append(
                        (
                            at[own],
                            values.robustness[own, column],
                            values.violated[own, column],
                            values.fired[own, column],
                        )
                    )
            for row, parts in pieces.items():
                rows, robustness, violated, fired = (
                    np.concatenate(arrays) for arrays in zip(*parts, strict=True)
                )
                if violated.any():
                    order = np.lexsort((rows, self.order.step[rows], self.order.trace[rows]))
                    yield (
                        int(bank.rule[row]),
                        _BoundRow(
                            place,
                            row,
                            rows[order],
                            robustness[order],
                            violated[order],
                            fired[order],
                            float(scales[bank.rule[row], bank.unit[row]]),
                        ),
                    )

    def events(self, table: int, rule: int, bound: _BoundRow) -> Iterator[_Event]:
        """The runs of violating rows of a bound row."""
        rows, violated = bound.rows, bound.violated
        parted = np.zeros(len(rows), dtype=np.bool_)
        if not self.is_ordered:
            parted[:] = True
        else:
            parted[1:] = self.order.trace[rows[1:]] != self.order.trace[rows[:-1]]
            if self.seconds is not None and len(rows) > 2:
                ahead = np.diff(self.seconds[rows])
                usual = np.nanmedian(ahead[ahead > 0]) if (ahead > 0).any() else math.inf
                parted[1:] |= np.nan_to_num(ahead, nan=math.inf) > GAP_FACTOR * usual
        positions = np.flatnonzero(violated)
        begins = np.ones(len(positions), dtype=np.bool_)
        begins[1:] = (np.diff(positions) > 1) | parted[positions[1:]]
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(positions))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            own = positions[start:end]
            margins = bound.robustness[own]
            yield _Event(
                table=table,
                rule=rule,
                bound=bound,
                first=int(own[0]),
                last=int(own[-1]),
                worst=int(own[np.argmin(np.where(np.isfinite(margins), margins, math.inf))]),
            )

    def time_text(self, row: int) -> str:
        """The time of a row as the table writes it; "" without one."""
        return self.readings.times[row] if self.readings.times is not None else ""


def find_incidents(
    pack: Pack,
    tables: Sequence[tuple[str, Table]],
    results: Sequence[Evaluation],
    rules: Iterable[str] | None = None,
    where: Sequence[Callable[[int], str]] | None = None,
    is_ordered: bool = True,
) -> Json:
    """Collect the incidents of tables under the rules of a pack.

    Args:
        pack: compiled rules.
        tables: the name of the site ("" for a single table) and its rows, in the units of the
            pack's contract.
        results: the evaluation of each table by `fedkg.evaluation.evaluate`.
        rules: the rules that are reported; None: all.
        where: for each table a function that names a row by its position from 0; None: as
            `Table.where` does.
        is_ordered: whether successive rows are neighbours; if not, each violating row is an event.

    Returns:
        A JSON object with `tables`, `rules` (overview, worst first) and `details` (the worst
        `MAX_DETAILED` rules with events and panels), which `fedkg.report` draws.
    """
    wanted = None if rules is None else set(rules)
    records = pack.manifest.rules
    totals = [
        _rule_total([result.rules[i] for result in results], [site for site, _ in tables])
        for i in range(len(records))
    ]
    places = [i for i, record in enumerate(records) if wanted is None or record.name in wanted]
    order = sorted(places, key=lambda i: _worse_first(totals[i]))
    detailed = [i for i in order if totals[i]["violated"]][:MAX_DETAILED]
    chosen = np.zeros(len(records), dtype=np.bool_)
    chosen[detailed] = True
    found: dict[int, _RuleEvents] = {i: _RuleEvents() for i in detailed}
    for number_, ((_, table), result) in enumerate(zip(tables, results, strict=True)):
        broken = chosen & np.array([one.violated > 0 for one in result.rules], dtype=np.bool_)
        if broken.any():
            read = _TableRows(pack, table, is_ordered)
            for rule, bound in read.bound_rows(broken):
                found[rule].add(read.events(number_, rule, bound))
    headers = _headers_of_rules(pack)
    names = [table.where for _, table in tables] if where is None else where
    details = _details(pack, tables, names, detailed, totals, found, is_ordered)
    return {
        "tables": [
            {
                "site": site,
                "table": result.table,
                "rows": result.rows,
                "found": result.found,
                "rules_violated": sum(
                    one.violated > 0 for one in result.rules if wanted is None or one.rule in wanted
                ),
                "rate": rate(
                    sum(one.satisfied for one in result.rules if _is_in(one, wanted)),
                    sum(one.violated for one in result.rules if _is_in(one, wanted)),
                ),
                "notes": list(result.notes),
            }
            for (site, _), result in zip(tables, results, strict=True)
        ],
        "rules": [totals[i] | {"detailed": i in found} for i in order],
        "details": [detail | {"headers": headers[detail["place"]]} for detail in details],
    }


def join_incidents(found: Sequence[Json]) -> Json:
    """The incidents of several packs together, such as those of each class of a graph."""
    rules = sorted((rule for one in found for rule in one["rules"]), key=_worse_first)
    details = sorted((rule for one in found for rule in one["details"]), key=_worse_first)
    return {
        "tables": [table for one in found for table in one["tables"]],
        "rules": rules,
        "details": details[:MAX_DETAILED],
    }


def named_in_events(found: Mapping[str, Any]) -> set[str]:
    """The entities and sites of the events of `find_incidents`."""
    return {
        name
        for rule in found["details"]
        for event in rule["events"]
        for name in (event["entity"], event["site"])
        if name
    }


def _is_in(one: RuleResult, wanted: set[str] | None) -> bool:
    return wanted is None or one.rule in wanted


def _rule_total(results: Sequence[RuleResult], sites: Sequence[str]) -> Json:
    """The counts of a rule over all tables, and by site."""
    first = results[0]
    satisfied, violated, unknown, fired = (
        sum(getattr(one, name) for one in results)
        for name in ("satisfied", "violated", "unknown", "fired")
    )
    each: list[Json] = sorted(
        (
            {
                "site": site,
                "violated": one.violated,
                "evaluations": one.satisfied + one.violated,
                "unknown": one.unknown,
                "notes": list(one.notes),
            }
            for site, one in zip(sites, results, strict=True)
        ),
        key=lambda one: -one["violated"],
    )
    notes = dict.fromkeys(note for one in results for note in (*one.notes, *one.no_rows))
    return {
        "rule": first.rule,
        "title": first.title,
        "kind": first.kind,
        "severity": first.severity,
        "satisfied": satisfied,
        "violated": violated,
        "unknown": unknown,
        "evaluations": satisfied + violated + unknown,
        "fired": fired,
        "rate": rate(satisfied, violated),
        "sites_violated": sum(one.violated > 0 for one in results),
        "sites_without_verdict": sum(not one.satisfied + one.violated for one in results),
        "by_site": each[:MAX_SITES],
        "entities": [one.to_json() for one in first.by_entity[:MAX_SITES]]
        if len(results) == 1
        else [],
        "more_entities": max(0, len(first.by_entity) - MAX_SITES) if len(results) == 1 else 0,
        "notes": list(notes)[:MAX_SITES],
    }


def _worse_first(total: Json) -> tuple[int, int, float, int]:
    """Violated rules by severity and share, then those without a verdict, then the satisfied."""
    state = 0 if total["violated"] else 1 if total["rate"] is None else 2
    severity = ("violation", "warning", "info").index(total["severity"])
    return state, severity, -(total["rate"] or 0.0), -total["violated"]


def _headers_of_rules(pack: Pack) -> list[list[str]]:
    """The headers of the columns that each rule reads."""
    columns = pack.manifest.contract.columns
    found: list[dict[str, None]] = [{} for _ in pack.manifest.rules]
    for bank in pack.banks:
        for slots, _, rows in reads(bank):
            for rule in np.unique(bank.rule[rows]).tolist():
                for column in np.unique(slots[bank.rule[rows] == rule]).tolist():
                    found[rule][columns[column].source] = None
    return [list(headers) for headers in found]


def _details(
    pack: Pack,
    tables: Sequence[tuple[str, Table]],
    where: Sequence[Callable[[int], str]],
    detailed: Sequence[int],
    totals: Sequence[Json],
    found: Mapping[int, _RuleEvents],
    is_ordered: bool,
) -> list[Json]:
    """Each detailed rule with its worst events and the panels of the sites that have them."""
    details: dict[int, Json] = {}
    needs: dict[int, list[_Event]] = {}
    for rule in detailed:
        record = pack.manifest.rules[rule]
        details[rule] = totals[rule] | {
            "place": rule,
            "text": record.text,
            "source": f"{record.file}, line {record.line}" if record.file else "",
            "is_conditional": any(
                isinstance(bank.skeleton, Implies)
                for bank in pack.banks
                if (bank.rule == rule).any()
            ),
            "events_found": found[rule].count,
            "rows_violated": found[rule].rows,
            "events": [None] * len(found[rule].worst),
            "panels": [],
        }
        for event in found[rule].worst:
            needs.setdefault(event.table, []).append(event)
    first = {
        rule: list(dict.fromkeys(event.table for event in found[rule].worst))[:MAX_PANELS]
        for rule in detailed
    }
    panels: dict[int, dict[int, Json]] = {rule: {} for rule in detailed}
    for place, events in sorted(needs.items()):
        site, table = tables[place]
        read = _TableRows(pack, table, is_ordered)
        for event in events:
            chart = _Chart(read, event.bound, where[place])
            listed = details[event.rule]["events"]
            listed[found[event.rule].worst.index(event)] = chart.event(event, site)
            if place in first[event.rule] and place not in panels[event.rule]:
                panels[event.rule][place] = chart.panel(event, site)
    for rule in detailed:
        details[rule]["panels"] = [panels[rule][place] for place in first[rule]]
    return [details[rule] for rule in detailed]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Quantity:
    """What a comparison compares, or a signal, over the rows of a bound row.

    Attributes:
        name: ``torque × speed``. unit: of the values; "" for none.
        role: what the limits mean.
        column: the column of a single signal on the row itself; else -1.
        values: float64 [n]. low, high: float64 [n], the least and greatest allowed value, infinite
            where there is no limit.
        above, below: [n], whether the limit itself is not allowed.
    """

    name: str
    unit: str
    role: Role
    column: int = -1
    values: Floats
    low: Floats
    high: Floats
    above: Bools
    below: Bools

    def joined(self, other: _Quantity) -> _Quantity:
        """The same quantity with the limits of both."""
        low, high = np.fmax(self.low, other.low), np.fmin(self.high, other.high)
        return replace(
            self,
            low=low,
            high=high,
            above=(self.above & (self.low == low)) | (other.above & (other.low == low)),
            below=(self.below & (self.high == high)) | (other.below & (other.high == high)),
        )

    def limit_text(self, at: int) -> str:
        """``at most 5 bar``, ``below 5 bar``, ``3,500 to 9,000 W``; "" without a limit."""
        low, high = float(self.low[at]), float(self.high[at])
        texts = []
        if math.isfinite(low):
            texts.append(f"{'above' if self.above[at] else 'at least'} {number(low)}")
        if math.isfinite(high):
            texts.append(f"{'below' if self.below[at] else 'at most'} {number(high)}")
        text = " and ".join(texts)
        if len(texts) == 2 and not self.above[at] and not self.below[at]:
            text = f"{number(low)} to {number(high)}"
        return f"{text} {self.unit}".rstrip() if text else ""

    def excess(self, at: int) -> float:
        """How far a value lies outside its limits; negative inside, NaN if unknown."""
        value = float(self.values[at])
        return max(float(self.low[at]) - value, value - float(self.high[at]))


class _Chart:
    """The quantities of one bound row, for its events and its panel."""

    def __init__(self, read: _TableRows, bound: _BoundRow, where: Callable[[int], str]) -> None:
        self.read, self.bound, self.where = read, bound, where
        self.pack, self.readings = read.pack, read.readings
        self.bank = self.pack.banks[bound.bank]
        self.alone = self.bank.take(np.array([bound.at]))
        self.words = BoundConstraint(
            self.pack, self.bank, bound.at, read.readings.part(bound.rows[:1])[:, 0]
        )
        self.columns = self.pack.manifest.contract.columns
        unit = self.pack.manifest.units[int(self.bank.unit[bound.at])]
        self.unit = "" if unit == "dimensionless" else unit
        self.entity = self.pack.manifest.entities[int(self.bank.entity[bound.at])]
        self.quantities = self._quantities()

    def _quantities(self) -> list[_Quantity]:
        found: dict[tuple[str, Role, bool], _Quantity] = {}
        for atom, role, positive in _limits(self.alone.skeleton, "required", True):
            one = self._compared(atom, role, positive)
            if one is not None:
                # limits that are alternatives of each other enclose nothing together
                key = one.name, one.role, role == "alternative" and bool(np.isfinite(one.low).any())
                found[key] = found[key].joined(one) if key in found else one
        ordered: list[Role] = ["required", "alternative", "condition"]
        quantities = sorted(found.values(), key=lambda one: ordered.index(one.role))
        drawn = {one.column for one in quantities}
        for slots, _, _ in reads(self.alone):
            for column in np.unique(slots).tolist():
                entry = self.columns[column]
                if column not in drawn and entry.type in ("real", "boolean"):
                    drawn.add(column)
                    quantities.append(
                        _Quantity(
                            name=short_name(entry),
                            column=column,
                            unit=_unit(entry),
                            role="signal",
                            values=self.readings.base[self.bound.rows, column],
                            low=np.full(len(self.bound.rows), -np.inf),
                            high=np.full(len(self.bound.rows), np.inf),
                            above=np.zeros(len(self.bound.rows), dtype=np.bool_),
                            below=np.zeros(len(self.bound.rows), dtype=np.bool_),
                        )
                    )
        return quantities

    def _compared(self, atom: Compare, role: Role, positive: bool) -> _Quantity | None:
        """The varying side of a comparison as a quantity, and the other side as its limit."""
        if atom.op == "ne" or (atom.op == "eq" and not positive):
            return None
        sides = [_peel(atom.left), _peel(atom.right)]
        varying = [not _is_constant(term) for term in (atom.left, atom.right)]
        if not any(varying):
            return None
        # a signal is drawn before its conversion, and that before an expression
        side = min(
            (0, 1),
            key=lambda side: (
                not varying[side],
                not isinstance((atom.left, atom.right)[side], Slot),
                not isinstance(sides[side], Slot),
            ),
        )
        term, inner = (atom.left, atom.right)[side], sides[side]
        values, limit = self._values(term), self._values((atom.right, atom.left)[side])
        slack = 0.0 if atom.tolerance is None else self._values(atom.tolerance)
        low, high = np.full(len(values), -np.inf), np.full(len(values), np.inf)
        if atom.op == "eq":
            low, high = limit - slack, limit + slack
        elif (side == 0) == positive:
            high = limit + (slack if side == 0 else -slack)
        else:
            low = limit + (slack if side == 0 else -slack)
        name, drawn = self.words.term_text(term), -1
        unit = scale_unit(self.columns, self.alone, 0, term) or self.unit
        if isinstance(inner, Slot):
            # limits in the unit of the signal's column, which is what the plant reads
            column = int(self.alone.slots[0, inner.index])
            own = self._values(inner)
            factor, shift = _line_through(own, values)
            if math.isfinite(factor) and factor:
                low, high = (low - shift) / factor, (high - shift) / factor
                low, high = (high, low) if factor < 0 else (low, high)
                values, unit = own, _unit(self.columns[column])
                name = short_name(self.columns[column])
                view = self.pack.manifest.contract.views[int(self.alone.views[0, inner.index])]
                if view.kind == "base":
                    drawn = column
                else:
                    name = f"{view.kind} {name}"
        strict = np.full(len(values), atom.op != "eq" and (atom.op == "lt") == positive)
        known = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
        return _Quantity(
            name=name,
            unit=unit,
            role=role,
            column=drawn,
            values=values,
            low=known[0],
            high=known[1],
            above=strict,
            below=strict,
        )

    def _values(self, term: Term) -> Floats:
        """The value of a term on each row: how far it lies above an additional parameter 0."""
        params = self.alone.params
        above = Compare(op="le", left=Param(index=params.shape[1]), right=term, scale=0)
        asked = replace(
            self.alone, skeleton=above, params=np.concatenate([params, np.zeros((1, 1))], axis=1)
        )
        rows, read = self.bound.rows, self.read
        if self.bank.reads_other_rows:
            every = evaluate_bank(asked, self.readings.values, read.timing)
            return np.asarray(every.robustness[rows, 0])
        values = evaluate_bank(asked, self.readings.part(rows), read.timing.take(rows))
        return np.asarray(values.robustness[:, 0])

    def event(self, event: _Event, site: str) -> Json:
        """An event for the list of the page."""
        rows, read = self.bound.rows, self.read
        fault = self._fault(event)
        # a rule over time may not apply at the row to blame, such as the last of a trace
        worst = next(iter(np.flatnonzero(rows == fault).tolist()), event.worst)
        quantity = self._exceeded(worst)
        seconds = read.seconds
        duration = None
        if seconds is not None and event.last > event.first:
            span = float(seconds[rows[event.last]] - seconds[rows[event.first]])
            duration = span if math.isfinite(span) else None
        telling = math.isfinite(event.margin) and is_telling(self.pack, self.bank, self.bound.at)
        return {
            "site": site,
            "entity": self.entity,
            "start": read.time_text(int(rows[event.first])),
            "end": read.time_text(int(rows[event.last])),
            "first": self.where(int(rows[event.first])),
            "last": self.where(int(rows[event.last])),
            "worst_time": read.time_text(fault),
            "worst": self.where(fault),
            "rows": event.rows,
            "duration": duration,
            "margin": f"{event.margin:+.4g}{f' {self.unit}' if self.unit else ''}"
            if telling
            else "",
            "extreme": ""
            if quantity is None or math.isnan(float(quantity.values[worst]))
            else f"{quantity.name} {number(float(quantity.values[worst]))}"
            f"{f' {quantity.unit}' if quantity.unit else ''}",
            "limit": "" if quantity is None else quantity.limit_text(worst),
            "read": "" if self.bank.reads_other_rows else self._readings_text(fault),
        }

    def _fault(self, event: _Event) -> int:
        """The table row to blame: for rules over time the one in the window."""
        row = int(self.bound.rows[event.worst])
        return row_at_fault(self.bank, self.bound.at, self.readings, self.read.timing, row)

    def _readings_text(self, row: int) -> str:
        values = self.readings.part(np.array([row]))[:, 0]
        return readings_text(self.pack, self.bank, self.bound.at, values)

    def _exceeded(self, at: int) -> _Quantity | None:
        """The required quantity that is farthest outside its limits at a row, relative to them.

        Of alternatives, the one that is least outside counts: the margin of an `or` is its.
        """

        def share(one: _Quantity) -> float:
            return one.excess(at) / (abs(float(one.values[at])) or 1.0)

        known = [one for one in self.quantities if math.isfinite(one.excess(at))]
        required = [one for one in known if one.role == "required"]
        alternatives = [one for one in known if one.role == "alternative"]
        if alternatives:
            required.append(min(alternatives, key=lambda one: one.excess(at)))
        return max(required, key=share, default=None)

    def panel(self, event: _Event, site: str) -> Json:
        """The trends over all rows of the trace, also enlarged around an event, and its rows."""
        rows, trace = self.bound.rows, self.read.order.trace
        own = np.flatnonzero(trace[rows] == trace[rows[event.worst]])
        length = max(ZOOM_ROWS, int((2 * ZOOM_MARGIN + 1) * event.rows))
        middle = (event.first + event.last) // 2
        low = max(int(own[0]), min(middle - length // 2, int(own[-1]) - length + 1))
        near = own[(own >= low) & (own < low + length)]
        return {
            "site": site,
            "entity": self.entity,
            "is_ordered": self.read.is_ordered,
            "more_quantities": max(0, len(self.quantities) - MAX_QUANTITIES),
            "whole": self._trends(own),
            "near": self._trends(near) if len(near) < len(own) else None,
            "rows": self._rows(event),
        }

    def _trends(self, at: NDArray[np.int64]) -> Json:
        """The trends of some positions, reduced to `BUCKETS` buckets."""
        rows, read = self.bound.rows[at], self.read
        seconds = read.seconds
        timed = seconds is not None and read.has_clock and bool(np.isfinite(seconds[rows]).all())
        x = seconds[rows] if timed and seconds is not None else rows.astype(np.float64) + 1
        low, high = float(x.min()), float(x.max())
        place = (x - low) / (high - low) if high > low else np.full(len(x), 0.5)
        bucket = np.minimum((place * BUCKETS).astype(np.int64), BUCKETS - 1)
        # a run of rows is shaded from its first row to half a row after its last
        step = float(np.median(np.diff(place))) if len(place) > 1 else 0.01
        return {
            "rows": len(rows),
            "timed": timed,
            "from": read.time_text(int(rows[0])) if timed else self.where(int(rows[0])),
            "to": read.time_text(int(rows[-1])) if timed else self.where(int(rows[-1])),
            "ticks": _ticks(low, high, timed),
            "violated": _spans(self.bound.violated[at], place, step),
            "condition": _spans(self.bound.fired[at], place, step)
            if isinstance(self.alone.skeleton, Implies)
            else [],
            "quantities": [
                _reduced(one, at, place, bucket) for one in self.quantities[:MAX_QUANTITIES]
            ],
        }

    def _rows(self, event: _Event) -> Json:
        """Rows around the worst one: place, time, values, and whether they violate the rule."""
        count = len(self.bound.rows)
        low = max(0, min(event.worst - MAX_ROWS // 2, count - MAX_ROWS))
        shown = self.quantities[:MAX_QUANTITIES]
        return {
            "headers": [f"{one.name}{f' ({one.unit})' if one.unit else ''}" for one in shown],
            "lines": [
                {
                    "where": self.where(int(self.bound.rows[at])),
                    "time": self.read.time_text(int(self.bound.rows[at])),
                    "values": [
                        "unknown" if math.isnan(value := float(one.values[at])) else number(value)
                        for one in shown
                    ],
                    "violated": bool(self.bound.violated[at]),
                    "known": bool(self.bound.violated[at])
                    or not math.isnan(float(self.bound.robustness[at])),
                }
                for at in range(low, min(low + MAX_ROWS, count))
            ],
        }


def _limits(formula: Formula, role: Role, positive: bool) -> Iterator[tuple[Compare, Role, bool]]:
    """The comparisons of a formula, what they mean for the rule, and whether they must hold.

    Comparisons of members are not among them: each member has its own.
    """
    either: Role = "condition" if role == "condition" else "alternative"
    match formula:
        case Compare():
            yield formula, role, positive
        case Not(arg=arg):
            yield from _limits(arg, role, not positive)
        case Implies(antecedent=antecedent, consequent=consequent):
            yield from _limits(antecedent, "condition", True)
            yield from _limits(consequent, role if positive else either, positive)
        case And(args=args) | Or(args=args):
            together = isinstance(formula, And) == positive or len(args) == 1
            for arg in args:
                yield from _limits(arg, role if together else either, positive)
        case Temporal(op=op, arg=arg):
            every = (op in ("always", "historically")) == positive
            yield from _limits(arg, role if every else either, positive)
        case Initially(arg=arg):
            yield from _limits(arg, role, positive)
        case _:
            for part in formula_children(formula):
                yield from _limits(part, either, positive)


def _unit(column: Column) -> str:
    return "" if column.unit == "dimensionless" else unit_suffix(column).strip()


def _is_constant(term: Term) -> bool:
    """Whether a term reads neither a column nor members."""
    parts = [part for _, part in everywhere(term)]
    return not any(isinstance(part, Slot) or hasattr(part, "members") for part in parts)


def _peel(term: Term) -> Term:
    """A term without conversions of its unit: constant factors and summands, and signs."""
    while True:
        if isinstance(term, Negate):
            term = term.arg
            continue
        if not isinstance(term, Product | Sum):
            return term
        varying = [arg for arg in term.args if not _is_constant(arg)]
        if len(varying) != 1:
            return term
        term = varying[0]


def _line_through(x: Floats, y: Floats) -> tuple[float, float]:
    """Factor and shift of y = factor x + shift, for two arrays that lie on such a line; NaN if it
    cannot be told.
    """
    known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if not known.size:
        return math.nan, math.nan
    if np.array_equal(x[known], y[known]):
        return 1.0, 0.0
    first, last = known[np.argmin(x[known])], known[np.argmax(x[known])]
    if x[first] == x[last]:
        return math.nan, math.nan
    factor = float((y[last] - y[first]) / (x[last] - x[first]))
    return factor, float(y[first] - factor * x[first])


def _spans(flags: Bools, place: Floats, step: float) -> list[list[float]]:
    """Runs of true flags as begin and end, from 0 to 1, joined where they share a pixel."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    half, least = min(step, 0.02) / 2, 0.5 / BUCKETS
    spans: list[list[float]] = []
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        begin = max(0.0, round(float(place[start]) - half, 4))
        finish = min(1.0, round(max(float(place[end - 1]) + half, begin + least), 4))
        if spans and begin - spans[-1][1] < least:
            spans[-1][1] = max(spans[-1][1], finish)
        else:
            spans.append([begin, finish])
    return spans


def _reduced(
    one: _Quantity, at: NDArray[np.int64], place: Floats, bucket: NDArray[np.int64]
) -> Json:
    """A quantity as points: all of them, or the least and greatest of each bucket in their order.

    An unknown value is a gap, where its bucket has no known value.
    """
    values, low, high = one.values[at], one.low[at], one.high[at]
    if len(values) <= 2 * BUCKETS:
        kept = np.arange(len(values))
    else:
        starts = np.flatnonzero(np.diff(bucket, prepend=-1))
        ends = np.append(starts[1:], len(bucket))
        chosen: list[int] = []
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            part = values[start:end]
            if np.isnan(part).all():
                chosen.append(start)
                continue
            chosen += sorted({start + int(np.nanargmin(part)), start + int(np.nanargmax(part))})
        kept = np.array(chosen, dtype=np.int64)
    return {
        "name": one.name,
        "unit": one.unit,
        "role": one.role,
        "x": [round(value, 4) for value in place[kept].tolist()],
        "y": [_figure(value) for value in values[kept].tolist()],
        "low": _limit(low[kept]),
        "high": _limit(high[kept]),
        "limit": one.limit_text(int(at[0]))
        if len(set(low.tolist())) == 1 and len(set(high.tolist())) == 1
        else "",
    }


def _limit(values: Floats) -> list[float | None] | float | None:
    """A constant limit as one number, a varying one as a number for each point; None for none."""
    if not np.isfinite(values).any():
        return None
    if len(set(values.tolist())) == 1:
        return _figure(float(values[0]))
    return [_figure(value) for value in values.tolist()]


def _figure(value: float) -> float | None:
    """A number with six significant digits, which are more than a pixel shows; None if unknown."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


_TICK_STEPS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(day * 86_400 for day in (1, 2, 7, 14, 28, 91, 182, 365, 730, 1826, 3652)),
)
"""Distances of two marks of a time axis in seconds."""
MAX_TICKS = 5
"""Number of marks of an axis."""


def _ticks(low: float, high: float, timed: bool) -> list[list[Any]]:
    """Marks of the horizontal axis at round numbers: place from 0 to 1, and text."""
    span = high - low
    if span <= 0:
        return []
    if timed:
        step = next((one for one in _TICK_STEPS if span / one <= MAX_TICKS), span / 2)
        form = "%Y-%m-%d" if step >= 86_400 else "%m-%d %H:%M" if span > 86_400 else "%H:%M"
        form += ":%S" if step < 60 else ""
    else:
        size = 10.0 ** math.floor(math.log10(span / MAX_TICKS))
        step = next(size * one for one in (1, 2, 5, 10) if span / (size * one) <= MAX_TICKS)
    marks = np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step
    return [
        [
            round((mark - low) / span, 4),
            f"{datetime.fromtimestamp(mark, UTC):{form}}" if timed else f"{mark:,.0f}",
        ]
        for mark in marks.tolist()
    ]
