"""One round of federated learning, as a function of the state before it.

Letters: K sampled clients, C clients of a stack, G models the server holds, M constraints.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedkg._internal.safe_text import list_first
from fedkg.errors import JobError, TooFewClients
from fedkg.exclusion_reasons import is_unusable
from fedkg.federated.client import wire_precision
from fedkg.federated.client.gradient import MeanGradient
from fedkg.federated.client.optimisers import SGD
from fedkg.federated.client.outgoing_updates import (
    has_scores,
    make_outgoing,
    score_own_models,
    updated_models,
)
from fedkg.federated.client.start_points import GlobalStart
from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.federated.client_state_store import ClientRows, changed
from fedkg.federated.executors.join_update_stacks import by_client, join_small_stacks
from fedkg.federated.executors.protocol import Executor, Updates, Work, round_context
from fedkg.federated.problem import pool
from fedkg.federated.randomness import PRIVACY, server_seed
from fedkg.federated.round_record import RoundRecord
from fedkg.federated.round_steps import AggregationRule, OfClients, RoundContext, with_context
from fedkg.federated.server import guard
from fedkg.federated.server.prediction_outlier_exclusion import AnswerExclusion
from fedkg.federated.server.robust import Krum, TrustedMean
from fedkg.federated.server.scoring import ProbeScores, alpha, by_family, satisfied
from fedkg.federated.server.weighting import ByScore, ByValidity
from fedkg.federated.state import ServerState
from fedkg.federated.step_results import apply_server, require_shape, require_shapes
from fedkg.federated.theory.estimators import divergence
from fedkg.models.model_protocols import Params, running_statistics
from fedkg.models.random_streams import root
from fedkg.violation_rate_zones import classify_rate

NO_CASE = "no probe row has its key or meets its condition"
"""Why a constraint is not evaluated where the scorer knows no other reason."""

LEAST_REMOVED = 5e-4
"""Weight that the rules remove, below which a round does not note it: less than 0.1 % as text."""

NAMED = 10
"""Names that a message lists before it counts the rest."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Received:
    """What has come in so far in a round, by client position where it is one number per client;
    `violated` [C, M] as the stacks came.

    `has_weight` and `has_clients`, bool [G], are the groups with any weight, and with any client;
    `started`, the groups of rejected clients; `current`, the violated shares [G, M] of the server's
    models, if weights depend on them.
    """

    fold: Any
    fallback: Any
    weight: dict[int, float] = field(default_factory=dict)
    loss: dict[int, float] = field(default_factory=dict)
    validity: dict[int, float] = field(default_factory=dict)
    violated: list[Tensor] = field(default_factory=list)
    broken: Tensor | None = None
    rejected: dict[int, str] = field(default_factory=dict)
    current: Tensor | None = None
    started: dict[int, int] = field(default_factory=dict)
    client_memory: dict[str, ClientRows] = field(default_factory=dict)
    shared: Params = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    updates: list[Tensor] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    has_weight: Tensor
    has_clients: Tensor
    bytes_up: int = 0
    bytes_down: int = 0
    late: dict[int, tuple[int, float]] = field(default_factory=dict)


