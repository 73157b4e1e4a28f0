"""Measurements for causal discovery from a sites file: each site is a client.

fedkg aligns the tables of the sites by their times, or by row where no site describes times.
Letters: N rows of a table, T steps that all sites have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import JobError, TableError
from fedkg.evaluation.table_time_steps import OFF_GRID
from fedkg.learned_knowledge_records import TimeRange
from fedkg.pack import Column, DataContract
from fedkg.pack.formula_text import duration_text
from fedkg.sites import SitesFile, load_sites, read_site
from fedkg.sites.reader import find_time_header, reject_lists, search_contract
from fedkg.sites.sites_file import find_site
from fedkg.tables import Table, in_utc
from fedkg.units.header import header_unit

F64 = NDArray[np.float64]
EPOCH = datetime(1970, 1, 1)
RESOLUTION = 1e-6
"""Seconds between two times that differ: times have microseconds."""
MAX_STEPS = 10_000_000
"""Most common steps of the sites: a wrong time must not exhaust the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteClock:
    """The times of one site.

    Attributes:
        time: whether the site has a time column, and its kind: "" for none, ``seconds`` for
            numbers, ``local`` or ``utc``.
        rows: number of rows.
        first, last: seconds of the first and the last row; numbers of rows without times.
    """

    time: Literal["", "seconds", "local", "utc"]
    rows: int
    first: float
    last: float

    def format(self, seconds: float) -> str:
        """A time of this clock as text."""
        if self.time in ("", "seconds"):
            return f"{seconds:.12g}"
        zone = "Z" if self.time == "utc" else ""
        return (EPOCH + timedelta(seconds=seconds)).isoformat() + zone


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteSeries:
    """The table of one site as a series.

    Attributes:
        signals: header in the table of each measured signal.
        time: header of the time column; None if the site describes none.
        seconds: float64 [N], increasing; without a time column the numbers of the rows, from 0.
        zoned: whether the times are in UTC.
    """

    table: Table
    files: tuple[str, ...]
    signals: Mapping[str, str]
    time: str | None
    seconds: F64
    zoned: bool

    @property
    def clock(self) -> SiteClock:
        """The times of the table."""
        kind: Literal["", "seconds", "local", "utc"] = "utc" if self.zoned else "local"
        if self.time is None:
            kind = ""
        elif self.table.is_numeric(self.time):
            kind = "seconds"
        first, last = float(self.seconds[0]), float(self.seconds[-1])
        return SiteClock(time=kind, rows=self.table.rows, first=first, last=last)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteMeasurements:
    """The measurements of all sites on their common steps.

    Attributes:
        series: the sites by name.
        rows: for each site int64 [T], the row of each step; -1 where the table has none.
        start: seconds of the first step.
        step: seconds between two steps.
    """

    series: Mapping[str, SiteSeries]
    rows: Mapping[str, NDArray[np.int64]]
    start: float
    step: float

    @property
    def outside(self) -> dict[str, int]:
        """For each site the rows of its table outside the common times."""
        return {
            name: one.table.rows - int((self.rows[name] >= 0).sum())
            for name, one in self.series.items()
        }

    @property
    def clients(self) -> dict[str, tuple[str, ...]]:
        """Names of the measurements of each site, such as `graz pressure`."""
        return {
            name: tuple(f"{name} {signal}" for signal in one.signals)
            for name, one in self.series.items()
        }

    def columns(self) -> dict[str, F64]:
        """The measurements by name, float64 [T], NaN where unknown.

        Raises TableError for a column with another text, or without numbers in the common steps.
        """
        found = {}
        for name, one in self.series.items():
            rows = self.rows[name]
            for signal, header in one.signals.items():
                values = np.where(rows < 0, np.nan, one.table.numbers(header)[rows])
                if not np.isfinite(values).any():
                    raise TableError(
                        f"{one.table.name}: column `{header}` contains no numbers in the steps "
                        "that all sites have in common",
                        help=f"leave out this signal in `clients` of the job: {{{name}: [...]}}",
                    )
                found[f"{name} {signal}"] = values
        return found

    def time_range(self, steps: int) -> TimeRange:
        """First and last time of the first `steps` steps; numbers of rows without times."""
        return self._format_time(0), self._format_time(steps - 1)

    def describe_place(self, name: str, step: int) -> str:
        """Where the table of a site has a step (from 0), for messages."""
        table, row = self.series[name].table, int(self.rows[name][step])
        if row < 0:
            return f"{table.name}, no row for {self._format_time(step)}"
        return f"{table.name}, {table.where(row)}"

    def _format_time(self, step: int) -> str:
        one = next(iter(self.series.values()))
        seconds = self.start + step * self.step
        if one.time is None:
            return f"row {step + 1}"
        return one.clock.format(seconds)


