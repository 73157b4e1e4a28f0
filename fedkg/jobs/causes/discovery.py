"""Causal discovery: from measurements to edges, reference strengths and significance.

Letters: M clients, T steps, S states of all clients, P states and D measurements of a client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import JobError
from fedkg.granger.centralised_var import centralised
from fedkg.granger.effects import Reached, edges, reach_of
from fedkg.granger.identifiability import Reading, readings
from fedkg.granger.instrumental_variables import under_noise
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Learnt, losses_of
from fedkg.granger.moments import Series, moments, orders_of, series_of
from fedkg.granger.precedence import precedence
from fedkg.granger.reference_estimates import (
    adjusted,
    distinct_shifts,
    innovation_label,
    joint,
    p_values,
    strengths_of,
)
from fedkg.granger.state_extraction import Measured, client_of, correlated
from fedkg.granger.time_varying_causes import cut
from fedkg.jobs.causes.job_file import CausesJob
from fedkg.jobs.causes.learning import choose_lags, learn_causes
from fedkg.jobs.causes.measurements import Measurements, training_steps
from fedkg.learned_knowledge import CausalEdge
from fedkg.pack.causes import CauseRecord, prior

RESERVED_NAMES = ("epoch", "server")
"""Columns of `losses.csv` that are not clients."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Discovery:
    """All results of a causal discovery.

    Attributes:
        edges: strongest first.
        reference: [M, M], strengths of a joint fit of all states.
        innovation: [M, M], strengths by the innovation label.
        measured_p_values: [M, M], given the measured past.
        noise_p_values: [M, M], allowing for measurement noise; NaN if unavailable. An edge has the
            larger
            of the two.
        centralised_p_values: [M, M], of a VAR on pooled measurements, if the job asks for it.
        reachable: the clients that a disturbance of each client reaches along significant edges,
            with the
            strengths of the reference.
        held_out_losses: losses (L_m)_a of each client and L_s on the held-out steps; empty without
            any.
    """

    series: Series
    learnt: Learnt
    edges: tuple[CausalEdge, ...]
    reference: NDArray[np.float64]
    innovation: NDArray[np.float64]
    measured_p_values: NDArray[np.float64]
    noise_p_values: NDArray[np.float64]
    centralised_p_values: NDArray[np.float64] | None
    readings: tuple[Reading, ...]
    reachable: dict[str, tuple[Reached, ...]]
    held_out_losses: tuple[float, ...]
    notes: tuple[str, ...]
    truth: NDArray[np.bool_] | None = None

    def index_of(self, name: str) -> int:
        """The index of a client."""
        return [client.name for client in self.series.clients].index(name)


def discover_causes(
    job: CausesJob, sources: Measurements, causes: Sequence[CauseRecord]
) -> Discovery:
    """Run the causal discovery. Raises UsageError, FedkgError as its parts do."""
    _reject_reserved_names([one.name for one in sources.models or sources.clients])
    whole, kept, notes = (
        (list(sources.models), sources.clients, [])
        if sources.models
        else _fit_clients(job, sources)
    )
    steps = len(whole[0].measurements)
    known = training_steps(job, steps)
    clients = [
        replace(client, measurements=np.ascontiguousarray(client.measurements[:known]))
        for client in whole
    ]
    names = [client.name for client in clients]
    allowed = prior(causes, names)
    lags, said = choose_lags(job.learning, clients, allowed)
    orders_of(lags, len(names), known)  # the training steps are fewer than the steps of the table
    everything = series_of(whole, allowed, lags=lags)
    series = cut(everything, 0, known)
    learnt, course = learn_causes(job.learning, series)
    notes += [*said, course]
    blocks = joint(series)
    measured, noise = p_values(series, shifts=job.shifts, seed=job.seed), under_noise(series)
    tested = np.fmax(measured, noise)
    corrected = np.nan_to_num(adjusted(tested), nan=1.0)
    sure = blocks * _expand_to_states(
        series, (corrected <= job.level) | np.eye(len(names), dtype=np.bool_)
    )
    held_out_losses = (
        _held_out_losses(cut(everything, known - series.lags, steps), learnt)
        if steps - known > series.lags + 2
        else ()
    )
    return Discovery(
        series=series,
        learnt=learnt,
        edges=_with_precedence(
            job, {one.name: one for one in kept}, series, blocks, edges(series, learnt, tested)
        ),
        reference=strengths_of(series, blocks),
        innovation=strengths_of(series, innovation_label(series)),
        measured_p_values=measured,
        noise_p_values=noise,
        centralised_p_values=_centralised_p_values(series) if job.centralised else None,
        readings=readings(series),
        reachable={name: reach_of(series, sure, m) for m, name in enumerate(names)},
        held_out_losses=held_out_losses,
        notes=(*sources.notes, *notes, *_note_too_few_shifts(job, tested, known)),
        truth=sources.truth,
    )