@torch.no_grad()
def run_round(
    work: Work, executor: Executor, state: ServerState
) -> tuple[ServerState, RoundRecord]:
    """The state after the next round, and what happened in it.

    Raises:
        TooFewClients: when fewer updates were usable than the settings demand.
        JobError: when no update has any weight and the algorithm says that this is an error.
    """
    begun = time.perf_counter()
    algorithm, number = work.algorithm, state.round + 1
    sampled = _sample_clients(work, number)
    excluded = {place: work.excluded[place] for place in sampled.tolist() if place in work.excluded}
    clients = sampled
    if excluded:
        clients = sampled[[place not in excluded for place in sampled.tolist()]]
    state = algorithm.before.apply(work, state, clients)
    server_update = (
        _server_update(work, executor, state) if algorithm.aggregate.needs_server_update else None
    )
    nobody = torch.zeros(
        len(next(iter(state.models.values()))), dtype=torch.bool, device=work.pool.x.device
    )
    aggregate = with_context(algorithm.aggregate, round_context(work, state, clients))
    received = _Received(
        fold=aggregate.begin(state.models, server_update),
        fallback=(
            aggregate.begin(state.models, server_update)
            if algorithm.weighting.on_all_invalid == "fedavg"
            else None
        ),
        has_weight=nobody,
        has_clients=nobody.clone(),
        rejected=excluded,
        current=_violated_now(work, state),
    )
    received.client_memory, received.shared = (
        dict(state.clients),
        dict(state.joints.get("local", {})),
    )
    samples = work.pool.sizes[clients].to(torch.float64)
    stacks: Iterator[Updates] = iter(())
    if len(clients):
        trained = executor.train(work, state, clients)
        if work.attackers is not None:
            trained = work.attackers.change(state, trained)
        sent: Iterator[Updates] = (
            updates if updates.outgoing else make_outgoing(work, state, updates)
            for updates in trained
        )
        if work.settings.scores_at_sites:
            sent = (score_own_models(work, state, updates) for updates in sent)
            if work.attackers is not None:
                sent = work.attackers.change_scores(state, sent)
        stacks = join_small_stacks(sent, len(clients))
    if isinstance(algorithm.aggregate, Krum) or isinstance(algorithm.exclusion, AnswerExclusion):
        stacks = by_client(stacks)  # of equal clients Krum takes the first; outliers need all
    for updates in stacks:
        _receive(work, state, received, updates, float(samples.sum()))
    if len(clients):
        _enough(work, received, number)
    update, notes = _aggregate(work, state, received, number)
    if update is not None:
        shapes = {name: value.shape for name, value in state.models.items()}
        require_shapes(aggregate, "finish", update, shapes, needed=shapes, others=True)
    after = _next_state(work, state, received, update)
    notes = (*received.notes, *notes, *_still(work, received))
    if not guard.finite(after.models):
        after, notes = (
            _unchanged_state(state, received),
            (*notes, "the updates overflow together: the model is unchanged"),
        )
    if algorithm.budget is not None:
        after = replace(
            after,
            joints={
                **after.joints,
                "privacy": algorithm.budget.after(state.joints["privacy"], sampled),
            },
        )
    notes = (*notes, *_late_notes(work, received))
    positions = sorted({*sampled.tolist(), *received.late})
    record = _record(work, state, received, positions, notes, begun)
    return algorithm.after.apply(work, after, record), record


def skip_round(
    work: Work, state: ServerState, error: TooFewClients, seconds: float
) -> tuple[ServerState, RoundRecord]:
    """The state after a round that `run_round` gave up: the same models and memory, one round
    later. A privacy budget counts the round as spent, because clients may have sent updates.
    """
    clients = _sample_clients(work, state.round + 1)
    after = replace(state, round=state.round + 1)
    if work.algorithm.budget is not None:
        spent = work.algorithm.budget.after(state.joints["privacy"], clients)
        after = replace(after, joints={**after.joints, "privacy": spent})
    names, sizes = work.problem.clients.names, work.pool.sizes.tolist()
    positions = clients.tolist()
    note = (
        f"round {after.round} is skipped, the model is unchanged: usable updates from"
        f" {error.received}, expected {error.expected}; its traffic is not counted"
    )
    return after, RoundRecord(
        round=after.round,
        clients=tuple(names[client] for client in positions),
        samples=tuple(sizes[client] for client in positions),
        alpha=(0.0,) * len(positions),
        excluded=error.excluded,
        train_loss=float("nan"),
        bytes_up=0,
        bytes_down=0,
        seconds=seconds,
        notes=(note,),
    )


def _sample_clients(work: Work, number: int) -> Tensor:
    """The clients of a round, int64 [K]."""
    settings, population = work.settings, len(work.problem.clients.names)
    return work.algorithm.sampling.sample(
        seed=settings.seed, round=number, population=population, size=settings.sampled(population)
    ).to(work.pool.x.device)