def read_site_measurements(
    path: str, clients: Mapping[str, tuple[str, ...]], contract: DataContract | None
) -> SiteMeasurements:
    """Read the measurements of sites.

    Signals have the unit of the rules, or else the unit that the first site states.

    Args:
        path: the sites file.
        clients: the signals of each site; no signals: all columns of numbers; empty: all sites.
        contract: of the rules; its timeline names the time column and the step.

    Raises:
        UsageError: the sites file or a site does not exist.
        TableError: a table cannot be read, lacks a signal, or has times that repeat, decrease or
            lie between the steps.
        JobError: the file describes one site, or the sites have no common steps.
    """
    sites = load_sites(path)
    clients = clients or dict.fromkeys(sites.sites, ())
    if len(clients) < 2:
        raise JobError(
            f"data.sites_file: {path} describes one site, {', '.join(clients)}",
            expected="two or more: causes are between sites",
            help="describe a second site",
        )
    units = merge_units(list_units(sites, name, clients[name], contract) for name in clients)
    described = add_units(contract, units)
    series = {name: read_series(sites, name, clients[name], described) for name in clients}
    clocks = {name: one.clock for name, one in series.items()}
    start, stop = find_common_times(path, clocks)
    step = find_step(
        clocks, contract, (count_differences(one, start, stop) for one in series.values())
    )
    steps = count_steps(path, start, stop, step)
    rows = {name: find_rows(one, start, step, steps) for name, one in series.items()}
    return SiteMeasurements(series=series, rows=rows, start=start, step=step)


def describe_alignment(timed: bool, outside: Mapping[str, int]) -> tuple[str, ...]:
    """Remarks for the user.

    Args:
        timed: whether the sites have times.
        outside: for each site the rows outside the common times.
    """
    notes = []
    if not timed:
        notes.append("no site describes a time column: row n is the same step at all sites")
    for name, rows in outside.items():
        if rows:
            lie = "row lies" if rows == 1 else "rows lie"
            notes.append(f"{name}: {rows:,} {lie} outside the times of the other sites")
    return tuple(notes)


def list_units(
    sites: SitesFile, name: str, wanted: tuple[str, ...], contract: DataContract | None
) -> dict[str, str]:
    """The units that a site states for its measured signals and that the rules do not know, by
    signal: by `unit` or in brackets after a title.
    """
    units: dict[str, str] = {}
    for column in find_site(sites, name).table_schema.columns:
        kind = column.datatype.kind if column.datatype is not None else ""
        if (
            (wanted and column.key not in wanted)
            or column.suppress_output
            or kind not in ("", "number")
            or header_unit(column.key)  # a unit in the name is that of all sites
            or search_contract(contract, column.key, *column.titles) is not None
        ):
            continue
        titled = (found.text for title in column.titles if (found := header_unit(title)))
        unit = units.get(column.key) or column.unit or next(titled, "")
        if unit:
            units[column.key] = unit
    return units


