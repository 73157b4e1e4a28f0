"""Training a federation, round by round."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from fedkg._internal.threads import library_threads
from fedkg.errors import JobError, TooFewClients
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.algorithm_contradictions import check
from fedkg.federated.attacks import attackers_of
from fedkg.federated.client.loop_choice import compile_for, is_worth_loops
from fedkg.federated.client.per_client_settings import check_paces
from fedkg.federated.client_state_store import ClientRows, placed, whole
from fedkg.federated.executors import EXECUTORS, Ranks, WorkerPool, executor_of
from fedkg.federated.executors.executor_choice_by_timing import choose
from fedkg.federated.executors.protocol import SiteExecutor, Work
from fedkg.federated.pcfedavg.block_steps import AllBlocks
from fedkg.federated.privacy.budget import affordable, check_same
from fedkg.federated.privacy.update_noise import NoPrivacy
from fedkg.federated.problem import Problem, gathered, pool
from fedkg.federated.randomness import model_seed
from fedkg.federated.round import run_round, skip_round
from fedkg.federated.round_record import RoundRecord
from fedkg.federated.settings import Settings
from fedkg.federated.state import Choice, ServerState, from_tensors, to_tensors, with_aligned_memory
from fedkg.kernels.compiled_loop_policy import loops_in_round
from fedkg.models.model_protocols import Params, running_statistics

AT_SITES = Choice(
    executor="sequential", chunk=1, threads=1, reason="each site trains with its own data"
)
"""How clients train at their sites: in the most obvious form, the same on all machines."""


def initial_state(
    problem: Problem, algorithm: Algorithm, settings: Settings, params: Params | None = None
) -> ServerState:
    """The state before the first round.

    The server's first model starts as the model does for the settings' seed, or at `params`
    (without a leading dimension); further
    models, where the algorithm holds several, as the model does for separate seeds (`model_seed`),
    or like the first where the
    algorithm says so.
    """
    problem = gathered(problem) if algorithm.pooled else problem
    population, dtype, device = (
        len(problem.clients.names),
        problem.clients.x[0].dtype,
        problem.clients.x[0].device,
    )
    held = algorithm.start.model_count(population)
    several = [
        problem.model.init(model_seed(settings.seed, place), dtype)
        for place in range(1 if algorithm.alike else held)
    ]
    if params is not None:
        several[0] = params
    several *= held if algorithm.alike else 1
    models = {
        name: torch.stack([one[name].detach() for one in several]).to(device) for name in several[0]
    }
    joints = {"server": algorithm.server.begin(models), "local": algorithm.local.shared(models)}
    joints["privacy"] = {} if algorithm.budget is None else algorithm.budget.begin()
    joints["before"] = algorithm.before.begin()
    rows = algorithm.start.initial_memory(models, population) | algorithm.local.initial_memory(
        models, population
    )
    if algorithm.beside is not None:
        rows |= algorithm.beside.start.initial_memory(
            models, population
        ) | algorithm.beside.local.initial_memory(models, population)
    if problem.attack is not None:
        rows |= problem.attack.initial_memory(models, population)
    return ServerState(
        round=0,
        models=models,
        joints={name: memory for name, memory in joints.items() if memory},
        clients=rows,
    )


def train(
    problem: Problem,
    algorithm: Algorithm,
    settings: Settings,
    state: ServerState | None = None,
    *,
    crew: WorkerPool | None = None,
    folder: Path | None = None,
    ranks: Ranks | None = None,
    sites: SiteExecutor | None = None,
) -> Iterator[tuple[ServerState, RoundRecord]]:
    """Yield the state and the record after each round until ``settings.rounds`` rounds are done, or
    a budget of privacy is spent.

    A training that continues from a yielded state gives the same bits as one without interruption.
    `state.to_tensors` saves a state, and `state.from_tensors` loads it. fedkg chooses the executor
    once, before the first round; the choice is part of the state.

    Args:
        state: the state to continue from; None starts a new training.
        crew: worker processes for the executor ``processes``; None starts them, and ends them with
            the training.
        folder: folder for rows of clients beyond `Settings.client_memory`; None: temporary files,
            which are deleted with the states.
        ranks: the processes that train together. Each calls this function with the same problem,
            starts from the state of rank 0 and yields the same. None: this process alone.
        sites: asks the clients to train where their data are; the problem then has the numbers of
            their samples alone, `Clients.counts`. The result is that of the sequential executor
            without compiled loops, to the bit; rows of clients are not part of the states. None:
            all data are here.

    Raises:
        JobError: the algorithm contradicts itself, or the state does not fit the problem.
        TooFewClients: more rounds in a row than `Settings.skipped_rounds` had fewer usable updates
            than `Settings.min_clients`. The last state that was yielded is complete.
    """
    check(algorithm, settings, len(problem.clients.names), problem.attack)
    check_paces(problem.clients.names, algorithm, settings)
    _check_statistics(problem, algorithm)
    if sites is not None and algorithm.pooled:
        raise JobError(
            f"{algorithm.name} gathers the samples of all clients in one place, and sites keep "
            "theirs",
            help="choose an algorithm that exchanges models, such as `fedavg`",
        )
    if sites is None and settings.secure_aggregation:
        raise JobError(
            "secure aggregation hides the updates of sites from a server, and here all data are in"
            " one process",
            help="train at sites (`fedkg federation`), or leave out `secure_aggregation`",
        )
    attack, attackers = problem.attack, attackers_of(problem, settings.seed)
    attacked = None
    if attack is not None and attack.changes == "labels":
        attacked = attack.with_wrong_labels(problem, settings.seed)
    if algorithm.pooled:
        problem, attacked = gathered(problem), None if attacked is None else gathered(attacked)
        attackers = None
    fresh = initial_state(problem, algorithm, settings)
    if sites is not None:
        memory = sites.initial_memory(fresh.clients, len(problem.clients.names))
        fresh = replace(fresh, clients=memory)
    if ranks is not None:
        if algorithm.budget is not None and algorithm.budget.randomness == "system":
            raise JobError(
                "noise from the operating system would differ between the ranks",
                help="train in one process, or set `randomness: seeded`, which only "
                "simulates privacy",
            )
        state = _of_first(state, ranks)
    state = fresh if state is None else _checked(state, fresh)
    if sites is not None:
        state = replace(state, choice=AT_SITES)
    last = settings.rounds
    if algorithm.budget is not None:
        check_same(
            algorithm.budget, state, algorithm.sampling, settings, len(problem.clients.names)
        )
        last = affordable(
            algorithm.budget, algorithm.sampling, settings, len(problem.clients.names)
        )
    state = replace(state, clients=placed(state.clients, settings.client_memory, folder))
    excluded, exclusion_notes = (
        ({}, ())
        if algorithm.exclusion is None
        else algorithm.exclusion.exclude(problem.clients.names)
    )
    work = Work(
        problem=problem,
        algorithm=algorithm,
        settings=settings,
        pool=pool(problem.clients),
        excluded=excluded,
        attackers=attackers,
    )
    later = (
        None if attacked is None else replace(work, problem=attacked, pool=pool(attacked.clients))
    )
    if ranks is not None:
        _same_data(ranks, work)
    with nullcontext(crew) if crew is not None else WorkerPool(settings.workers) as workers:
        if state.choice is None:
            with library_threads(settings.threads):
                state = replace(state, choice=_chosen(work, state, workers, ranks))
        choice = state.choice
        assert choice is not None
        if state.round == 0 and sites is None:
            choice = replace(choice, loops=is_worth_loops(work))
            state = replace(state, choice=choice)
        executor = sites or executor_of(choice, workers, ranks)
        if choice.loops:
            compile_for(work)
        skipped = 0  # in a row; a training that continues starts to count again
        while state.round < last:
            uses_loops = choice.loops and state.round > 0
            if later is not None and attack is not None and state.round + 1 >= attack.first_round:
                work = later
            begun = time.perf_counter()
            try:
                with library_threads(choice.threads), loops_in_round(uses_loops):
                    state, record = run_round(work, executor, with_aligned_memory(state))
                skipped = 0
            except TooFewClients as error:
                skipped += 1
                if skipped > settings.skipped_rounds:
                    raise
                state, record = skip_round(work, state, error, time.perf_counter() - begun)
            state = with_aligned_memory(state)
            if state.round == 1:
                notes = (
                    f"executor: {choice.reason}",
                    *_note_attack(work),
                    *exclusion_notes,
                    *record.notes,
                )
                record = replace(record, notes=notes)
            if state.round == last < settings.rounds:
                record = replace(record, ends=True, notes=(*record.notes, _spent(algorithm, state)))
            yield state, record


def _note_attack(work: Work) -> tuple[str, ...]:
    """Who attacks, and how."""
    if work.attackers is None:
        return ()
    attack, names = work.attackers.attack, work.problem.clients.names
    who = [names[place] for place in work.attackers.clients.nonzero().flatten().tolist()]
    return (f"{attack.kind} from round {attack.first_round} on by {', '.join(who) or 'nobody'}",)


def _spent(algorithm: Algorithm, state: ServerState) -> str:
    """Why a training ends before its last round."""
    assert algorithm.budget is not None
    spent = algorithm.budget.epsilon_after(state.joints["privacy"]["releases"].tolist())
    budget = f"epsilon {algorithm.budget.epsilon:g} at delta {algorithm.budget.delta:g}"
    return (
        f"the training ends after round {state.round}: one more would exceed the budget of"
        f" {budget}; {spent:.3f} is spent"
    )


def _of_first(state: ServerState | None, ranks: Ranks) -> ServerState | None:
    """The state that rank 0 begins with, in all ranks; rows in files as tensors but for rank 0
    itself.
    """
    sent = (
        None
        if state is None
        else replace(state, clients={name: whole(rows) for name, rows in state.clients.items()})
    )
    found = ranks.first(None if sent is None else to_tensors(sent))
    return state if found is None or ranks.rank == 0 else from_tensors(*found)


def _same_data(ranks: Ranks, work: Work) -> None:
    """Raise JobError where the ranks would train on different data."""
    pool = work.pool
    sums = [float(value.double().nansum()) for value in (pool.x, pool.y)]
    told = ranks.all_gather(f"{list(pool.x.shape)} of {len(pool.sizes)} clients, sums {sums}")
    if len(set(told)) > 1:
        other = next(rank for rank, text in enumerate(told) if text != told[0])
        raise JobError(
            "the ranks have different data",
            expected=f"rank 0: {told[0]}",
            received=f"rank {other}: {told[other]}",
            help="give all ranks the same job and the same files",
        )


def _chosen(work: Work, state: ServerState, crew: WorkerPool, ranks: Ranks | None) -> Choice:
    """The executor; with several ranks as rank 0 measures it, for a part of the cohort."""
    if ranks is None:
        return choose(work, state, crew)
    return ranks.first(
        choose(work, state, crew, ranks.size)
        if ranks.rank == 0
        else Choice(executor="", chunk=1, threads=1)
    )


_SAME_JOB = "continue with the job and the model that the state was saved with, or start a new run"


def _checked(state: ServerState, fresh: ServerState) -> ServerState:
    if state.choice is not None and state.choice.executor not in EXECUTORS:
        raise JobError(
            "the saved state was trained by an executor that this version of fedkg does not have",
            expected=", ".join(EXECUTORS),
            received=state.choice.executor,
            help="continue with the version of fedkg that saved the state",
        )
    parts: tuple[tuple[str, Mapping[str, ClientRows], Mapping[str, ClientRows]], ...] = (
        ("model", state.models, fresh.models),
        ("clients", state.clients, fresh.clients),
    )
    for what, mine, theirs in parts:
        for name, value in theirs.items():
            there = mine.get(name)
            if there is None or there.shape != value.shape or there.dtype != value.dtype:
                raise JobError(
                    f"the saved state does not fit the {what}: {name}",
                    expected=f"{list(value.shape)} of {value.dtype}",
                    received=(
                        "nothing" if there is None else f"{list(there.shape)} of {there.dtype}"
                    ),
                    help=_SAME_JOB,
                )
        extra = sorted(set(mine) - set(theirs))
        if extra:
            raise JobError(
                f"the saved state does not fit the {what}",
                received=f"unknown: {', '.join(extra)}",
                help=_SAME_JOB,
            )
    for joint, memory in fresh.joints.items():
        missing = sorted(set(memory) - set(state.joints.get(joint, {})))
        if missing:
            raise JobError(
                "the saved state does not fit the algorithm",
                received=f"a state without `{missing[0]}` of the step `{joint}`",
                help=_SAME_JOB,
            )
    return _in_order(state, fresh)


def _in_order(state: ServerState, fresh: ServerState) -> ServerState:
    """The state with its tensors in the order in which they were made: files have another, and
    noise and sums go by it.
    """
    return replace(
        state,
        models={name: state.models[name] for name in fresh.models},
        joints={
            joint: {name: memory[name] for name in fresh.joints.get(joint, {}) | memory}
            for joint, memory in state.joints.items()
        },
        clients={name: state.clients[name] for name in fresh.clients},
    )


def _check_statistics(problem: Problem, algorithm: Algorithm) -> None:
    """Raise JobError where running statistics would break what the algorithm promises."""
    names = running_statistics(problem.model)
    if not names:
        return
    reason = ""
    if algorithm.budget is not None or not isinstance(algorithm.privacy, NoPrivacy):
        reason = "privacy does not cover statistics of the samples"
    elif isinstance(algorithm.start, AllBlocks):
        reason = "projections and penalties of PC-FedAvg are about trained parameters"
    if reason:
        raise JobError(
            f"{algorithm.name}: the model has running statistics (batch normalisation), and "
            f"{reason}",
            received=", ".join(names[:4]),
            help="use GroupNorm or LayerNorm in the model",
        )