def _server_update(work: Work, executor: Executor, state: ServerState) -> Params:
    """Return the update [1, ...] of the server on its rows, by the clients' objective and plain
    gradient descent.

    These rows belong to no client: personal terms are left out, and their minibatches are drawn for
    the server only.

    Raises:
        JobError: when the server has no such rows.
    """
    if work.problem.server_data is None:
        raise JobError(
            "the server has no labelled rows to compare updates with",
            help="set `data.server` in a job, or `Problem(server_data=...)`; or choose another"
            " aggregate",
        )
    terms = tuple(term for term in work.algorithm.terms if not isinstance(term, OfClients))
    plain = replace(
        work.algorithm,
        start=GlobalStart(),
        terms=terms,
        local=SGD(),
        beside=None,
        differentiation=MeanGradient(),
    )
    problem = replace(work.problem, clients=work.problem.server_data)
    settings = replace(work.settings, seed=server_seed(work.settings.seed))
    alone = replace(
        work, problem=problem, algorithm=plain, settings=settings, pool=pool(problem.clients)
    )
    [updates] = executor.train(
        alone, state, torch.zeros(1, dtype=torch.int64, device=work.pool.x.device)
    )
    return updates.update


def _receive(
    work: Work, state: ServerState, received: _Received, updates: Updates, total: float
) -> None:
    """Guard, validity score, weight, group, and into the fold."""
    algorithm, scorer = work.algorithm, work.problem.scorer
    if updates.update and not algorithm.pooled:
        wire = wire_precision.wire_of(work)
        sent = wire_precision.size(updates.update, wire) + wire_precision.size(updates.shared, wire)
        received.bytes_up += sent + 8 * len(updates.clients)
        received.bytes_down += _down(state, updates)
    started = dict(zip(updates.clients.tolist(), updates.groups.tolist(), strict=True))
    updates = guard.usable(updates)
    received.rejected |= updates.rejected
    received.notes += updates.notes
    received.started |= {
        client: started[client] for client in updates.rejected if client in started
    }
    if isinstance(algorithm.exclusion, AnswerExclusion) and len(updates.clients):
        updates = _without_outliers(work, state, received, updates, algorithm.exclusion)
    scores = _score(work, state, updates)
    rows = None if scorer is None else scorer.rows
    if not len(updates.clients):
        return
    # Shares of the cohort's samples instead of the samples themselves, so that sums stay near 1 in
    # any precision.
    samples = work.pool.sizes[updates.clients].to(torch.float64) / total
    if updates.late:
        factors = [updates.late.get(client, (0, 1.0))[1] for client in updates.clients.tolist()]
        samples = samples * torch.tensor(factors, dtype=samples.dtype, device=samples.device)
        received.late |= updates.late
    if scores is not None and received.current is not None:
        scores = replace(scores, current=received.current[updates.groups])
    context = round_context(work, state, updates.clients)
    weights, validity = with_context(algorithm.weighting, context).weigh(samples, scores, rows)
    groups = updates.groups
    received.has_weight[groups[weights > 0]] = received.has_clients[groups] = True
    aggregate = with_context(algorithm.aggregate, context)
    received.fold = aggregate.add(received.fold, updates.update, weights, groups)
    if received.fallback is not None:
        equal = torch.ones_like(samples) if _only_removes(work) else samples
        received.fallback = aggregate.add(received.fallback, updates.update, equal, groups)
    if work.settings.measure_divergence and updates.update:
        flat = [
            value.reshape(len(value), -1).to("cpu", torch.float64)
            for value in updates.update.values()
        ]
        received.updates.append(torch.cat(flat, dim=1))
    for name, rows_of in updates.client_memory.items():
        received.client_memory[name] = changed(
            received.client_memory[name], updates.clients, rows_of, before=state.clients[name]
        )
    for name, added in updates.shared.items():
        received.shared[name] = received.shared[name] + added.sum(0, keepdim=True)
    positions = updates.clients.tolist()
    received.order += positions
    received.weight |= dict(zip(positions, weights.tolist(), strict=True))
    received.loss |= dict(zip(positions, updates.loss.tolist(), strict=True))
    if scores is not None and validity is not None:
        _note_scores(
            received,
            positions,
            scores,
            validity,
            broken=algorithm.weighting.on_all_invalid == "error",
        )


