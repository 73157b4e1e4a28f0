"""The measurements for causal discovery: table columns, the sites of a sites file, a data set, or a
generated plant.

Letters: T steps, D measurements of a client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import did_you_mean
from fedkg.data.sets.first_and_last_time import time_range_of_rows, time_range_of_times
from fedkg.errors import JobError, TableError
from fedkg.granger.kalman import Client, steady_gain
from fedkg.granger.state_extraction import Measured
from fedkg.granger.synthetic_systems import System, places_of, recorded
from fedkg.jobs.causes.aligned_site_tables import (
    SiteMeasurements,
    describe_alignment,
    read_site_measurements,
)
from fedkg.jobs.causes.data_set_time_series import default_clients, longest_stretch, read_columns
from fedkg.jobs.causes.detrending import remove_season, remove_trend
from fedkg.jobs.causes.job_file import CausesJob, PlantData
from fedkg.learned_knowledge_records import TimeRange
from fedkg.pack import DataContract
from fedkg.tables import Table, read_table

F64 = NDArray[np.float64]
MIN_STEPS = 10
"""Fewest steps for causal discovery."""
PLANT_DYNAMICS = (0.98, 0.5)
"""State decay of the first client of a generated plant, and of the others.

Effects of slow drivers are detectable.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurements:
    """The measurements of the clients.

    Attributes:
        notes: remarks, such as the number of interpolated values.
        models: for a generated plant, the clients with their true local models.
        truth: for a generated plant, bool [M, M], the true causes (columns drive rows).
        time_range: first and last time of the training steps; row numbers without a time column.
        files: the files of the sites file.
        interpolated: number of unknown values that fedkg interpolated.
    """

    clients: tuple[Measured, ...]
    notes: tuple[str, ...] = ()
    models: tuple[Client, ...] = ()
    truth: NDArray[np.bool_] | None = None
    time_range: TimeRange | None = None
    files: tuple[str, ...] = ()
    interpolated: int = 0


def read_measurements(job: CausesJob, contract: DataContract | None = None) -> Measurements:
    """Read the measurements of a job.

    Args:
        contract: of the job's rules; a sites file gives signals the units of the rules.

    Raises:
        UsageError: the sites file cannot be read, or does not describe a site of the job.
        TableError: a file or column cannot be read.
        JobError: a gap is longer than the job allows, or two clients share a column.
    """
    if job.data.set is not None:
        return _read_data_set(job)
    if job.data.sites_file is not None:
        return _read_sites(job, job.data.sites_file, contract)
    if job.data.path is None:
        return generate_plant(job.data.plant)
    table = read_table(job.data.path)
    if table.rows < MIN_STEPS:
        raise TableError(
            f"{table.name} is too short",
            expected=f"a row for each step, {MIN_STEPS} or more",
            received=f"{table.rows} row{'' if table.rows == 1 else 's'}",
            help="use a longer recording",
        )
    _check_owners(job.clients)
    read: dict[str, F64] = {}
    for client, column in (
        (client, column) for client, columns in job.clients.items() for column in columns
    ):
        if column not in table:
            raise table.missing(column, needed=f"client {client} measures")
        read[column] = table.numbers(column).copy()
        if not np.isfinite(read[column]).any():
            raise TableError(
                f"{table.name}: column `{column}` contains no numbers",
                help="remove the column from `clients`, or use a table with its values",
            )
        where = partial(_describe_row, table)
        _reject_gaps(column, read[column], job.data.gaps, where)
    return replace(
        _make_clients(job, job.clients, read),
        time_range=time_range_of_rows(table, training_steps(job, table.rows), list(read)),
    )


def _check_owners(clients: Mapping[str, tuple[str, ...]]) -> None:
    owner: dict[str, str] = {}
    for client, columns in clients.items():
        if not columns:
            raise JobError(
                f"clients.{client}: the list of columns is empty",
                expected="at least one column",
                help="list the columns of this client, or remove the client",
            )
        for column in columns:
            if column in owner:
                raise JobError(
                    f"clients.{client}: column `{column}` already belongs to client "
                    f"{owner[column]}",
                    help="assign each column to one client",
                )
            owner[column] = client


