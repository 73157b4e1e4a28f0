"""Which executor: measured on the job's own first steps, never believed.

Letters: K sampled clients, C clients of a stack.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from torch import Tensor

from fedkg.federated.batches import steps_of
from fedkg.federated.executors.interface import Executor, Work
from fedkg.federated.executors.sequential import Sequential
from fedkg.federated.executors.stacked import Stacked, fitting
from fedkg.federated.state import Choice, ServerState

STEPS = 6
"""Local steps that are timed; as many are run before, to warm up."""

CHUNKS = (1, 4, 16, 64)
"""Stacks that are tried besides the largest one that fits, as far as they are at most half of it."""

MARGIN = 0.85
"""The largest stack is taken unless another way needs less than this share of its time: measurements swing, results should not."""


def choose(work: Work, state: ServerState) -> Choice:
    """The executor that the settings name, or the fastest on this machine for this job; with the reason in words."""
    settings = work.settings
    size = settings.sampled(len(work.problem.clients.names))
    most = min(size, settings.chunk or size, fitting(work, state))
    if settings.executor != "auto":
        chunk = 1 if settings.executor == "sequential" else most
        return Choice(executor=settings.executor, chunk=chunk, threads=settings.threads, reason=f"{settings.executor}, as the job says")
    clients = work.algorithm.sampling.sample(seed=settings.seed, round=1, population=len(work.problem.clients.names), size=size)
    clients = clients.to(work.pool.x.device)
    state = work.algorithm.before.apply(work, state, clients)
    chunks = [chunk for chunk in CHUNKS if 2 * chunk <= most]
    whole = _stacked(work, state, clients, most)
    found = [whole, *(_stacked(work, state, clients, chunk) for chunk in chunks), _sequential(work, state, clients)]
    best = min(found, key=lambda each: each.seconds)
    best = best if best.seconds < MARGIN * whole.seconds else whole
    others = ", ".join(f"{each.text} {each.seconds:.3g} s" for each in found if each is not best)
    reason = f"{best.text}: {best.seconds:.3g} s a round by the first steps, against {others}"
    return Choice(executor=best.executor, chunk=best.chunk, threads=settings.threads, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Estimate:
    executor: str
    chunk: int
    seconds: float

    @property
    def text(self) -> str:
        return self.executor if self.executor == "sequential" else f"stacks of {self.chunk}"


def _sequential(work: Work, state: ServerState, clients: Tensor) -> _Estimate:
    total = int(steps_of(work.pool.sizes[clients], work.settings).sum())
    return _Estimate(executor="sequential", chunk=1, seconds=total * _seconds_per_step(work, state, Sequential(), clients[:1]))


def _stacked(work: Work, state: ServerState, clients: Tensor, chunk: int) -> _Estimate:
    """Sum over all steps of all stacks, the cost of a step taken as linear between a stack of one and a full one."""
    steps, order = steps_of(work.pool.sizes[clients], work.settings).sort(descending=True, stable=True)
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
    made = int(steps_of(work.pool.sizes[clients], work.settings).max())
    limit = min(STEPS, made)
    taken = []
    for _ in range(4):
        begun = time.perf_counter()
        for _updates in executor.train(work, state, clients, limit=limit):
            pass
        taken.append((time.perf_counter() - begun) / limit)
    return min(taken[1:])
