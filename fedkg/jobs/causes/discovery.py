"""Causal discovery: from measurements to edges, reference strengths and significance.

Letters: M clients, T steps, S states of all clients, P states and D measurements of a client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import JobError
from fedkg.granger.centralised_var import centralised
from fedkg.granger.edge_significance import (
    adjusted,
    distinct_shifts,
    innovation_label,
    joint,
    p_values,
    strengths_of,
)
from fedkg.granger.effects import Reached, edges, reach_of
from fedkg.granger.epoch_messages import (
    Ask,
    ClientEpochs,
    Estimates,
    Progress,
    ServerEpochs,
    ask_here,
    estimate,
    learn_in_epochs,
)
from fedkg.granger.identifiability import Reading, readings
from fedkg.granger.instrumental_variables import under_noise
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Learnt, Rates, course_of, losses_of
from fedkg.granger.moments import Series, moments, orders_of, series_of
from fedkg.granger.precedence import precedence
from fedkg.granger.state_extraction import Measured, client_of, correlated
from fedkg.granger.time_varying_causes import cut
from fedkg.jobs.causes.job_file import CausesJob
from fedkg.jobs.causes.learning import choose_lags, learn_causes, rates_of
from fedkg.jobs.causes.measurements import Measurements, training_steps
from fedkg.learned_knowledge_records import CausalEdge
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


class LearningPlace(Protocol):
    """Where the clients of a discovery learn: here, or at their sites."""

    def learn(self, series: Series) -> tuple[Learnt, str]:
        """Learn from the training steps; the result and a sentence about it."""
        ...

    def measure_losses(
        self, series: Series, learnt: Learnt, begin: int, end: int
    ) -> tuple[float, ...]:
        """The losses (L_m)_a of each client and L_s on the steps begin .. end - 1.

        Args:
            series: all steps.
        """
        ...


def discover_causes(
    job: CausesJob, sources: Measurements, causes: Sequence[CauseRecord]
) -> Discovery:
    """Run the causal discovery. Raises UsageError, FedkgError as its parts do."""
    _reject_reserved_names([one.name for one in sources.models or sources.clients])
    whole, kept, notes = (
        (list(sources.models), sources.clients, []) if sources.models else fit_clients(job, sources)
    )
    everything = series_of(whole, prior(causes, [client.name for client in whole]))
    known = training_steps(job, len(everything.states))
    by_messages = job.data.sites_file is not None and job.learning.mode == "batch"
    learning: LearningPlace = (
        EpochsHere(job=job, everything=everything, known=known)
        if by_messages
        else LoopsHere(job=job)
    )
    columns = {one.name: one for one in kept} if job.precedence else {}
    found = discover_in_states(job, everything, known, learning, columns)
    return replace(found, notes=(*sources.notes, *notes, *found.notes), truth=sources.truth)


def discover_in_states(
    job: CausesJob,
    everything: Series,
    known: int,
    learning: LearningPlace,
    columns: Mapping[str, Measured],
) -> Discovery:
    """Run the causal discovery on the states of all clients.

    Args:
        job: the job.
        everything: the states of all steps; its clients may lack measurements, see
            `fedkg.granger.epoch_messages.known_to_server`.
        known: number of training steps.
        learning: where the clients learn.
        columns: measurements in their own units, to describe precedence; empty: not at all.

    Raises:
        UsageError, FedkgError: as its parts do.
    """
    names, steps = [client.name for client in everything.clients], len(everything.states)
    lags, lag_notes = choose_lags(job.learning, cut(everything, 0, known))
    # The training steps are fewer than the steps of the table.
    everything = replace(everything, orders=orders_of(lags, len(names), known))
    series = cut(everything, 0, known)
    learnt, course = learning.learn(series)
    blocks = joint(series)
    measured, noise = p_values(series, shifts=job.shifts, seed=job.seed), under_noise(series)
    tested = np.fmax(measured, noise)
    corrected = np.nan_to_num(adjusted(tested), nan=1.0)
    sure = blocks * _expand_to_states(
        series, (corrected <= job.level) | np.eye(len(names), dtype=np.bool_)
    )
    held_out_losses = (
        learning.measure_losses(everything, learnt, known, steps)
        if steps - known > series.lags + 2
        else ()
    )
    return Discovery(
        series=series,
        learnt=learnt,
        edges=_with_precedence(job, columns, series, blocks, edges(series, learnt, tested)),
        reference=strengths_of(series, blocks),
        innovation=strengths_of(series, innovation_label(series)),
        measured_p_values=measured,
        noise_p_values=noise,
        centralised_p_values=_centralised_p_values(series) if job.centralised else None,
        readings=readings(series),
        reachable={name: reach_of(series, sure, m) for m, name in enumerate(names)},
        held_out_losses=held_out_losses,
        notes=(*lag_notes, course, *_note_too_few_shifts(job, tested, known)),
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
    comparison = (
        f"with {used} shifts and {pairs} pairs a single edge cannot be significant at {job.level:g}"
    )
    return (
        f"{comparison}: "
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
        columns: the measurements in their own units; empty: do not look.
    """
    index_of = {client.name: number for number, client in enumerate(series.clients)}
    known = len(series.states)
    made = []
    for edge in found:
        if not columns or edge.adjusted is None or edge.adjusted > job.level:
            made.append(edge)
            continue
        after, before = columns[edge.driven], columns[edge.driver]
        names, values = (
            (after.columns, before.columns),
            (after.values[:known], before.values[:known]),
        )
        shown_by = precedence(
            series, blocks, index_of[edge.driven], index_of[edge.driver], names, values
        )
        made.append(edge.model_copy(update={"precedence": shown_by}))
    return tuple(made)