def _describe_row(table: Table, row: int) -> str:
    """The file and the row, counted from 0."""
    return f"{table.name}, {table.where(row)}"


def _reject_gaps(column: str, values: F64, most: int, where: Callable[[int], str]) -> None:
    """Raise JobError for a gap of more than `most` steps; `where` describes a step (from 0)."""
    run = 0
    for row, here in enumerate((~np.isfinite(values)).tolist()):
        run = run + 1 if here else 0
        if run > most:
            steps = f"{most} step{'' if most == 1 else 's'}"
            raise JobError(
                f"{where(row)}: column `{column}` has "
                + (f"a gap of more than {steps}" if most else "no number"),
                expected=f"gaps of at most {steps} (`data.gaps`)"
                if most
                else "a number in every row (`data.gaps` is 0)",
                help="increase data.gaps, or remove the column",
            )


def _read_sites(job: CausesJob, path: str, contract: DataContract | None) -> Measurements:
    """The measurements of the sites of a sites file, on their common steps."""
    read = read_site_measurements(path, job.clients, contract)
    made = align_measurements(job, read)
    timed = all(one.time is not None for one in read.series.values())
    files = (path, *(file for one in read.series.values() for file in one.files))
    notes = (*describe_alignment(timed, read.outside), *made.notes)
    return replace(made, notes=notes, files=files)


def align_measurements(job: CausesJob, read: SiteMeasurements) -> Measurements:
    """The measurements of sites on their common steps.

    Raises:
        TableError: a column has no numbers.
        JobError: a gap is longer than the job allows.
    """
    columns = read.columns()
    for name, own in read.clients.items():
        for column in own:
            where = partial(read.describe_place, name)
            _reject_gaps(column, columns[column], job.data.gaps, where)
    made = _make_clients(job, read.clients, columns)
    known = training_steps(job, len(made.clients[0].values))
    return replace(made, time_range=read.time_range(known))


def _read_data_set(job: CausesJob) -> Measurements:
    """The longest part of a data set without gaps beyond the job's limit."""
    assert job.data.set is not None
    sheet = read_columns(job.data)
    clients = job.clients or default_clients(job.data.set, sheet)
    _check_owners(clients)
    for client, column in (
        (client, column) for client, columns in clients.items() for column in columns
    ):
        if column not in sheet.columns:
            near = did_you_mean(
                column, sheet.columns, f"the data set has {', '.join(list(sheet.columns)[:8])}"
            )
            raise JobError(f"clients.{client}: {job.data.set} has no column `{column}`", help=near)
    used = [column for columns in clients.values() for column in columns]
    unknown = ~np.isfinite(np.stack([sheet.columns[column] for column in used], axis=1))
    kept = longest_stretch(unknown, job.data.gaps)
    if kept.stop - kept.start < MIN_STEPS:
        raise JobError(
            f"{sheet.name}: no {MIN_STEPS} consecutive steps are free of gaps of "
            f"more than {job.data.gaps} steps",
            help="increase data.gaps, or remove clients with long gaps",
        )
    notes = list(sheet.notes)
    if kept.stop - kept.start < len(unknown):
        notes.append(
            f"steps {kept.start + 1:,} to {kept.stop:,} of {len(unknown):,}: the longest "
            "part without longer gaps"
        )
    starts = [start - kept.start for start in sheet.starts if kept.start < start < kept.stop]
    made = _make_clients(
        job,
        clients,
        {column: sheet.columns[column][kept].copy() for column in used},
        starts=(0, *starts),
    )
    learnt = sheet.time[kept][: training_steps(job, kept.stop - kept.start)]
    return replace(
        made, notes=(*notes, *made.notes), time_range=time_range_of_times(learnt, sheet.source)
    )