def _reject_reserved_names(names: Sequence[str]) -> None:
    """Raises JobError if a client has the name of another column of `losses.csv`."""
    for name in names:
        if name in RESERVED_NAMES:
            raise JobError(
                f"a client cannot be called {name}: losses.csv has a column of that name",
                help="rename it in `clients` or in the sites file, for example to `the server`",
            )


def _note_too_few_shifts(
    job: CausesJob, tested: NDArray[np.float64], steps: int
) -> tuple[str, ...]:
    """A note if no single edge can be significant, because of too few shifts or steps."""
    pairs, most = int(np.isfinite(tested).sum()), distinct_shifts(steps)
    used = min(job.shifts, most)
    if pairs / (used + 1) <= job.level:
        return ()
    wanted = int(np.ceil(pairs / job.level)) - 1
    said = (
        f"with {used} shifts and {pairs} pairs a single edge cannot be significant at {job.level:g}"
    )
    return (
        f"{said}: "
        + (
            f"set `shifts: {wanted}`"
            if wanted <= most
            else f"{steps:,} steps allow at most {most:,} shifts"
        ),
    )


def _centralised_p_values(series: Series) -> NDArray[np.float64]:
    """p-values of a VAR on pooled measurements, without constant columns."""
    kept = [
        client.measurements[:, client.measurements.std(axis=0) > 0] for client in series.clients
    ]
    return centralised(kept, lags=series.lags, allowed=series.allowed)


def _with_precedence(
    job: CausesJob,
    columns: Mapping[str, Measured],
    series: Series,
    blocks: NDArray[np.float64],
    found: tuple[CausalEdge, ...],
) -> tuple[CausalEdge, ...]:
    """The edges, with a precedence of two measurements for each significant one.

    Args:
        columns: the measurements in their own units.
    """
    index_of = {client.name: number for number, client in enumerate(series.clients)}
    known = len(series.states)
    made = []
    for edge in found:
        if edge.adjusted is None or edge.adjusted > job.level:
            made.append(edge)
            continue
        after, before = columns[edge.driven], columns[edge.driver]
        names, values = (
            (after.columns, before.columns),
            (after.values[:known], before.values[:known]),
        )
        said = precedence(
            series, blocks, index_of[edge.driven], index_of[edge.driver], names, values
        )
        made.append(edge.model_copy(update={"precedence": said}))
    return tuple(made)


def _expand_to_states(series: Series, pairs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Values for pairs of clients [M, M], expanded to pairs of their states: [S, L S]."""
    sizes = [len(client.transition) for client in series.clients]
    return np.tile(np.repeat(np.repeat(pairs, sizes, 0), sizes, 1), (1, series.lags))


def _fit_clients(
    job: CausesJob, sources: Measurements
) -> tuple[list[Client], tuple[Measured, ...], list[str]]:
    """Fit states and dynamics of each client on the training steps.

    Also returns the measurements that were kept, in their own units, and notes.
    """
    known = training_steps(job, len(sources.clients[0].values))
    correlated_clients = correlated(
        [replace(client, values=client.values[:known]) for client in sources.clients],
        job.correlation,
    )
    left = sum(len(client.columns) for client in sources.clients) - sum(
        len(client.columns) for client in correlated_clients
    )
    made, kept = [], []
    for whole, one in zip(sources.clients, correlated_clients, strict=True):
        mean, deviation = one.values.mean(axis=0), one.values.std(axis=0)
        values = whole.values[:, [whole.columns.index(column) for column in one.columns]]
        scaled = (values - mean) / np.where(deviation > 0, deviation, 1.0)
        made.append(replace(client_of(one, job.states), measurements=np.ascontiguousarray(scaled)))
        kept.append(Measured(name=one.name, columns=one.columns, values=values))
    return (
        made,
        tuple(kept),
        [f"measurements dropped because they correlate with no other client: {left}"]
        if left
        else [],
    )


def _held_out_losses(series: Series, learnt: Learnt) -> tuple[float, ...]:
    each = [
        losses_of(
            moments(series, m), learnt.augmentations[m], learnt.causes[place, series.drivers(m)]
        )
        for m, place in enumerate(series.places)
    ]
    return (*(own for own, _ in each), sum(server for _, server in each))
