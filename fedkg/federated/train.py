"""Training a federation, round by round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from fedkg.errors import JobError
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.composed import check
from fedkg.federated.executors import EXECUTORS
from fedkg.federated.executors.auto import choose
from fedkg.federated.executors.interface import Work
from fedkg.federated.problem import Problem, gathered, pool
from fedkg.federated.record import RoundRecord
from fedkg.federated.round import run_round
from fedkg.federated.settings import Settings
from fedkg.federated.state import ServerState
from fedkg.models.model import Params


def initial_state(problem: Problem, algorithm: Algorithm, settings: Settings, params: Params | None = None) -> ServerState:
    """The state before the first round.

    The server's first model starts as the model does for the settings' seed, or at `params` (without a leading dimension); further
    models, where the algorithm holds several, as the model does for the seeds after it, or like the first where the algorithm says so.
    """
    problem = gathered(problem) if algorithm.pooled else problem
    population, dtype, device = len(problem.clients.names), problem.clients.x[0].dtype, problem.clients.x[0].device
    several = [problem.model.init(settings.seed + place, dtype) for place in range(algorithm.start.held(population))]
    if params is not None:
        several[0] = params
    if algorithm.alike:
        several = [several[0]] * len(several)
    models = {name: torch.stack([one[name].detach() for one in several]).to(device) for name in several[0]}
    joints = {"server": algorithm.server.begin(models), "local": algorithm.local.shared(models)}
    rows = algorithm.start.remembered(models, population) | algorithm.local.remembered(models, population)
    if algorithm.beside is not None:
        rows |= algorithm.beside.start.remembered(models, population) | algorithm.beside.local.remembered(models, population)
    return ServerState(round=0, models=models, joints={name: memory for name, memory in joints.items() if memory}, clients=rows)


def train(
    problem: Problem, algorithm: Algorithm, settings: Settings, state: ServerState | None = None
) -> Iterator[tuple[ServerState, RoundRecord]]:
    """Yield the state and the record after each round until ``settings.rounds`` rounds are done.

    Resumable to the bit: started again from a state it has yielded (saved by `state.to_tensors`, loaded by `state.from_tensors`), it
    goes on exactly as it would have gone on. The choice of executor is made once, before the first round, and is part of the state.

    Args:
        state: where to go on; None begins anew.

    Raises:
        JobError: when the algorithm contradicts itself, or the state does not fit the problem. TooFewClients: see `run_round`.
    """
    check(algorithm, settings)
    problem = gathered(problem) if algorithm.pooled else problem
    fresh = initial_state(problem, algorithm, settings)
    state = fresh if state is None else _checked(state, fresh)
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients))
    if state.choice is None:
        with intra_op_threads(settings.threads):
            state = replace(state, choice=choose(work, state))
    choice = state.choice
    assert choice is not None
    executor = EXECUTORS[choice.executor](chunk=choice.chunk)
    while state.round < settings.rounds:
        with intra_op_threads(choice.threads):
            state, record = run_round(work, executor, state)
        if state.round == 1:
            record = replace(record, notes=(f"executor: {choice.reason}", *record.notes))
        yield state, record


@contextmanager
def intra_op_threads(count: int) -> Iterator[None]:
    """So many threads within an operation inside the block, and as many as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _checked(state: ServerState, fresh: ServerState) -> ServerState:
    if state.choice is not None and state.choice.executor not in EXECUTORS:
        raise JobError("the state was trained by an unknown executor", expected=", ".join(EXECUTORS), received=state.choice.executor)
    for what, mine, theirs in (("model", state.models, fresh.models), ("clients", state.clients, fresh.clients)):
        for name, value in theirs.items():
            there = mine.get(name)
            if there is None or there.shape != value.shape or there.dtype != value.dtype:
                raise JobError(
                    f"the state does not fit the {what}: {name}",
                    expected=f"{list(value.shape)} of {value.dtype}",
                    received="nothing" if there is None else f"{list(there.shape)} of {there.dtype}",
                )
        extra = sorted(set(mine) - set(theirs))
        if extra:
            raise JobError(f"the state does not fit the {what}", received=f"unknown: {', '.join(extra)}")
    for joint, memory in fresh.joints.items():
        missing = sorted(set(memory) - set(state.joints.get(joint, {})))
        if missing:
            raise JobError("the state does not fit the algorithm", received=f"it remembers nothing of {joint}: {missing[0]}")
    return state
