"""Which executor: measured on the job's own first steps, never believed.

Letters: K sampled clients, C clients of a stack.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.client.per_client_settings import steps_for
from fedkg.federated.executors.processes import Processes
from fedkg.federated.executors.protocol import Executor, Work
from fedkg.federated.executors.sequential import Sequential
from fedkg.federated.executors.stacked import Stacked, fitting
from fedkg.federated.executors.worker_pool import WorkerPool
from fedkg.federated.state import Choice, ServerState

STEPS = 6
"""Local steps that are timed; as many are run before, to warm up."""

CHUNKS = (1, 4, 16, 64)
"""Stacks that are tried besides the largest one that fits, as far as they are at most half of it.
"""

MARGIN = 0.85
"""The largest stack is taken unless another way needs less than this share of its time:
measurements swing, results should not.
"""

WORTH = 30.0
"""Seconds that worker processes must promise to save over all rounds before they are started to be
measured, which takes some seconds.
"""


def choose(
    work: Work, state: ServerState, crew: WorkerPool | None = None, ranks: int = 1
) -> Choice:
    """The executor that the settings name, or the fastest on this machine for this job; with the
    reason in words.

    Worker processes are measured if a worker pool exists and half of the time of one process, or
    the share that its workers can reach,
    promises to save `WORTH`.

    Args:
        ranks: how many processes like this one share the cohort.

    Raises:
        JobError: when worker processes are named and the data are on an accelerator, or the work
            cannot be sent to them.
    """
    settings = work.settings
    size = settings.sampled(len(work.problem.clients.names))
    most = min(-(-size // ranks), settings.chunk or size, fitting(work, state))
    if settings.executor in ("stacked", "sequential"):
        chunk = 1 if settings.executor == "sequential" else most
        return Choice(
            executor=settings.executor,
            chunk=chunk,
            threads=settings.threads,
            reason=f"{settings.executor}, as the job says",
        )
    clients = work.algorithm.sampling.sample(
        seed=settings.seed, round=1, population=len(work.problem.clients.names), size=size
    )
    clients = (
        clients.to(work.pool.x.device)
        if len(clients)
        else torch.arange(size, device=work.pool.x.device)
    )
    state = work.algorithm.before.apply(work, state, clients)
    if settings.executor == "processes":
        return _processes(
            work, state, clients, WorkerPool(settings.workers) if crew is None else crew, ranks
        )
    whole = _stacked(work, state, clients, most)
    stacks = [
        whole,
        *(_stacked(work, state, clients, chunk) for chunk in CHUNKS if 2 * chunk <= most),
    ]
    found = [*stacks, _sequential(work, state, clients)]
    best, said = _quickest(found, whole), ""
    if crew is not None and ranks == 1:
        tried, said = _measure_processes(work, state, clients, crew, stacks, best)
        found += tried
        best = _quickest([best, *tried], best)
    others = ", ".join(f"{each.text} {each.seconds:.3g} s" for each in found if each is not best)
    reason = f"{best.text}: {best.seconds:.3g} s a round by the first steps, against {others}{said}"
    return Choice(executor=best.executor, chunk=best.chunk, threads=settings.threads, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Estimate:
    executor: str
    chunk: int
    seconds: float

    @property
    def text(self) -> str:
        match self.executor:
            case "sequential":
                return self.executor
            case "processes":
                return f"processes with stacks of {self.chunk}"
            case _:
                return f"stacks of {self.chunk}"


def _quickest(found: list[_Estimate], settled: _Estimate) -> _Estimate:
    best = min(found, key=lambda each: each.seconds)
    return best if best.seconds < MARGIN * settled.seconds else settled


def _shared(work: Work, state: ServerState, clients: Tensor, workers: int) -> int:
    """Return the maximum stack size for a number of workers, which share the memory."""
    settings = work.settings
    return max(
        1,
        min(
            -(-len(clients) // workers),
            settings.chunk or len(clients),
            fitting(work, state) // workers,
        ),
    )


def _processes(
    work: Work, state: ServerState, clients: Tensor, crew: WorkerPool, ranks: int
) -> Choice:
    """Worker processes, as the job says, with the stacks that one process trains best."""
    if clients.device.type != "cpu":
        raise JobError(
            "worker processes train on the CPU only",
            received=f"data on {clients.device}",
            help="set `executor: stacked`, or remove `device`",
        )
    settings, most = work.settings, _shared(work, state, clients, crew.size * ranks)
    reason = f"{crew.size} processes, as the job says"
    if settings.chunk is not None or most == 1:
        return Choice(
            executor="processes",
            chunk=most,
            threads=settings.threads,
            reason=f"{reason}, with stacks of {most}",
        )
    found = [
        _stacked(work, state, clients, chunk)
        for chunk in (most, *(chunk for chunk in CHUNKS if 2 * chunk <= most))
    ]
    best = _quickest(found, found[0])
    reason += f", with stacks of {best.chunk}, the best in one process by the first steps"
    return Choice(executor="processes", chunk=best.chunk, threads=settings.threads, reason=reason)


def _measure_processes(
    work: Work,
    state: ServerState,
    clients: Tensor,
    crew: WorkerPool,
    stacks: list[_Estimate],
    best: _Estimate,
) -> tuple[list[_Estimate], str]:
    """What worker processes need where they may be worth it, and else why they were not
    measured.
    """
    settings, most = work.settings, _shared(work, state, clients, crew.size)
    fit = [each for each in stacks if each.chunk <= most] or [_stacked(work, state, clients, most)]
    promised = min(fit, key=lambda each: each.seconds)
    if clients.device.type != "cpu" or crew.size < 2 or len(clients) <= promised.chunk:
        return [], ""
    saved = (settings.rounds - state.round) * (best.seconds - promised.seconds / crew.size)
    if saved < WORTH:
        return [], f"; {crew.size} processes would save {max(0.0, saved):.3g} s in all at best"
    try:
        seconds = _side_by_side(work, state, clients, Processes(chunk=promised.chunk, crew=crew))
    except JobError as error:
        return [], f"; no processes: {error.message}"
    return [
        _Estimate(executor="processes", chunk=promised.chunk, seconds=seconds)
    ], f"; {crew.size} processes"


def _side_by_side(work: Work, state: ServerState, clients: Tensor, executor: Processes) -> float:
    """A round's seconds by the first steps of as many stacks as there are workers, the sending of
    their updates included.
    """
    steps, order = steps_for(work, clients).sort(descending=True, stable=True)
    few = clients[order[: executor.chunk * executor.crew.size]]
    of_stacks = steps[:: executor.chunk]
    return (
        int(of_stacks.sum())
        / min(executor.crew.size, len(of_stacks))
        * _seconds_per_step(work, state, executor, few)
    )


def _sequential(work: Work, state: ServerState, clients: Tensor) -> _Estimate:
    total = int(steps_for(work, clients).sum())
    return _Estimate(
        executor="sequential",
        chunk=1,
        seconds=total * _seconds_per_step(work, state, Sequential(), clients[:1]),
    )


def _stacked(work: Work, state: ServerState, clients: Tensor, chunk: int) -> _Estimate:
    """Sum over all steps of all stacks, the cost of a step taken as linear between a stack of one
    and a full one.
    """
    steps, order = steps_for(work, clients).sort(descending=True, stable=True)
    executor = Stacked(chunk=chunk)
    full = _seconds_per_step(work, state, executor, clients[order[:chunk]])
    single = full if chunk == 1 else _seconds_per_step(work, state, executor, clients[order[:1]])
    slope = 0.0 if chunk == 1 else max(0.0, full - single) / (chunk - 1)
    seconds = 0.0
    for first in range(0, len(steps), chunk):
        part = steps[first : first + chunk]
        seconds += int(part.max()) * (min(single, full) - slope) + int(part.sum()) * slope
    return _Estimate(executor="stacked", chunk=chunk, seconds=seconds)


def _seconds_per_step(work: Work, state: ServerState, executor: Executor, clients: Tensor) -> float:
    """Best of three short trainings; what they learn is thrown away."""
    made = int(steps_for(work, clients).max())
    limit = min(STEPS, made)
    taken = []
    for _ in range(4):
        begun = time.perf_counter()
        for _updates in executor.train(work, state, clients, limit=limit):
            pass
        taken.append((time.perf_counter() - begun) / limit)
    return min(taken[1:])