def _without_outliers(
    work: Work, state: ServerState, received: _Received, updates: Updates, rule: AnswerExclusion
) -> Updates:
    """The updates of a whole round without those with outlying answers."""
    seen = updated_models(work, state, updates)
    reasons = {} if seen is None else rule.outliers(work.problem, seen)
    for place in reasons:
        received.started[int(updates.clients[place])] = int(updates.groups[place])
    updates = guard.leave_out(updates, reasons)
    received.rejected |= updates.rejected
    return updates


def _score(work: Work, state: ServerState, updates: Updates) -> ProbeScores | None:
    """The violations of the clients' models; None if nothing is scored."""
    scorer = work.problem.scorer
    if updates.violation is not None:
        return ProbeScores(violation=updates.violation)
    if (
        scorer is None
        or not len(updates.clients)
        or not has_scores(work)
        or work.settings.scores_at_sites
    ):
        return None
    seen = updated_models(work, state, updates)
    return None if seen is None else scorer.score(seen)


def _violated_now(work: Work, state: ServerState) -> Tensor | None:
    """The violated shares [G, M] of the server's models; None if no weight depends on them."""
    weighting, scorer = work.algorithm.weighting, work.problem.scorer
    if scorer is None or not scorer.rows.count:
        return None
    if not (isinstance(weighting, ByValidity) and weighting.options.relative):
        return None
    return scorer.score(state.models).violation


def _note_scores(
    received: _Received,
    positions: list[int],
    scores: ProbeScores,
    validity: Tensor,
    *,
    broken: bool,
) -> None:
    """`broken`: whether to report the violated constraints if no update has any weight."""
    received.validity |= dict(zip(positions, validity.tolist(), strict=True))
    received.violated.append(scores.violation.to("cpu", torch.float32, copy=True))
    if broken:
        by_some = (scores.violation > 0).any(0)
        received.broken = by_some if received.broken is None else received.broken | by_some


def _enough(work: Work, received: _Received, number: int) -> None:
    hidden = (
        len(received.rejected) if work.algorithm.privacy.noisy else 0
    )  # what a client sent must not end the training
    if len(received.weight) + hidden >= work.settings.min_clients:
        return
    names = work.problem.clients.names
    raise TooFewClients(
        f"round {number} has too few usable updates",
        expected=f"at least {work.settings.min_clients}",
        received=f"{len(received.weight)} of {len(received.weight) + len(received.rejected)}",
        excluded={names[client]: why for client, why in sorted(received.rejected.items())},
    )


def _cohort(work: Work, state: ServerState, received: _Received) -> RoundContext:
    """The context of all clients with a usable update."""
    clients = torch.tensor(received.order, dtype=torch.int64, device=work.pool.x.device)
    return round_context(work, state, clients)