def _expand_to_states(series: Series, pairs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Values for pairs of clients [M, M], expanded to pairs of their states: [S, L S]."""
    sizes = [len(client.transition) for client in series.clients]
    return np.tile(np.repeat(np.repeat(pairs, sizes, 0), sizes, 1), (1, series.lags))


def fit_clients(
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopsHere:
    """Learns from the measurements of all clients, in the mode of the job."""

    job: CausesJob

    def learn(self, series: Series) -> tuple[Learnt, str]:
        """See `LearningPlace.learn`."""
        return learn_causes(self.job.learning, series)

    def measure_losses(
        self, series: Series, learnt: Learnt, begin: int, end: int
    ) -> tuple[float, ...]:
        """See `LearningPlace.measure_losses`."""
        part = cut(series, begin - series.lags, end)
        each = [
            losses_of(
                moments(part, m), learnt.augmentations[m], learnt.causes[place, part.drivers(m)]
            )
            for m, place in enumerate(part.places)
        ]
        return (*(own for own, _ in each), sum(server for _, server in each))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpochsHere:
    """Learns by the messages that clients at sites would exchange with the server.

    Attributes:
        job: the job.
        everything: the states of all steps, and the clients with their measurements.
        known: number of training steps.
    """

    job: CausesJob
    everything: Series
    known: int
    _thetas: list[NDArray[np.float64]] = field(default_factory=list)

    def learn(self, series: Series) -> tuple[Learnt, str]:
        """See `LearningPlace.learn`."""
        self._thetas[:] = [np.zeros(client.gain.shape) for client in series.clients]
        ask = ask_here(self._sides(series.lags, self.known), self._thetas)
        return learn_by_messages(self.job, series, ask)

    def measure_losses(
        self, series: Series, learnt: Learnt, begin: int, end: int
    ) -> tuple[float, ...]:
        """See `LearningPlace.measure_losses`."""
        sides = self._sides(begin, end)
        found = [
            estimate(side, theta, theta) for side, theta in zip(sides, self._thetas, strict=True)
        ]
        return merge_losses(series, learnt, found, begin, end)

    def _sides(self, begin: int, end: int) -> list[ClientEpochs]:
        rates, places = rates_of(self.job.learning), self.everything.places
        return [
            ClientEpochs(
                client=client,
                states=self.everything.states[:, place],
                begin=begin,
                end=end,
                rates=rates,
            )
            for client, place in zip(self.everything.clients, places, strict=True)
        ]


def learn_by_messages(
    job: CausesJob,
    series: Series,
    ask: Ask,
    *,
    progress: Progress | None = None,
    save: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Learnt, str]:
    """Learn with the settings of a job, and summarise it in a sentence; see `learn_in_epochs`."""
    section = job.learning
    learnt = learn_in_epochs(
        series,
        rates_of(section),
        ask,
        epochs=section.epochs,
        tolerance=section.tolerance,
        progress=progress,
        save=save,
    )
    return learnt, course_of(learnt, section.mode, section.tolerance)


def merge_losses(
    series: Series, learnt: Learnt, found: Sequence[Estimates], begin: int, end: int
) -> tuple[float, ...]:
    """The losses of clients and server on the steps begin .. end - 1.

    Args:
        series: all steps.
        learnt: the causes.
        found: what the clients sent about these steps.
        begin: the first step.
        end: one more than the last.
    """
    server = ServerEpochs.of(cut(series, begin - series.lags, end), Rates())
    losses = (
        float((errors**2).sum() / len(errors))
        for errors in (
            server.predict_errors(m, one.augmented, learnt.causes) for m, one in enumerate(found)
        )
    )
    return (*(one.loss for one in found), sum(losses))