def merge_units(each: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The unit of each signal: that of the first site that states one."""
    merged: dict[str, str] = {}
    for units in each:
        merged |= {key: unit for key, unit in units.items() if key not in merged}
    return merged


def add_units(contract: DataContract | None, units: Mapping[str, str]) -> DataContract:
    """The contract of the rules, with a column for each of these signals."""
    own = tuple(Column(name=key, source=key, unit=unit) for key, unit in units.items())
    if contract is None:
        return DataContract(columns=own)
    return contract.model_copy(update={"columns": (*contract.columns, *own)})


def read_series(
    sites: SitesFile, name: str, wanted: tuple[str, ...], contract: DataContract
) -> SiteSeries:
    """The table of a site with its signals and times."""
    read, section = read_site(sites, name, contract), find_site(sites, name)
    table = read.table
    if not table.rows:
        raise TableError(f"{table.name} has no rows", help=f"correct `url` of site {name}")
    time = find_time_header(section, contract)
    if time is not None and time not in table:
        raise table.missing(time, needed=f"the timeline of the rules needs at site {name}")
    shared = Counter(one.signal for one in read.columns)
    headers = {
        (one.signal if shared[one.signal] == 1 else "") or one.key: one.target
        for one in read.columns
        if one.target in table
    }
    if wanted:
        signals = {}
        keys = {one.key: one.target for one in read.columns}
        for signal in wanted:
            header = headers.get(signal, keys.get(signal, signal))
            if header not in table:
                raise table.missing(signal, needed=f"clients.{name} of the job names")
            signals[signal] = header
        reject_lists(read, signals.values())
    else:
        names = {header: signal for signal, header in headers.items()}
        others = {time, contract.trace, *section.table_schema.primary_key}
        others |= {one.target for one in read.columns if not one.header or one.list_place}
        signals = {
            names.get(header, header): header
            for header in table.headers
            if header not in others and table.is_numeric(header)
        }
        if not signals:
            raise TableError(
                f"{table.name}: site {name} has no column of numbers",
                help=f"describe a column of site {name} with `datatype: number` in {sites.path}",
            )
    if time is None:
        seconds, zoned = np.arange(table.rows, dtype=np.float64), False
    else:
        seconds, zoned = _read_times(table, time)
    return SiteSeries(
        table=table, files=read.files, signals=signals, time=time, seconds=seconds, zoned=zoned
    )


def _read_times(table: Table, header: str) -> tuple[F64, bool]:
    """The times of a table in seconds, float64 [N], and whether they are in UTC.

    Raises TableError for a time that is unknown, or not later than that of the row before.
    """
    texts, zoned = table.texts(header), False
    if table.is_numeric(header):
        seconds = table.numbers(header)
    else:
        moments, zoned = in_utc(table.times(header)[0], texts, f"{table.name}: column `{header}`")
        seconds = np.array(
            [np.nan if one is None else (one - EPOCH).total_seconds() for one in moments]
        )
    unknown = np.flatnonzero(np.isnan(seconds))
    if unknown.size:
        row = int(unknown[0])
        raise TableError(
            f"{table.name}, {table.where(row)}: column `{header}` has no time",
            expected="a time in each row",
            received=f'"{texts[row]}"' if texts[row] else "an empty cell",
            help="complete the time or remove the row; or state the `format` of the column in the "
            "sites file",
        )
    late = np.flatnonzero(np.diff(seconds) <= 0)
    if late.size:
        row = int(late[0]) + 1
        raise TableError(
            f"{table.name}, {table.where(row)}: the time in `{header}` "
            + ("repeats" if seconds[row] == seconds[row - 1] else "decreases"),
            expected=f"a time later than that of the row before, {texts[row - 1]}",
            received=texts[row],
            help="correct or remove the row; give each series, such as each machine, a site; "
            "state `timezone` in the sites file for clocks that repeat an hour",
        )
    return seconds, zoned


def find_common_times(path: str, clocks: Mapping[str, SiteClock]) -> tuple[float, float]:
    """Seconds of the first and the last time that all sites have in common.

    Args:
        path: the sites file, or what stands for it in messages.
        clocks: the clocks of the sites.

    Raises TableError, JobError for tables that cannot be aligned.
    """
    _check_clocks(path, clocks)
    start = max(one.first for one in clocks.values())
    stop = min(one.last for one in clocks.values())
    if stop < start:
        raise JobError(
            f"data.sites_file: the sites of {path} have no time in common",
            received="; ".join(
                f"{name} {one.format(one.first)} to {one.format(one.last)}"
                for name, one in clocks.items()
            ),
            help="use tables of the same period, or name the sites with common times in `clients`",
        )
    return start, stop


def _check_clocks(path: str, clocks: Mapping[str, SiteClock]) -> None:
    """Raise TableError for tables that cannot be aligned."""
    first_name, first = next(iter(clocks.items()))
    for name, one in clocks.items():
        if (not one.time) != (not first.time):
            bare = name if not one.time else first_name
            raise TableError(
                f"{path}: site {bare} describes no time column, and other sites do",
                expected="times at all sites, or at none: then row n is the same step at all sites",
                help=f"describe the time column of {bare}: "
                "{name: time, titles: HEADER, datatype: datetime}",
            )
        if not one.time and one.rows != first.rows:
            raise TableError(
                f"{path}: {first_name} and {name} have no times and different numbers of rows",
                expected="row n is the same step at all sites",
                received=f"{first_name}: {first.rows:,} rows, {name}: {one.rows:,}",
                help="describe the time columns, or remove rows",
            )
        if (one.time == "utc") != (first.time == "utc"):
            bare = first_name if one.time == "utc" else name
            raise TableError(
                f"{path}: the times of site {bare} name no zone, and those of other sites do",
                expected="zones at all sites, or at none",
                help=f"state `timezone` of site {bare}",
            )


def count_differences(one: SiteSeries, start: float, stop: float) -> dict[float, int]:
    """How often each difference of times occurs between two rows of a site, from `start` to `stop`;
    in seconds.
    """
    inside = one.seconds[(one.seconds >= start) & (one.seconds <= stop)]
    found = np.maximum(np.diff(inside).round(6), RESOLUTION)
    differences, counts = np.unique(found, return_counts=True)
    return dict(zip(differences.tolist(), counts.tolist(), strict=True))


def find_step(
    clocks: Mapping[str, SiteClock],
    contract: DataContract | None,
    differences: Iterable[Mapping[float, int]],
) -> float:
    """Seconds between two steps: those of the rules, or else the most frequent difference of times,
    of equally frequent ones the smallest; 1 without times.

    Args:
        clocks: the clocks of the sites.
        contract: of the rules.
        differences: see `count_differences`, for each site.
    """
    if not all(one.time for one in clocks.values()):
        return 1.0
    if contract is not None and contract.step is not None:
        return contract.step
    counts: Counter[float] = Counter()
    for one in differences:
        counts.update(one)
    return min(counts, key=lambda value: (-counts[value], value), default=1.0)


def count_steps(path: str, start: float, stop: float, step: float) -> int:
    """The number of common steps. Raises JobError for more than `MAX_STEPS`."""
    steps = round((stop - start) / step) + 1
    if steps > MAX_STEPS:
        raise JobError(
            f"data.sites_file: the common times of {path} are {steps:.3g} steps of "
            f"{duration_text(step)}",
            expected=f"{MAX_STEPS:,} at most",
            help="correct the times, or use tables of a shorter period",
        )
    return steps


def find_rows(one: SiteSeries, start: float, step: float, steps: int) -> NDArray[np.int64]:
    """The row of each step, int64 [T]; -1 without one.

    Raises TableError for a row between two steps, or in the step of the row before.
    """
    exact = (one.seconds - start) / step
    inside = np.flatnonzero((exact > -0.5) & (exact < steps - 0.5))
    number = np.round(exact[inside]).astype(np.int64)
    between = np.abs(exact[inside] - number) > OFF_GRID
    again = np.diff(number, prepend=-1) == 0
    wrong = np.flatnonzero(between | again)
    if wrong.size:
        row = int(inside[wrong[0]])
        what = (
            f"lies between the steps of {duration_text(step)}"
            if between[wrong[0]]
            else f"lies in the same step of {duration_text(step)} as the row before"
        )
        raise TableError(
            f"{one.table.name}, {one.table.where(row)}: the time {what}",
            expected=f"steps from {one.clock.format(start)}, which all sites have in common",
            received=one.clock.format(float(one.seconds[row])),
            help="resample the table to the steps of the other sites",
        )
    rows = np.full(steps, -1, dtype=np.int64)
    rows[number] = inside
    return rows
