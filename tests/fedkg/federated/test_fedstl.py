"""FedSTL: clusters by properties, the teacher in the objective, private layers, cluster training.

Also its behaviour without each of them.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from federations import FunctionScorer, identical, largest_difference, rows
from forecasts import LAYOUT, PAST, STEPS, properties, ranges, task
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated import (
    Algorithm,
    Problem,
    ServerState,
    Settings,
    fedavg,
    from_tensors,
    initial_state,
    to_tensors,
    train,
)
from fedkg.federated.algorithms.fedstl import fedstl
from fedkg.federated.executors import Stacked, Work
from fedkg.federated.pcfedavg.agent_sets import sets_of
from fedkg.federated.pcfedavg.penalty import PenaltySchedule, SetPenalty
from fedkg.federated.problem import pool
from fedkg.federated.randomness import ORDER, client_keys, permutations
from fedkg.federated.server.optimisers import AdaptiveStep
from fedkg.federated.server.robust import Krum, TrustedMean
from fedkg.federated.server.weighting import ByValidity
from fedkg.federated.temporal.client_property_mining import inferred
from fedkg.federated.temporal.forecast_scores import judged
from fedkg.federated.temporal.property_loss_clustering import (
    Assignment,
    ByProperty,
    assigned,
    losses,
)
from fedkg.federated.temporal.server_cluster_training import ClusterWarning
from fedkg.models import Params
from fedkg.projection import L1Ball

LEVELS = (0.0, 5.0, 0.0, 5.0, 5.0, 0.0)
TASK, TEST = task(LEVELS)
FOUND = properties(TASK)
SETTINGS = Settings(
    rounds=3,
    participation=0.7,
    local_epochs=2,
    batch=16,
    learning_rate=0.02,
    seed=1,
    executor="stacked",
)
WHOLE = {
    "clusters": 2,
    "private": ("head.",),
    "weight": 0.5,
    "cluster_epochs": 2,
    "momentum": 0.5,
    "weight_decay": 1e-4,
}


def whole(**changes: object) -> Algorithm:
    return fedstl(inferred=FOUND, **{**WHOLE, **changes})  # type: ignore[arg-type]


def end(
    algorithm: Algorithm, settings: Settings = SETTINGS, problem: Problem = TASK
) -> ServerState:
    *_, (state, _) = train(problem, algorithm, settings)
    return state


def work(algorithm: Algorithm, settings: Settings = SETTINGS) -> Work:
    return Work(problem=TASK, algorithm=algorithm, settings=settings, pool=pool(TASK.clients))


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
@pytest.mark.parametrize("known", [True, False])
def test_without_all_that_is_its_own_it_is_fedavg_to_the_bit(known: bool, executor: str) -> None:
    """Acceptance test 14: lambda = 0, one cluster, no training of clusters, all layers shared."""
    settings = replace(SETTINGS, executor=executor)  # type: ignore[arg-type]
    neutral = fedstl(inferred=FOUND if known else None, clusters=1, weight=0.0, cluster_epochs=0)
    assert identical(end(neutral, settings).models, end(fedavg(), settings).models)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"private": ()},
        {"cluster_epochs": 0},
        {"weight": 0.0},
        {"clusters": 1},
        {"every": 2, "assignment": "argmin"},
    ],
)
def test_executors_agree(changes: dict[str, object]) -> None:
    one = end(whole(**changes), replace(SETTINGS, executor="sequential"))
    for chunk in (None, 2):
        other = end(whole(**changes), replace(SETTINGS, chunk=chunk))
        assert ("start" in one.joints) == (changes.get("clusters") != 1)
        if "start" in one.joints:
            assert torch.equal(one.joints["start"]["cluster"], other.joints["start"]["cluster"])
        assert largest_difference(one.models, other.models) < 1e-12
        assert largest_difference(dict(one.clients), dict(other.clients)) < 1e-11


def test_every_part_matters() -> None:
    reference = end(whole())
    for changes in (
        {"private": ()},
        {"cluster_epochs": 0},
        {"weight": 0.0},
        {"clusters": 3},
        {"cluster_rate": 0.001},
    ):
        assert (
            largest_difference(
                {"body": reference.models["body.weight"][:2]},
                {"body": end(whole(**changes)).models["body.weight"][:2]},
            )
            > 1e-6
        )


def test_a_restart_changes_nothing() -> None:
    states = [state for state, _ in train(TASK, whole(every=2), SETTINGS)]
    tensors, document = to_tensors(states[0])
    rest = [
        state
        for state, _ in train(
            TASK, whole(every=2), SETTINGS, from_tensors(tensors, json.loads(json.dumps(document)))
        )
    ]
    assert identical(rest[-1].models, states[-1].models)
    assert identical(dict(rest[-1].clients), dict(states[-1].clients))


def test_private_layers_never_appear_in_a_message() -> None:
    algorithm = whole(cluster_epochs=0)
    state = initial_state(TASK, algorithm, SETTINGS)
    everybody = torch.arange(len(LEVELS))
    state = algorithm.before.apply(work(algorithm), state, everybody)
    [updates] = Stacked(chunk=10).train(work(algorithm), state, everybody)
    assert set(updates.update) == {"body.weight"}
    assert not updates.shared
    *_, (last, record) = train(TASK, algorithm, replace(SETTINGS, participation=1.0))
    for name in ("head.weight", "head.bias"):
        assert torch.equal(last.models[name], initial_state(TASK, algorithm, SETTINGS).models[name])
        assert not torch.equal(last.clients[f"start/{name}"][0], last.clients[f"start/{name}"][2])
    assert record.bytes_up == len(LEVELS) * (4 * PAST * 8 + 8)
    assert record.bytes_down == len(LEVELS) * 4 * PAST * 8


def plain_loop(settings: Settings, clusters: list[list[int]]) -> tuple[Params, list[Params]]:
    """Clustered training with private heads in the most direct form.

    The cluster of each client in each round is an argument.
    """
    begun = initial_state(TASK, whole(), settings)
    bodies = begun.models["body.weight"].clone()
    heads = [
        {name: begun.models[name][0].clone() for name in ("head.weight", "head.bias")}
        for _ in LEVELS
    ]
    for number in range(1, settings.rounds + 1):
        total, change = torch.zeros(2), torch.zeros_like(bodies)
        for client, (x, y) in enumerate(zip(TASK.clients.x, TASK.clients.y, strict=True)):
            cluster = clusters[number - 1][client]
            own = {"body.weight": bodies[cluster].clone(), **heads[client]}
            key = client_keys(settings.seed, number, ORDER, torch.tensor([client]))
            order = permutations(key, torch.tensor([len(x)]), settings.local_epochs or 1)[0]
            for epoch in order:
                for batch in epoch.split(settings.batch):
                    leaves = {name: value.clone().requires_grad_() for name, value in own.items()}
                    output = TASK.model.apply(
                        {name: value.unsqueeze(0) for name, value in leaves.items()}, x[batch]
                    )
                    slopes = torch.autograd.grad(
                        (output[0] - y[batch]).square().mean(), list(leaves.values())
                    )
                    own = {
                        name: value - settings.learning_rate * slope
                        for (name, value), slope in zip(own.items(), slopes, strict=True)
                    }
            total[cluster] += len(x)
            change[cluster] += len(x) * (own["body.weight"] - bodies[cluster])
            heads[client] = {name: own[name] for name in heads[client]}
        bodies = torch.stack(
            [
                body + part / count if count else body
                for body, part, count in zip(bodies, change, total, strict=True)
            ]
        )
    return {"body.weight": bodies}, heads


def test_without_teacher_and_cluster_training_it_is_clustered_training_with_private_heads() -> None:
    """Acceptance test 14, second part."""
    settings = replace(SETTINGS, participation=1.0)
    algorithm = fedstl(inferred=FOUND, clusters=2, private=("head.",), weight=0.0, cluster_epochs=0)
    states = [state for state, _ in train(TASK, algorithm, settings)]
    bodies, heads = plain_loop(
        settings, [state.joints["start"]["cluster"].tolist() for state in states]
    )
    assert (
        largest_difference({"b": states[-1].models["body.weight"]}, {"b": bodies["body.weight"]})
        < 1e-12
    )
    for client, own in enumerate(heads):
        for name, value in own.items():
            assert float((states[-1].clients[f"start/{name}"][client] - value).abs().max()) < 1e-12


@pytest.mark.parametrize("way", ["capacity", "argmin"])
def test_the_table_of_the_specification(way: Assignment) -> None:
    """Acceptance test 15: the first and the third client join the first cluster, the others the
    second.
    """
    table = torch.tensor([[1.0, 5.0, 2.0, 9.0], [4.0, 1.0, 8.0, 3.0]], dtype=torch.float64)
    assert assigned(table, way).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(("clusters", "clients"), [(2, 5), (3, 7), (5, 10), (5, 3), (1, 4)])
def test_each_client_is_in_one_cluster_whatever_the_numbers(clusters: int, clients: int) -> None:
    table = torch.rand(
        clusters, clients, generator=torch.Generator().manual_seed(clients), dtype=torch.float64
    )
    found = assigned(table, "capacity")
    assert found.shape == (clients,)
    assert int(found.min()) >= 0
    assert int(torch.bincount(found, minlength=clusters).max()) <= -(-clients // clusters)


def test_losses_that_are_nan_come_last() -> None:
    nan = float("nan")
    table = torch.tensor([[1.0, nan, 2.0, 3.0], [4.0, nan, 8.0, 9.0]], dtype=torch.float64)
    assert assigned(table, "capacity").tolist() == [0, 1, 0, 1]
    assert assigned(table, "argmin").tolist() == [0, 0, 0, 0]


def test_the_loss_of_a_cluster_on_a_clients_property() -> None:
    algorithm = whole()
    state = initial_state(TASK, algorithm, SETTINGS)
    found = losses(work(algorithm), state, torch.tensor([4, 0]), FOUND)
    for column, client in enumerate((4, 0)):
        for cluster in range(2):
            own = {name: value[cluster : cluster + 1] for name, value in state.models.items()}
            traces = TASK.model.apply(own, FOUND.shared.x[client])[0].unsqueeze(-1)
            nearest = FOUND.sample.nearest(traces, torch.full((len(traces),), client))
            assert float(found[cluster, column]) == pytest.approx(
                float((traces - nearest).abs().mean())
            )


def test_between_clusterings_clients_stay_where_they_are_and_new_ones_are_put_somewhere() -> None:
    algorithm = whole(every=3)
    clusterings: list[Tensor] = [
        state.joints["start"]["cluster"] for state, _ in train(TASK, algorithm, SETTINGS)
    ]
    seen = clusterings[0] >= 0
    assert 0 < int(seen.sum()) < len(LEVELS)
    assert torch.equal(clusterings[1][seen], clusterings[0][seen])
    assert int((clusterings[2] >= 0).sum()) > int(seen.sum())


@pytest.mark.parametrize("way", ["capacity", "argmin"])
@pytest.mark.parametrize("every", [1, 3])
def test_a_round_without_clients_changes_no_cluster(way: Assignment, every: int) -> None:
    algorithm = whole(assignment=way, every=every)
    state = initial_state(TASK, algorithm, SETTINGS)
    nobody = torch.zeros(0, dtype=torch.int64)
    for number in (0, 1):
        begun = replace(state, round=number)
        assert algorithm.before.apply(work(algorithm), begun, nobody) is begun


@pytest.mark.slow
def test_two_populations_are_distinguished() -> None:
    """Acceptance test 16: levels 0 and 5.

    Purity is 1 after at most three rounds; properties are satisfied at least as often as by FedAvg.
    """
    settings = replace(SETTINGS, rounds=12, participation=1.0, local_epochs=4, batch=8)
    states = [state for state, _ in train(TASK, whole(momentum=0.0), settings)]
    level = torch.tensor(LEVELS) > 2.5
    for state in states[2:]:
        cluster = state.joints["start"]["cluster"]
        assert len(set(cluster[level].tolist())) == len(set(cluster[~level].tolist())) == 1
        assert cluster[level][0] != cluster[~level][0]
    ours = judged(work(whole(momentum=0.0), settings), states[-1], FOUND, TEST)
    plain = judged(work(fedavg(), settings), end(fedavg(), settings), FOUND, TEST)
    assert float(ours.client.sequences.mean()) >= float(plain.client.sequences.mean())
    assert float(ours.client.steps.mean()) >= float(plain.client.steps.mean())
    assert ours.teacher.sequences.tolist() == [1.0] * len(LEVELS)
    assert ours.teacher.steps.tolist() == [1.0] * len(LEVELS)
    assert 0.5 < float(ours.truth.sequences.mean()) < 1.0
    assert ours.truth.mse.tolist() == [0.0] * len(LEVELS)


def test_properties_per_cluster_and_per_run() -> None:
    pack = ranges("run")
    every = inferred(pack, TASK.clients, LAYOUT, steps=STEPS, share=0.1)
    assert all(torch.equal(values[0], values[-1]) for values in every.own.values)
    low, high = every.own.values[0][0].tolist()
    together = torch.cat(TASK.clients.y)[:, :2]
    assert (low, high) == (float(together.min()), float(together.max()))
    first = end(fedstl(inferred=every, clusters=2, cluster_epochs=1))
    assert (
        largest_difference(
            {"b": first.models["body.weight"]}, {"b": end(whole()).models["body.weight"]}
        )
        > 1e-6
    )


def test_a_client_that_was_never_sampled_uses_the_cluster_that_suits_it() -> None:
    settings = replace(SETTINGS, rounds=1, participation=0.5)
    algorithm = whole()
    state = end(algorithm, settings)
    new = torch.nonzero(state.joints["start"]["cluster"] < 0).squeeze(1)
    assert len(new) == 3
    best = losses(work(algorithm), state, new, FOUND).argmin(0)
    used = algorithm.site_models(work(algorithm), state, new)
    assert torch.equal(used["body.weight"], state.models["body.weight"][best])
    assert torch.equal(used["head.weight"], state.clients["start/head.weight"][new])


def test_refusals() -> None:
    with pytest.raises(JobError, match="needs the properties"):
        fedstl()
    with pytest.raises(JobError, match="number of clusters"):
        whole(clusters=0)
    with pytest.raises(JobError, match="number of rounds between two clusterings"):
        whole(every=0)
    with pytest.raises(JobError, match="at least 0"):
        whole(cluster_epochs=-1)
    with pytest.raises(JobError, match="must not be negative"):
        whole(weight=-1.0)
    with pytest.raises(JobError, match="the share of its samples"):
        inferred(ranges(), TASK.clients, LAYOUT, steps=STEPS, share=0.0)
    with pytest.raises(JobError, match="not series of the expected length"):
        inferred(ranges(), TASK.clients, LAYOUT, steps=STEPS + 1)
    others = replace(
        TASK,
        clients=replace(
            TASK.clients, names=tuple(f"other_{place}" for place in range(len(LEVELS)))
        ),
    )
    with pytest.raises(JobError, match="belong to other clients"):
        next(train(others, whole(), SETTINGS))


def test_the_first_clustering_is_made_with_the_whole_cohort_under_either_executor() -> None:
    before = whole().before
    assert isinstance(before, ByProperty)
    state = before.apply(
        work(whole()), initial_state(TASK, whole(), SETTINGS), torch.tensor([1, 2, 3])
    )
    assert sorted(
        torch.bincount(state.joints["start"]["cluster"][[1, 2, 3]], minlength=2).tolist()
    ) == [1, 2]
    assert state.joints["start"]["cluster"][[0, 4, 5]].tolist() == [-1, -1, -1]


def test_it_goes_together_with_sets_weights_by_the_rules_and_a_servers_momentum() -> None:
    sets = sets_of([L1Ball(1.0 + place) for place in range(len(LEVELS))], ("body.weight",))
    scorer = FunctionScorer(
        rows=rows(2), violation=lambda params: (params["head.bias"][:, :2] > 0.01).double()
    )
    algorithm = replace(
        whole(private=()).with_terms(SetPenalty(sets=sets, schedule=PenaltySchedule(first=0.5))),
        weighting=ByValidity(on_all_invalid="fedavg"),
        server=AdaptiveStep(memory="adam", rate=0.02),
    )
    problem = replace(TASK, scorer=scorer)
    ends = [
        end(algorithm, replace(SETTINGS, executor=name), problem)
        for name in ("stacked", "sequential")
    ]  # type: ignore[arg-type]
    assert largest_difference(ends[0].models, ends[1].models) < 1e-11
    assert largest_difference(ends[0].models, end(whole(private=())).models) > 1e-3


@pytest.mark.parametrize("aggregate", [Krum(attackers=0), TrustedMean()])
def test_aggregates_that_know_one_model_are_rejected_in_clusters(
    aggregate: Krum | TrustedMean,
) -> None:
    with pytest.raises(JobError, match="contradict each other"):
        next(train(TASK, replace(whole(private=()), aggregate=aggregate), SETTINGS))


def test_a_client_that_sends_nan_is_left_out() -> None:
    xs = list(TASK.clients.x)
    xs[1] = torch.full_like(xs[1], float("nan"))
    broken = replace(TASK, clients=replace(TASK.clients, x=tuple(xs)))
    found = properties(broken)
    for state, record in train(
        broken, fedstl(inferred=found, **WHOLE), replace(SETTINGS, participation=1.0)
    ):  # type: ignore[arg-type]
        assert list(record.excluded) == ["road_1"]
        assert all(
            bool(torch.isfinite(value).all())
            for value in (*state.models.values(), *state.clients.values())
        )


def test_clusters_train_at_the_rate_of_the_round_that_is_over() -> None:
    """In the last round too, where a cosine schedule has not reached 0 yet."""
    cosine = replace(SETTINGS, rounds=1, schedule="cosine")
    trained = end(whole(cluster_epochs=2), cosine)
    assert (
        largest_difference(
            trained.models,
            end(whole(cluster_epochs=2), replace(cosine, schedule="constant")).models,
        )
        == 0.0
    )
    assert largest_difference(trained.models, end(whole(cluster_epochs=0), cosine).models) > 1e-6


def test_clusters_whose_training_fails_keep_their_models_and_are_reported() -> None:
    without = end(whole(cluster_epochs=0), replace(SETTINGS, rounds=1))
    with pytest.warns(
        ClusterWarning, match=r"round 1: .* cluster 0: its update has NaN in .*; cluster 1: "
    ):
        failed = end(whole(cluster_rate=1e200), replace(SETTINGS, rounds=1))
    assert largest_difference(failed.models, without.models) == 0.0


def test_the_executor_may_be_measured() -> None:
    state, record = next(train(TASK, whole(), replace(SETTINGS, executor="auto")))
    assert state.choice is not None
    assert record.notes[0].startswith("executor: ")
    assert int((state.joints["start"]["cluster"] >= 0).sum()) == len(record.clients)
