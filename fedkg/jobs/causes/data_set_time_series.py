"""Columns for causal discovery from a data set: parallel series, or runs one after the other.

Letters: T steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import did_you_mean
from fedkg.data.sets import DataSet, data_set, series
from fedkg.data.sets.testbeds import process_of
from fedkg.errors import JobError
from fedkg.jobs.causes.job_file import CausesData

F64 = NDArray[np.float64]
SIDE_BY_SIDE = ("traffic", "fhwa", "sumo")
"""Data sets with one column per series, because their series run in parallel.

Other data sets consist of consecutive runs with common columns.
"""
CMAPSS_MODULES: Mapping[str, tuple[str, ...]] = {
    "fan": ("T2", "P2", "P15", "Nf", "NRf", "BPR"),
    "low-pressure compressor": ("T24",),
    "high-pressure compressor": ("T30", "P30", "Ps30", "Nc", "NRc", "htBleed"),
    "combustor": ("phi", "farB"),
    "turbines": ("T50", "epr", "W31", "W32"),
}
"""The sensors of C-MAPSS by engine module (Saxena, Goebel, Simon and Eklund 2008, table 2).

The bypass duct belongs to the fan and the fuel flow to the combustor. Bleed of the high-pressure
compressor belongs to that compressor. Coolant bleeds, T50 and the pressure ratio at the end of the
low-pressure turbine belong to the turbines. Both demanded speeds are settings of no module.
"""
SKAB_GROUPS: Mapping[str, tuple[str, ...]] = {
    "vibration": ("Accelerometer1RMS", "Accelerometer2RMS"),
    "power": ("Current", "Voltage"),
    "heat": ("Temperature", "Thermocouple"),
    "flow": ("Pressure", "Volume Flow RateRMS"),
}
"""The sensors of SKAB by measured quantity."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnSeries:
    """Columns with T steps each.

    Attributes:
        source: the data set.
        time: [T], in the unit of the data set, NaN if unknown.
        starts: first step of every run.
        notes: remarks for the user.
    """

    name: str
    columns: dict[str, F64]
    source: DataSet
    time: F64
    starts: tuple[int, ...] = (0,)
    notes: tuple[str, ...] = ()


def read_columns(data: CausesData) -> ColumnSeries:
    """The columns of the job's data set; unknown values are NaN.

    Raises:
        JobError: the data set is unknown or not a series, or a run does not exist.
        TableError: its files have an unexpected layout.
    """
    assert data.set is not None
    source = data_set(data.set, data.path, seed=data.plant.seed, size=data.size)
    if source.x.ndim != 2 or source.time is None:
        raise JobError(
            f"data.set: {data.set} is not a series of measurements",
            help="use a series, such as traffic, cmapss, skab or hai",
        )
    return _parallel_series(source) if data.set in SIDE_BY_SIDE else _consecutive_runs(source, data)


def _parallel_series(source: DataSet) -> ColumnSeries:
    each = series(source)
    start, stop = min(one.time[0] for one in each), max(one.time[-1] for one in each)
    steps = round((stop - start) / source.step) + 1
    columns = {}
    for one in each:
        at = round((one.time[0] - start) / source.step)
        for position, feature in enumerate(source.features):
            own = np.full(steps, np.nan)
            own[at : at + len(one.x)] = one.x[:, position]
            columns[one.client if len(source.features) == 1 else f"{one.client} {feature}"] = own
    return ColumnSeries(
        name=source.source,
        columns=columns,
        source=source,
        time=start + np.arange(steps) * source.step,
        notes=source.notes,
    )


def _consecutive_runs(source: DataSet, data: CausesData) -> ColumnSeries:
    """The runs in `data.runs`, or all runs outside the data set's test split."""
    names = source.client_names
    for run in data.runs:
        if run not in names:
            raise JobError(
                f"data.runs: {source.name} has no run {run}",
                help=did_you_mean(run, names, f"for example {names[0]}"),
            )
    test = np.zeros(source.samples, dtype=np.bool_) if source.test is None else source.test
    trained = source.take(~test)
    every = [source.of_client(name) for name in data.runs] or [
        trained.of_client(name) for name in trained.client_names
    ]
    if not every:
        raise JobError(
            f"data.set: all runs of {source.name} belong to its test split",
            help="list the runs for training in data.runs",
        )
    starts = np.cumsum([0, *(one.samples for one in every)])[:-1]
    values = np.concatenate([one.x for one in every]).astype(np.float64)
    seams = len(every) - 1
    notes = (
        (
            (
                f"{len(every)} consecutive runs: {seams} of {len(values):,} steps cross from "
                "one run to the next"
            ),
        )
        if seams
        else ()
    )
    return ColumnSeries(
        name=source.source,
        columns={name: values[:, position] for position, name in enumerate(source.features)},
        source=source,
        time=np.concatenate(
            [np.full(one.samples, np.nan) if one.time is None else one.time for one in every]
        ),
        starts=tuple(starts.tolist()),
        notes=notes,
    )


def default_clients(name: str, sheet: ColumnSeries) -> Mapping[str, tuple[str, ...]]:
    """Clients if the job lists none.

    Engine modules, plant processes by tag, otherwise single columns.
    """
    match name:
        case "cmapss":
            return CMAPSS_MODULES
        case "skab":
            return SKAB_GROUPS
        case "hai" | "swat":
            by_process = sorted((process_of(tag), tag) for tag in sheet.columns)
            return {
                process: tuple(tag for _, tag in own)
                for process, own in groupby(by_process, key=lambda pair: pair[0])
            }
        case _:
            return {column: (column,) for column in sheet.columns}


def longest_stretch(unknown: NDArray[np.bool_], gaps: int) -> slice:
    """The longest part in which no column has a gap of more than `gaps` steps.

    Args:
        unknown: [T, columns].
    """
    bad = np.zeros(len(unknown), dtype=np.bool_)
    for column in unknown.T:
        edges = np.flatnonzero(np.diff(np.concatenate([[False], column, [False]]).astype(np.int8)))
        for start, stop in edges.reshape(-1, 2).tolist():
            bad[start:stop] |= stop - start > gaps or start == 0 or stop == len(unknown)
    edges = np.flatnonzero(np.diff(np.concatenate([[True], bad, [True]]).astype(np.int8)))
    if not len(edges):
        return slice(0, 0)
    pairs = edges.reshape(-1, 2)
    start, stop = pairs[int(np.argmax(pairs[:, 1] - pairs[:, 0]))].tolist()
    return slice(start, stop)