def _aggregate(
    work: Work, state: ServerState, received: _Received, number: int
) -> tuple[Params | None, tuple[str, ...]]:
    """Return the aggregated update (None to keep the models) and notes about it."""
    algorithm = work.algorithm
    if not received.order and not algorithm.privacy.noisy:
        return None, ("every sampled client is excluded: the model is unchanged",)
    aggregate = with_context(algorithm.aggregate, _cohort(work, state, received))
    if isinstance(aggregate, Krum) and aggregate.attackers:
        left = _attackers_left(aggregate, received)
        if left is None:
            received.weight = dict.fromkeys(received.weight, 0.0)
            return None, (_too_few_for_krum(aggregate, received),)
        aggregate = replace(aggregate, attackers=left)
    weighed = any(weight > 0 for weight in received.weight.values())
    if (
        isinstance(aggregate, TrustedMean)
        and (weighed or algorithm.weighting.on_all_invalid == "fedavg")
        and not bool(received.fold.sums.weight.any())
    ):
        received.weight = dict.fromkeys(received.weight, 0.0)
        return None, ("FLTrust trusts no update: the model is unchanged",)
    if algorithm.privacy.noisy or weighed:
        _count(received, aggregate, received.fold)
        return aggregate.finish(received.fold), (
            *_removed(work, received),
            *_skipped_clusters(work, received),
        )
    match algorithm.weighting.on_all_invalid:
        case "skip":
            return None, (
                "no update has any weight under the rules: the model is unchanged",
                *_takers(work, received),
            )
        case "fedavg":
            received.weight = {client: float(work.pool.sizes[client]) for client in received.weight}
            received.has_weight = received.has_clients
            _count(received, aggregate, received.fallback)
            return aggregate.finish(received.fallback), (
                "no update has any weight under the rules: all were weighted without the rules",
            )
        case "error":
            scorer = work.problem.scorer
            broken = [] if received.broken is None else received.broken.nonzero().flatten().tolist()
            names = [] if scorer is None else [scorer.rows.names[row] for row in broken]
            raise JobError(
                f"round {number} of {algorithm.name}: every client's update violates rules, so "
                "no update has any weight",
                received=f"violated: {list_first(names, NAMED)}" if names else "",
                help="loosen the rules, raise hard_tolerance or soft_tolerance, or set "
                "on_all_invalid to skip or fedavg (in a job file: in the section `scoring`)",
            )


def _count(received: _Received, aggregate: AggregationRule, fold: Any) -> None:
    """Note how much each client counted, where that is not by the weights."""
    counted = aggregate.counted(fold)
    if counted is not None:
        require_shape(aggregate, "counted", counted, (len(received.order),))
        received.weight = dict(zip(received.order, counted.tolist(), strict=True))


def _attackers_left(krum: Krum, received: _Received) -> int | None:
    """How many of the usable updates may still be corrupt; None if Krum has no proof for that.

    Of all clients at most `attackers` are corrupt, and one with an unusable update is one of them:
    otherwise a corrupt client could stop the training by NaN. Outliers, and clients that did not
    answer, may be honest: those who answered may still contain all attackers.
    """
    left = krum.attackers - sum(is_unusable(reason) for reason in received.rejected.values())
    enough = left == 0 or len(received.order) >= 2 * left + 3
    return left if left >= 0 and enough else None


def _too_few_for_krum(krum: Krum, received: _Received) -> str:
    return (
        f"Krum withstands {krum.attackers} attackers only among enough updates, and "
        f"{len(received.order)} are usable ({len(received.rejected)} are not): the model is "
        "unchanged; lower `attackers`, or sample more sites"
    )


def _only_removes(work: Work) -> bool:
    """Whether weights by the rules only remove from the shares of a robust rule."""
    return isinstance(work.algorithm.weighting, ByScore)


def _removed(work: Work, received: _Received) -> tuple[str, ...]:
    """A note on the weight that the rules removed from the shares of a robust rule."""
    removed = 1.0 - sum(received.weight.values())
    if not _only_removes(work) or removed < LEAST_REMOVED:
        return ()
    return (f"the rules leave {removed:.1%} of the weight with the current model",)


def _skipped_clusters(work: Work, received: _Received) -> tuple[str, ...]:
    """A note on the models of which every update violates the rules; none under privacy."""
    skipped = (received.has_clients & ~received.has_weight).nonzero().flatten().tolist()
    if work.algorithm.privacy.noisy or not skipped:
        return ()
    named = list_first([str(group) for group in skipped], NAMED)
    return (f"no update of cluster {named} has any weight under the rules: its model is unchanged",)


