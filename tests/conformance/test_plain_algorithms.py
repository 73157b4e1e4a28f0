"""`fedkg.federated.train` against a naive NumPy loop of each algorithm, on random federations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import plain_loops
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tries import tries

import fedkg
from fedkg.federated import WorkerPool, train
from fedkg.federated import algorithms as product
from fedkg.federated.client.optimisers import SGD, Adam
from fedkg.federated.conformance import (
    Federation,
    begin,
    close,
    federations,
    run,
    same_rounds,
    start_of,
)
from fedkg.federated.temporal.client_property_mining import inferred

FEW = settings(
    tries(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def worker_pool() -> Iterator[WorkerPool]:
    """Two worker processes for all examples, because starting a pair takes seconds."""
    with WorkerPool(2) as workers:
        yield workers


@pytest.mark.slow
@given(federation=federations(), mu=st.sampled_from([0.0, 0.3, 2.0]))
@FEW
def test_fedavg_and_fedprox(federation: Federation, mu: float, worker_pool: WorkerPool) -> None:
    start = start_of(federation)
    algorithm = product.fedprox(mu=mu) if mu else product.fedavg()
    states, cohorts, weights = run(federation, algorithm, start, worker_pool)
    same_rounds(federation, states, weights, plain_loops.fedavg(federation, start, cohorts, mu))


@given(
    federation=federations(),
    mu=st.sampled_from([0.0, 0.3]),
    momentum=st.sampled_from([0.0, 0.5, 0.9]),
    decay=st.sampled_from([0.0, 0.1]),
)
@FEW
def test_momentum_and_weight_decay(
    federation: Federation, mu: float, momentum: float, decay: float, worker_pool: WorkerPool
) -> None:
    start = start_of(federation)
    algorithm = product.fedprox(mu=mu) if mu else product.fedavg()
    algorithm = replace(algorithm, local=SGD(momentum=momentum, weight_decay=decay))
    states, cohorts, weights = run(federation, algorithm, start, worker_pool)
    walk = plain_loops.momentum_descent(momentum, decay)
    expected = plain_loops.fedavg(federation, start, cohorts, mu, walk=walk)
    same_rounds(federation, states, weights, expected)


@given(
    federation=federations(),
    beta1=st.sampled_from([0.0, 0.9]),
    beta2=st.sampled_from([0.5, 0.99]),
    tau=st.sampled_from([1e-3, 0.1]),
)
@FEW
def test_local_adam(
    federation: Federation, beta1: float, beta2: float, tau: float, worker_pool: WorkerPool
) -> None:
    start = start_of(federation)
    algorithm = replace(product.fedavg(), local=Adam(beta1=beta1, beta2=beta2, tau=tau))
    states, cohorts, weights = run(federation, algorithm, start, worker_pool)
    walk = plain_loops.adam(beta1, beta2, tau)
    same_rounds(
        federation, states, weights, plain_loops.fedavg(federation, start, cohorts, walk=walk)
    )


@given(federation=federations())
@FEW
def test_local_training_alone(federation: Federation, worker_pool: WorkerPool) -> None:
    start = start_of(federation)
    states, cohorts, weights = run(federation, product.local_only(), start, worker_pool)
    expected = plain_loops.local_only(federation, start, cohorts)
    same_rounds(federation, states, weights, expected)
    everybody = list(range(len(federation.x)))
    for state, wanted in zip(states, expected, strict=True):
        rows = {name: state.clients[f"start/{name}"][everybody] for name in federation.shapes}
        close(federation.flat(rows), np.stack([wanted.own[k] for k in everybody]), federation)


@given(federation=federations(own=False, whole=True))
@FEW
def test_training_at_one_place(federation: Federation, worker_pool: WorkerPool) -> None:
    """All rows at one client, in the order of the clients."""
    together = replace(
        federation, x=(np.concatenate(federation.x),), y=(np.concatenate(federation.y),)
    )
    start = start_of(federation)
    problem = federation.problem()
    begun = begin(together, together.problem(), product.fedavg(), start)
    rounds = list(
        train(problem, product.centralised(), federation.settings(), begun, crew=worker_pool)
    )
    expected = plain_loops.fedavg(together, start, [[0]] * federation.rounds)
    for (state, record), wanted in zip(rounds, expected, strict=True):
        assert record.alpha == (1.0,)
        close(federation.flat(state.models), wanted.models, federation)


@given(
    federation=federations(),
    kind=st.sampled_from(["adam", "yogi", "adagrad"]),
    rate=st.sampled_from([0.05, 1.0]),
    beta1=st.sampled_from([0.0, 0.9]),
    beta2=st.sampled_from([0.5, 0.99]),
    tau=st.sampled_from([1e-3, 0.1]),
)
@FEW
def test_adaptive_server_steps(
    federation: Federation,
    kind: str,
    rate: float,
    beta1: float,
    beta2: float,
    tau: float,
    worker_pool: WorkerPool,
) -> None:
    start = start_of(federation)
    options = {"rate": rate, "beta1": beta1, "tau": tau}
    if kind != "adagrad":
        options["beta2"] = beta2
    algorithm = product.ALGORITHMS[f"fed{kind}"](**options)
    states, cohorts, weights = run(federation, algorithm, start, worker_pool)
    expected = plain_loops.fedopt(federation, start, cohorts, kind, rate, beta1, beta2, tau)
    same_rounds(federation, states, weights, expected)


@given(federation=federations(), rate=st.sampled_from([1.0, 0.5]))
@FEW
def test_scaffold(federation: Federation, rate: float, worker_pool: WorkerPool) -> None:
    start = start_of(federation)
    states, cohorts, weights = run(federation, product.scaffold(rate=rate), start, worker_pool)
    same_rounds(federation, states, weights, plain_loops.scaffold(federation, start, cohorts, rate))


@given(federation=federations(whole=True, own=False, counted_steps=True))
@FEW
def test_scaffnew(federation: Federation, worker_pool: WorkerPool) -> None:
    start = start_of(federation)
    states, cohorts, weights = run(federation, product.scaffnew(), start, worker_pool)
    same_rounds(federation, states, weights, plain_loops.scaffnew(federation, start, cohorts))


@given(federation=federations(hidden=2), first=st.sampled_from([0.0, 0.3, 0.5, 1.0]))
@FEW
def test_fedrep(federation: Federation, first: float, worker_pool: WorkerPool) -> None:
    start = start_of(federation)
    algorithm = product.fedrep(private=("layers.1.",), first=first)
    states, cohorts, weights = run(federation, algorithm, start, worker_pool)
    expected = plain_loops.fedrep(federation, start, cohorts, first)
    same_rounds(federation, states, weights, expected)
    private = [name for name in federation.shapes if name.startswith("layers.1.")]
    for state, wanted in zip(states, expected, strict=True):
        for k, own in wanted.own.items():
            home = [state.clients[f"start/{name}"][[k]].double().flatten() for name in private]
            close(np.concatenate([one.numpy() for one in home]), own[federation.head], federation)


@given(federation=federations(), strength=st.sampled_from([0.0, 0.4, 2.0]))
@FEW
def test_ditto(federation: Federation, strength: float, worker_pool: WorkerPool) -> None:
    start = start_of(federation)
    states, cohorts, weights = run(federation, product.ditto(strength=strength), start, worker_pool)
    expected = plain_loops.ditto(federation, start, cohorts, strength)
    same_rounds(federation, states, weights, expected)
    for state, wanted in zip(states, expected, strict=True):
        everybody = list(range(len(federation.x)))
        rows = {name: state.clients[f"own/{name}"][everybody] for name in federation.shapes}
        close(federation.flat(rows), np.stack([wanted.own[k] for k in everybody]), federation)


@given(federation=federations(), models=st.integers(1, 3))
@FEW
def test_ifca(federation: Federation, models: int, worker_pool: WorkerPool) -> None:
    start = start_of(federation, models)
    states, cohorts, weights = run(federation, product.ifca(models=models), start, worker_pool)
    same_rounds(federation, states, weights, plain_loops.ifca(federation, start, cohorts))


@given(federation=federations(most=7), trim=st.sampled_from([0.0, 0.1, 0.25, 0.34, 0.5]))
@FEW
def test_median_and_trimmed_mean(
    federation: Federation, trim: float, worker_pool: WorkerPool
) -> None:
    start = start_of(federation)
    algorithm = product.median() if trim == 0.5 else product.trimmed_mean(trim=trim)
    states, cohorts, weights = run(federation, algorithm, start, worker_pool)
    same_rounds(
        federation, states, weights, plain_loops.trimmed_mean(federation, start, cohorts, trim)
    )


@given(
    federation=federations(least=3, most=8),
    attackers=st.integers(0, 2),
    keep=st.sampled_from([None, 1, 2, 3]),
)
@FEW
def test_krum_and_multi_krum(
    federation: Federation, attackers: int, keep: int | None, worker_pool: WorkerPool
) -> None:
    sampled = federation.settings().sampled(len(federation.x))
    assume(attackers == 0 or sampled >= 2 * attackers + 3)
    start = start_of(federation)
    algorithm = (
        product.krum(attackers=attackers)
        if keep == 1
        else product.multi_krum(attackers=attackers, keep=keep)
    )
    states, cohorts, weights = run(federation, algorithm, start, worker_pool)
    same_rounds(
        federation, states, weights, plain_loops.krum(federation, start, cohorts, attackers, keep)
    )


FORECAST = 4
"""Steps of a forecast."""
FOUND = {
    "ranges": (
        "infer a per client find ?low, ?high in operational_range(x, ?low, ?high, 0, 1)\n"
        "infer b per client find ?low, ?high in operational_range(x, ?low, ?high, 2, 3)\n"
    ),
    "eventualities": (
        "infer a per client find ?a, ?b in multiple_eventualities(x, ?a, 0, 1, ?b, 2, 3)\n"
    ),
}
FOUND["capped"] = FOUND["ranges"] + f"rule cap require x <= {plain_loops.CAP}\n"
LOOPS = {
    "ranges": plain_loops.RANGES,
    "capped": plain_loops.CAPPED,
    "eventualities": plain_loops.EVENTUALITIES,
}
PROPERTIES = {
    name: fedkg.compile(
        text=(
            "timeline step 1 h ends clip\noutput x span -100 .. 100\n"
            "use rules templates.operational_range, templates.multiple_eventualities\n"
        )
        + text
    )
    for name, text in FOUND.items()
}


@pytest.mark.slow
@given(
    federation=federations(least=2, most=6, losses=("squared",), hidden=2),
    template=st.sampled_from([*LOOPS]),
    clusters=st.integers(1, 3),
    private=st.booleans(),
    weight=st.sampled_from([0.0, 0.5, 3.0]),
    epochs=st.integers(0, 2),
    rate=st.sampled_from([None, 0.1]),
    every=st.integers(1, 2),
    way=st.sampled_from(["capacity", "argmin"]),
    share=st.sampled_from([0.2, 0.6]),
)
@FEW
def test_fedstl(
    federation: Federation,
    template: str,
    clusters: int,
    private: bool,
    weight: float,
    epochs: int,
    rate: float | None,
    every: int,
    way: Literal["capacity", "argmin"],
    share: float,
    worker_pool: WorkerPool,
) -> None:
    dice = np.random.default_rng(federation.seed)
    targets = [dice.normal(size=(size, FORECAST)) for size in (*federation.sizes, 4)]
    federation = replace(
        federation,
        outputs=FORECAST,
        y=tuple(targets[:-1]),
        server=(federation.server[0], targets[-1]),
    )
    clients = federation.problem().clients
    found = inferred(
        PROPERTIES[template], clients, fedkg.columns(["x"]), steps=FORECAST, share=share
    )
    shared = [  # which samples a client shares is drawn
        [int((own == row).all(1).nonzero()[0]) for row in part]
        for own, part in zip(clients.x, found.shared.x, strict=True)
    ]
    for own, part in zip(clients.x, shared, strict=True):
        assert len(set(part)) == len(part) == max(1, round(share * len(own)))
    algorithm = product.fedstl(
        inferred=found,
        clusters=clusters,
        private=("layers.1.",) if private else (),
        weight=weight,
        cluster_epochs=epochs,
        cluster_rate=rate,
        every=every,
        assignment=way,
    )
    start = start_of(federation, clusters)
    states, cohorts, weights = run(federation, algorithm, start, worker_pool)
    loop = LOOPS[template]
    mined = torch.cat([*found.own.values], 1).numpy()
    for k, y in enumerate(federation.y):
        numbers = loop.mine(y)  # of ranges low and high of each window, of eventualities one number
        wide = numbers if template == "eventualities" else numbers.T[::2].ravel()
        np.testing.assert_allclose(mined[k], wide, atol=1e-6)
    expected, history = plain_loops.fedstl(
        federation,
        start,
        cohorts,
        loop,
        shared,
        private=private,
        weight=weight,
        epochs=epochs,
        rate=rate,
        every=every,
        way=way,
    )
    same_rounds(federation, states, weights, expected)
    for state, wanted, cluster in zip(states, expected, history, strict=True):
        if clusters > 1:
            assert {
                k: int(j) for k, j in enumerate(state.joints["start"]["cluster"]) if int(j) >= 0
            } == cluster
        for k, own in wanted.own.items() if private else ():
            home = [
                state.clients[f"start/{name}"][k].double().flatten().numpy()
                for name in ("layers.1.weight", "layers.1.bias")
            ]
            close(np.concatenate(home), own[federation.head], federation)


@given(federation=federations())
@FEW
def test_fltrust(federation: Federation, worker_pool: WorkerPool) -> None:
    start = start_of(federation)
    states, cohorts, weights = run(federation, product.fltrust(), start, worker_pool)
    same_rounds(federation, states, weights, plain_loops.fltrust(federation, start, cohorts))