def _make_clients(
    job: CausesJob,
    clients: Mapping[str, tuple[str, ...]],
    read: Mapping[str, F64],
    starts: Sequence[int] = (0,),
) -> Measurements:
    """The clients with interpolated gaps, and without season and trend if the job asks for it.

    fedkg interpolates gaps in the training steps from training steps alone.

    Raises:
        JobError: a column has no value in the training steps.
    """
    filled, made = 0, []
    for client, columns in clients.items():
        values = np.stack([read[column] for column in columns], axis=1)
        known = training_steps(job, len(values))
        for name, column in zip(columns, values.T, strict=True):
            if not np.isfinite(column[:known]).any():
                raise JobError(
                    f"clients.{client}: column `{name}` has no value in the {known:,} "
                    "training steps (`data.train`)",
                    help="increase data.train, or remove the column",
                )
            for part in (column[:known], column):
                unknown = ~np.isfinite(part)
                steps = np.arange(len(part))
                part[unknown] = np.interp(steps[unknown], steps[~unknown], part[~unknown])
                filled += int(unknown.sum())
        if job.data.season is not None:
            values = remove_season(values, job.data.season, training_steps(job, len(values)))
        if job.data.trend is not None:
            values = remove_trend(values, job.data.trend, starts)
        made.append(Measured(name=client, columns=columns, values=values))
    return Measurements(
        clients=tuple(made), notes=describe_changes(job, filled), interpolated=filled
    )


def describe_changes(job: CausesJob, interpolated: int) -> tuple[str, ...]:
    """Remarks about what fedkg changed in the measurements."""
    notes = []
    if interpolated:
        notes.append(f"fedkg interpolated {interpolated:,} unknown values")
    if job.data.season is not None:
        notes.append(
            f"fedkg removed the mean seasonal pattern of {job.data.season} steps from every column"
        )
    if job.data.trend is not None:
        notes.append(
            f"fedkg removed the mean of the {job.data.trend} preceding steps from every column"
        )
    return tuple(notes)


def training_steps(job: CausesJob, steps: int) -> int:
    """Number of training steps. Raises JobError for fewer than `MIN_STEPS`."""
    known = steps if job.data.train == 1 else int(steps * job.data.train)
    if known < MIN_STEPS:
        raise JobError(
            f"data.train: {job.data.train:g} of {steps:,} steps gives {known} training steps",
            expected=f"{MIN_STEPS} or more",
            help="increase data.train, or provide more steps",
        )
    return known


def generate_plant(plant: PlantData) -> Measurements:
    """A plant in which each client drives the next; the first is slow and loud, the others fast and
    quiet.
    """
    stream = np.random.default_rng(plant.seed)
    slow, fast = PLANT_DYNAMICS
    own = np.diag([slow] + [fast] * (plant.clients - 1))
    transition = np.kron(own, np.eye(2)) + np.kron(
        np.eye(plant.clients, k=-1), np.full((2, 2), plant.drive)
    )
    process = np.diag(np.repeat([1.0] + [0.01] * (plant.clients - 1), 2))
    emissions = tuple(
        stream.standard_normal((plant.measurements, 2)) / np.sqrt(plant.measurements)
        for _ in range(plant.clients)
    )
    system = System(
        transition=np.asarray(transition, dtype=np.float64),
        emissions=emissions,
        process=process,
        noise=0.01,
    )
    seen = recorded(system, plant.steps, seed=plant.seed + 1)
    names = [f"unit {place + 1}" for place in range(plant.clients)]
    clients = tuple(
        Measured(
            name=name,
            columns=tuple(f"{name} sensor {d + 1}" for d in range(values.shape[1])),
            values=values,
        )
        for name, values in zip(names, seen.measurements, strict=True)
    )
    models = []
    for one, place, emission in zip(clients, places_of(system.sizes), emissions, strict=True):
        own_block = np.ascontiguousarray(transition[place, place])
        gain = steady_gain(
            own_block, emission, 0.1 * np.eye(2), system.noise * np.eye(len(emission))
        )
        models.append(
            Client(
                name=one.name,
                transition=own_block,
                emission=emission,
                gain=gain,
                measurements=one.values,
            )
        )
    return Measurements(
        clients=clients, models=tuple(models), truth=np.eye(plant.clients, k=-1).astype(np.bool_)
    )