def _takers(work: Work, received: _Received) -> tuple[str, ...]:
    """Return a note that names the families without a satisfied rule that remove an update's
    weight, with remedies.
    """
    weighting, scorer = work.algorithm.weighting, work.problem.scorer
    if scorer is None or not received.violated or not isinstance(weighting, ByValidity):
        return ()
    rows = replace(scorer.rows, weight=scorer.rows.weight.cpu(), hard=scorer.rows.hard.cpu())
    v = satisfied(torch.cat(received.violated), rows.hard, weighting.options)
    shares = by_family(v, rows)
    named = [family for family, share in shares.items() if bool((share <= 0).any())]
    if not named:
        return ()
    way_out = (
        "put a penalty into the training, loosen the rules, raise hard_tolerance or soft_tolerance,"
        " or set on_all_invalid to fedavg (in a job file: in the section `scoring`)"
    )
    return (
        f"an update without weight violates every rule of a kind: {', '.join(named)}; {way_out}",
    )


def _next_state(
    work: Work, state: ServerState, received: _Received, update: Params | None
) -> ServerState:
    algorithm = work.algorithm
    models, joints = state.models, dict(state.joints)
    if update is not None:
        device = next(iter(update.values())).device
        update = algorithm.privacy.server(
            update, root(work.settings.seed, PRIVACY, state.round + 1, device=device)
        )
        before = dict(joints.get("server", {}))
        server = with_context(algorithm.server, _cohort(work, state, received))
        models, memory = apply_server(server, models, update, before)
        # Running statistics are averages of samples: a server optimiser must not move them.
        statistics = running_statistics(work.problem.model)
        models = models | {
            name: state.models[name] + update[name] for name in statistics if name in update
        }
        if not algorithm.privacy.noisy and not bool(
            received.has_weight.all()
        ):  # a group without weight does not move: momentum must not move it
            models, memory = (
                _where(received.has_weight, models, state.models),
                _where(received.has_weight, memory, before),
            )
        if memory:
            joints["server"] = memory
    if received.shared:
        joints["local"] = received.shared
    return replace(
        state, round=state.round + 1, models=models, joints=joints, clients=received.client_memory
    )


def _still(work: Work, received: _Received) -> tuple[str, ...]:
    """Return a note that names the clients with unusable updates and models that no other client
    changes.
    """
    names = work.problem.clients.names
    alone = [
        names[client]
        for client, group in sorted(received.started.items())
        if not bool(received.has_clients[group])
    ]
    if not alone:
        return ()
    return (
        f"left out: {', '.join(alone)}; no other update was for their model, which is unchanged",
    )


def _late_notes(work: Work, received: _Received) -> tuple[str, ...]:
    """A note that names the clients whose update was made for an earlier round."""
    names = work.problem.clients.names
    said = [
        f"{names[client]} ({rounds} round{'' if rounds == 1 else 's'}, weight times {factor:.3g})"
        for client, (rounds, factor) in sorted(received.late.items())
    ]
    return (f"late updates: {', '.join(said)}",) if said else ()


def _where(chosen: Tensor, new: Params, old: Params) -> Params:
    """The new rows of chosen groups (bool [G]), the old ones of others; tensors [G, ...]."""
    return {
        name: torch.where(per_client(chosen, value), value, old[name])
        for name, value in new.items()
    }


def _unchanged_state(state: ServerState, received: _Received) -> ServerState:
    """Return the state after a round with an unusable result."""
    received.weight = dict.fromkeys(received.weight, 0.0)
    return replace(state, round=state.round + 1)


