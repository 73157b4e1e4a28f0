"""Measurements for causal discovery from a sites file: each site is a client.

fedkg aligns the tables of the sites by their times, or by row where no site describes times.
Letters: N rows of a table, T steps that all sites have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import JobError, TableError
from fedkg.evaluation.table_timing import OFF_GRID
from fedkg.learned_knowledge import TimeRange
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteMeasurements:
    """The measurements of all sites on their common steps.

    Attributes:
        series: the sites by name.
        rows: for each site int64 [T], the row of each step; -1 where the table has none.
        start: seconds of the first step.
        step: seconds between two steps.
        notes: remarks for the user.
    """

    series: Mapping[str, SiteSeries]
    rows: Mapping[str, NDArray[np.int64]]
    start: float
    step: float
    notes: tuple[str, ...]

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
                        "of all sites",
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
        return _format_seconds(one, seconds)


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
    described = _add_units(sites, clients, contract)
    series = {name: _read_series(sites, name, clients[name], described) for name in clients}
    _check_clocks(path, series)
    timed = all(one.time is not None for one in series.values())
    start = max(float(one.seconds[0]) for one in series.values())
    stop = min(float(one.seconds[-1]) for one in series.values())
    if stop < start:
        raise JobError(
            f"data.sites_file: the sites of {path} have no time in common",
            received="; ".join(
                f"{name} {_format_seconds(one, float(one.seconds[0]))} to "
                f"{_format_seconds(one, float(one.seconds[-1]))}"
                for name, one in series.items()
            ),
            help="take tables of the same period, or name the sites with common times in `clients`",
        )
    step = 1.0
    if timed:
        stated = contract.step if contract is not None else None
        step = stated if stated is not None else _find_step(series, start, stop)
    steps = round((stop - start) / step) + 1
    if steps > MAX_STEPS:
        raise JobError(
            f"data.sites_file: the common times of {path} are {steps:.3g} steps of "
            f"{duration_text(step)}",
            expected=f"{MAX_STEPS:,} at most",
            help="correct the times, or take tables of a shorter period",
        )
    rows: dict[str, NDArray[np.int64]] = {}
    notes = []
    if not timed:
        notes.append("no site describes a time column: row n is the same step at all sites")
    for name, one in series.items():
        rows[name] = _find_rows(one, start, step, steps)
        outside = one.table.rows - int((rows[name] >= 0).sum())
        if outside:
            lie = "row lies" if outside == 1 else "rows lie"
            notes.append(f"{name}: {outside:,} {lie} outside the times of the other sites")
    return SiteMeasurements(series=series, rows=rows, start=start, step=step, notes=tuple(notes))


def _add_units(
    sites: SitesFile, clients: Mapping[str, tuple[str, ...]], contract: DataContract | None
) -> DataContract:
    """The contract of the rules, with a column for each other measured signal that has a unit.

    The unit is that of the first site that states one, by `unit` or in brackets after a title.
    """
    units: dict[str, str] = {}
    for name, wanted in clients.items():
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
    own = tuple(Column(name=key, source=key, unit=unit) for key, unit in units.items())
    if contract is None:
        return DataContract(columns=own)
    return contract.model_copy(update={"columns": (*contract.columns, *own)})


def _read_series(
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
                help=f"correct its description in {sites.path}",
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


def _check_clocks(path: str, series: Mapping[str, SiteSeries]) -> None:
    """Raise an error for tables that cannot be aligned."""
    first_name, first = next(iter(series.items()))
    for name, one in series.items():
        if (one.time is None) != (first.time is None):
            bare = name if one.time is None else first_name
            raise TableError(
                f"{path}: site {bare} describes no time column, and other sites do",
                expected="times at all sites, or at none: then row n is the same step at all sites",
                help=f"describe the time column of {bare}: "
                "{name: time, titles: HEADER, datatype: datetime}",
            )
        if one.time is None and one.table.rows != first.table.rows:
            raise TableError(
                f"{path}: {first_name} and {name} have no times and differ in their rows",
                expected="row n is the same step at all sites",
                received=f"{first_name}: {first.table.rows:,} rows, {name}: {one.table.rows:,}",
                help="describe the time columns, or remove rows",
            )
        if one.zoned != first.zoned:
            bare = first_name if one.zoned else name
            raise TableError(
                f"{path}: the times of site {bare} name no zone, and those of other sites do",
                expected="zones at all sites, or at none",
                help=f"state `timezone` of site {bare}",
            )


def _find_step(series: Mapping[str, SiteSeries], start: float, stop: float) -> float:
    """Seconds between two steps: the most frequent difference of times from `start` to `stop`."""
    found = []
    for one in series.values():
        inside = one.seconds[(one.seconds >= start) & (one.seconds <= stop)]
        found.append(np.maximum(np.diff(inside).round(6), RESOLUTION))
    differences, counts = np.unique(np.concatenate(found), return_counts=True)
    return float(differences[counts.argmax()]) if counts.size else 1.0


def _find_rows(one: SiteSeries, start: float, step: float, steps: int) -> NDArray[np.int64]:
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
        what = "between the steps" if between[wrong[0]] else "in the step of the row before, steps"
        raise TableError(
            f"{one.table.name}, {one.table.where(row)}: the time lies {what} of "
            f"{duration_text(step)}",
            expected=f"steps from {_format_seconds(one, start)}, which all sites have in common",
            received=_format_seconds(one, float(one.seconds[row])),
            help="resample the table to the steps of the other sites",
        )
    rows = np.full(steps, -1, dtype=np.int64)
    rows[number] = inside
    return rows


def _format_seconds(one: SiteSeries, seconds: float) -> str:
    if one.time is None or one.table.is_numeric(one.time):
        return f"{seconds:.12g}"
    return (EPOCH + timedelta(seconds=seconds)).isoformat() + ("Z" if one.zoned else "")
