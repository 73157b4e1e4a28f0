"""The measurements of a learning of causes: columns of one table, or those of a generated plant.

Letters: T steps, D measurements of a client.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import JobError, TableError
from fedkg.granger.kalman import Client, steady_gain
from fedkg.granger.states import Measured
from fedkg.granger.system import System, places_of, recorded
from fedkg.jobs.causes.file import CausesJob, PlantData
from fedkg.tables import Table, read_table

F64 = NDArray[np.float64]
LEAST = 10
"""Steps without which there is nothing to learn from."""
TRUE_ROUTE = (0.98, 0.5)
"""How slowly the first client of a generated plant and the others forget: causes of slow drivers can be seen."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sources:
    """The clients' measurements, and what was filled in.

    Attributes:
        models: of a generated plant: the clients as they know themselves. truth: bool [M, M] of it: who really drives whom (columns drive
            rows).
    """

    clients: tuple[Measured, ...]
    notes: tuple[str, ...] = ()
    models: tuple[Client, ...] = ()
    truth: NDArray[np.bool_] | None = None


def read_sources(job: CausesJob) -> Sources:
    """What the job's clients measure.

    Raises:
        TableError: a file or column that cannot be read. JobError: more unknown values in a row than the job allows, or a column of two
            clients.
    """
    if job.data.path is None:
        return generated(job.data.plant)
    table = read_table(job.data.path)
    if table.rows < LEAST:
        raise TableError(f"{table.name} is too short", expected=f"a row for each step, {LEAST} or more", received=f"rows: {table.rows}")
    owner: dict[str, str] = {}
    for client, columns in job.clients.items():
        for column in columns:
            if column in owner:
                raise JobError(
                    f"clients.{client}: column `{column}` is that of {owner[column]} already", help="a column belongs to one client"
                )
            owner[column] = client
    filled = 0
    clients = []
    for client, columns in job.clients.items():
        values = []
        for column in columns:
            own, count = _known(table, client, column, job.data.gaps)
            filled += count
            values.append(own)
        if not values:
            raise JobError(f"clients.{client}: no columns", expected="at least one")
        clients.append(Measured(name=client, columns=columns, values=np.stack(values, axis=1)))
    notes = (f"{filled:,} unknown values were interpolated",) if filled else ()
    return Sources(clients=tuple(clients), notes=notes)


def _known(table: Table, client: str, column: str, longest: int) -> tuple[F64, int]:
    """A column without gaps, and how many values were interpolated."""
    if column not in table:
        raise table.missing(column, needed=f"client {client} measures")
    values = table.numbers(column).copy()
    unknown = ~np.isfinite(values)
    if not unknown.any():
        return values, 0
    if unknown.all():
        raise TableError(f"{table.name}: column `{column}` has no number")
    run = 0
    for row, here in enumerate(unknown.tolist()):
        run = run + 1 if here else 0
        if run > longest:
            raise JobError(
                f"{table.where(row)}: column `{column}` is unknown for more than {longest} steps",
                expected="gaps of so many steps at most",
                help="data.gaps: another number, or leave the column out",
            )
    steps = np.arange(len(values))
    values[unknown] = np.interp(steps[unknown], steps[~unknown], values[~unknown])
    return values, int(unknown.sum())


def generated(plant: PlantData) -> Sources:
    """A plant in which each client drives the next; the first is slow and loud, the others are quick and quiet."""
    stream = np.random.default_rng(plant.seed)
    slow, fast = TRUE_ROUTE
    own = np.diag([slow] + [fast] * (plant.clients - 1))
    transition = np.kron(own, np.eye(2)) + np.kron(np.eye(plant.clients, k=-1), np.full((2, 2), plant.drive))
    process = np.diag(np.repeat([1.0] + [0.01] * (plant.clients - 1), 2))
    emissions = tuple(stream.standard_normal((plant.measurements, 2)) / np.sqrt(plant.measurements) for _ in range(plant.clients))
    system = System(transition=np.asarray(transition, dtype=np.float64), emissions=emissions, process=process, noise=0.01)
    seen = recorded(system, plant.steps, seed=plant.seed + 1)
    names = [f"unit {place + 1}" for place in range(plant.clients)]
    clients = tuple(
        Measured(name=name, columns=tuple(f"{name} sensor {d + 1}" for d in range(values.shape[1])), values=values)
        for name, values in zip(names, seen.measurements, strict=True)
    )
    models = []
    for one, place, emission in zip(clients, places_of(system.sizes), emissions, strict=True):
        own_block = np.ascontiguousarray(transition[place, place])
        gain = steady_gain(own_block, emission, 0.1 * np.eye(2), system.noise * np.eye(len(emission)))
        models.append(Client(name=one.name, transition=own_block, emission=emission, gain=gain, measurements=one.values))
    return Sources(clients=clients, models=tuple(models), truth=np.eye(plant.clients, k=-1).astype(np.bool_))