def _record(
    work: Work,
    state: ServerState,
    received: _Received,
    positions: list[int],
    notes: tuple[str, ...],
    begun: float,
) -> RoundRecord:
    names, sizes = work.problem.clients.names, work.pool.sizes.tolist()
    weights = torch.tensor(
        [received.weight.get(client, 0.0) for client in positions], dtype=torch.float64
    )
    weights = weights if _only_removes(work) else alpha(weights)
    validity = violated = rho_worst = rho_mean = None
    not_evaluated: dict[str, str] = {}
    if received.validity:
        validity = tuple(_validity(received, client) for client in positions)
        scores = [score for score in validity if not math.isnan(score)]
        if scores:
            rho_worst, rho_mean = 1.0 - min(scores), 1.0 - sum(scores) / len(scores)
        violated = _in_order(received, positions)
        not_evaluated = _not_evaluated(work, received)
        notes = (*notes, *_without_score(work, received))
    weighted = sum(sizes[client] * loss for client, loss in received.loss.items())
    seen = sum(sizes[client] for client in received.loss)
    return RoundRecord(
        round=state.round + 1,
        clients=tuple(names[client] for client in positions),
        samples=tuple(sizes[client] for client in positions),
        alpha=tuple(weights.tolist()),
        validity=validity,
        violated=violated,
        not_evaluated=not_evaluated,
        rho_worst=rho_worst,
        rho_mean=rho_mean,
        zone=None if rho_worst is None else classify_rate(rho_worst),
        excluded={names[client]: reason for client, reason in sorted(received.rejected.items())},
        train_loss=weighted / seen if seen else float("nan"),
        bytes_up=received.bytes_up,
        bytes_down=received.bytes_down,
        seconds=time.perf_counter() - begun,
        notes=notes,
        divergence=divergence(torch.cat(received.updates)) if received.updates else None,
        attackers=_attackers(work, state.round + 1, positions),
    )


def _validity(received: _Received, client: int) -> float:
    """s_k of a sampled client; NaN without an update: a missing site violates no rule."""
    unusable = is_unusable(received.rejected.get(client, ""))
    return received.validity.get(client, 0.0 if unusable else math.nan)


def _attackers(work: Work, number: int, positions: list[int]) -> tuple[str, ...]:
    """The names of the clients at these positions that attack in a round."""
    if work.attackers is None:
        return ()
    clients = torch.tensor(positions, dtype=torch.int64, device=work.attackers.clients.device)
    active = work.attackers.active(number, clients).tolist()
    names = work.problem.clients.names
    return tuple(names[client] for client, one in zip(positions, active, strict=True) if one)


def _not_evaluated(work: Work, received: _Received) -> dict[str, str]:
    """Why each constraint that was evaluated for no client was not, by its name."""
    scorer = work.problem.scorer
    if scorer is None:
        return {}
    rows = scorer.rows
    evaluated = torch.stack([shares.isfinite().any(0) for shares in received.violated]).any(0)
    reasons = rows.reasons or ("",) * rows.count
    return {
        rows.names[row]: reasons[row] or NO_CASE for row in torch.nonzero(~evaluated)[:, 0].tolist()
    }


def _without_score(work: Work, received: _Received) -> tuple[str, ...]:
    """A note that names the clients for which no constraint was evaluated, and how their updates
    count.
    """
    names = work.problem.clients.names
    some = [names[client] for client, score in received.validity.items() if math.isnan(score)]
    if not some or not work.algorithm.weighting.needs_scores:
        return ()
    clients = list_first(some, NAMED)
    return (f"no rule was evaluated for {clients}: weighted by the number of samples alone",)


def _in_order(received: _Received, positions: list[int]) -> Tensor:
    """The violation shares [K, M] of clients at these positions, NaN for clients without any."""
    shares = received.violated[0] if len(received.violated) == 1 else torch.cat(received.violated)
    if received.order == positions:
        return shares
    rows = {client: row for row, client in enumerate(received.order)}
    if len(rows) < len(positions):
        shares = torch.cat([shares, shares.new_full((1, shares.shape[1]), float("nan"))])
    return shares.index_select(
        0, torch.tensor([rows.get(client, len(rows)) for client in positions], device=shares.device)
    )


def _down(state: ServerState, updates: Updates) -> int:
    """What these clients were sent: their start, but for what they remember themselves, and the
    server's part of their optimisers.
    """
    start = {
        name: value for name, value in updates.start.items() if f"start/{name}" not in state.clients
    }
    shared = {name: value[:1] for name, value in state.joints.get("local", {}).items()}
    return _bytes(start) + len(updates.clients) * _bytes(shared)


def _bytes(stack: Params) -> int:
    return sum(value.numel() * value.element_size() for value in stack.values())
